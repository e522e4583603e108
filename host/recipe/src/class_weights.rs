//! Class weights in the training loss.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Weights of the classes in the training loss. Each row has the weight of its class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Form", into = "Form")]
pub enum ClassWeights {
    /// Weights inversely proportional to class frequency. A class with `n_c` of `n` training rows
    /// has the weight `n / (k n_c)`, where `k` is the number of non-empty classes. This is
    /// scikit-learn's `balanced` (King and Zeng 2001, "Logistic regression in rare events data").
    Balanced,
    /// One weight per class, in the order of the classes. Each weight is finite and at least 0.
    Each(Vec<f64>),
}

/// Form of the setting in a recipe, which is a list of numbers or the text `"balanced"`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    List(Vec<f64>),
    Word(String),
}

impl TryFrom<Form> for ClassWeights {
    type Error = String;

    fn try_from(form: Form) -> Result<Self, String> {
        match form {
            Form::List(each) => Ok(Self::Each(each)),
            Form::Word(word) if word == "balanced" => Ok(Self::Balanced),
            Form::Word(word) => Err(format!("found `{word}`, expected a list of numbers or `balanced`")),
        }
    }
}

impl From<ClassWeights> for Form {
    fn from(weights: ClassWeights) -> Self {
        match weights {
            ClassWeights::Balanced => Self::Word("balanced".to_owned()),
            ClassWeights::Each(each) => Self::List(each),
        }
    }
}

impl ClassWeights {
    /// Returns the weight of each class. `counts` are the numbers of training rows per class. With
    /// [`ClassWeights::Balanced`], an empty class has weight 0.
    ///
    /// # Errors
    /// Returns [`Error::ClassWeights`] if the list does not have one weight per class, or if the
    /// weights of all training rows are 0.
    pub fn for_counts(&self, counts: &[u64]) -> Result<Vec<f32>> {
        let refuse = |found| Err(Error::ClassWeights { found, classes: counts.len() });
        let rows: u64 = counts.iter().sum();
        let present = counts.iter().filter(|&&count| count > 0).count();
        let weights: Vec<f32> = match self {
            Self::Balanced => {
                let share = rows as f64 / present.max(1) as f64;
                counts.iter().map(|&n| if n == 0 { 0.0 } else { (share / n as f64) as f32 }).collect()
            }
            Self::Each(each) if each.len() == counts.len() => each.iter().map(|&w| w as f32).collect(),
            Self::Each(each) => return refuse(format!("{} numbers", each.len())),
        };
        if rows > 0 && !weights.iter().zip(counts).any(|(&weight, &count)| weight > 0.0 && count > 0) {
            return refuse("the weight 0 for every class that has training rows".to_owned());
        }
        Ok(weights)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rare_classes_count_more() {
        // scikit-learn's compute_class_weight("balanced") computes the same values.
        assert_eq!(ClassWeights::Balanced.for_counts(&[6, 2, 4]).unwrap(), [12.0 / 18.0, 2.0, 1.0]);
        // A class without rows has the weight 0.
        assert_eq!(ClassWeights::Balanced.for_counts(&[6, 0, 2]).unwrap(), [8.0 / 12.0, 0.0, 2.0]);
        assert_eq!(ClassWeights::Balanced.for_counts(&[0, 0]).unwrap(), [0.0, 0.0]);
    }

    #[test]
    fn lists_have_a_number_a_class() {
        assert_eq!(ClassWeights::Each(vec![0.0, 2.5]).for_counts(&[3, 4]).unwrap(), [0.0, 2.5]);
        for (each, part) in [(vec![1.0], "1 numbers"), (vec![1.0, 0.0], "the weight 0 for every class")] {
            let text = ClassWeights::Each(each).for_counts(&[0, 4]).unwrap_err().to_string();
            assert!(text.contains(part) && text.contains("2 classes"), "{text}");
        }
    }
}

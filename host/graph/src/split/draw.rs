//! Splits that are drawn from labels and a random seed, by fractions, by numbers per class, or as
//! folds. Rows without a label are in no part. In a data set of many graphs, the rows are the
//! standing vertices, which represent their graphs.

use super::{NO_LABEL, Split, labelled};
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::random::SplitMix64;

/// Rule by which a split into training, validation and test rows is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Draw {
    /// Fractions for training, validation and test, of all rows or of each class. The boundary
    /// between two parts is at the sum of the fractions before it, rounded down to whole rows.
    /// Within a class it is rounded to the nearest row.
    Shares {
        /// Fractions for training, validation and test, from 0 to 1. Their sum is at most 1.
        shares: [f64; 3],
        /// True if the fractions apply to each class separately.
        stratified: bool,
    },
    /// A fixed number of training rows of each class. Validation and test rows are drawn from the
    /// remaining rows.
    PerClass {
        /// Number of training rows in each class.
        train: u32,
        /// Total number of validation rows of all classes.
        validation: u32,
        /// Total number of test rows. If `None`, all remaining rows are for test.
        test: Option<u32>,
    },
    /// Folds, to which rows are assigned in turn. The fold `fold` is for test, and the next fold
    /// for validation.
    Folds {
        /// Number of folds, which is at least 3.
        folds: u32,
        /// Index of the fold for test, which is below `folds`.
        fold: u32,
        /// True if classes are assigned to the folds one after the other. The number of rows of a
        /// class then differs by at most one between folds.
        stratified: bool,
    },
}

impl Draw {
    /// Draws the split with [`SplitMix64`]. The result depends only on the rule, the labels and the
    /// seed.
    ///
    /// # Errors
    /// Returns [`Error::DrawnSplit`] if the rule needs classes and labels are flags or numbers, if
    /// it needs more rows than there are, and if no row is left for training.
    pub fn draw(&self, labels: &Labels, seed: u64) -> Result<Split> {
        let rows = labelled(labels);
        let count = rows.len();
        let mut random = SplitMix64::new(seed);
        let split = match *self {
            Self::Shares { shares, stratified: false } => {
                let mut split = Split::default();
                share(&mut split, shuffled(rows, &mut random), shares, 1e-6);
                split
            }
            Self::Shares { shares, stratified: true } => {
                let mut split = Split::default();
                for class in by_class(labels, rows)? {
                    share(&mut split, shuffled(class, &mut random), shares, 0.5);
                }
                split
            }
            Self::PerClass { train, validation, test } => {
                per_class(by_class(labels, rows)?, [Some(train), Some(validation), test], &mut random)?
            }
            Self::Folds { folds, fold, stratified } => {
                let classes = if stratified { by_class(labels, rows)? } else { vec![rows] };
                if (count as u64) < u64::from(folds) {
                    return refuse(format!(
                        "there are {folds} folds, but only {count} labelled rows; use fewer folds"
                    ));
                }
                let dealt = classes.into_iter().flat_map(|class| shuffled(class, &mut random));
                deal(dealt, folds.max(1), fold)
            }
        };
        if split.train.is_empty() {
            return refuse(format!(
                "none of the {count} labelled rows is for training; use a larger training fraction"
            ));
        }
        Ok(split.sorted())
    }
}

fn refuse<T>(reason: String) -> Result<T> {
    Err(Error::DrawnSplit { reason })
}

fn shuffled(mut rows: Vec<u32>, random: &mut SplitMix64) -> Vec<u32> {
    random.shuffle(&mut rows);
    rows
}

/// Returns the labelled rows of each class that has any. Classes and rows are in ascending order.
fn by_class(labels: &Labels, rows: Vec<u32>) -> Result<Vec<Vec<u32>>> {
    let Some(of) = labels.as_classes() else {
        let reason = "it needs classes, but these labels are flags or numbers; use random or folds";
        return refuse(reason.to_owned());
    };
    let mut classes = vec![Vec::new(); labels.width() as usize];
    for row in rows {
        let class = of.get(row as usize).copied().unwrap_or(NO_LABEL);
        if let Some(class) = classes.get_mut(class as usize) {
            class.push(row);
        }
    }
    classes.retain(|class| !class.is_empty());
    Ok(classes)
}

/// Divides shuffled rows into training, validation and test rows. A boundary between them is
/// rounded down after `rounding` has been added to it.
fn share(split: &mut Split, rows: Vec<u32>, shares: [f64; 3], rounding: f64) {
    let mut rows = rows.into_iter();
    let (all, mut until, mut taken) = (rows.len(), 0.0, 0);
    for (part, share) in [&mut split.train, &mut split.validation, &mut split.test].into_iter().zip(shares) {
        until += share;
        let end = ((all as f64 * until + rounding) as usize).clamp(taken, all);
        part.extend(rows.by_ref().take(end - taken));
        taken = end;
    }
}

fn per_class(
    classes: Vec<Vec<u32>>,
    [train, validation, test]: [Option<u32>; 3],
    random: &mut SplitMix64,
) -> Result<Split> {
    let train = train.unwrap_or_default() as usize;
    let (mut split, mut rest) = (Split::default(), Vec::new());
    for (number, class) in classes.into_iter().enumerate() {
        if class.len() < train {
            return refuse(format!(
                "{train} training rows per class were requested, but class {number} (of those with rows, from 0) has only {}",
                class.len()
            ));
        }
        let mut class = shuffled(class, random).into_iter();
        split.train.extend(class.by_ref().take(train));
        rest.extend(class);
    }
    let left = rest.len() as u64;
    let wanted = [validation, test].into_iter().flatten().map(u64::from).sum::<u64>();
    if wanted > left {
        return refuse(format!(
            "{wanted} rows for validation and test were requested, but only {left} remain after training"
        ));
    }
    let mut rest = shuffled(rest, random).into_iter();
    split.validation.extend(rest.by_ref().take(validation.unwrap_or_default() as usize));
    split.test.extend(rest.take(test.map_or(usize::MAX, |test| test as usize)));
    Ok(split)
}

fn deal(rows: impl Iterator<Item = u32>, folds: u32, fold: u32) -> Split {
    let mut split = Split::default();
    for (row, of) in rows.zip((0..folds).cycle()) {
        let part = match of {
            _ if of == fold => &mut split.test,
            _ if of == (fold + 1) % folds => &mut split.validation,
            _ => &mut split.train,
        };
        part.push(row);
    }
    split
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::labels::Values;

    /// Returns labels of 300 rows in three classes. Every tenth row has no label.
    fn labels() -> Labels {
        Labels::classes((0..300).map(|v| if v % 10 == 9 { NO_LABEL } else { v % 3 }).collect(), 3)
    }

    fn sizes(split: &Split) -> [usize; 3] {
        [split.train.len(), split.validation.len(), split.test.len()]
    }

    fn of_class(labels: &Labels, rows: &[u32], class: u32) -> usize {
        let of = labels.as_classes().unwrap();
        rows.iter().filter(|&&row| of[row as usize] == class).count()
    }

    #[test]
    fn shares_are_met_and_random_is_the_random_split_of_old() {
        let labels = labels();
        let draw = Draw::Shares { shares: [0.6, 0.2, 0.2], stratified: false };
        assert_eq!(draw.draw(&labels, 7).unwrap(), Split::random(&labels, [0.6, 0.2], 7));
        assert_ne!(draw.draw(&labels, 7).unwrap(), draw.draw(&labels, 8).unwrap());
        let few = Draw::Shares { shares: [0.1, 0.2, 0.3], stratified: false };
        assert_eq!(sizes(&few.draw(&labels, 1).unwrap()), [27, 54, 81]);
        // 0.7 + 0.1 + 0.2 is less than 1 in binary; no row is lost by it.
        let odd = Draw::Shares { shares: [0.7, 0.1, 0.2], stratified: false };
        assert_eq!(sizes(&odd.draw(&labels, 1).unwrap()).iter().sum::<usize>(), 270);
    }

    #[test]
    fn strata_hold_in_every_class() {
        let labels = labels();
        let draw = Draw::Shares { shares: [0.5, 0.25, 0.25], stratified: true };
        let split = draw.draw(&labels, 3).unwrap();
        split.validate(&labels, "drawn").unwrap();
        for class in 0..3 {
            let found = split.parts().map(|(_, rows)| of_class(&labels, rows, class));
            // Of 90 rows; boundaries at 45, 67.5 and 90.
            assert_eq!(found, [45, 23, 22]);
        }
    }

    #[test]
    fn numbers_per_class_are_planetoids() {
        let labels = labels();
        let draw = |validation, test| Draw::PerClass { train: 20, validation, test }.draw(&labels, 1);
        let split = draw(50, Some(100)).unwrap();
        split.validate(&labels, "drawn").unwrap();
        assert_eq!(sizes(&split), [60, 50, 100]);
        assert!((0..3).all(|class| of_class(&labels, &split.train, class) == 20));
        assert_eq!(sizes(&draw(50, None).unwrap()), [60, 50, 160]);
        let text = draw(50, Some(161)).unwrap_err().to_string();
        assert!(text.contains("211 rows") && text.contains("only 210 remain"), "{text}");
        let text = Draw::PerClass { train: 91, validation: 0, test: None }.draw(&labels, 1).unwrap_err();
        assert!(text.to_string().contains("class 0") && text.to_string().contains("has only 90"), "{text}");
    }

    #[test]
    fn folds_test_every_row_once() {
        let labels = labels();
        for stratified in [false, true] {
            let mut tested = Vec::new();
            for fold in 0..7 {
                let draw = |fold| Draw::Folds { folds: 7, fold, stratified }.draw(&labels, 5).unwrap();
                let split = draw(fold);
                split.validate(&labels, "drawn").unwrap();
                assert_eq!(sizes(&split).iter().sum::<usize>(), 270);
                assert_eq!(split.validation, draw((fold + 1) % 7).test, "the next fold validates");
                if stratified {
                    assert!((0..3).all(|c| (12..=14).contains(&of_class(&labels, &split.test, c))));
                }
                tested.extend(split.test);
            }
            tested.sort_unstable();
            assert_eq!(tested, super::labelled(&labels));
        }
        let text = Draw::Folds { folds: 271, fold: 0, stratified: false }.draw(&labels, 5).unwrap_err();
        assert!(text.to_string().contains("271 folds, but only 270"), "{text}");
    }

    #[test]
    fn without_classes_there_are_no_strata() {
        let numbers = Labels::Numbers(Values::new(1, vec![0.5, f32::NAN, 2.5, 3.0]).unwrap());
        let draw = |stratified| Draw::Shares { shares: [0.5, 0.25, 0.25], stratified }.draw(&numbers, 0);
        assert!(draw(true).unwrap_err().to_string().contains("flags or numbers"));
        assert!(!draw(false).unwrap().train.contains(&1));
        let none = Draw::Shares { shares: [0.5, 0.5, 0.0], stratified: false };
        assert!(none.draw(&Labels::none(3), 0).unwrap_err().to_string().contains("is for training"));
    }
}

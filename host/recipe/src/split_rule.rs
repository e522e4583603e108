//! Setting `data.split`, which is a rule that draws training, validation and test rows. They
//! replace the data set's own split.
//!
//! | written | rows that it draws from the labelled rows |
//! | --- | --- |
//! | `random:0.6/0.2/0.2` | shares for training, validation and test; the remaining rows are unused |
//! | `stratified:0.6/0.2/0.2`, or three shares with commas | the same shares of each class |
//! | `per-class:20/500/1000` | 20 training rows of each class; of the rest, 500 validation rows and 1000 test rows, or `rest` |
//! | `folds:5/0` | five folds; fold 0 is for test, the next fold for validation, and the others for training |
//! | `stratified-folds:5/0` | the same, with each class spread evenly over the folds |
//!
//! ```
//! use eciton_recipe::SplitRule;
//! let rule: SplitRule = "folds:5/4".parse()?;
//! assert_eq!(rule, SplitRule::Folds { folds: 5, fold: 4, stratified: false });
//! assert!("folds:5/5".parse::<SplitRule>().unwrap_err().contains("below 5"));
//! # Ok::<(), String>(())
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Description of the accepted forms of a rule, for error messages.
const FORM: &str = "shares of each class 0.6,0.2,0.2, random:0.6/0.2/0.2, stratified:0.6/0.2/0.2, per-class:20/500/1000 (or .../rest), \
                    folds:5/0 or stratified-folds:5/0";
/// Maximum number of folds of a cross-validation.
const MAX_FOLDS: u32 = 10_000;
/// Tolerance by which the sum of the shares may exceed 1 because of rounding.
const ROUNDING: f64 = 1e-9;

/// Rule that divides the labelled rows into training, validation and test rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SplitRule {
    /// Shares of the labelled rows. Their sum is at most 1, and the remaining rows are unused.
    Shares {
        /// Shares of training, validation and test rows, in this order. The first is above 0.
        shares: [f64; 3],
        /// True if the shares apply to each class separately.
        stratified: bool,
    },
    /// Fixed numbers of training, validation and test rows.
    PerClass {
        /// Number of training rows per class, at least 1.
        train: u32,
        /// Total number of validation rows, drawn from the rows that are not training rows.
        validation: u32,
        /// Total number of test rows, drawn from the rows that remain then. If `None`, all
        /// remaining rows are test rows.
        test: Option<u32>,
    },
    /// Folds of a cross-validation. One fold has the test rows, the next one (cyclically) the
    /// validation rows, and all others the training rows.
    Folds {
        /// Total number of folds, at least 3.
        folds: u32,
        /// Index of the test fold, from 0.
        fold: u32,
        /// True if each class is spread evenly over the folds.
        stratified: bool,
    },
}

impl fmt::Display for SplitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = |stratified, yes, no| if stratified { yes } else { no };
        match *self {
            Self::Shares { shares: [train, validation, test], stratified } => {
                let name = prefix(stratified, "stratified", "random");
                write!(f, "{name}:{train}/{validation}/{test}")
            }
            Self::PerClass { train, validation, test: Some(test) } => {
                write!(f, "per-class:{train}/{validation}/{test}")
            }
            Self::PerClass { train, validation, test: None } => {
                write!(f, "per-class:{train}/{validation}/rest")
            }
            Self::Folds { folds, fold, stratified } => {
                write!(f, "{}folds:{folds}/{fold}", prefix(stratified, "stratified-", ""))
            }
        }
    }
}

impl FromStr for SplitRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shares: Vec<&str> =
            text.trim().trim_start_matches('[').trim_end_matches(']').split(',').collect();
        if let ([train, validation, test], false) = (&shares[..], text.contains(':')) {
            return format!("stratified:{train}/{validation}/{test}").parse();
        }
        let (name, numbers) = text.split_once(':').ok_or(FORM)?;
        let numbers: Vec<&str> = numbers.split('/').map(str::trim).collect();
        let name = name.trim().to_ascii_lowercase();
        match (&name[..], &numbers[..]) {
            ("random" | "stratified", [train, validation, test]) => {
                let mut shares = [0.0; 3];
                for (share, word) in shares.iter_mut().zip([train, validation, test]) {
                    let found = word.parse().ok().filter(|share| (0.0..=1.0).contains(share));
                    *share = found.ok_or_else(|| format!("{FORM}; a share must be a number from 0 to 1"))?;
                }
                let sum: f64 = shares.iter().sum();
                if sum > 1.0 + ROUNDING {
                    return Err(format!(
                        "{FORM}; the sum of these shares is {sum:.4}, but must be at most 1"
                    ));
                }
                if shares[0] <= 0.0 {
                    return Err(format!("{FORM}; the first share is for training and must be above 0"));
                }
                Ok(Self::Shares { shares, stratified: name == "stratified" })
            }
            ("per-class", [train, validation, test]) => {
                let test = if *test == "rest" { None } else { Some(count(test)?) };
                let (train, validation) = (count(train)?, count(validation)?);
                if train == 0 {
                    return Err(format!("{FORM}; the first number is for training and must be above 0"));
                }
                Ok(Self::PerClass { train, validation, test })
            }
            ("folds" | "stratified-folds", [folds, fold]) => {
                let (folds, fold) = (count(folds)?, count(fold)?);
                if !(3..=MAX_FOLDS).contains(&folds) {
                    return Err(format!(
                        "{FORM}; the number of folds must be 3 to {MAX_FOLDS}, because one is for test and one for validation"
                    ));
                }
                if fold >= folds {
                    return Err(format!(
                        "{FORM}; the number of the test fold must be at least 0 and below {folds}"
                    ));
                }
                Ok(Self::Folds { folds, fold, stratified: name != "folds" })
            }
            _ => Err(FORM.to_owned()),
        }
    }
}

fn count(word: &str) -> Result<u32, String> {
    word.parse().map_err(|_| format!("{FORM}; {word:.20?} is not a number of rows"))
}

impl TryFrom<String> for SplitRule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<SplitRule> for String {
    fn from(rule: SplitRule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "random:0.6/0.2/0.2",
            "random:0.1/0/0.5",
            "stratified:1/0/0",
            "per-class:20/500/1000",
            "per-class:1/0/rest",
            "folds:3/2",
            "stratified-folds:10/0",
        ] {
            assert_eq!(text.parse::<SplitRule>().unwrap().to_string(), text);
        }
        // 0.7 + 0.1 + 0.2 is a little below 1, 0.6 + 0.3 + 0.1 may be above.
        " Random : 0.7 / 0.1 / 0.2".parse::<SplitRule>().unwrap();
        "random:0.6/0.3/0.1".parse::<SplitRule>().unwrap();
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, word) in [
            ("", "random:0.6/0.2/0.2"),
            ("half", "stratified-folds:5/0"),
            ("random:0.6/0.2", "per-class"),
            ("random:60/20/20", "from 0 to 1"),
            ("random:0.6/0.6/0.2", "at most 1"),
            ("random:0/0.5/0.5", "above 0"),
            ("random:nan/0/0", "from 0 to 1"),
            ("per-class:0/5/5", "above 0"),
            ("per-class:2.5/5/5", "not a number of rows"),
            ("per-class:rest/5/5", "not a number of rows"),
            ("folds:2/0", "3 to 10000"),
            ("folds:5/5", "below 5"),
            ("folds:5", "folds:5/0"),
        ] {
            let found = text.parse::<SplitRule>().unwrap_err();
            assert!(found.contains(word), "{text}: {found}");
        }
    }
}

//! Setting `run.until`, which is a target value of a metric on one part of the split. Training
//! stops once the target is reached.
//!
//! The setting has the form `PART[_METRIC]=VALUE`, for instance `test_acc=0.94`, `val=0.8` or
//! `validation_mae=0.3`. If the metric is a share, training stops once it is at least the target.
//! If the metric is an error, training stops once it is at most the target ([`Metric::goodness`]).
//!
//! ```
//! use eciton_recipe::{Metric, Until};
//! let until: Until = "test_acc=0.94".parse()?;
//! assert_eq!(until.to_string(), "test_accuracy=0.94");
//! assert!(until.is_reached(Metric::Accuracy, 0.94) && !until.is_reached(Metric::Accuracy, 0.93));
//! # Ok::<(), String>(())
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::objective::Metric;

/// Description of the accepted form, for error messages.
const FORM: &str = "PART[_METRIC]=VALUE, for instance \"test_acc=0.94\" or \"val=0.8\"";

/// Short names of metrics that `run.until` accepts in addition to the full names.
const SHORT: [(&str, Metric); 8] = [
    ("acc", Metric::Accuracy),
    ("auc", Metric::RocAuc),
    ("ap", Metric::AveragePrecision),
    ("f1", Metric::F1Micro),
    ("loss", Metric::CrossEntropy),
    ("mae", Metric::MeanAbsoluteError),
    ("rmse", Metric::RootMeanSquaredError),
    ("mrr", Metric::MeanReciprocalRank),
];

/// Part of the split on which a model is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Training vertices, on which the loss is computed.
    Train,
    /// Validation vertices, by which the best epoch is chosen.
    Validation,
    /// Test vertices, whose metric is reported at the end of the run.
    Test,
}

impl Part {
    /// Names of all parts in recipes. `val` is short for `validation`.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("train", Self::Train),
        ("validation", Self::Validation),
        ("val", Self::Validation),
        ("test", Self::Test),
    ];

    /// Returns the name of this part of the split in recipes, for instance `train`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

/// Target value of a metric, at which training stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Until {
    /// Part of the split on which the metric is computed.
    pub part: Part,
    /// Metric that must reach the target. If `None`, it is the metric of the run.
    pub metric: Option<Metric>,
    /// Target value of the metric.
    pub value: f64,
}

impl Until {
    /// Returns true if the value `found` of the run's metric reaches the target.
    #[must_use]
    pub fn is_reached(&self, metric: Metric, found: f64) -> bool {
        metric.goodness(found) >= metric.goodness(self.value)
    }

    /// Returns the reason why the target is not valid for a run with this metric, or `None` if it
    /// is valid.
    #[must_use]
    pub fn unfit(&self, metric: Metric) -> Option<String> {
        let name = metric.name();
        match self.metric {
            Some(wanted) if wanted != metric => Some(format!(
                "the metric of the run is {name}: set run.metric = \"{}\", or write {}={}",
                wanted.name(),
                self.part.name(),
                self.value
            )),
            _ if metric.is_share() && self.value > 1.0 => {
                Some(format!("{name} is a share, so the target must be at most 1"))
            }
            _ => None,
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.part.name())?;
        if let Some(metric) = self.metric {
            write!(f, "_{}", metric.name())?;
        }
        write!(f, "={}", self.value)
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or(FORM)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let (part, metric) = match name.split_once('_') {
            Some((part, metric)) => (part, Some(metric)),
            None => (&name[..], None),
        };
        let part = Part::NAMES.into_iter().find(|(known, _)| *known == part);
        let part = part.ok_or_else(|| format!("{FORM}; PART must be train, val, validation or test"))?.1;
        let known = |wanted: &str| {
            let dashed = wanted.replace('_', "-");
            let mut all = Metric::ALL.into_iter().chain(SHORT);
            all.find(|(known, _)| *known == dashed).map(|(_, metric)| metric)
        };
        let metric = match metric {
            None => None,
            Some(wanted) => Some(known(wanted).ok_or_else(|| {
                let names = SHORT.into_iter().chain(Metric::ALL).map(|(name, _)| name);
                format!("{FORM}; METRIC must be one of {}", names.collect::<Vec<_>>().join(", "))
            })?),
        };
        let value: f64 = value.parse().map_err(|_| format!("{FORM}; VALUE must be a number"))?;
        if !value.is_finite() || value < 0.0 {
            return Err(format!("{FORM}; VALUE must be at least 0"));
        }
        if value > 1.0 && metric.is_some_and(Metric::is_share) {
            return Err(format!("{FORM}; VALUE must be at most 1, because this METRIC is a share"));
        }
        Ok(Self { part, metric, value })
    }
}

impl TryFrom<String> for Until {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Until> for String {
    fn from(until: Until) -> Self {
        until.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_short_and_long_are_read() {
        for (text, canonical) in [
            ("test_acc=0.94", "test_accuracy=0.94"),
            ("val = 0.5", "validation=0.5"),
            ("validation_mean_absolute_error=3", "validation_mean-absolute-error=3"),
            ("Train_F1=1", "train_f1-micro=1"),
            ("test_hits@20=0.1", "test_hits@20=0.1"),
        ] {
            let until: Until = text.parse().unwrap();
            assert_eq!(until.to_string(), canonical);
            assert_eq!(canonical.parse::<Until>().unwrap(), until);
        }
        for (text, word) in [
            ("0.94", "PART[_METRIC]=VALUE"),
            ("accuracy=0.9", "PART must be train"),
            ("test_speed=1", "mean-reciprocal-rank"),
            ("test=high", "VALUE must be a number"),
            ("test=nan", "at least 0"),
            ("test=-1", "at least 0"),
            ("test_acc=94", "is a share"),
        ] {
            let found = text.parse::<Until>().unwrap_err();
            assert!(found.contains(word), "{text}: {found}");
        }
    }

    #[test]
    fn errors_are_reached_from_above() {
        let until: Until = "val_mae=0.3".parse().unwrap();
        let reached = |found| until.is_reached(Metric::MeanAbsoluteError, found);
        assert!(reached(0.3) && reached(0.1) && !reached(0.31) && !reached(f64::NAN));
        assert!(until.unfit(Metric::Accuracy).unwrap().contains("run.metric = \"mean-absolute-error\""));
        assert_eq!(until.unfit(Metric::MeanAbsoluteError), None);
        let open: Until = "test=40".parse().unwrap();
        assert_eq!(open.unfit(Metric::RootMeanSquaredError), None);
        assert!(open.unfit(Metric::Accuracy).unwrap().contains("is a share"));
    }
}

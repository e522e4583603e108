//! Values of a run's metric on the training, validation and test rows.

use eciton_recipe::{Metric, Part};
use serde::{Deserialize, Serialize};

/// Values of one metric on each part of the data. Metrics that are shares are between 0 and 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Metric that the values belong to.
    #[serde(default)]
    pub metric: Metric,
    /// Value on the training rows. `None` if there are no such rows, or if the metric is undefined
    /// on them.
    pub train: Option<f64>,
    /// Value on the validation rows. `None` if there are no such rows, or if the metric is
    /// undefined on them.
    pub validation: Option<f64>,
    /// Value on the test rows. `None` if there are no such rows, or if the metric is undefined on
    /// them.
    pub test: Option<f64>,
}

impl Metrics {
    /// Returns true if the metric has a value on any part of the data.
    #[must_use]
    pub const fn is_measured(&self) -> bool {
        self.train.is_some() || self.validation.is_some() || self.test.is_some()
    }

    /// Returns the value on a part of the data. Returns `None` if there is none.
    #[must_use]
    pub fn value_on(&self, part: Part) -> Option<f64> {
        match part {
            Part::Train => self.train,
            Part::Validation => self.validation,
            Part::Test => self.test,
        }
    }

    /// Returns the validation metric with a sign such that larger is better: it is negated for
    /// errors and losses. Returns `None` if it has no value or is NaN.
    #[must_use]
    pub fn goodness(&self) -> Option<f64> {
        self.goodness_on(Part::Validation)
    }

    /// Returns the metric on `part` with a sign such that larger is better: it is negated for
    /// errors and losses. Returns `None` if it has no value or is NaN.
    #[must_use]
    pub fn goodness_on(&self, part: Part) -> Option<f64> {
        self.value_on(part).filter(|found| !found.is_nan()).map(|found| self.metric.goodness(found))
    }
}

/// Returns the mean and the sample standard deviation of `values`. The deviation of one value is 0.
/// Returns `None` if `values` is empty.
#[must_use]
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    Some((mean, if values.len() < 2 { 0.0 } else { (squares / (values.len() - 1) as f64).sqrt() }))
}

/// Returns the mean of `values`. Returns `None` if `values` is empty.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

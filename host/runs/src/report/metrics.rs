//! Values of the metric of a run, by part of the data (training, validation, test).

use eciton_recipe::{Metric, Part};
use serde::{Deserialize, Serialize};

/// Quality of a model by one metric. Shares are between 0 and 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Metric of the values below.
    #[serde(default)]
    pub metric: Metric,
    /// Value on the training vertices. `None` if there are none, or if the metric is undefined on
    /// them.
    pub train: Option<f64>,
    /// Value on the validation vertices, or `None` as for `train`.
    pub validation: Option<f64>,
    /// Value on the test vertices, or `None` as for `train`.
    pub test: Option<f64>,
}

impl Metrics {
    /// Returns the value on a part of the data. Returns `None` if there is none.
    #[must_use]
    pub fn of(&self, part: Part) -> Option<f64> {
        match part {
            Part::Train => self.train,
            Part::Validation => self.validation,
            Part::Test => self.test,
        }
    }

    /// Returns the validation metric, negated if smaller is better, so that larger is always
    /// better. Returns `None` if it has no value or is NaN.
    #[must_use]
    pub fn goodness(&self) -> Option<f64> {
        self.goodness_on(Part::Validation)
    }

    /// Returns the metric of a part of the data, negated if smaller is better. Returns `None` if it
    /// has no value or is NaN.
    #[must_use]
    pub fn goodness_on(&self, part: Part) -> Option<f64> {
        self.of(part).filter(|found| !found.is_nan()).map(|found| self.metric.goodness(found))
    }
}

/// Returns the mean and the standard deviation (n - 1; 0 for one value). Returns `None` without
/// values.
#[must_use]
pub fn spread(values: &[f64]) -> Option<(f64, f64)> {
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    Some((mean, if values.len() < 2 { 0.0 } else { (squares / (values.len() - 1) as f64).sqrt() }))
}

/// Returns the mean. Returns `None` without values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

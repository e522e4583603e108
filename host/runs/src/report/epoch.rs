//! Report of an epoch or of a part of it, as one flat row with equal columns in `metrics.jsonl` and
//! in `--json`.
//!
//! A report covers the steps (weight updates) since the previous report of the same seed. A report
//! ends each epoch and each evaluation, and each period of `run.log_every`.
//!
//! | column | content |
//! | --- | --- |
//! | `seed`, `epoch`, `step` | seed of the training, and numbers of the epoch and of the last step, from 1 |
//! | `loss` | mean over the training rows of these steps; null if it is not finite |
//! | `metric` | name of the metric; null if the model was not evaluated |
//! | `train_metric`, `val_metric`, `test_metric` | value of the metric on each part of the data |
//! | `seconds`, `flops` | time and floating-point operations of these steps |
//! | `rows_per_second` | training rows per second of these steps |
//! | `lr` | learning rate of the last step |
//! | `gradient_norm` | norm of all gradients of the last step, only with `optimiser.clip_norm` or `run.log_every` |
//! | `bill_*` | each field of [`Bill`], only if functions are charged for |

use eciton_exec::Bill;
use eciton_recipe::{Keep, Metric};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Metrics;

/// Prefix of the column names of the bill.
const BILL: &str = "bill_";

/// Report of an epoch, or of a part of it, in the training with one seed. It covers the steps
/// (weight updates) since the previous report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Row", into = "Row")]
pub struct EpochReport {
    /// Seed of the training.
    pub seed: u64,
    /// Number of the epoch, from 1.
    pub epoch: u32,
    /// Number of the last step that the report covers, from 1. 0 in records of older versions, which
    /// have one report per epoch.
    pub step: u32,
    /// Mean loss over the training rows before the updates, with dropout.
    pub loss: f64,
    /// Metrics after the last step, computed without dropout. `None` if it was not evaluated.
    pub metrics: Option<Metrics>,
    /// Seconds of the forward pass, the loss, the backward pass and the update. Evaluations are not
    /// included.
    pub seconds: f64,
    /// Number of training rows per second. `None` in records of older versions.
    pub rows_per_second: Option<f64>,
    /// Number of multiplications and additions in the forward pass, the loss and the backward pass.
    /// 0 in older records, which lack the count.
    pub flops: u64,
    /// Learning rate of the last step.
    pub lr: f64,
    /// L2 norm of all gradients of the last step before clipping. `None` unless
    /// `optimiser.clip_norm` or `run.log_every` is set.
    pub gradient_norm: Option<f64>,
    /// Charged usage of the steps and their evaluation. `None` if nothing is charged.
    pub bill: Option<Bill>,
}

/// Unit in which curves count the progress of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Epochs, if each epoch has one report.
    Epoch,
    /// Steps (weight updates), if an epoch has several reports.
    Step,
}

impl Unit {
    /// Returns the unit that suits the reports of a run.
    pub fn for_reports(reports: &[EpochReport]) -> Self {
        let shared = |pair: &[EpochReport]| matches!(pair, [a, b] if (a.seed, a.epoch) == (b.seed, b.epoch));
        if reports.windows(2).any(shared) { Self::Step } else { Self::Epoch }
    }

    /// Returns the name of the unit, for instance `epoch`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Epoch => "epoch",
            Self::Step => "step",
        }
    }

    /// Chooses one of two numbers, which count epochs and steps.
    #[must_use]
    pub const fn of(self, epoch: u32, step: u32) -> u32 {
        match self {
            Self::Epoch => epoch,
            Self::Step => step,
        }
    }
}

/// JSON form of an [`EpochReport`], with one flat column per value.
#[derive(Serialize, Deserialize)]
struct Row {
    seed: u64,
    epoch: u32,
    #[serde(default)]
    step: u32,
    loss: Option<f64>,
    #[serde(default)]
    metric: Option<Metric>,
    #[serde(default)]
    train_metric: Option<f64>,
    #[serde(default)]
    val_metric: Option<f64>,
    #[serde(default)]
    test_metric: Option<f64>,
    seconds: f64,
    #[serde(default)]
    flops: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rows_per_second: Option<f64>,
    lr: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gradient_norm: Option<f64>,
    /// Columns of the bill, with the prefix `bill_`.
    #[serde(flatten)]
    more: Map<String, Value>,
}

impl From<EpochReport> for Row {
    fn from(report: EpochReport) -> Self {
        let EpochReport { seed, epoch, step, loss, metrics, seconds, rows_per_second, .. } = report;
        let EpochReport { flops, lr, gradient_norm, bill, .. } = report;
        let bill = bill.and_then(|bill| serde_json::to_value(bill).ok());
        let columns = bill.as_ref().and_then(Value::as_object).into_iter().flatten();
        Self {
            seed,
            epoch,
            step,
            loss: Some(loss),
            metric: metrics.map(|metrics| metrics.metric),
            train_metric: metrics.and_then(|metrics| metrics.train),
            val_metric: metrics.and_then(|metrics| metrics.validation),
            test_metric: metrics.and_then(|metrics| metrics.test),
            seconds,
            flops,
            rows_per_second,
            lr,
            gradient_norm,
            more: columns.map(|(name, value)| (format!("{BILL}{name}"), value.clone())).collect(),
        }
    }
}

impl TryFrom<Row> for EpochReport {
    type Error = serde_json::Error;

    fn try_from(row: Row) -> Result<Self, Self::Error> {
        let Row { seed, epoch, step, seconds, flops, rows_per_second, lr, gradient_norm, mut more, .. } = row;
        let parts = (row.train_metric, row.val_metric, row.test_metric);
        let metrics = match (row.metric, more.remove("metrics")) {
            (Some(metric), _) => {
                let (train, validation, test) = parts;
                Some(Metrics { metric, train, validation, test })
            }
            // Older records have an object in place of the columns.
            (None, Some(nested)) => serde_json::from_value(nested)?,
            (None, None) => None,
        };
        let column = |(name, value): (String, Value)| Some((name.strip_prefix(BILL)?.to_owned(), value));
        let bill: Map<String, Value> = more.into_iter().filter_map(column).collect();
        let bill = (!bill.is_empty()).then(|| serde_json::from_value(Value::Object(bill))).transpose()?;
        let loss = row.loss.unwrap_or(f64::NAN);
        Ok(Self {
            seed,
            epoch,
            step,
            loss,
            metrics,
            seconds,
            rows_per_second,
            flops,
            lr,
            gradient_norm,
            bill,
        })
    }
}

/// The epoch with the best validation metric, and its metrics.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct BestEpoch {
    /// Number of the epoch with the best validation metric. Of several equally good epochs it is
    /// the first, or the last with `run.keep = "last-best"`.
    pub epoch: u32,
    /// Step (weight update) after which the model was evaluated. 0 in records of older versions,
    /// which evaluate at ends of epochs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: u32,
    /// Metrics after this step.
    #[serde(flatten)]
    pub metrics: Metrics,
}

fn is_zero(step: &u32) -> bool {
    *step == 0
}

/// The forms in which a record may contain a [`BestEpoch`].
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    /// Form of older records: a pair of epoch and metrics without field names.
    Pair(u32, Metrics),
    Named {
        epoch: u32,
        #[serde(default)]
        step: u32,
        #[serde(flatten)]
        metrics: Metrics,
    },
}

impl From<Written> for BestEpoch {
    fn from(written: Written) -> Self {
        match written {
            Written::Pair(epoch, metrics) => Self { epoch, step: 0, metrics },
            Written::Named { epoch, step, metrics } => Self { epoch, step, metrics },
        }
    }
}

impl BestEpoch {
    /// Returns the best evaluated epoch. Returns `None` if no epoch has a validation metric. Also
    /// returns `None` if only the last of several epochs was evaluated (`run.eval_every = 0`), so
    /// that nothing was compared.
    pub fn find(epochs: &[EpochReport], keep: Keep) -> Option<Self> {
        let evaluated = || {
            epochs.iter().filter_map(|of| Some(Self { epoch: of.epoch, step: of.step, metrics: of.metrics? }))
        };
        let (last, earlier) = epochs.split_last()?;
        if !earlier.is_empty() && last.metrics.is_some() && evaluated().count() == 1 {
            return None;
        }
        let judged = evaluated().filter(|of| of.metrics.goodness().is_some());
        judged.reduce(|best, of| {
            let (found, known) = (of.metrics.goodness(), best.metrics.goodness());
            if found > known || keep == Keep::LastBest && found == known { of } else { best }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn report(epoch: u32, validation: Option<f64>) -> EpochReport {
        let metrics = Metrics { metric: Metric::F1Micro, train: Some(0.75), validation, test: None };
        EpochReport {
            seed: 3,
            epoch,
            step: 0,
            loss: 0.5,
            metrics: Some(metrics),
            seconds: 0.25,
            rows_per_second: None,
            flops: 7,
            lr: 0.01,
            gradient_norm: None,
            bill: None,
        }
    }

    #[test]
    fn a_row_has_scalars_alone_and_reads_back() {
        let bill = Bill { invocations: 2, gb_seconds: 0.5, ..Bill::default() };
        let whole = EpochReport { gradient_norm: Some(1.5), bill: Some(bill), ..report(2, Some(0.5)) };
        let text = serde_json::to_string(&whole).unwrap();
        let row: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert!(row.values().all(|value| !value.is_object() && !value.is_array()), "{text}");
        assert_eq!((&row["val_metric"], &row["test_metric"]), (&0.5.into(), &Value::Null));
        assert_eq!((&row["metric"], &row["bill_invocations"]), (&"f1-micro".into(), &2.into()));
        assert_eq!(serde_json::from_str::<EpochReport>(&text).unwrap(), whole);
        let bare = EpochReport { metrics: None, ..report(1, None) };
        let text = serde_json::to_string(&bare).unwrap();
        assert!(text.contains(r#""metric":null,"train_metric":null"#), "{text}");
        assert!(!text.contains("bill") && !text.contains("gradient_norm"), "{text}");
        assert_eq!(serde_json::from_str::<EpochReport>(&text).unwrap(), bare);
    }

    #[test]
    fn a_loss_that_is_not_finite_is_null_and_nan_again() {
        let text = serde_json::to_string(&EpochReport { loss: f64::INFINITY, ..report(1, None) }).unwrap();
        assert!(text.contains(r#""loss":null"#), "{text}");
        assert!(serde_json::from_str::<EpochReport>(&text).unwrap().loss.is_nan());
    }

    #[test]
    fn records_of_before_the_columns_are_read() {
        let metrics = r#"{"metric":"f1-micro","train":0.75,"validation":0.5,"test":null}"#;
        let row = r#"{"seed":3,"epoch":2,"loss":0.5,"metrics":METRICS,"seconds":0.25,"flops":7,"lr":0.01}"#;
        let found: EpochReport = serde_json::from_str(&row.replace("METRICS", metrics)).unwrap();
        assert_eq!(found, report(2, Some(0.5)));
        let found: BestEpoch = serde_json::from_str(&format!("[2,{metrics}]")).unwrap();
        assert_eq!(found, BestEpoch { epoch: 2, step: 0, metrics: report(2, Some(0.5)).metrics.unwrap() });
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(text, metrics.replace('{', r#"{"epoch":2,"#));
        assert_eq!(serde_json::from_str::<BestEpoch>(&text).unwrap(), found);
    }

    #[test]
    fn the_best_epoch_is_one_that_was_chosen() {
        let unevaluated = |epoch| EpochReport { metrics: None, ..report(epoch, None) };
        let epoch = |epochs: &[EpochReport]| BestEpoch::find(epochs, Keep::Best).map(|best| best.epoch);
        assert_eq!(epoch(&[report(1, Some(0.2)), report(2, Some(0.5)), report(3, Some(0.5))]), Some(2));
        let equals = [report(1, Some(0.5)), report(2, Some(0.5)), report(3, Some(0.2))];
        let [first, last] =
            [Keep::Best, Keep::LastBest].map(|keep| BestEpoch::find(&equals, keep).unwrap().epoch);
        assert_eq!((first, last), (1, 2));
        assert_eq!(epoch(&[unevaluated(1), report(2, Some(0.5))]), None);
        assert_eq!(epoch(&[report(1, Some(0.5)), unevaluated(2)]), Some(1));
        assert_eq!(epoch(&[report(1, Some(0.5))]), Some(1));
        assert_eq!(epoch(&[report(1, None), report(2, None)]), None);
        assert_eq!(epoch(&[]), None);
    }
}

//! Undefined metrics. A run's metric may have no value on a part of the data, for instance because
//! all rows have the same class.
//!
//! Settings that depend on an undefined metric are refused: early stopping, `run.keep = "best"`,
//! stop targets and successive halving. In most cases this can be decided from the labels, before
//! the first epoch.

use std::collections::BTreeMap;

use eciton_graph::dataset::{Dataset, Labels, NO_LABEL, Names, Split};
use eciton_recipe::{Config, Keep, Metric, Part};
use eciton_runs::report::Metrics;

use crate::data::Inputs;
use crate::error::{Error, Result};
use crate::held_out_links;

/// Returns an iterator over the settings that depend on a metric. An item is the key of the
/// setting, and the part of the data on which the metric is computed.
pub(crate) fn deciding(config: &Config) -> impl Iterator<Item = (&'static str, Part)> {
    let run = &config.run;
    let validation = |key, given: bool| given.then_some((key, Part::Validation));
    [
        validation("run.patience", run.patience.is_some()),
        validation("run.keep = \"best\"", run.keep == Keep::Best),
        validation("run.keep = \"last-best\"", run.keep == Keep::LastBest),
        validation("pipeline.synchronous_at", config.pipeline.synchronous_at.is_some()),
        run.until.map(|until| ("run.until", until.part)),
    ]
    .into_iter()
    .flatten()
}

/// Returns the reason why the metric is undefined on a part of the data. Returns `None` if it is
/// defined. Training links of link prediction have no metric.
pub(crate) fn reason(inputs: &Inputs, part: Part) -> Option<String> {
    match &inputs.links {
        Some(links) => of_links(links.held_out(), part),
        None => {
            let (labels, split) = inputs.learnt();
            of_labels(inputs.metric, labels, (split, part), &inputs.dataset.names)
        }
    }
}

/// Returns the reason why the metric is undefined, for each part of the data that has rows but no
/// metric. It is keyed by the name of the part.
pub(crate) fn reasons(inputs: &Inputs) -> BTreeMap<String, String> {
    let parts = [Part::Validation, Part::Test].into_iter();
    let parts = parts.filter(|&part| match &inputs.links {
        // Links that were not held out have no metric, so no reason is reported.
        Some(_) => false,
        None => !rows(inputs.learnt().1, part).is_empty(),
    });
    parts.filter_map(|part| Some((part.name().to_owned(), reason(inputs, part)?))).collect()
}

/// Checks after the first evaluation that every metric that a setting depends on has a value.
///
/// # Errors
/// Returns [`Error::Undefined`] with the first setting whose metric has no value.
pub(crate) fn check_first(config: &Config, found: &Metrics, (dataset, epoch): (&str, u32)) -> Result<()> {
    for (key, part) in deciding(config) {
        if found.value_on(part).is_none_or(f64::is_nan) {
            let reason = format!(
                "after epoch {epoch} its value is not a number, because scores of its rows are not finite"
            );
            return Err(undefined(dataset, key, (found.metric, part), reason));
        }
    }
    Ok(())
}

/// Checks, for successive halving, that the metric is defined on `part` of the data sets of all
/// trials. Data sets that cannot be read are skipped, because the trials report the error.
///
/// # Errors
/// Returns [`Error::Undefined`] for the first data set on which the metric is undefined.
pub(crate) fn check_ranked(
    configs: &[Config],
    part: Part,
    read: &dyn Fn(&Config) -> Result<Dataset>,
    key: &'static str,
) -> Result<()> {
    let mut seen: Vec<&Config> = Vec::new();
    for config in configs {
        let same = |of: &&&Config| {
            of.data == config.data && of.links == config.links && of.run.metric == config.run.metric
        };
        if seen.iter().any(|of| same(&of)) {
            continue;
        }
        seen.push(config);
        let Ok(mut dataset) = read(config) else { continue };
        let found = if config.predicts_links() {
            let (task, columns) = (eciton_recipe::TaskType::LinkPrediction, config.links.embedding);
            let Ok(metric) = Metric::choose(config.run.metric, task, columns) else { continue };
            let Ok(held) = held_out_links::hold_out(&mut dataset, &config.links, metric) else { continue };
            let counts = [held.validation.links.len(), held.test.links.len()];
            of_links(counts, part).map(|reason| (metric, reason))
        } else {
            let (task, columns) = (eciton_runs::task_type::task(&dataset.labels), dataset.labels.width());
            let Ok(metric) = Metric::choose(config.run.metric, task, columns) else { continue };
            of_labels(metric, &dataset.labels, (&dataset.split, part), &dataset.names)
                .map(|reason| (metric, reason))
        };
        if let Some((metric, reason)) = found {
            return Err(undefined(&dataset.name, key, (metric, part), reason));
        }
    }
    Ok(())
}

/// Creates the error for a setting that depends on an undefined metric.
pub(crate) fn undefined(
    dataset: &str,
    key: &'static str,
    (metric, part): (Metric, Part),
    reason: String,
) -> Error {
    let (dataset, metric, part) = (dataset.to_owned(), metric.name(), part.name());
    Error::Undefined { dataset, key, metric, part, reason }
}

fn of_links(held: [usize; 2], part: Part) -> Option<String> {
    match (part, held) {
        (Part::Train, _) => Some("training links are not evaluated".to_owned()),
        (Part::Validation, [0, _]) | (Part::Test, [_, 0]) => {
            Some(format!("no {} links were held out", part.name()))
        }
        _ => None,
    }
}

fn rows(split: &Split, part: Part) -> &[u32] {
    match part {
        Part::Train => &split.train,
        Part::Validation => &split.validation,
        Part::Test => &split.test,
    }
}

fn of_labels(
    metric: Metric,
    labels: &Labels,
    (split, part): (&Split, Part),
    names: &Names,
) -> Option<String> {
    let (ids, part) = (rows(split, part), part.name());
    let known: Vec<u32> = ids.iter().copied().filter(|&id| labels.known(id as usize)).collect();
    let count = |rows: usize| {
        let rest = if rows == ids.len() { "" } else { " with a label" };
        match rows {
            1 => format!("the only {part} row{rest}"),
            rows => format!("all {rows} {part} rows{rest}"),
        }
    };
    match (labels, known.first()) {
        _ if ids.is_empty() => Some(format!("there are no {part} rows")),
        (_, None) => Some(format!("none of the {} {part} rows has a label", ids.len())),
        _ if !matches!(metric, Metric::RocAuc | Metric::AveragePrecision) => None,
        (Labels::Classes { of, .. }, Some(&first)) => {
            let class = |id: u32| of.get(id as usize).copied().unwrap_or(NO_LABEL);
            let of = class(first);
            let are = if known.len() == 1 { "is" } else { "are" };
            let one = known.iter().all(|&id| class(id) == of);
            one.then(|| format!("{} {are} of class {}", count(known.len()), names.label(of as usize)))
        }
        (Labels::Flags(values), Some(_)) => {
            let kinds = |column: usize| {
                let flags = known.iter().filter_map(|&id| values.row(id as usize).get(column));
                let (mut holds, mut fails) = (0usize, 0usize);
                for flag in flags.filter(|flag| !flag.is_nan()) {
                    if *flag == 1.0 { holds += 1 } else { fails += 1 }
                }
                (holds, fails)
            };
            let columns = values.columns() as usize;
            if (0..columns).map(kinds).any(|(holds, fails)| holds > 0 && fails > 0) {
                return None;
            }
            Some(match columns {
                1 => {
                    let whether = if kinds(0).0 > 0 { "have" } else { "lack" };
                    format!("{} {whether} the label {}", count(known.len()), names.label(0))
                }
                _ => format!("each of the {columns} labels holds for all or for none of the {part} rows"),
            })
        }
        (Labels::Numbers(_), _) => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_graph::dataset::Values;
    use eciton_graph::metrics;
    use eciton_graph::random::SplitMix64;

    /// Value of a metric: scores, columns, labels and rows.
    type Measure = fn(&[f32], usize, &Labels, &[u32]) -> Option<f64>;

    fn split(validation: &[u32]) -> Split {
        Split { validation: validation.to_vec(), ..Split::default() }
    }

    fn found(metric: Metric, labels: &Labels, ids: &[u32]) -> Option<String> {
        let names = Names { labels: vec!["ant".to_owned(), "bee".to_owned()], ..Names::default() };
        of_labels(metric, labels, (&split(ids), Part::Validation), &names)
    }

    #[test]
    fn reasons_name_the_class_and_count_the_rows() {
        let classes = Labels::classes(vec![1, 1, 0, NO_LABEL], 2);
        let of = |ids: &[u32]| found(Metric::RocAuc, &classes, ids);
        assert_eq!(of(&[0, 1]).unwrap(), "all 2 validation rows are of class bee");
        assert_eq!(of(&[0, 1, 3]).unwrap(), "all 2 validation rows with a label are of class bee");
        assert_eq!(of(&[2]).unwrap(), "the only validation row is of class ant");
        assert_eq!(of(&[3]).unwrap(), "none of the 1 validation rows has a label");
        assert_eq!(of(&[]).unwrap(), "there are no validation rows");
        assert_eq!((of(&[0, 2]), found(Metric::Accuracy, &classes, &[0, 1])), (None, None));
        let flags = |columns, of: &[f32]| Labels::Flags(Values::new(columns, of.to_vec()).unwrap());
        let one = found(Metric::AveragePrecision, &flags(1, &[0.0, 0.0]), &[0, 1]).unwrap();
        assert_eq!(one, "all 2 validation rows lack the label ant");
        let two = found(Metric::RocAuc, &flags(2, &[0.0, 1.0, 0.0, f32::NAN]), &[0, 1]).unwrap();
        assert_eq!(two, "each of the 2 labels holds for all or for none of the validation rows");
    }

    #[test]
    fn a_reason_is_given_exactly_where_the_metric_has_no_value() {
        let seed = 97;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let mut undefined = 0;
        for case in 0..600 {
            let rows = 1 + random.below(6) as usize;
            let columns = 1 + random.below(3) as u32;
            let values = rows * columns as usize;
            let labels = match case % 3 {
                0 => Labels::classes(
                    (0..rows).map(|_| [0, 1, NO_LABEL][random.below(3) as usize]).collect(),
                    2,
                ),
                1 => {
                    let of = (0..values).map(|_| [0.0, 1.0, f32::NAN][random.below(3) as usize]).collect();
                    Labels::Flags(Values::new(columns, of).unwrap())
                }
                _ => {
                    let of = (0..values).map(|_| [3.0, f32::NAN][random.below(2) as usize]).collect();
                    Labels::Numbers(Values::new(columns, of).unwrap())
                }
            };
            let ids: Vec<u32> = (0..rows as u32).filter(|_| random.below(4) > 0).collect();
            let width = labels.width() as usize;
            let scores: Vec<f32> = (0..rows * width).map(|_| random.below(9) as f32 - 4.0).collect();
            let metrics: &[(Metric, Measure)] = match case % 3 {
                0 => &[
                    (Metric::RocAuc, metrics::roc_auc),
                    (Metric::AveragePrecision, metrics::average_precision),
                    (Metric::Accuracy, metrics::accuracy_of),
                    (Metric::F1Macro, metrics::f1_macro),
                    (Metric::BalancedAccuracy, metrics::balanced_accuracy),
                    (Metric::CrossEntropy, metrics::cross_entropy),
                ],
                1 => &[
                    (Metric::RocAuc, metrics::roc_auc),
                    (Metric::AveragePrecision, metrics::average_precision),
                    (Metric::F1Micro, metrics::f1_micro),
                    (Metric::F1Macro, metrics::f1_macro),
                ],
                _ => &[(Metric::MeanAbsoluteError, metrics::mean_absolute_error)],
            };
            for &(metric, by) in metrics {
                let (value, reason) = (by(&scores, width, &labels, &ids), found(metric, &labels, &ids));
                assert_eq!(
                    value.is_none(),
                    reason.is_some(),
                    "seed {seed}, case {case}, {metric:?}: {reason:?}"
                );
                undefined += usize::from(reason.is_some());
            }
        }
        assert!(undefined > 200, "{undefined}");
    }
}

//! The result table of a sweep, with a row for each trial, and the combined results of the trials
//! with equal parameters.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use eciton_recipe::sweep::Trial;
use eciton_recipe::{Metric, Part};
use serde::Serialize;

use super::outcome::Outcome;
use crate::report::{SeedReport, spread};

/// A trial of a sweep with its result, as a row of the result table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Number of the trial in the sweep, from 0.
    pub trial: u32,
    /// Key and value of each parameter that differs between choices. Values have the form of a
    /// recipe.
    pub choice: Vec<(String, String)>,
    /// Fold and seed of the trial. Trials that differ only in these are repetitions of one choice.
    pub repeat: Vec<(String, String)>,
    /// State of the trial: `done`, `failed`, or `left` if it was not trained.
    pub state: &'static str,
    /// Metric that the values below belong to.
    pub metric: Option<Metric>,
    /// Metric of the written model on the validation rows. `None` if it has no value.
    #[serde(rename = "val_metric")]
    pub validation: Option<f64>,
    /// Metric of the written model on the test rows. `None` if it has no value.
    #[serde(rename = "test_metric")]
    pub test: Option<f64>,
    /// Number of the last trained epoch.
    pub epochs: Option<u32>,
    /// Last rung of successive halving that the trial reached, counted from 1. `None` without
    /// successive halving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rung: Option<u32>,
    /// Duration of the trial in seconds, including the time to read data and kernels.
    pub seconds: Option<f64>,
    /// SHA-256 of the trained weights, in hexadecimal.
    pub model_digest: Option<String>,
    /// Error message of a failed trial.
    pub error: Option<String>,
    /// Reasons why the metric is undefined, keyed by part of the data, for instance `validation`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub undefined_metrics: BTreeMap<String, String>,
}

impl Row {
    /// Creates the row of a trial from its outcome.
    #[must_use]
    pub fn from_outcome(trial: &Trial, outcome: &Outcome) -> Self {
        let summary = outcome.summary();
        let seed = summary.and_then(|summary| summary.seeds.first());
        let metrics = seed.map(SeedReport::written);
        Self {
            trial: trial.number,
            choice: trial.choice.clone(),
            repeat: trial.repeat.clone(),
            state: match outcome {
                Outcome::Trained(_) | Outcome::Found(_) => "done",
                Outcome::Failed(_) => "failed",
                Outcome::Left => "left",
            },
            metric: metrics.map(|metrics| metrics.metric),
            validation: metrics.and_then(|metrics| metrics.validation),
            test: metrics.and_then(|metrics| metrics.test),
            epochs: seed.map(|seed| seed.epochs),
            rung: None,
            seconds: summary.map(|summary| summary.total_seconds),
            model_digest: seed.map(|seed| seed.model_digest.clone()),
            error: match outcome {
                Outcome::Failed(text) => Some(text.clone()),
                _ => None,
            },
            undefined_metrics: summary.map(|summary| summary.undefined_metrics.clone()).unwrap_or_default(),
        }
    }

    /// Returns the metric on a part of the data. Returns `None` if it has no value or is not a
    /// number.
    #[must_use]
    pub fn metric_on(&self, part: Part) -> Option<f64> {
        let found = match part {
            Part::Train => None,
            Part::Validation => self.validation,
            Part::Test => self.test,
        };
        found.filter(|value| !value.is_nan())
    }

    /// Returns the choice as one text, for instance `run.epochs=100 optimiser.lr=0.01`. The text is
    /// empty if no parameter differs between trials.
    #[must_use]
    pub fn label(&self) -> String {
        let one = |(key, value): &(String, String)| format!("{key}={}", value.trim_matches(['"', '\'']));
        self.choice.iter().map(one).collect::<Vec<_>>().join(" ")
    }
}

/// Combined results of all trials with the same parameters. They differ only in fold and seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Key and value of each parameter that differs between choices.
    pub choice: Vec<(String, String)>,
    /// The choice as one text, as [`Row::label`] returns it.
    #[serde(skip)]
    pub label: String,
    /// Number of trials that ended successfully.
    pub trials: u32,
    /// Last rung of successive halving that the trials reached, counted from 1. `None` without
    /// successive halving.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rung: Option<u32>,
    /// Number of the last trained epoch of the longest trial.
    pub epochs: Option<u32>,
    /// Metric that the values below belong to.
    pub metric: Option<Metric>,
    /// Mean and sample standard deviation of the validation metric over the trials. The deviation
    /// of one trial is 0.
    #[serde(rename = "val_metric", serialize_with = "named")]
    pub validation: Option<(f64, f64)>,
    /// Mean and sample standard deviation of the test metric over the trials. The deviation of one
    /// trial is 0.
    #[serde(rename = "test_metric", serialize_with = "named")]
    pub test: Option<(f64, f64)>,
}

/// Serialises a pair of mean and standard deviation as an object with the fields `mean` and `std`.
fn named<S: serde::Serializer>(found: &Option<(f64, f64)>, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Spread {
        mean: f64,
        std: f64,
    }
    found.map(|(mean, std)| Spread { mean, std }).serialize(to)
}

/// Returns the reason why choices cannot be ranked by the metric on the part `by` of the data.
/// Returns `None` if they can be ranked, or if no trial has ended yet.
#[must_use]
pub fn unranked(rows: &[Row], by: Part) -> Option<String> {
    let mut done = rows.iter().filter(|row| row.state == "done").peekable();
    let first = *done.peek()?;
    if done.any(|row| row.metric_on(by).is_some()) {
        return None;
    }
    let part = by.name();
    let reason = first.undefined_metrics.get(part).cloned();
    let reason = reason.unwrap_or_else(|| format!("there are no {part} rows"));
    let metric = first.metric.unwrap_or_default().name();
    Some(format!("no trial has a {part} metric ({metric} is undefined: {reason})"))
}

/// Returns the choices of a sweep, best first by the metric on the part `by` of the data. Choices
/// without this metric are last. With successive halving, choices that reached a later rung come
/// before those of earlier rungs, which had fewer epochs.
#[must_use]
pub fn groups(rows: &[Row], by: Part) -> Vec<Group> {
    let mut groups: Vec<(Group, Vec<&Row>)> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|(group, _)| group.choice == row.choice) {
            Some((_, of)) => of.push(row),
            None => {
                let (choice, label) = (row.choice.clone(), row.label());
                let (rung, epochs, metric, validation, test) = (None, None, None, None, None);
                let group = Group { choice, label, trials: 0, rung, epochs, metric, validation, test };
                groups.push((group, vec![row]));
            }
        }
    }
    let finished = groups.into_iter().map(|(mut group, of)| {
        let done: Vec<&Row> = of.iter().copied().filter(|row| row.state == "done").collect();
        group.trials = done.len() as u32;
        group.rung = of.iter().filter_map(|row| row.rung).max();
        group.epochs = of.iter().filter_map(|row| row.epochs).max();
        group.metric = done.iter().find_map(|row| row.metric);
        let of = |value: fn(&Row) -> Option<f64>| -> Vec<f64> {
            done.iter().filter_map(|row| value(row)).collect()
        };
        group.validation = spread(&of(|row| row.metric_on(Part::Validation)));
        group.test = spread(&of(|row| row.metric_on(Part::Test)));
        group
    });
    let mut groups: Vec<Group> = finished.collect();
    let goodness = |group: &Group| {
        let (mean, _) = if by == Part::Test { group.test? } else { group.validation? };
        Some(group.metric?.goodness(mean))
    };
    let better = |a: &Group, b: &Group| match (goodness(a), goodness(b)) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    groups.sort_by(|a, b| b.rung.cmp(&a.rung).then_with(|| better(a, b)));
    groups
}

/// Formats the rows as CSV (RFC 4180), with one column for each parameter.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let quoted = |text: &str| match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    // In a grid over models, a trial lacks the keys that its model does not have.
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in rows.iter().flat_map(|row| &row.choice).chain(rows.iter().flat_map(|row| &row.repeat)) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    let mut head = vec!["trial".to_owned()];
    head.extend(keys.iter().map(|key| (*key).to_owned()));
    let has_rungs = rows.iter().any(|row| row.rung.is_some());
    head.extend(has_rungs.then(|| "rung".to_owned()));
    let rest = ["state", "metric", "val_metric", "test_metric", "epochs", "seconds", "model_digest", "error"];
    head.extend(rest.map(str::to_owned));
    let mut text = head.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
    text.push('\n');
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for row in rows {
        let mut fields = vec![row.trial.to_string()];
        let value = |key: &&str| {
            let found = row.choice.iter().chain(&row.repeat).find(|(of, _)| of == key);
            found.map_or_else(String::new, |(_, value)| value.trim_matches('"').to_owned())
        };
        fields.extend(keys.iter().map(value));
        fields.extend(has_rungs.then(|| row.rung.map_or_else(String::new, |rung| rung.to_string())));
        fields.extend([
            row.state.to_owned(),
            row.metric.map_or_else(String::new, |metric| metric.name().to_owned()),
            number(row.validation),
            number(row.test),
            row.epochs.map_or_else(String::new, |epochs| epochs.to_string()),
            number(row.seconds),
            row.model_digest.clone().unwrap_or_default(),
            row.error.clone().unwrap_or_default(),
        ]);
        let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
        let _ = writeln!(text, "{}", fields.join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn row(trial: u32, lr: &str, validation: Option<f64>) -> Row {
        Row {
            trial,
            choice: vec![("optimiser.lr".to_owned(), lr.to_owned())],
            repeat: vec![("run.seed".to_owned(), trial.to_string())],
            state: if validation.is_some() { "done" } else { "failed" },
            metric: validation.map(|_| Metric::Accuracy),
            validation,
            test: validation,
            epochs: Some(3),
            rung: None,
            seconds: Some(0.5),
            model_digest: None,
            error: validation.is_none().then(|| "a, \"b\"".to_owned()),
            undefined_metrics: BTreeMap::new(),
        }
    }

    #[test]
    fn choices_are_ranked_by_their_means() {
        let rows = [
            row(0, "0.1", Some(0.5)),
            row(1, "0.1", Some(0.7)),
            row(2, "0.2", Some(0.9)),
            row(3, "0.3", None),
        ];
        let found = groups(&rows, Part::Validation);
        let labels: Vec<&str> = found.iter().map(|group| group.label.as_str()).collect();
        assert_eq!(labels, ["optimiser.lr=0.2", "optimiser.lr=0.1", "optimiser.lr=0.3"]);
        let (mean, deviation) = found[1].validation.unwrap();
        assert!((mean - 0.6).abs() < 1e-12 && (deviation - 0.02f64.sqrt()).abs() < 1e-12);
        assert_eq!((found[0].validation, found[2].trials), (Some((0.9, 0.0)), 0));
    }

    #[test]
    fn choices_of_the_last_rung_come_first() {
        let mut rows = [row(0, "0.1", Some(0.9)), row(1, "0.2", Some(0.5)), row(2, "0.3", Some(0.6))];
        for (row, rung) in rows.iter_mut().zip([1, 2, 2]) {
            row.rung = Some(rung);
        }
        let found = groups(&rows, Part::Validation);
        let labels: Vec<&str> = found.iter().map(|group| group.label.as_str()).collect();
        assert_eq!(labels, ["optimiser.lr=0.3", "optimiser.lr=0.2", "optimiser.lr=0.1"]);
        assert_eq!((found[0].rung, found[2].rung, found[0].epochs), (Some(2), Some(1), Some(3)));
        assert!(csv(&rows).starts_with("trial,optimiser.lr,run.seed,rung,state,"));
    }

    #[test]
    fn the_test_metric_ranks_nothing_unless_asked_for() {
        let mut rows: Vec<Row> = [(0, "0.1", 0.3), (1, "0.2", 0.9), (2, "0.3", 0.6)]
            .map(|(n, lr, of)| row(n, lr, Some(of)))
            .into();
        let labels = |rows: &[Row], by| -> Vec<String> {
            groups(rows, by).into_iter().map(|group| group.label).collect()
        };
        let order = ["optimiser.lr=0.1", "optimiser.lr=0.2", "optimiser.lr=0.3"];
        for missing in [None, Some(f64::NAN)] {
            rows.iter_mut().for_each(|row| row.validation = missing);
            assert_eq!(labels(&rows, Part::Validation), order);
            assert_eq!(labels(&rows, Part::Test), [order[1], order[2], order[0]]);
        }
        let text = unranked(&rows, Part::Validation).unwrap();
        assert_eq!(
            text,
            "no trial has a validation metric (accuracy is undefined: there are no validation rows)"
        );
        rows[0].undefined_metrics.insert("validation".to_owned(), "all 3 are of class 1".to_owned());
        assert!(unranked(&rows, Part::Validation).unwrap().contains("all 3 are of class 1"));
        assert_eq!(unranked(&rows, Part::Test), None);
        // A choice with a value precedes choices without one.
        rows[2].validation = Some(0.1);
        assert_eq!(labels(&rows, Part::Validation), [order[2], order[0], order[1]]);
        assert_eq!(unranked(&rows, Part::Validation), None);
        rows.iter_mut().for_each(|row| row.state = "failed");
        assert_eq!(unranked(&rows, Part::Validation), None);
    }

    #[test]
    fn fields_with_commas_are_quoted() {
        let text = csv(&[row(3, "0.3", None)]);
        let head = "trial,optimiser.lr,run.seed,state,metric,val_metric,test_metric,epochs,seconds,model_digest,error";
        assert_eq!(text, format!("{head}\n3,0.3,3,failed,,,,3,0.5,,\"a, \"\"b\"\"\"\n"));
    }
}

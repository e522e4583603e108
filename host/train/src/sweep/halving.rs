//! Successive halving. A sweep is trained in rungs, and only the best choices of a rung continue in
//! the next one. A choice is a combination of settings, with one trial per seed or fold.
//!
//! A rung trains its trials up to some epoch, after which they pause. Choices are ranked by the
//! mean metric of their trials on the validation rows, or on the rows that the sweep file selects.
//! A choice with a failed trial does not continue. The file `rungs.json` in the sweep's folder
//! records each finished rung, so that a killed sweep continues with the same choices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use eciton_recipe::sweep::{Rung, Trial};
use eciton_recipe::{Config, Part};
use eciton_runs::report::spread;
use eciton_runs::run_folder::{MAX_RECORD_BYTES, json, parse, read, writing};
use serde::{Deserialize, Serialize};

use super::{Lot, Outcome, reached, trial_folder};
use crate::data::checked;
use crate::dataset_cache::Published;
use crate::error::Result;
use crate::undefined::{check_ranked, undefined};

/// Name of the file that records the finished rungs.
const RUNGS: &str = "rungs.json";
/// Name of the section of the sweep file that configures successive halving, for messages.
const KEY: &str = "[halving]";

/// Record of a finished rung, whose choices were ranked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Decided {
    epochs: u32,
    /// First trial number of each choice that continues in the next rung, best choice first.
    goes_on: Vec<usize>,
    /// Error message of each failed trial, keyed by trial number.
    failed: BTreeMap<usize, String>,
}

/// Function that trains a selection of trials, and reports the number and outcome of each.
pub type Training<'t> = dyn FnMut(Lot<'_>, &mut dyn FnMut(usize, Outcome)) -> Result<()> + 't;

/// A sweep that is trained with successive halving.
#[derive(Debug, Clone, Copy)]
pub struct Halved<'a> {
    /// All trials of the sweep.
    pub trials: &'a [Trial],
    /// Configuration of each trial, in the order of `trials`.
    pub configs: &'a [Config],
    /// The rungs, in the order in which they are trained.
    pub rungs: &'a [Rung],
    /// Part of the data whose metric ranks the choices.
    pub by: Part,
}

/// Trains a sweep with successive halving. `train` trains a selection of trials. `told` is called
/// with the index of the rung, and with the number and outcome of each trial. For a rung that an
/// earlier process has finished, it is called only for the trials that did not continue.
///
/// # Errors
/// Returns the errors of `train`, and an error if `rungs.json` cannot be read or written. Returns
/// [`Undefined`](crate::Error::Undefined) if the ranking metric is undefined, before the first
/// epoch if this can be seen from the labels.
pub fn halve(
    Halved { trials, configs, rungs, by }: Halved<'_>,
    folder: &Path,
    train: &mut Training<'_>,
    told: &mut dyn FnMut(usize, usize, Outcome),
) -> Result<()> {
    let published = Published::default();
    let read = |config: &Config| checked(config, published.dataset(&config.data)?);
    check_ranked(configs, by, &read, KEY)?;
    let mut choices = choices(trials);
    let mut decided = earlier(folder)?;
    let last = rungs.len().saturating_sub(1);
    for (number, rung) in rungs.iter().enumerate() {
        let numbers: Vec<usize> = choices.iter().flatten().copied().collect();
        let pause_after = (number < last).then_some(rung.epochs);
        let of = match decided.get(number) {
            Some(of) => {
                let out = |choice: &&Vec<usize>| choice.first().is_some_and(|at| !of.goes_on.contains(at));
                for &at in choices.iter().filter(out).flatten() {
                    let Some(config) = configs.get(at) else { continue };
                    let trial = (config, trial_folder(folder, at));
                    told(number, at, before(trial, at, (pause_after, &published), of)?);
                }
                of.clone()
            }
            None => {
                let mut found = Found::new(by);
                train(Lot { configs, numbers: &numbers, pause_after }, &mut |at, outcome| {
                    found.hear(at, &outcome);
                    told(number, at, outcome);
                })?;
                if found.is_left || number == last {
                    return Ok(());
                }
                let wanted = rungs.get(number + 1).map_or(1, |next| next.choices);
                let goes_on = found.best(&choices, configs, wanted)?;
                let of = Decided { epochs: rung.epochs, goes_on, failed: found.failed };
                decided.push(of.clone());
                write(folder, &decided)?;
                of
            }
        };
        let next = |first: &usize| choices.iter().find(|choice| choice.first() == Some(first)).cloned();
        choices = of.goes_on.iter().filter_map(next).collect();
        if choices.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the trial numbers of each choice of settings, in the order of the sweep.
#[must_use]
pub fn choices(trials: &[Trial]) -> Vec<Vec<usize>> {
    let mut known = BTreeMap::new();
    let mut choices: Vec<Vec<usize>> = Vec::new();
    for (at, trial) in trials.iter().enumerate() {
        let number = *known.entry(&trial.choice).or_insert(choices.len());
        match choices.get_mut(number) {
            Some(choice) => choice.push(at),
            None => choices.push(vec![at]),
        }
    }
    choices
}

/// Outcomes of a rung's trials, by which its choices are ranked.
struct Found {
    by: Part,
    goodness: BTreeMap<usize, Option<f64>>,
    failed: BTreeMap<usize, String>,
    is_left: bool,
}

impl Found {
    fn new(by: Part) -> Self {
        Self { by, goodness: BTreeMap::new(), failed: BTreeMap::new(), is_left: false }
    }

    fn hear(&mut self, at: usize, outcome: &Outcome) {
        match outcome {
            Outcome::Trained(summary) | Outcome::Found(summary) => {
                let written = summary.seeds.first().map(eciton_runs::report::SeedReport::written);
                self.goodness.insert(at, written.and_then(|metrics| metrics.goodness_on(self.by)));
            }
            Outcome::Failed(text) => drop(self.failed.insert(at, text.clone())),
            Outcome::Left => self.is_left = true,
        }
    }

    /// Returns the `wanted` best choices as their first trial numbers, best choice first. Of
    /// equally good choices, the earlier one in the sweep is better.
    fn best(&self, choices: &[Vec<usize>], configs: &[Config], wanted: u64) -> Result<Vec<usize>> {
        let mut ranked: Vec<(f64, usize)> = Vec::new();
        for choice in choices {
            let Some(first) = choice.first() else { continue };
            let found: Option<Vec<Option<f64>>> =
                choice.iter().map(|at| self.goodness.get(at).copied()).collect();
            // A choice with a failed trial is not ranked.
            let Some(found) = found else { continue };
            let found: Option<Vec<f64>> = found.into_iter().collect();
            let mean = found.as_deref().and_then(spread).ok_or_else(|| {
                let config = configs.get(*first).cloned().unwrap_or_default();
                let metric = config.run.metric.unwrap_or_default();
                let reason = format!("trial {first}, or one of its repeats, has no value of the metric");
                undefined(&config.data.source, KEY, (metric, self.by), reason)
            })?;
            ranked.push((mean.0, *first));
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        Ok(ranked.into_iter().take(wanted).map(|(_, first)| first).collect())
    }
}

/// Returns the outcome of a trial that did not continue after a rung that an earlier process has
/// finished.
fn before(
    (config, folder): (&Config, PathBuf),
    at: usize,
    (pause_after, published): (Option<u32>, &Published),
    of: &Decided,
) -> Result<Outcome> {
    if let Some(text) = of.failed.get(&at) {
        return Ok(Outcome::Failed(text.clone()));
    }
    let gone = || Outcome::Failed(format!("{}: the run folder of the trial is missing", folder.display()));
    Ok(reached((config, &folder), pause_after, published)?.map_or_else(gone, Outcome::Found))
}

fn earlier(folder: &Path) -> Result<Vec<Decided>> {
    let path = folder.join(RUNGS);
    match path.exists() {
        true => Ok(parse(&read(&path, MAX_RECORD_BYTES)?, &path)?),
        false => Ok(Vec::new()),
    }
}

fn write(folder: &Path, decided: &[Decided]) -> Result<()> {
    let (path, beside) = (folder.join(RUNGS), folder.join("rungs.partial"));
    let bytes = json(&decided, &path)?;
    std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, &path)).map_err(writing(&path))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn found(goodness: &[(usize, f64)], failed: &[usize]) -> Found {
        Found {
            goodness: goodness.iter().map(|&(at, value)| (at, Some(value))).collect(),
            failed: failed.iter().map(|&at| (at, "x".to_owned())).collect(),
            ..Found::new(Part::Validation)
        }
    }

    #[test]
    fn choices_go_on_by_their_means_and_not_with_a_failure() {
        let choices = [vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]];
        let of = |found: Found, wanted| found.best(&choices, &[], wanted).unwrap();
        let values = [(0, 0.5), (1, 0.7), (2, 0.6), (3, 0.6), (4, 0.9), (5, 0.1), (6, 0.95), (7, 0.95)];
        // The means are 0.6, 0.6, 0.5, 0.95: of equals the first.
        assert_eq!(of(found(&values, &[]), 3), [6, 0, 2]);
        assert_eq!(of(found(&values[..7], &[7]), 9), [0, 2, 4]);
        assert_eq!(of(found(&[], &[0, 1]), 2), Vec::<usize>::new());
        let mut none = found(&values, &[]);
        none.goodness.insert(3, None);
        let said = none.best(&choices, &[], 1).unwrap_err().to_string();
        assert!(said.contains(KEY), "{said}");
    }
}

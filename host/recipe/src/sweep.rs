//! Sweeps, which are sets of training runs of one recipe with different settings.
//!
//! ```
//! use eciton_recipe::Sweep;
//! let text = r#"
//!     recipe = "cora/gcn"
//!     seeds = 2
//!     [grid]
//!     "optimiser.lr" = [0.01, 0.02]
//!     "model.hidden" = [16, 64]
//! "#;
//! let sweep = Sweep::parse(text)?;
//! let trials = sweep.trials(0)?;
//! assert_eq!(trials.len(), 8);
//! assert_eq!(trials[1].settings(), "model.hidden=16 optimiser.lr=0.01 run.seed=1");
//! # Ok::<(), eciton_recipe::Error>(())
//! ```

use serde::Deserialize;
use toml::{Table, Value};

use crate::error::{Error, Result};
use crate::until::Part;

/// Maximum number of trials per sweep.
pub const MAX_TRIALS: u64 = 100_000;
/// Maximum number of parameters per sweep. `MAX_VALUES` is the maximum number of values per
/// parameter.
const MAX_PARAMETERS: u64 = 64;
const MAX_VALUES: u64 = 10_000;
/// Maximum size of a sweep file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Sweep as described by its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Recipe of all trials. It is `DATASET/MODEL` as in `eciton recipes`, a model name if `data`
    /// is set, or the path of a recipe file. If `None`, the settings are derived from the data.
    pub recipe: Option<String>,
    /// Data set of all trials, which replaces the data set of the recipe.
    pub data: Option<String>,
    /// Number of seeds with which each choice of settings is trained. They are `run.seed` and the
    /// following numbers.
    pub seeds: u32,
    /// Number of cross-validation folds. If 0, the recipe's own split is used.
    pub folds: u32,
    /// True if each class is spread evenly over the folds.
    pub stratified: bool,
    /// Number of choices that are drawn at random. If `None`, the sweep has all combinations of the
    /// parameters' values.
    pub random: Option<u32>,
    /// Random seed for drawing the choices.
    pub draw_seed: u64,
    /// Successive halving. If `None`, every trial is trained for all epochs.
    pub halving: Option<Halving>,
    /// Part of the split whose metric ranks the choices. It is validation by default, or test.
    pub rank_by: Part,
    /// Parameters that differ between the choices, in alphabetical order.
    pub parameters: Vec<Parameter>,
}

/// Successive halving (Jamieson and Talwalkar 2016) with the rungs of Hyperband (Li et al. 2017).
/// All choices are trained for a few epochs. The best `1 / eta` of them continue to `eta` times as
/// many epochs, and so on, up to the recipe's last epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halving {
    /// Reduction factor, from 2 to 100. One of `eta` choices continues to the next rung.
    #[serde(default = "three")]
    pub eta: u32,
    /// Number of epochs before the choices are ranked for the first time.
    pub epochs: u32,
}

/// Rung, which is one step of successive halving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// Number of epochs, counted from the start, after which the choices of the rung are ranked.
    pub epochs: u32,
    /// Number of choices that are trained to the end of the rung.
    pub choices: u64,
}

fn three() -> u32 {
    3
}

impl Halving {
    /// Returns the rungs for `choices` choices and a training of `last` epochs. Once a single
    /// choice remains, it continues to the last epoch.
    ///
    /// ```
    /// use eciton_recipe::sweep::{Halving, Rung};
    /// let rungs = Halving { eta: 3, epochs: 10 }.rungs(27, 200)?;
    /// let found: Vec<_> = rungs.iter().map(|rung| (rung.epochs, rung.choices)).collect();
    /// assert_eq!(found, [(10, 27), (30, 9), (90, 3), (200, 1)]);
    /// # Ok::<(), eciton_recipe::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Content`] if the first rung has at least as many epochs as the whole
    /// training.
    pub fn rungs(self, choices: u64, last: u32) -> Result<Vec<Rung>> {
        if self.epochs >= last {
            let reason = "does not train longer; reduce halving.epochs, or increase run.epochs";
            return Err(wrong(format!(
                "halving.epochs = {}: the recipe has {last} epochs and {reason}",
                self.epochs
            )));
        }
        let mut rungs = Vec::new();
        let (mut choices, mut epochs) = (choices.max(1), self.epochs);
        while choices > 1 && epochs < last {
            rungs.push(Rung { epochs, choices });
            choices = (choices / u64::from(self.eta)).max(1);
            epochs = epochs.saturating_mul(self.eta);
        }
        rungs.push(Rung { epochs: last, choices });
        Ok(rungs)
    }
}

/// Key of a recipe that differs between the choices of a sweep, with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Key with its section, for instance `optimiser.lr`.
    pub key: String,
    /// Values that the sweep tries.
    pub values: Values,
}

/// Values that a sweep tries for one parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// List of values, as TOML texts.
    List(Vec<String>),
    /// Range from which values are drawn at random.
    Range {
        /// Smallest number of the range.
        low: f64,
        /// Largest number of the range.
        high: f64,
        /// True if values are drawn log-uniformly, and false if uniformly.
        log: bool,
    },
}

/// Trial, which is one training run of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Index of the trial in the sweep, from 0.
    pub number: u32,
    /// Settings of the trial's choice, as pairs of key and value.
    pub choice: Vec<(String, String)>,
    /// Settings of fold and seed, as pairs of key and value. They distinguish the trials of one
    /// choice.
    pub repeat: Vec<(String, String)>,
}

impl Trial {
    /// Returns all settings of the trial, in the form that `eciton train --set` accepts.
    pub fn assignments(&self) -> impl Iterator<Item = String> + '_ {
        self.choice.iter().chain(&self.repeat).map(|(key, value)| format!("{key}={value}"))
    }

    /// Returns all settings of the trial as one text, for instance `model.hidden=16 run.seed=1`.
    #[must_use]
    pub fn settings(&self) -> String {
        self.assignments().collect::<Vec<_>>().join(" ")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    recipe: Option<String>,
    data: Option<String>,
    #[serde(default = "one")]
    seeds: u32,
    #[serde(default)]
    folds: u32,
    #[serde(default)]
    stratified: bool,
    random: Option<u32>,
    #[serde(default)]
    draw_seed: u64,
    halving: Option<Halving>,
    #[serde(default)]
    rank_by: RankBy,
    #[serde(default)]
    grid: Table,
}

/// Part of the split whose metric may rank the choices.
#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum RankBy {
    #[default]
    Validation,
    Test,
}

fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    low: f64,
    high: f64,
    #[serde(default)]
    log: bool,
}

fn wrong(reason: impl Into<String>) -> Error {
    Error::Content { what: "a sweep", reason: reason.into() }
}

fn limit(what: &'static str, found: u64, most: u64) -> Result<()> {
    if found > most { Err(Error::TooMany { what, found, most }) } else { Ok(()) }
}

impl Sweep {
    /// Parses the text of a sweep file and checks it.
    ///
    /// # Errors
    /// Returns [`Error::Content`] if the text is not TOML, has an unknown key or a parameter
    /// without values, or is otherwise invalid. A range is only valid if the sweep draws choices.
    /// Returns [`Error::TooMany`] if the text exceeds a limit of this module.
    pub fn parse(text: &str) -> Result<Self> {
        limit("bytes of a sweep", text.len() as u64, MAX_BYTES)?;
        let found: Text = toml::from_str(text).map_err(|error| wrong(error.to_string().trim_end()))?;
        let mut parameters = Vec::new();
        collect(&mut parameters, "", &found.grid)?;
        parameters.sort_by(|a: &Parameter, b: &Parameter| a.key.cmp(&b.key));
        limit("parameters of a sweep", parameters.len() as u64, MAX_PARAMETERS)?;
        if let Some(twice) = parameters.windows(2).find(|pair| pair[0].key == pair[1].key) {
            return Err(wrong(format!("[grid] has `{}` twice", twice[0].key)));
        }
        if found.recipe.is_none() && found.data.is_none() {
            let remedy = "write recipe = \"DATASET/MODEL\", or data = \"PATH\" for settings that are chosen from the data";
            return Err(wrong(format!("found neither `recipe` nor `data`: {remedy}")));
        }
        if found.seeds == 0 || found.random == Some(0) {
            return Err(wrong("0 trials: set `seeds` and `random` to at least 1"));
        }
        if matches!(found.folds, 1 | 2) {
            let reason = "set at least 3 (one fold for test, one for validation, the others for training), or 0 for the data set's own split";
            return Err(wrong(format!("folds = {}: {reason}", found.folds)));
        }
        let reserved = |key: &str| (key == "run.seed") || (found.folds > 0 && key.starts_with("data.split"));
        if let Some(taken) = parameters.iter().find(|parameter| reserved(&parameter.key)) {
            let reason = format!("`{}` in [grid]: remove it, and use `seeds` and `folds` instead", taken.key);
            return Err(wrong(reason));
        }
        if let Some(Halving { eta, epochs }) = found.halving {
            if !(2..=100).contains(&eta) || epochs == 0 {
                let reason = "eta must be 2 to 100, and epochs at least 1";
                return Err(wrong(format!("halving: eta = {eta}, epochs = {epochs}: {reason}")));
            }
            let length = ["run.epochs", "checkpoint.every", "checkpoint.seconds"];
            if let Some(taken) = parameters.iter().find(|p| length.contains(&p.key.as_str())) {
                let reason = "remove it from [grid], and set it for all trials with --set: the trials of a rung are compared at the same epoch";
                return Err(wrong(format!("`{}` in [grid], and [halving]: {reason}", taken.key)));
            }
        }
        let ranged = parameters.iter().find(|parameter| matches!(parameter.values, Values::Range { .. }));
        if let (Some(parameter), None) = (ranged, found.random) {
            let reason = "is a range: set `random = N` to draw values from it, or list its values";
            return Err(wrong(format!("`{}` {reason}", parameter.key)));
        }
        let Text { recipe, data, seeds, folds, stratified, random, draw_seed, halving, rank_by, .. } = found;
        let rank_by = match rank_by {
            RankBy::Validation => Part::Validation,
            RankBy::Test => Part::Test,
        };
        Ok(Self { recipe, data, seeds, folds, stratified, random, draw_seed, halving, rank_by, parameters })
    }

    /// Returns the name of the sweep's recipe, or the name of its data set if it has no recipe.
    #[must_use]
    pub fn subject(&self) -> &str {
        self.recipe.as_ref().or(self.data.as_ref()).map_or("", String::as_str)
    }

    /// Returns the data set of a sweep without a recipe. Returns `None` if the sweep has a recipe.
    #[must_use]
    pub fn open_data(&self) -> Option<&str> {
        self.data.as_deref().filter(|_| self.recipe.is_none())
    }

    /// Returns all trials of the sweep. The values of the last parameter vary fastest. Each choice
    /// is trained on all folds, and each fold with all seeds. `seed` is the seed of the recipe.
    ///
    /// # Errors
    /// Returns [`Error::TooMany`] if there are more than [`MAX_TRIALS`] trials.
    pub fn trials(&self, seed: u64) -> Result<Vec<Trial>> {
        let lengths = self.parameters.iter().map(|parameter| match &parameter.values {
            Values::List(values) => values.len() as u64,
            Values::Range { .. } => 1,
        });
        let all = lengths.fold(1u64, u64::saturating_mul);
        let choices = self.random.map_or(all, u64::from);
        let repeats = u64::from(self.seeds).saturating_mul(u64::from(self.folds.max(1)));
        limit("trials of a sweep", choices.saturating_mul(repeats), MAX_TRIALS)?;
        let mut trials = Vec::new();
        for at in 0..choices {
            let choice = if self.random.is_some() { self.drawn(at) } else { self.nth(at) };
            for fold in 0..self.folds.max(1) {
                for of in 0..self.seeds {
                    let mut repeat = Vec::new();
                    if self.folds > 0 {
                        let rule = if self.stratified { "stratified-folds" } else { "folds" };
                        repeat.push(("data.split".to_owned(), format!("{rule}:{}/{fold}", self.folds)));
                    }
                    repeat.push(("run.seed".to_owned(), seed.wrapping_add(of.into()).to_string()));
                    trials.push(Trial { number: trials.len() as u32, choice: choice.clone(), repeat });
                }
            }
        }
        Ok(trials)
    }

    /// Returns the choice with index `at` among all combinations of values.
    fn nth(&self, mut at: u64) -> Vec<(String, String)> {
        let mut choice = Vec::new();
        for Parameter { key, values } in self.parameters.iter().rev() {
            let Values::List(values) = values else { continue };
            let count = values.len() as u64;
            let value = values.get((at % count) as usize).cloned().unwrap_or_default();
            choice.push((key.clone(), value));
            at /= count;
        }
        choice.reverse();
        choice
    }

    /// Returns the randomly drawn choice with index `at`.
    fn drawn(&self, at: u64) -> Vec<(String, String)> {
        let draw = |(place, Parameter { key, values }): (u64, &Parameter)| {
            let number = mixed(self.draw_seed, at, place);
            let value = match values {
                Values::List(values) => {
                    values.get((number % values.len() as u64) as usize).cloned().unwrap_or_default()
                }
                Values::Range { low, high, log } => {
                    let share = (number >> 11) as f64 / (1u64 << 53) as f64;
                    let value = match log {
                        true => (low.ln() + share * (high.ln() - low.ln())).exp(),
                        false => low + share * (high - low),
                    };
                    rounded(value.clamp(*low, *high)).clamp(*low, *high).to_string()
                }
            };
            (key.clone(), value)
        };
        (0u64..).zip(&self.parameters).map(draw).collect()
    }
}

/// Rounds a number to four significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// Returns the SplitMix64 hash of three numbers (Steele, Lea and Flood 2014).
fn mixed(seed: u64, at: u64, place: u64) -> u64 {
    let finish = |mut z: u64| {
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let golden = 0x9e37_79b9_7f4a_7c15u64;
    [at, place].into_iter().fold(finish(seed.wrapping_add(golden)), |state, of| {
        finish(state.wrapping_add(golden).wrapping_add(of.wrapping_mul(golden)))
    })
}

/// Collects the parameters of a TOML table into `into`. A nested table is a section, unless it
/// describes a range.
fn collect(into: &mut Vec<Parameter>, section: &str, table: &Table) -> Result<()> {
    for (name, value) in table {
        let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        let values = match value {
            Value::Table(inner) if inner.contains_key("low") || inner.contains_key("high") => {
                let range: Range = value.clone().try_into().map_err(|error: toml::de::Error| {
                    let form = "{ low = 0.001, high = 0.1, log = true }";
                    wrong(format!("`{key}` in [grid] is not a range such as {form}: {}", error.message()))
                })?;
                let Range { low, high, log } = range;
                let above = if log { 0.0 } else { f64::NEG_INFINITY };
                if !(low.is_finite() && high.is_finite() && low > above && low <= high) {
                    let least = if log { " above 0" } else { "" };
                    let reason = format!("is {low} to {high}: low must be a number{least} and at most high");
                    return Err(wrong(format!("`{key}` in [grid] {reason}")));
                }
                Values::Range { low, high, log }
            }
            Value::Table(inner) => {
                collect(into, &key, inner)?;
                continue;
            }
            Value::Array(values) if !values.is_empty() => {
                limit("values of a parameter", values.len() as u64, MAX_VALUES)?;
                Values::List(values.iter().map(ToString::to_string).collect())
            }
            found => {
                let reason = "expected a list of values in brackets, or a range";
                return Err(wrong(format!("`{key}` in [grid] is {found}: {reason}")));
            }
        };
        into.push(Parameter { key, values });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn trials(text: &str) -> Vec<String> {
        let sweep = Sweep::parse(text).unwrap();
        sweep.trials(7).unwrap().iter().map(Trial::settings).collect()
    }

    #[test]
    fn a_grid_is_every_choice_by_fold_and_seed() {
        let text = "recipe = 'cora/gcn'\nfolds = 3\n[grid]\nmodel.kind = ['gcn', 'gat']\n";
        let expected = ["'gcn' data.split=folds:3/0", "'gcn' data.split=folds:3/1"];
        let found = trials(text);
        assert_eq!(found.len(), 6);
        for (found, expected) in found.iter().zip(expected) {
            let found = found.replace('"', "'");
            assert_eq!(found, format!("model.kind={expected} run.seed=7"));
        }
        assert_eq!(trials("recipe = 'x'\nseeds = 3").len(), 3);
    }

    #[test]
    fn draws_are_of_the_seed_and_within_the_range() {
        let text = |seed: u64| {
            let grid = "optimiser.lr = { low = 0.001, high = 0.1, log = true }\nmodel.hidden = [8, 16]";
            format!("recipe = 'x'\nrandom = 500\ndraw_seed = {seed}\n[grid]\n{grid}")
        };
        let (first, again, other) = (trials(&text(1)), trials(&text(1)), trials(&text(2)));
        assert_eq!((first.len(), first == again, first == other), (500, true, false));
        let rate = |trial: &String| {
            let value = trial.split("optimiser.lr=").nth(1).unwrap().split(' ').next().unwrap();
            value.parse::<f64>().unwrap()
        };
        let rates: Vec<f64> = first.iter().map(rate).collect();
        assert!(rates.iter().all(|rate| (0.001..=0.1).contains(rate)));
        // Half of them are below the middle of the logarithms, five standard deviations around.
        let below = rates.iter().filter(|&&rate| rate < 0.01).count();
        assert!((194..=306).contains(&below), "{below}");
        let eights = first.iter().filter(|trial| trial.contains("hidden=8 ")).count();
        assert!((194..=306).contains(&eights), "{eights}");
    }

    #[test]
    fn rungs_end_at_the_last_epoch_or_with_one_choice() {
        let of = |eta, epochs, choices, last| {
            let rungs = Halving { eta, epochs }.rungs(choices, last).unwrap();
            rungs.iter().map(|rung| (rung.epochs, rung.choices)).collect::<Vec<_>>()
        };
        assert_eq!(of(2, 5, 8, 40), [(5, 8), (10, 4), (20, 2), (40, 1)]);
        assert_eq!(of(3, 5, 20, 30), [(5, 20), (15, 6), (30, 2)], "the last epoch comes first");
        assert_eq!(of(4, 1, 3, 1000), [(1, 3), (1000, 1)]);
        assert_eq!(of(3, 5, 1, 30), [(30, 1)]);
        assert_eq!(of(100, u32::MAX / 2, 200, u32::MAX), [(u32::MAX / 2, 200), (u32::MAX, 2)]);
        let said = Halving { eta: 3, epochs: 30 }.rungs(9, 30).unwrap_err().to_string();
        assert!(said.contains("halving.epochs = 30") && said.contains("run.epochs"), "{said}");
    }

    #[test]
    fn what_is_no_sweep_is_told_in_words() {
        for (text, words) in [
            ("recipe = 'x'\nseed = 3", "unknown field `seed`"),
            ("seeds = 3", "neither `recipe` nor `data`"),
            ("recipe = 'x'\nseeds = 0", "0 trials"),
            ("recipe = 'x'\nfolds = 2", "at least 3"),
            ("recipe = 'x'\n[grid]\nmodel.hidden = 3", "a list of values"),
            ("recipe = 'x'\n[grid]\nmodel.hidden = []", "a list of values"),
            ("recipe = 'x'\n[grid]\nrun.seed = [1, 2]", "use `seeds` and `folds` instead"),
            ("recipe = 'x'\n[grid]\na = { low = 1, high = 2 }", "set `random = N`"),
            ("recipe = 'x'\nrandom = 2\n[grid]\na = { low = 0.0, high = 2.0, log = true }", "above 0"),
            ("recipe = 'x'\nrandom = 2\n[grid]\na = { low = 0.0 }", "is not a range"),
            ("recipe = 'x'\n[grid]\n'a.b' = [1]\na.b = [2]", "twice"),
            ("recipe = 'x'\n[halving]\neta = 3", "missing field `epochs`"),
            ("recipe = 'x'\n[halving]\nepochs = 3\nrungs = 4", "unknown field `rungs`"),
            ("recipe = 'x'\n[halving]\nepochs = 3\neta = 1", "eta must be 2 to 100"),
            (
                "recipe = 'x'\n[halving]\nepochs = 3\n[grid]\nrun.epochs = [5, 9]",
                "compared at the same epoch",
            ),
            ("recipe = ", "TOML"),
        ] {
            let said = Sweep::parse(text).and_then(|sweep| sweep.trials(0)).unwrap_err().to_string();
            let said = said.replace("invalid string", "TOML");
            assert!(said.contains(words) || words == "TOML", "{text}: {said}");
        }
        let many = format!("recipe = 'x'\nseeds = {}", MAX_TRIALS + 1);
        assert!(Sweep::parse(&many).unwrap().trials(0).is_err());
    }
}

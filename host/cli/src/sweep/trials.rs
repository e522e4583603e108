//! Configurations of the trials of a sweep. The configurations of all trials are checked before the
//! first trial is trained.

use eciton_recipe::sweep::Trial;
use eciton_recipe::{Config, Data, Model};
use eciton_train::defaults::{self, Statistics};

use crate::failure::Failure;
use crate::recipe;

/// Settings of a trial, as pairs of recipe key and value.
type Settings = Vec<(String, String)>;

/// Cache of data set statistics, so that a sweep reads each of its data sets only once.
#[derive(Default)]
struct Known(Vec<(Data, Statistics)>);

impl Known {
    /// Returns the statistics of the data set that a configuration names. The first call for a data
    /// set reads it.
    fn lookup(&mut self, config: &Config) -> Result<Statistics, Failure> {
        let Data { source, name, sequence, task, .. } = config.data.clone();
        let key = Data { source, name, sequence, task, ..Data::default() };
        if let Some((_, known)) = self.0.iter().find(|(known, _)| *known == key) {
            return Ok(known.clone());
        }
        let found = defaults::statistics(config).map_err(|error| Failure::attempt(&error))?;
        self.0.push((key, found.clone()));
        Ok(found)
    }
}

/// Returns the trials of a sweep, and the configuration of each trial. Settings that neither the
/// recipe nor the trial determines are chosen to suit the data.
///
/// If the model of a trial does not have a key of the grid, the key is removed from the trial. A
/// note is then printed, and trials that become duplicates are removed. `shown` is the path of the
/// sweep file, for messages.
///
/// # Errors
/// Returns an error for the first setting that is invalid, with the number of the trial.
pub(super) fn settle(
    base: &Config,
    trials: Vec<Trial>,
    shown: &str,
) -> Result<(Vec<Trial>, Vec<Config>), Failure> {
    let is_of_model = |key: &str| key.starts_with("model.");
    let has_models = trials.first().is_some_and(|trial| trial.choice.iter().any(|(key, _)| is_of_model(key)));
    let is_data = |trial: &Trial| trial.choice.iter().any(|(key, _)| key == "data.source");
    let is_open = defaults::is_open(base) || trials.first().is_some_and(is_data) && base.choices.open;
    let mut known = Known::default();
    let (mut kept, mut configs): (Vec<Trial>, Vec<Config>) = (Vec::new(), Vec::new());
    let mut last: Option<(Settings, Settings)> = None;
    let mut seen = std::collections::BTreeSet::new();
    for mut trial in trials {
        let origin = format!("{shown}, trial {}", trial.number);
        let asked = trial.choice.clone();
        let checked = last.take().filter(|(choice, _)| *choice == asked);
        if let Some((_, reduced)) = &checked {
            trial.choice.clone_from(reduced);
        }
        let mut config = recipe::settle(base.clone(), trial.assignments(), &origin)?;
        if is_open || has_models && checked.is_none() {
            let statistics = known.lookup(&config)?;
            loop {
                let settled = match defaults::is_open(&config) {
                    true => defaults::settle_by(&config, &statistics)?,
                    false => config.clone(),
                };
                let unused = match checked {
                    Some(_) => None,
                    None => defaults::unread(&settled, &statistics),
                };
                let Some(name) = unused else {
                    config = settled;
                    break;
                };
                let key = format!("model.{name}");
                let kinds = trial.choice.iter().any(|(key, _)| key == "model.kind");
                let at = trial.choice.iter().position(|(known, _)| *known == key).filter(|_| kinds);
                let Some(at) = at else {
                    let Statistics { columns, outputs, task, .. } = statistics;
                    let refused = Model::resolve(&settled.model, columns, outputs, task)
                        .err()
                        .or_else(|| settled.model.check_read(columns, outputs, task).err());
                    let text = refused.map_or(String::new(), |error| Failure::text(&error));
                    return Err(Failure::Usage(format!("{origin}: {text}")));
                };
                trial.choice.remove(at);
                note_omission(shown, &key, settled.model.kind.name());
                config = recipe::settle(base.clone(), trial.assignments(), &origin)?;
            }
            if checked.is_none() {
                let Statistics { columns, outputs, task, .. } = statistics;
                Model::resolve(&config.model, columns, outputs, task)
                    .map_err(|error| Failure::Usage(format!("{origin}: {}", Failure::text(&error))))?;
            }
        }
        config = recipe::settle(config, std::iter::empty(), &origin)?;
        last = Some((asked, trial.choice.clone()));
        if seen.insert(trial.settings()) {
            trial.number = kept.len() as u32;
            kept.push(trial);
            configs.push(config);
        }
    }
    Ok((kept, configs))
}

/// Adds a note about a grid key that was removed from the trials of one kind of model.
fn note_omission(shown: &str, key: &str, kind: &str) {
    eciton_input::notes::add(format!(
        "{shown}: {key} is ignored in trials of {kind}, which does not have this setting"
    ));
}

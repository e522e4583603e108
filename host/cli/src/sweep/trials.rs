//! Trials of a sweep with their settings, each checked before the first is trained.

use eciton_recipe::sweep::Trial;
use eciton_recipe::{Config, Data, Model};
use eciton_train::defaults::{self, Statistics};

use crate::failure::Failure;
use crate::recipe;

/// Settings of a trial: keys and values.
type Settings = Vec<(String, String)>;

/// Statistics of the data sets of a sweep, each read once.
#[derive(Default)]
struct Known(Vec<(Data, Statistics)>);

impl Known {
    /// Returns the statistics of a configuration's data.
    fn of(&mut self, config: &Config) -> Result<Statistics, Failure> {
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

/// Returns the trials and the configuration of each. Keys of the grid that the model of a trial
/// does not have are left out of it, with a note; of trials that are equal then, the first stays.
/// The data decide open settings.
///
/// # Errors
/// The first setting that is refused, with the trial. `shown` is the sweep's file.
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
        let checked = last.take().filter(|(of, _)| *of == asked);
        if let Some((_, left)) = &checked {
            trial.choice.clone_from(left);
        }
        let mut config = recipe::settle(base.clone(), trial.assignments(), &origin)?;
        if is_open || has_models && checked.is_none() {
            let statistics = known.of(&config)?;
            loop {
                let settled = match defaults::is_open(&config) {
                    true => defaults::settle_by(&config, &statistics)?,
                    false => config.clone(),
                };
                let left_out = match checked {
                    Some(_) => None,
                    None => defaults::unread(&settled, &statistics),
                };
                let Some(name) = left_out else {
                    config = settled;
                    break;
                };
                let key = format!("model.{name}");
                let kinds = trial.choice.iter().any(|(key, _)| key == "model.kind");
                let at = trial.choice.iter().position(|(of, _)| *of == key).filter(|_| kinds);
                let Some(at) = at else {
                    let Statistics { columns, outputs, task, .. } = statistics;
                    let refused = Model::resolve(&settled.model, columns, outputs, task)
                        .err()
                        .or_else(|| settled.model.check_read(columns, outputs, task).err());
                    let text = refused.map_or(String::new(), |error| Failure::text(&error));
                    return Err(Failure::Usage(format!("{origin}: {text}")));
                };
                trial.choice.remove(at);
                leave_out(shown, &key, settled.model.kind.name());
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

/// Adds a note about a key that the trials of a model leave out.
fn leave_out(shown: &str, key: &str, kind: &str) {
    eciton_input::notes::add(format!(
        "{shown}: {key} is left out of the trials of {kind}, which does not have it"
    ));
}

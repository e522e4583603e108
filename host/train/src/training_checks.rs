//! Checks before the first epoch that a configuration can be trained on its data set.

use eciton_recipe::{Config, Part};

use crate::error::{Error, Result};
use crate::session::Session;
use crate::undefined;

/// Checks that the data set has training rows. If a setting depends on the validation metric, also
/// checks that there are validation rows on which the metric is defined.
///
/// # Errors
/// Returns [`Error::NoTraining`], [`Error::NoValidation`] or [`Error::NoValidationLinks`] if rows
/// or links are missing. Returns [`Error::Undefined`] for an undefined metric, and [`Error::Until`]
/// for a stop target that cannot be reached.
pub(crate) fn check_training(config: &Config, session: &Session) -> Result<()> {
    let (dataset, links) = (&session.inputs.dataset, &session.inputs.links);
    let split = session.inputs.learnt().1;
    check_until(config, session)?;
    if split.train.is_empty() && links.is_none() {
        return Err(Error::NoTraining { dataset: dataset.name.clone() });
    }
    let judges = match links {
        Some(links) => links.held_out()[0],
        None => split.validation.len(),
    };
    for (key, part) in undefined::deciding(config).filter(|(_, part)| *part == Part::Validation) {
        let Some(reason) = undefined::reason(&session.inputs, part) else { continue };
        let dataset = dataset.name.clone();
        return Err(match links {
            Some(_) if judges == 0 => Error::NoValidationLinks { dataset, key },
            None if judges == 0 => Error::NoValidation { dataset, key },
            _ => undefined::undefined(&dataset, key, (session.inputs.metric, part), reason),
        });
    }
    Ok(())
}

/// Checks that the target `run.until` can be reached. It must use the metric of the run, on a part
/// of the data on which the metric is defined.
fn check_until(config: &Config, session: &Session) -> Result<()> {
    let Some(until) = config.run.until else { return Ok(()) };
    let (dataset, links) = (&session.inputs.dataset, &session.inputs.links);
    let split = session.inputs.learnt().1;
    let refuse = |reason| Err(Error::Until { until, dataset: dataset.name.clone(), reason });
    if let Some(reason) = until.unfit(session.inputs.metric) {
        return refuse(reason);
    }
    let members = match (links, until.part) {
        (Some(_), Part::Train) => return refuse("training links are not evaluated".to_owned()),
        (Some(links), Part::Validation) => links.held_out()[0],
        (Some(links), Part::Test) => links.held_out()[1],
        (None, Part::Train) => split.train.len(),
        (None, Part::Validation) => split.validation.len(),
        (None, Part::Test) => split.test.len(),
    };
    match undefined::reason(&session.inputs, until.part) {
        _ if members == 0 => refuse(format!("the {} part has no rows", until.part.name())),
        Some(reason) => refuse(format!("{} is undefined: {reason}", session.inputs.metric.name())),
        None => Ok(()),
    }
}

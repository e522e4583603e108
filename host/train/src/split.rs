//! The split that `data.split` asks for, in place of the data set's own.

use eciton_graph::dataset::Dataset;
use eciton_graph::split::Draw;
use eciton_plan::{Data, SplitRule};

use crate::error::{Error, Result};

/// Draws the split again where the settings say so: a function of labels, rule and seed, so that
/// doing it twice changes nothing.
///
/// # Errors
/// [`Error::Split`] where the rule does not suit the labels.
pub(crate) fn apply(data: &Data, dataset: &mut Dataset) -> Result<()> {
    let Some(rule) = data.split else { return Ok(()) };
    let draw = match rule {
        SplitRule::Shares { shares, stratified } => Draw::Shares { shares, stratified },
        SplitRule::PerClass { train, validation, test } => Draw::PerClass { train, validation, test },
        SplitRule::Folds { folds, fold, stratified } => Draw::Folds { folds, fold, stratified },
    };
    let drawn = draw.draw(&dataset.labels, data.split_seed);
    let name = || dataset.name.clone();
    dataset.split =
        drawn.map_err(|source| Error::Split { dataset: name(), rule, source: Box::new(source) })?;
    Ok(())
}

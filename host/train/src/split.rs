//! Split of a data set by the setting `data.split`.

use eciton_graph::dataset::Dataset;
use eciton_graph::labels::Labels;
use eciton_graph::split::{Draw, Split};
use eciton_recipe::{Data, SplitRule};

use crate::error::{Error, Result};

/// Splits a data set into training, validation and test rows by the rule `data.split`, which
/// replaces the data set's own split. Does nothing if the setting is absent. The split depends only
/// on the labels, the rule and the seed, so a second call has no effect.
///
/// # Errors
/// Returns [`Error::Split`] if the rule does not suit the labels.
pub(crate) fn apply(data: &Data, dataset: &mut Dataset) -> Result<()> {
    let Some(rule) = data.split else { return Ok(()) };
    let draw = match rule {
        SplitRule::Shares { shares, stratified } => Draw::Shares { shares, stratified },
        SplitRule::PerClass { train, validation, test } => Draw::PerClass { train, validation, test },
        SplitRule::Folds { folds, fold, stratified } => Draw::Folds { folds, fold, stratified },
    };
    let name = || dataset.name.clone();
    let refused = |source| Error::Split { dataset: name(), rule, source: Box::new(source) };
    let group = data.group();
    dataset.names.split = match data.split_seed {
        seed if group == 1 => format!("{rule}, drawn from seed {seed}"),
        seed => format!("{rule} of sequences, drawn from seed {seed}"),
    };
    if group == 1 {
        dataset.split = draw.draw(&dataset.labels, data.split_seed).map_err(refused)?;
        return Ok(());
    }
    // For sequences, whole sequences are drawn, as if each were one row and all had one class.
    let sequences = dataset.vertices() / group;
    let one = Labels::classes(vec![0; sequences as usize], 1);
    let drawn = draw.draw(&one, data.split_seed).map_err(refused)?;
    let rows = |part: &[u32]| {
        let rows = part.iter().flat_map(|&sequence| sequence * group..(sequence + 1) * group);
        rows.filter(|&row| dataset.labels.known(row as usize)).collect()
    };
    dataset.split =
        Split { train: rows(&drawn.train), validation: rows(&drawn.validation), test: rows(&drawn.test) };
    Ok(())
}

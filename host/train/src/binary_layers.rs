//! Binary layers, which read only the signs and scales of rows and weights. Rows can be sent and
//! weights stored with one bit per value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eciton_kernel::Layer;
use eciton_program::Program;
use eciton_recipe::{Config, RowFormat};

use crate::error::{Error, Result};

/// Returns the names of the parameters that only binary layers read. A model file can store them as
/// signs and scales.
pub(crate) fn parameters(program: &Program, layers: &[Option<Arc<Layer>>]) -> BTreeSet<String> {
    let mut read = BTreeMap::new();
    for (operation, layer) in program.operations.iter().zip(layers) {
        let named = operation.signature.iter().flat_map(|signature| &signature.parameters);
        for (spec, id) in named.zip(&operation.parameters) {
            let signs = layer.as_ref().is_some_and(|layer| layer.reads_signs(&spec.name));
            *read.entry(program.owner(*id)).or_insert(true) &= signs;
        }
    }
    let of_signs = read.into_iter().filter(|(_, signs)| *signs);
    of_signs.filter_map(|(id, _)| Some(program.parameter(id)?.name.clone())).collect()
}

/// Checks that a layer reads rows as signs if the configuration stores them as bits (`executor.rows
/// = "bits"`).
///
/// # Errors
/// Returns [`Error::NoSigns`] if rows are to be stored as bits and no layer reads them as signs.
pub(crate) fn check(config: &Config, program: &Program, layers: &[Option<Arc<Layer>>]) -> Result<()> {
    let reads =
        |layer: &Arc<Layer>| layer.signature().inputs.iter().any(|input| layer.reads_signs(&input.name));
    let opened = || layers.iter().flatten();
    if config.executor.rows != RowFormat::Bits || opened().any(reads) {
        return Ok(());
    }
    let kernels: BTreeSet<&str> = opened().map(|layer| layer.kernel().name()).collect();
    let kernels = kernels.into_iter().collect::<Vec<_>>().join(", ");
    Err(Error::NoSigns { model: program.model.name(), kernels })
}

//! Initial weights from the model file that `run.init` names, and checks of the layers that are
//! frozen or freshly initialised.

use std::path::{Path, PathBuf};

use eciton_program::Program;
use eciton_recipe::Config;
use eciton_runs::run_folder::{self, MAX_MODEL_BYTES, MAX_RECORD_BYTES, NamedTensor};
use eciton_runs::schema::Schema;

use crate::error::{Error, Result};
use crate::parameter_shapes::parameter_shapes;

/// Maximum number of parameters in one error message.
const MOST_NAMED: usize = 20;

/// Initial weights from the model file of `run.init`. They are read once for all seeds.
#[derive(Debug, Clone)]
pub(crate) struct Initial {
    pub digest: String,
    tensors: Vec<NamedTensor>,
}

/// Returns the path of the schema file that belongs to a model file or run folder. Returns `None`
/// if there is none.
pub(crate) fn schema_path(init: &Path) -> Option<PathBuf> {
    let folder = if init.is_dir() { init } else { init.parent()? };
    // The models of all seeds but the first are in folders below the run folder.
    let above = folder.parent().filter(|_| !init.is_dir());
    let places = [Some(folder), above].into_iter().flatten().map(|folder| folder.join(run_folder::SCHEMA));
    places.into_iter().find(|path| path.is_file())
}

/// Reads the schema of the model that `run.init` names. Returns `None` if `run.init` is not set or
/// if the model file has no schema, in which case columns and classes are matched by position.
///
/// # Errors
/// Returns an error if the schema is damaged or of a newer version.
pub(crate) fn schema(config: &Config) -> Result<Option<Schema>> {
    let Some(path) = config.run.init.as_ref().and_then(|init| schema_path(Path::new(init))) else {
        return Ok(None);
    };
    Ok(Some(run_folder::parse_schema(&run_folder::read(&path, MAX_RECORD_BYTES)?, &path)?))
}

impl Initial {
    /// Reads the weights from the model file or run folder that `run.init` names. Returns `None` if
    /// `run.init` is not set.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is damaged. Returns [`Error::Init`] if the
    /// weights do not have the digest `run.init_digest`, or if the parameters do not match the
    /// model.
    pub(crate) fn read(config: &Config, program: &Program, data: &Schema) -> Result<Option<Self>> {
        let Some(init) = &config.run.init else { return Ok(None) };
        let path = file(Path::new(init));
        path.metadata().map_err(|source| Error::Read { path: path.clone(), source })?;
        let bytes = run_folder::read(&path, MAX_MODEL_BYTES)?;
        let model = run_folder::decode_any(&bytes, &path)?;
        let digest = match model.is_foreign() {
            false => model.digest().to_owned(),
            true => {
                eciton_input::notes::add(format!(
                    "{}: the weights were written by another program and have no digest, so damage is not \
                     detected; Eciton multiplies rows by a weight from the right, so weights of PyTorch's \
                     Linear must be transposed",
                    path.display()
                ));
                run_folder::model_digest(&model.tensors)
            }
        };
        let tensors = model.tensors;
        if let Some(wanted) = config.run.init_digest.as_ref().filter(|wanted| **wanted != digest) {
            let found = format!("the digest of the weights is {digest}, but run.init_digest is {wanted}");
            return Err(Error::Init { path, model: program.model.name(), found });
        }
        let mut found = misfits(program, &tensors, &config.run.init_fresh);
        if let Some(known) = schema(config)? {
            found.extend(other_classes(&known, data, program, &config.run.init_fresh));
        }
        match found.is_empty() {
            true => Ok(Some(Self { digest, tensors })),
            false => Err(Error::Init { path, model: program.model.name(), found: listed(&found) }),
        }
    }

    /// Returns the index and the initial values of each parameter in the program, except for the
    /// layers in `fresh`.
    pub(crate) fn values<'a>(
        &'a self,
        program: &'a Program,
        fresh: &'a [u32],
    ) -> impl Iterator<Item = (usize, &'a [f32])> {
        let taken = program.parameters.iter().enumerate().filter(|(_, p)| !fresh.contains(&p.layer.0.into()));
        taken.filter_map(|(at, parameter)| {
            let tensor = self.tensors.iter().find(|tensor| tensor.name == parameter.name)?;
            Some((at, &tensor.values[..]))
        })
    }
}

/// Returns the path of the model file. `path` is the model file itself or a run folder that
/// contains it.
fn file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(run_folder::MODEL) } else { path.to_owned() }
}

/// Returns the layer number in a parameter name, for instance 2 for `layers.2.weight`.
fn layer_of(name: &str) -> Option<u32> {
    name.strip_prefix("layers.")?.split('.').next()?.parse().ok()
}

/// Describes each parameter whose shape in the file differs from the model, or that only one side
/// has. Layers in `fresh` are not compared.
fn misfits(program: &Program, tensors: &[NamedTensor], fresh: &[u32]) -> Vec<String> {
    let stays = |layer: Option<u32>| layer.is_some_and(|layer| fresh.contains(&layer));
    let expected = parameter_shapes(program);
    let mut found = Vec::new();
    for ((name, shape), parameter) in expected.iter().zip(&program.parameters) {
        if stays(Some(parameter.layer.0.into())) {
            continue;
        }
        match tensors.iter().find(|tensor| tensor.name == *name) {
            Some(tensor) if tensor.shape == *shape => {}
            Some(tensor) => found.push(format!("{name}: expected {shape:?}, found {:?}", tensor.shape)),
            None => found.push(format!("{name}: expected {shape:?}, found no such parameter")),
        }
    }
    for NamedTensor { name, shape, .. } in tensors {
        if !stays(layer_of(name)) && !expected.iter().any(|(known, _)| known == name) {
            found.push(format!("{name}: expected no such parameter, found {shape:?}"));
        }
    }
    found
}

/// Explains, for an error message, that the last layer of the initial model predicts other classes
/// than the data has. Returns `None` if the classes are the same.
fn other_classes(known: &Schema, data: &Schema, program: &Program, fresh: &[u32]) -> Option<String> {
    let last = program.model.layers.len().saturating_sub(1) as u32;
    let (then, now) = (&known.outputs.names, &data.outputs.names);
    let differ = !then.is_empty() && !now.is_empty() && then != now && !fresh.contains(&last);
    differ.then(|| {
        format!(
            "the last layer predicts {}, but the data has {}; add layer {last} to run.init_fresh \
             (--init-fresh) to start it from random weights",
            eciton_input::text::listed(then),
            eciton_input::text::listed(now)
        )
    })
}

/// Joins at most [`MOST_NAMED`] descriptions of differences to one text.
fn listed(found: &[String]) -> String {
    let more = found.len().saturating_sub(MOST_NAMED);
    let shown = found.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
    if more == 0 { shown } else { format!("{shown}; and {more} more") }
}

/// Checks that the model has all layers that are to be frozen or freshly initialised, and that at
/// least one layer is trained.
///
/// # Errors
/// Returns [`Error::NoLayer`] if a layer does not exist, and [`Error::AllFrozen`] if no layer is
/// trained.
pub(crate) fn check_layers(config: &Config, program: &Program) -> Result<()> {
    let layers = program.model.layers.len() as u32;
    let frozen = &config.optimiser.freeze;
    for (key, named) in [("optimiser.freeze", frozen), ("run.init_fresh", &config.run.init_fresh)] {
        if let Some(&layer) = named.iter().find(|&&layer| layer >= layers) {
            return Err(Error::NoLayer { key, layer, layers, model: program.model.name() });
        }
    }
    let mut trained = program.parameters.iter().filter(|parameter| !parameter.is_statistic);
    if trained.all(|parameter| frozen.contains(&parameter.layer.0.into())) && !frozen.is_empty() {
        return Err(Error::AllFrozen { model: program.model.name() });
    }
    Ok(())
}

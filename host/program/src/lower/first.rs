//! Initial values that a model or a layer sets explicitly.

use crate::error::{Error, Result};
use crate::program::Program;
use eciton_recipe::model::{First, LayerKind, Model};
use eciton_types::ids::Layer;
use eciton_types::signature::Initialiser;

/// Names of the weights of a layer's last product. The setting `scaled_by_depth` applies to them in
/// layers that add their result to their input.
const LAST: [&str; 5] = ["weight", "self.weight", "neighbour.weight", "output.weight", "mlp.1.weight"];

/// Returns the name of a parameter without the prefix of its layer, for instance `weight` for
/// `layers.0.weight`.
fn within(name: &str) -> &str {
    name.strip_prefix("layers.").and_then(|rest| rest.split_once('.')).map_or(name, |(_, within)| within)
}

/// Returns the initialiser that the model or the layer sets explicitly for a parameter. Returns
/// `None` if the kernel or the layer's `first_weights` determines the initial values. A setting of
/// the layer takes precedence over one of the model, and a setting by parameter name over a general
/// one.
pub(super) fn explicit_initialiser(
    model: &Model,
    home: Layer,
    name: &str,
    shape: &[u32],
) -> Option<Initialiser> {
    let layer = model.layers.get(home.index())?;
    let names = (name, within(name));
    let general = |of: Option<First>| of.filter(|_| shape.len() > 1);
    let first = layer
        .init
        .named(names)
        .or_else(|| general(layer.init.all))
        .or_else(|| model.init.named(names))
        .or_else(|| general(model.init.all))?;
    let adds = match layer.kind {
        LayerKind::Transformer(_) => LAST[3..].contains(&names.1),
        _ => layer.residual && LAST.contains(&names.1),
    };
    let sums: u32 = model.layers.iter().map(sums).sum();
    let factor = if first.by_depth && adds { 1.0 / f64::from(sums.max(1)).sqrt() } else { 1.0 };
    Some(first.initialiser(factor))
}

/// Returns the number of results that a layer adds to its input (residual connections).
fn sums(layer: &eciton_recipe::model::ModelLayer) -> u32 {
    match layer.kind {
        LayerKind::Transformer(_) => 2,
        _ => u32::from(layer.residual),
    }
}

/// Checks that every parameter name in a setting `init` exists. The `init` of a layer may name only
/// parameters of that layer.
pub(super) fn check_names(program: &Program) -> Result<()> {
    let model = &program.model;
    let of_layers = (0u16..).map(Layer).zip(&model.layers).map(|(at, layer)| (Some(at), &layer.init));
    for (home, init) in of_layers.chain([(None, &model.init)]) {
        let own = || program.parameters.iter().filter(|p| home.is_none_or(|home| p.layer == home));
        for name in init.parameters.keys() {
            if own().any(|known| known.name == *name || within(&known.name) == name) {
                continue;
            }
            let mut known: Vec<&str> = own().map(|known| within(&known.name)).collect();
            known.sort_unstable();
            known.dedup();
            let key =
                home.map_or_else(|| "model.init".to_owned(), |home| format!("model.layers[{home}].init"));
            return Err(Error::NoParameter { key, name: name.clone(), known: known.join(", ") });
        }
    }
    Ok(())
}

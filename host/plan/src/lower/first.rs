//! First values that a model or a layer says itself.

use crate::error::{Error, Result};
use crate::ids::Layer;
use crate::model::{First, LayerKind, Model};
use crate::program::Program;
use crate::signature::Initialiser;

/// The last products of a layer that adds its input, within the layer.
const LAST: [&str; 5] = ["weight", "self.weight", "neighbour.weight", "output.weight", "mlp.1.weight"];

/// A parameter's name within its layer.
fn within(name: &str) -> &str {
    name.strip_prefix("layers.").and_then(|rest| rest.split_once('.')).map_or(name, |(_, within)| within)
}

/// What is said of a parameter; `None`: its kernel, or the layer's `first_weights`, says. By name comes before in
/// general, of the layer before of the model.
pub(super) fn said(model: &Model, home: Layer, name: &str, shape: &[u32]) -> Option<Initialiser> {
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

/// How often a layer adds what it made to what it read.
fn sums(layer: &crate::model::ModelLayer) -> u32 {
    match layer.kind {
        LayerKind::Transformer(_) => 2,
        _ => u32::from(layer.residual),
    }
}

/// Refuses a name in `init` that no parameter has: of a layer's among those of the layer.
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

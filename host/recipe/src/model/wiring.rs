//! Inputs of layers. This module resolves layer names to indices, and checks that each layer
//! precedes its readers.

use super::deep::Source;
use super::settings::LayerSettings;

/// Name of the data set's features in a layer's `inputs`.
pub(crate) const FEATURES: &str = "features";
/// Maximum length of a layer's name, in characters.
const MAX_NAME: usize = 64;

/// Reason why the name or the inputs of a layer are not valid.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// Index of the layer in the list.
    pub(crate) layer: usize,
    pub(crate) attribute: &'static str,
    pub(crate) found: String,
    pub(crate) allowed: String,
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(fits)
}

/// Returns the index of the layer called `name`, which must precede the layer `reader`.
pub(crate) fn earlier(
    layers: &[LayerSettings],
    reader: usize,
    (attribute, name): (&'static str, &str),
) -> Result<usize, Refusal> {
    let refuse = |found: String, allowed: String| Err(Refusal { layer: reader, attribute, found, allowed });
    let named = |layer: &LayerSettings| layer.name.as_deref() == Some(name);
    match layers.iter().position(named) {
        Some(place) if place < reader => Ok(place),
        Some(place) if place == reader => {
            refuse(format!("{name:?}, which is this layer itself"), "the name of an earlier layer".to_owned())
        }
        Some(place) => refuse(
            format!("{name:?}, which is layer {place} and comes later"),
            format!(
                "the name of an earlier layer: move layer {place} before this one, because layers must not form a cycle"
            ),
        ),
        None => {
            let known: Vec<String> = layers
                .iter()
                .take(reader)
                .filter_map(|layer| layer.name.as_ref().map(|name| format!("{name:?}")))
                .collect();
            let known =
                if known.is_empty() { "no earlier layer has a name".to_owned() } else { known.join(", ") };
            refuse(
                format!("{name:?}, which is not the name of a layer"),
                match attribute {
                    "inputs" => format!("the name of an earlier layer ({known}), or {FEATURES:?}"),
                    _ => format!("the name of an earlier layer ({known})"),
                },
            )
        }
    }
}

/// Returns the inputs of each layer, or `None` for layers whose settings list no inputs. Also
/// checks names, shared weights, and that every layer is read.
pub(crate) fn sources(layers: &[LayerSettings]) -> Result<Vec<Option<Vec<Source>>>, Refusal> {
    for (at, layer) in layers.iter().enumerate() {
        let Some(name) = &layer.name else { continue };
        let refuse = |found: String, allowed: &str| {
            Err(Refusal { layer: at, attribute: "name", found, allowed: allowed.to_owned() })
        };
        if !is_name(name) || name == FEATURES {
            let shown: String = name.chars().take(80).collect();
            let allowed = "1 to 64 letters, digits, `-`, `_` and `.`, and not \"features\", which names the data set's features";
            return refuse(format!("{shown:?}"), allowed);
        }
        let before = layers.iter().take(at).position(|other| other.name.as_ref() == Some(name));
        if let Some(before) = before {
            return refuse(format!("{name:?}, which is also the name of layer {before}"), "a unique name");
        }
    }
    let of = |(at, layer): (usize, &LayerSettings)| {
        let Some(names) = &layer.inputs else { return Ok(None) };
        let source = |name: &String| match &name[..] {
            FEATURES => Ok(Source::Features),
            // A list of layers is short.
            name => earlier(layers, at, ("inputs", name)).map(|place| Source::Layer(place as u32)),
        };
        names.iter().map(source).collect::<Result<Vec<Source>, Refusal>>().map(Some)
    };
    let all = layers.iter().enumerate().map(of).collect::<Result<Vec<_>, Refusal>>()?;
    for (at, layer) in layers.iter().enumerate() {
        layer.weights_of.iter().try_for_each(|name| earlier(layers, at, ("weights_of", name)).map(drop))?;
    }
    check_read(layers, &all)?;
    Ok(all)
}

/// Checks that every layer except the last is read by a later layer or has its own loss term.
fn check_read(layers: &[LayerSettings], all: &[Option<Vec<Source>>]) -> Result<(), Refusal> {
    let mut read = vec![false; layers.len()];
    for (at, (layer, sources)) in layers.iter().zip(all).enumerate() {
        match (sources, at.checked_sub(1)) {
            (Some(sources), _) => {
                for source in sources {
                    if let Source::Layer(place) = source {
                        read[*place as usize] = true;
                    }
                }
            }
            (None, _) if layer.jumping.is_some() => read[..at].fill(true),
            (None, Some(before)) => read[before] = true,
            (None, None) => {}
        }
    }
    for (read, layer) in read.iter_mut().zip(layers) {
        *read |= layer.loss_weight.is_some();
    }
    match read.iter().rev().skip(1).rev().position(|read| !read) {
        None => Ok(()),
        Some(at) => Err(Refusal {
            layer: at,
            attribute: "name",
            found: match layers[at].name.as_ref() {
                Some(name) => format!("{name:?}, which no later layer reads"),
                None => "not set, and the next layer reads other layers".to_owned(),
            },
            allowed: "among the `inputs` of a later layer, or used with a `loss_weight`; otherwise remove the layer"
                .to_owned(),
        }),
    }
}

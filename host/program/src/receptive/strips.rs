//! Models in strips: each worker computes one strip of an image's rows, with the same values as the
//! whole model.
//!
//! The convolutions and poolings of a model that form a chain are divided into blocks. In each
//! block, every worker gets a chain of the same layers over the rows that its share needs. The rows
//! of an image are consecutive columns of a data row. Strips are therefore cut by `slice` layers
//! and joined by `concat` layers, and halos are slices of other strips.
//!
//! A convolution pads a strip like it pads the whole image, which is right at the border of the
//! image. At the border between two strips, rows that read padding instead of another strip's rows
//! are sliced away. Every remaining window has the same values as in the whole model, so the
//! results have the same bits.

use std::ops::Range;

use super::{Chain, Step, Workers};
use crate::error::{Error, Result};
use eciton_recipe::model::{Image, LayerKind, LayerSettings, Layers, Model, ModelSettings, Norm, Source};

/// Model in which each worker computes one strip (range of rows) of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Strips {
    /// Settings of the model in strips.
    pub settings: ModelSettings,
    /// For each layer of the model in strips, the index of the whole model's layer with the same
    /// parameters. It is `None` for `slice` and `concat` layers, which the whole model does not
    /// have.
    pub origins: Vec<Option<usize>>,
    /// Number of bytes per image that strips read from other strips.
    pub halo_bytes: u64,
}

/// Chain of convolutions and poolings in a model that can be split into strips.
#[derive(Clone, Debug, PartialEq)]
pub struct Splittable {
    /// Range of the chain's layers in the model.
    pub layers: Range<usize>,
    /// The chain that the layers form.
    pub chain: Chain,
}

/// Returns layer number `layer` of a model as a layer of a chain, or `None` if its image rows
/// cannot be split.
fn step(model: &Model, layer: usize) -> Option<Step> {
    let found = model.layers.get(layer)?;
    let plain = found.norm == Norm::None && !found.residual && found.loss_weight.is_none();
    let step = match found.kind {
        LayerKind::Conv2d(conv) => Step::Conv(conv),
        LayerKind::Pool2d(pool) => Step::Pool(pool),
        _ => return None,
    };
    let (reach, stride, padding) = step.window();
    // A strip begins at the first row of a window, and has at least one row of the image.
    let aligned = padding == 0 || stride != 0 && padding % stride == 0 && padding < reach;
    (plain && aligned && found.weights_of.is_none()).then_some(step)
}

impl Splittable {
    /// Finds the longest run of layers that can be split. Each layer of the run reads only the
    /// layer before it, and no other layer reads its output. The model's last layer is never part
    /// of the run. Of runs of equal length, it returns the first.
    ///
    /// # Errors
    /// Returns [`Error::Strips`] if the model has no such layer.
    pub fn from_model(model: &Model) -> Result<Self> {
        let count = model.layers.len();
        let readers = |layer: usize| {
            let reads = |&at: &usize| model.sources(at).contains(&Source::Layer(layer as u32));
            (0..count).filter(reads).collect::<Vec<_>>()
        };
        let tied = |layer: usize| {
            let of = |other: &eciton_recipe::model::ModelLayer| {
                other.weights_of.is_some_and(|t| t.layer as usize == layer)
            };
            model.layers.iter().any(of)
        };
        let jumps = |layer: usize| matches!(model.layers[layer].kind, LayerKind::Linear { jumping: Some(_) });
        let mut best: Option<Self> = None;
        let last = count.saturating_sub(1);
        for from in 0..if (0..count).any(jumps) { 0 } else { last } {
            let mut steps = Vec::new();
            for at in from..last {
                let follows = at == from
                    || model.sources(at) == [Source::Layer(at as u32 - 1)] && readers(at - 1) == [at];
                let Some(step) = step(model, at).filter(|_| follows && !tied(at)) else { break };
                steps.push(step);
            }
            let length = steps.len();
            if length > best.as_ref().map_or(0, |best| best.chain.len()) {
                best = Some(Self { layers: from..from + length, chain: Chain::new(steps)? });
            }
        }
        best.ok_or_else(|| Error::Strips {
            found: format!("{} has no layer whose image rows can be split", model.name()),
            allowed: "a `conv2d` or `pool2d` layer without norm and residual, before the last layer",
        })
    }
}

impl Strips {
    /// Splits a model into strips. `settings` are the settings from which `model` was resolved. The
    /// layers `split` are divided into `blocks`, and `workers` share the image rows of each block.
    ///
    /// # Errors
    /// Returns [`Error::Strips`] if the settings have no list of layers, or if an image has fewer
    /// rows than there are strips.
    pub fn new(
        settings: &ModelSettings,
        model: &Model,
        (split, workers): (&Splittable, &Workers),
        blocks: &[Range<usize>],
    ) -> Result<Self> {
        let Layers::List(whole) = &settings.layers else {
            let found = "the model has no list of layers".to_owned();
            return Err(Error::Strips { found, allowed: "a list of layers" });
        };
        let rows = blocks.iter().map(|block| split.chain.rows(block.end));
        if let Some(rows) = rows.into_iter().find(|&rows| workers.shares(rows).iter().any(Range::is_empty)) {
            return Err(Error::Strips {
                found: format!("{} strips of an image of {rows} rows", workers.count()),
                allowed: "at least one row for each strip: choose fewer strips",
            });
        }
        let mut prefix = "strip-".to_owned();
        while whole.iter().filter_map(|layer| layer.name.as_ref()).any(|name| name.starts_with(&prefix)) {
            prefix.push('-');
        }
        let mut made = Making { model, split, prefix, layers: Vec::new(), origins: Vec::new(), halo: 0 };
        let (before, rest) = whole.split_at(split.layers.start);
        for (at, layer) in before.iter().enumerate() {
            made.push(layer.clone(), Some(at));
        }
        let source = made.source();
        let mut strips = vec![(source, 0..split.chain.rows(0))];
        for block in blocks {
            let shares = workers.shares(split.chain.rows(block.end));
            let strip = |(at, rows): (usize, Range<u32>)| (made.strip(block, at, &rows, &strips), rows);
            strips = shares.into_iter().enumerate().map(strip).collect();
        }
        let name = whole[split.layers.end - 1].name.clone();
        let name = name.unwrap_or_else(|| format!("{}all", made.prefix));
        made.join(strips.into_iter().map(|(name, _)| name).collect(), name);
        for (at, layer) in rest.iter().enumerate().skip(split.layers.len()) {
            let mut layer = layer.clone();
            let place = split.layers.start + at;
            let follows = model.sources(place) == [Source::Layer(split.layers.end as u32 - 1)];
            if follows && matches!(layer.kernel.as_str(), "conv2d" | "pool2d") {
                layer.deep.image = Some(split.chain.image(split.chain.len()));
            }
            made.push(layer, Some(place));
        }
        let (layers, origins) = (Layers::List(made.layers), made.origins);
        Ok(Self { settings: ModelSettings { layers, ..settings.clone() }, origins, halo_bytes: made.halo })
    }

    /// Returns the name that a parameter of the model in strips has in the whole model. For
    /// instance, `layers.7.bias` may become `layers.0.bias`. Returns `None` if the parameter's
    /// layer is not in the whole model.
    #[must_use]
    pub fn original(&self, name: &str) -> Option<String> {
        let (layer, rest) = name.strip_prefix("layers.")?.split_once('.')?;
        let origin = self.origins.get(layer.parse::<usize>().ok()?).copied()??;
        Some(format!("layers.{origin}.{rest}"))
    }
}

/// Layers of a model in strips, in construction.
struct Making<'a> {
    model: &'a Model,
    split: &'a Splittable,
    prefix: String,
    layers: Vec<LayerSettings>,
    origins: Vec<Option<usize>>,
    halo: u64,
}

/// Names of the layers that compute the strips, each with its range of image rows.
type Rows = [(String, Range<u32>)];

impl Making<'_> {
    fn push(&mut self, layer: LayerSettings, origin: Option<usize>) {
        self.layers.push(layer);
        self.origins.push(origin);
    }

    /// Returns the name of the layer that the first split layer reads. If this layer has no name,
    /// it gets one.
    fn source(&mut self) -> String {
        let source = self.model.sources(self.split.layers.start);
        let Some(Source::Layer(place)) = source.first() else { return "features".to_owned() };
        let name = format!("{}whole", self.prefix);
        match self.layers.get_mut(*place as usize) {
            Some(layer) => layer.name.get_or_insert(name).clone(),
            None => name,
        }
    }

    /// Adds a `slice` layer that selects `rows` of an image, and returns its name. `of` is the
    /// layer that has the rows, and `first` is the first image row in that layer.
    fn rows(&mut self, name: String, of: &str, (image, first): (Image, u32), rows: &Range<u32>) -> String {
        let row = image.1 * image.2;
        let mut layer = LayerSettings::with_kernel("slice");
        layer.inputs = Some(vec![of.to_owned()]);
        layer.name = Some(name.clone());
        (layer.deep.start, layer.deep.count) =
            (Some((rows.start - first) * row), Some((rows.end - rows.start) * row));
        self.push(layer, None);
        name
    }

    fn join(&mut self, inputs: Vec<String>, name: String) -> String {
        if let ([one], Some(last)) = (&inputs[..], self.layers.last_mut()) {
            // A single strip is the whole image, so its last layer gets the name.
            if last.name.as_ref() == Some(one) {
                last.name = Some(name.clone());
                return name;
            }
        }
        let mut layer = LayerSettings::with_kernel("concat");
        (layer.inputs, layer.name) = (Some(inputs), Some(name.clone()));
        self.push(layer, None);
        name
    }

    /// Adds the layers that compute `rows` of a block's output on one worker, and returns the name
    /// of the last one. `have` lists the strips of the block's input.
    fn strip(&mut self, block: &Range<usize>, worker: usize, rows: &Range<u32>, have: &Rows) -> String {
        let trail = self.split.chain.trail(block, rows.clone());
        let mut at = self.gathered(block.start, worker, &trail[0], have);
        for (layer, rows) in block.clone().zip(trail.windows(2)) {
            at = self.layer(layer, worker, (&rows[0], &rows[1]), at);
        }
        at
    }

    /// Adds layers that collect the image rows `need` from the strips `have`, and returns the name
    /// of the last one. Does nothing if one strip has exactly these rows.
    fn gathered(&mut self, layer: usize, worker: usize, need: &Range<u32>, have: &Rows) -> String {
        let image = self.split.chain.image(layer);
        let mut parts = Vec::new();
        for (from, (of, rows)) in have.iter().enumerate() {
            let common = need.start.max(rows.start)..need.end.min(rows.end);
            if common.is_empty() {
                continue;
            }
            if layer > 0 && from != worker {
                self.halo += u64::from(common.end - common.start) * self.split.chain.row_bytes(layer);
            }
            if common == *rows && of != "features" {
                parts.push(of.clone());
            } else {
                let name = format!("{}{layer}-{worker}-of-{from}", self.prefix);
                parts.push(self.rows(name, of, (image, rows.start), &common));
            }
        }
        match parts.len() {
            1 => parts.swap_remove(0),
            _ => {
                let name = format!("{}{layer}-{worker}-in", self.prefix);
                self.join(parts, name)
            }
        }
    }

    /// Adds one layer over a strip of a worker, and returns its name. `read` is the range of image
    /// rows that it reads, and `wanted` is the range of output rows that are needed.
    fn layer(
        &mut self,
        at: usize,
        worker: usize,
        (read, wanted): (&Range<u32>, &Range<u32>),
        of: String,
    ) -> String {
        let (origin, image) = (self.split.layers.start + at, self.split.chain.image(at));
        let strip = Image(read.end - read.start, image.1, image.2);
        let step = self.split.chain.steps()[at];
        let resolved = &self.model.layers[origin];
        let name = |worker: usize| format!("{}{at}-{worker}", self.prefix);
        let mut layer = LayerSettings::with_kernel(resolved.kind.name());
        (layer.name, layer.inputs, layer.dropout) = (Some(name(worker)), Some(vec![of]), Some(0.0));
        layer.norm = Some(Norm::None);
        layer.deep.image = Some(strip);
        match step {
            Step::Conv(conv) => {
                layer.activation = Some(resolved.activation);
                layer.activation_slope = resolved.activation.slope();
                layer.bias = Some(resolved.bias);
                layer.weights_of = (worker > 0).then(|| name(0));
                layer.deep.channels = Some(conv.channels);
                layer.deep.kernel_size = Some(conv.size);
                (layer.deep.stride, layer.deep.padding) = (Some(conv.stride), Some(conv.padding));
                layer.deep.dilation = Some(conv.dilation);
            }
            Step::Pool(pool) => {
                (layer.deep.window, layer.deep.stride) = (Some(pool.window), Some(pool.stride));
                layer.deep.pool = Some(pool.by);
            }
        }
        let name = name(worker);
        self.push(layer, Some(origin));
        let (reach, stride, padding) = step.window();
        let made = (strip.0 + 2 * padding - reach) / stride + 1;
        // Row of the image at which the strip begins, which is the first row of a window.
        let first = read.start / stride;
        if first == wanted.start && made == wanted.end - wanted.start {
            return name;
        }
        let image = self.split.chain.image(at + 1);
        self.rows(format!("{name}-rows"), &name, (image, first), wanted)
    }
}

//! Resolution of layers for images and sequences, and checks of the inputs of all layers.

use super::super::settings::{DeepSettings, LayerSettings};
use super::super::{
    Activation, Conv2d, Embedding, Image, LayerKind, MAX_HEADS, MAX_ROW, MAX_WIDTH, Norm, On, Pool2d,
    Readout, SelfAttention, Slice, Source, Tied, Transformer,
};
use super::{OwnKey, Resolving};
use crate::error::Result;

/// Default number of attention heads (Vaswani et al. 2017, section 3.2.2).
const HEADS: u32 = 8;
/// Default hidden width of a transformer's perceptron, as a multiple of the layer's width (Vaswani
/// et al. 2017, section 3.3).
const HIDDEN: u32 = 4;
/// Default height and width of a convolution kernel, in pixels (Simonyan and Zisserman 2015).
const KERNEL: u32 = 3;
/// Default height and width of a pooling window, in pixels.
const WINDOW: u32 = 2;

/// Returns the keys of layers for images and sequences. Each has the information whether `layer`
/// sets it, and the kinds of layers that read it.
pub(super) fn keys(layer: &LayerSettings) -> [OwnKey; 14] {
    const ATTEND: &[&str] = &["self-attention", "transformer"];
    const IMAGES: &[&str] = &["conv2d", "pool2d"];
    let deep = &layer.deep;
    [
        ("entries", deep.entries.is_some(), &["embedding"]),
        ("positions", deep.positions.is_some(), &["embedding"]),
        ("causal", deep.causal.is_some(), ATTEND),
        ("hidden", deep.hidden.is_some(), &["transformer"]),
        ("image", deep.image.is_some(), IMAGES),
        ("channels", deep.channels.is_some(), &["conv2d"]),
        ("kernel_size", deep.kernel_size.is_some(), &["conv2d"]),
        ("stride", deep.stride.is_some(), IMAGES),
        ("padding", deep.padding.is_some(), &["conv2d"]),
        ("dilation", deep.dilation.is_some(), &["conv2d"]),
        ("window", deep.window.is_some(), &["pool2d"]),
        ("pool", deep.pool.is_some(), &["pool2d"]),
        ("start", deep.start.is_some(), &["slice"]),
        ("count", deep.count.is_some(), &["slice"]),
    ]
}

/// Returns true if `kernel` is the name of a layer kind for images and sequences.
pub(super) fn is_one(kernel: &str) -> bool {
    matches!(
        kernel,
        "embedding"
            | "self-attention"
            | "transformer"
            | "conv2d"
            | "pool2d"
            | "concat"
            | "slice"
            | "product"
            | "sum"
            | "normalise"
            | "activate"
    )
}

/// Returns true if the model's default norm, activation and residual sum do not apply to layers of
/// this kind. They apply only if the layer itself sets them.
pub(super) fn is_rest(kind: &LayerKind) -> bool {
    is_weightless(kind) || matches!(kind, LayerKind::SelfAttention(_) | LayerKind::Transformer(_))
}

/// Returns true if layers of this kind have no matrix product. Such layers have no bias and no
/// dropout.
pub(super) fn is_weightless(kind: &LayerKind) -> bool {
    use LayerKind as Kind;
    matches!(
        kind,
        Kind::Embedding(_)
            | Kind::Pool2d(_)
            | Kind::Concat
            | Kind::Slice(_)
            | Kind::Product
            | Kind::Sum
            | Kind::Normalise
            | Kind::Activate
    )
}

impl Resolving<'_> {
    /// Returns the number of columns of the layer's input. With several inputs, it is that of the
    /// last one, or the sum for `concat`.
    pub(super) fn input(&self) -> u32 {
        let mut widths = self.sources.iter().map(|&source| self.model.width_of(source));
        match &self.layer.kernel[..] {
            "concat" => widths.fold(0, u32::saturating_add),
            _ => widths.next_back().unwrap_or(self.model.features),
        }
    }

    /// Returns true if the layer reads the data set's features.
    pub(super) fn reads_features(&self) -> bool {
        self.sources.contains(&Source::Features)
    }

    /// Returns the name of an input for error messages, for instance `layer 2` or `the features`.
    fn called(&self, source: Source) -> String {
        let Source::Layer(place) = source else { return "the features".to_owned() };
        let name = self.model.layers.get(place as usize).and_then(|layer| layer.name.as_ref());
        name.map_or_else(|| format!("layer {place}"), |name| format!("{name:?}"))
    }

    /// Returns the names of the layer's inputs with their numbers of columns, for error messages.
    fn widths(&self) -> String {
        let one = |&source: &Source| format!("{} of {}", self.model.width_of(source), self.called(source));
        self.sources.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Checks that the layer has the number of inputs that its kind requires, and that their widths
    /// are compatible.
    pub(super) fn check_sources(&self) -> Result<()> {
        let (kernel, count) = (&self.layer.kernel[..], self.sources.len());
        let said = if self.layer.inputs.is_some() { count.to_string() } else { "left out".to_owned() };
        match kernel {
            "concat" | "sum" if count < 2 => {
                return self.refuse("inputs", said, &format!("at least two layers, which `{kernel}` joins"));
            }
            "product" if count != 2 => {
                return self.refuse("inputs", said, "two layers, whose values `product` multiplies");
            }
            "concat" | "sum" | "product" => {}
            _ if self.layer.jumping.is_some() => {}
            // A user's kernel determines the number of its inputs itself.
            _ if LayerSettings::is_own(kernel) && self.layer.on != Some(On::Edges) => {}
            _ if count != 1 => {
                let allowed =
                    format!("one layer: put a `concat`, `sum` or `product` layer before `{kernel}`");
                return self.refuse("inputs", said, &allowed);
            }
            _ => {}
        }
        let mut widths = self.sources.iter().map(|&source| self.model.width_of(source));
        let first = widths.next();
        if ["sum", "product"].contains(&kernel) && widths.any(|width| Some(width) != first) {
            let allowed = format!("layers of equal width: `{kernel}` is an elementwise function");
            return self.refuse("inputs", format!("of {} columns", self.widths()), &allowed);
        }
        Ok(())
    }

    /// Returns true if all inputs of the layer have one row per graph or labelled edge, which is the
    /// case after a readout.
    ///
    /// Returns an error if only some of them do.
    pub(super) fn behind_readout(&self) -> Result<bool> {
        let of_graphs = |source: &Source| match source {
            Source::Features => false,
            Source::Layer(place) => {
                self.model.layers.get(*place as usize).is_some_and(|layer| layer.of_graphs)
            }
        };
        let count = self.sources.iter().filter(|source| of_graphs(source)).count();
        if count > 0 && count < self.sources.len() {
            let found = "layers with rows from before and from after a readout".to_owned();
            return self.refuse("inputs", found, "all before a readout, or all after a readout");
        }
        Ok(count > 0)
    }

    /// Resolves the kind of a layer for images or sequences ([`is_one`]).
    pub(super) fn deep(&self) -> Result<LayerKind> {
        let Self { settings, layer, .. } = *self;
        let deep = &layer.deep;
        Ok(match &layer.kernel[..] {
            "embedding" => {
                self.check_numbers()?;
                let entries = deep.entries.unwrap_or(self.model.classes);
                LayerKind::Embedding(Embedding { entries, positions: deep.positions.unwrap_or(false) })
            }
            "self-attention" => LayerKind::SelfAttention(self.self_attention()?),
            "transformer" => LayerKind::Transformer(self.transformer()?),
            "conv2d" => {
                let conv = Conv2d {
                    image: self.image()?,
                    channels: deep.channels.unwrap_or(settings.hidden),
                    size: deep.kernel_size.unwrap_or(KERNEL),
                    stride: deep.stride.unwrap_or(1),
                    padding: deep.padding.unwrap_or(0),
                    dilation: deep.dilation.unwrap_or(1),
                };
                let size = format!(
                    "{} with stride {}, padding {} and dilation {}",
                    conv.size, conv.stride, conv.padding, conv.dilation
                );
                self.check_image("kernel_size", size, conv.image, conv.output())?;
                LayerKind::Conv2d(conv)
            }
            "pool2d" => {
                let window = deep.window.unwrap_or(WINDOW);
                let (stride, by) = (deep.stride.unwrap_or(window), deep.pool.unwrap_or_default());
                let pool = Pool2d { image: self.image()?, window, stride, by };
                self.check_image("window", window.to_string(), pool.image, pool.output())?;
                LayerKind::Pool2d(pool)
            }
            "concat" => LayerKind::Concat,
            "slice" => LayerKind::Slice(self.slice(deep)?),
            "product" => LayerKind::Product,
            "sum" => LayerKind::Sum,
            "normalise" if layer.norm == Some(Norm::None) => {
                let allowed = "set to a norm: a `normalise` layer has no other function";
                return self.refuse("norm", "\"none\"".to_owned(), allowed);
            }
            "normalise" => LayerKind::Normalise,
            _ => LayerKind::Activate,
        })
    }

    /// Returns the width and the image shape of a layer whose width is computed from its input.
    /// Returns `None` for all other layers.
    pub(super) fn made(&self, kind: &LayerKind) -> Result<Option<(u32, Option<Image>)>> {
        let input = self.input();
        let images: Vec<Option<Image>> = self.sources.iter().map(|&source| self.image_of(source)).collect();
        // The result is an image only if all inputs are images of one shape.
        let same =
            images.first().copied().flatten().filter(|_| images.windows(2).all(|two| two[0] == two[1]));
        let (width, image) = match kind {
            LayerKind::Conv2d(conv) => (conv.output().and_then(Image::values), conv.output()),
            LayerKind::Pool2d(pool) => (pool.output().and_then(Image::values), pool.output()),
            LayerKind::Concat => (Some(input), None),
            LayerKind::Readout(Readout::Ends) => {
                (input.checked_mul(2 + u32::from(self.knows_edges(kind)?)), None)
            }
            LayerKind::Slice(slice) => (Some(slice.count), None),
            LayerKind::Product | LayerKind::Sum | LayerKind::Normalise | LayerKind::Activate => {
                (Some(input), same)
            }
            LayerKind::Transformer(_) => (Some(input), None),
            LayerKind::SelfAttention(_) if self.layer.width.or(self.classes).is_none() => (Some(input), None),
            _ => return Ok(None),
        };
        match width.filter(|width| (1..=MAX_ROW).contains(width)) {
            Some(width) => Ok(Some((width, image))),
            None => {
                let found = format!("computed from {input} columns as more than {MAX_ROW} values per row");
                self.refuse("width", found, "smaller: use fewer channels, a longer stride, or fewer inputs")
            }
        }
    }

    /// Returns the image shape of an input's rows, or `None` if the rows are not images.
    fn image_of(&self, source: Source) -> Option<Image> {
        match source {
            Source::Features => None,
            Source::Layer(place) => self.model.layers.get(place as usize)?.image,
        }
    }

    /// Returns the image shape of the layer's input, from the layer's setting `image` or from the
    /// layer that it reads.
    fn image(&self) -> Result<Image> {
        let input = self.input();
        let before = self.sources.first().and_then(|&source| self.image_of(source));
        match (self.layer.deep.image, before) {
            (Some(said), Some(before)) if said != before => {
                let allowed = format!("removed, or {before}, the shape of the layer that it reads");
                self.refuse("image", said.to_string(), &allowed)
            }
            (Some(said), _) if said.values() != Some(input) => {
                let found = format!("{said}, of {} values", said.values().unwrap_or(0));
                let allowed = format!("[height, width, channels] of the {}", self.columns());
                self.refuse("image", found, &allowed)
            }
            (Some(image), _) | (None, Some(image)) => Ok(image),
            (None, None) => {
                let allowed = format!("set to [height, width, channels] of the {}", self.columns());
                self.refuse("image", "left out".to_owned(), &allowed)
            }
        }
    }

    /// Describes the number of columns of the layer's input for error messages.
    fn columns(&self) -> String {
        let of = self.sources.first().map_or_else(String::new, |&source| self.called(source));
        format!("{} columns of {of}", self.input())
    }

    fn check_image(
        &self,
        attribute: &'static str,
        found: String,
        image: Image,
        output: Option<Image>,
    ) -> Result<()> {
        match output {
            Some(_) => Ok(()),
            None => self.refuse(attribute, found, &format!("one that fits into the image, {image}")),
        }
    }

    /// Checks that an embedding reads a single column of the data set's features, which contains
    /// indices into its table.
    fn check_numbers(&self) -> Result<()> {
        let is_slice = |place: u32| {
            let layer = self.model.layers.get(place as usize);
            let sliced = layer.is_some_and(|layer| matches!(layer.kind, LayerKind::Slice(_)));
            sliced && self.model.sources(place as usize) == [Source::Features]
        };
        let data = match self.sources[..] {
            [Source::Features] => true,
            [Source::Layer(place)] => is_slice(place),
            _ => false,
        };
        if data && self.input() == 1 {
            return Ok(());
        }
        let allowed =
            "\"features\" of one column, or a `slice` of one of their columns, with indices of table rows";
        self.refuse("inputs", format!("the {}", self.columns()), allowed)
    }

    fn self_attention(&self) -> Result<SelfAttention> {
        let heads = self.layer.own.or(self.settings.own).heads.unwrap_or(HEADS);
        if !(1..=MAX_HEADS).contains(&heads) {
            return self.refuse("heads", heads.to_string(), &format!("1 to {MAX_HEADS}"));
        }
        Ok(SelfAttention { heads, causal: self.layer.deep.causal.unwrap_or(false) })
    }

    pub(super) fn check_heads(&self, heads: u32, width: u32) -> Result<()> {
        // The products of queries, keys and values are one of three times the width.
        if width > MAX_WIDTH / 3 {
            return self.refuse("width", width.to_string(), &format!("1 to {}", MAX_WIDTH / 3));
        }
        match width.is_multiple_of(heads) {
            true => Ok(()),
            false => {
                let allowed = format!("a divisor of the layer's width, {width}");
                self.refuse("heads", heads.to_string(), &allowed)
            }
        }
    }

    fn transformer(&self) -> Result<Transformer> {
        let Self { settings, layer, .. } = *self;
        let by_row = |norm: &Norm| matches!(norm, Norm::Layer | Norm::Rms | Norm::L2);
        let before = match layer.norm {
            None => Some(settings.norm).filter(by_row).unwrap_or(Norm::Layer),
            Some(norm) if by_row(&norm) => norm,
            Some(norm) => {
                let allowed = "\"layer\", \"rms\" or \"l2\", which normalise each row separately";
                return self.refuse("norm", format!("{:?}", norm.name()), allowed);
            }
        };
        let width = self.input();
        let hidden = layer.deep.hidden.unwrap_or(width.saturating_mul(HIDDEN));
        if !(1..=MAX_WIDTH).contains(&hidden) {
            return self.refuse("hidden", hidden.to_string(), &format!("1 to {MAX_WIDTH}"));
        }
        let between = layer.activation.unwrap_or(Activation::Gelu).with_slope(self.slope());
        Ok(Transformer { attention: self.self_attention()?, hidden, before, between })
    }

    fn slice(&self, deep: &DeepSettings) -> Result<Slice> {
        let start = deep.start.unwrap_or(0);
        let Some(count) = deep.count else {
            return self.refuse("count", "left out".to_owned(), "set to the number of columns of the slice");
        };
        let end = start.checked_add(count).filter(|&end| count > 0 && end <= self.input());
        match end {
            Some(_) => Ok(Slice { start, count }),
            None => {
                let found = format!("{count}, from column {start}");
                self.refuse("count", found, &format!("at least 1 and within the {}", self.columns()))
            }
        }
    }

    /// Returns the default width of a layer that shares the weight of an embedding, which is the
    /// number of rows of the table. Returns `None` for other layers.
    pub(super) fn tied_width(&self) -> Option<u32> {
        match self.model.layers.get(self.tied?)?.kind {
            LayerKind::Embedding(embedding) if self.layer.kernel != "embedding" => Some(embedding.entries),
            _ => None,
        }
    }

    /// Returns the layer whose weight this layer shares, if any. The shape of the weight must be
    /// that of the layer's own weight. For matrix products, the transposed shape is accepted too.
    pub(super) fn tied(&self, kind: &LayerKind, width: u32) -> Result<Option<Tied>> {
        let Some(place) = self.tied else { return Ok(None) };
        let name = self.layer.weights_of.as_deref().unwrap_or_default();
        let Some(own) = weight(kind, (self.input(), width)) else {
            let allowed = "removed: layers of this kind cannot share a weight";
            return self.refuse("weights_of", format!("{name:?}"), allowed);
        };
        let layer = self.model.layers.get(place);
        if layer.is_some_and(|layer| layer.weights_of.is_some()) {
            let allowed = "the layer that owns the weight, which is the one that this layer names";
            return self.refuse(
                "weights_of",
                format!("{name:?}, which shares the weight of another layer"),
                allowed,
            );
        }
        let found = layer.and_then(|layer| weight(&layer.kind, (self.model.input_width(place), layer.width)));
        let (shape, of) = own;
        let fits = found.and_then(|(other, from)| match (from, of) {
            (Weight::Table, Weight::Product) => (other == [shape[1], shape[0]]).then_some(true),
            _ if from == of && other == shape => Some(false),
            (Weight::Product, Weight::Product) if other == [shape[1], shape[0]] => Some(true),
            _ => None,
        });
        match (fits, found) {
            (Some(transposed), _) => Ok(Some(Tied { layer: place as u32, transposed })),
            (None, None) => {
                let found = format!("{name:?}, which has no weight to share");
                self.refuse("weights_of", found, "an `embedding`, `linear`, `gcn`, `sgc` or `conv2d` layer")
            }
            (None, Some((other, _))) => {
                let [rows, columns] = shape;
                let allowed = match of {
                    Weight::Product => {
                        format!("a layer whose weight is [{rows}, {columns}] or [{columns}, {rows}]")
                    }
                    _ => format!("a layer of this kind whose weight is [{rows}, {columns}]"),
                };
                self.refuse("weights_of", format!("{name:?}, whose weight is {other:?}"), &allowed)
            }
        }
    }
}

/// Role of a shareable weight in its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// Table in which rows are looked up.
    Table,
    /// Matrix by which rows are multiplied.
    Product,
    /// Kernel of a convolution.
    Convolution,
}

/// Returns the shape and the role of a layer's shareable weight, or `None` if it has none. `input`
/// and `width` are the layer's numbers of input and output columns.
fn weight(kind: &LayerKind, (input, width): (u32, u32)) -> Option<([u32; 2], Weight)> {
    match kind {
        LayerKind::Embedding(of) => Some(([of.entries, width], Weight::Table)),
        LayerKind::Gcn | LayerKind::Sgc { .. } | LayerKind::Linear { jumping: None } => {
            Some(([input, width], Weight::Product))
        }
        LayerKind::Conv2d(of) => {
            let taps = of.size.saturating_mul(of.size).saturating_mul(of.image.2);
            Some(([taps, of.channels], Weight::Convolution))
        }
        _ => None,
    }
}

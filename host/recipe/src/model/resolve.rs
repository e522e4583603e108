//! Resolution of model settings, which computes a [`Model`] for one data set.

mod deep;

use super::settings::{KindSettings, LayerSettings, Layers, ModelKind, ModelSettings};
use super::{
    Activation, Attention, FirstWeights, LayerKind, MAX_HEADS, MAX_HOPS, MAX_LAYERS, MAX_WIDTH, Model,
    ModelLayer, Norm, On, Readout, Source, number, wiring,
};
use crate::error::{Error, Result};
use crate::objective::{Loss, TaskType};
use eciton_types::signature::Attribute;

/// Description of the valid dropout probabilities, for error messages.
const PROBABILITY: &str = "a number with 0 <= dropout < 1";
/// Default number of propagation steps of an `appnp` layer (Gasteiger et al. 2019, section 4).
const APPNP_HOPS: u32 = 10;
/// Default teleport probability of an `appnp` layer.
const APPNP_ALPHA: f64 = 0.1;
/// Default number of propagation steps of an `sgc` layer (Wu et al. 2019, section 5).
const SGC_HOPS: u32 = 2;
/// Default number of heads of a `gat` or `gatv2` layer, except in the last layer (Velickovic et al.
/// 2018, section 3.3).
const GAT_HEADS: u32 = 8;
/// Default negative slope of the leaky ReLU of attention scores (Velickovic et al. 2018, section
/// 2.1).
const GAT_SLOPE: f64 = 0.2;
/// Names of the layer kinds that compute graph attention.
const ATTENTIONS: &[&str] = &["gat", "gatv2"];
/// Names of the layer kinds that have attention heads.
const WITH_HEADS: &[&str] = &["gat", "gatv2", "self-attention", "transformer"];
/// Placeholder for the sizes of an attention while the width of its layer is not known yet.
const UNRESOLVED: Attention =
    Attention { heads: 1, features: 1, average: false, slope: GAT_SLOPE, dropout: 0.0 };

impl Model {
    /// Resolves model settings for a data set and task. `features` is the number of features.
    /// `classes` is the number of classes, labels or target numbers, or the number of embedding
    /// columns in link prediction.
    ///
    /// # Errors
    /// Returns [`Error::Data`] if there are no features or fewer than two classes, and
    /// [`Error::Objective`] if the task does not support the loss. Returns [`Error::ClassesOnly`]
    /// for a setting that only single-label classification has, and [`Error::TooMany`] for more
    /// than [`MAX_LAYERS`] layers. Returns [`Error::Model`] if a layer is not valid, for instance:
    ///
    /// * an unknown kind, a width out of range, or an attribute that its kind does not have;
    /// * a last layer whose width is not the number of classes, or which has an activation.
    pub fn resolve(settings: &ModelSettings, features: u32, classes: u32, task: TaskType) -> Result<Self> {
        let data = |found: String, allowed| Err(Error::Data { found, allowed });
        if features == 0 || features > i32::MAX as u32 {
            return data(format!("{features} features per vertex"), "1 to 2^31 - 1 features per vertex");
        }
        let (least, allowed) = match task {
            TaskType::Classification if classes > MAX_WIDTH => {
                (2, "2 to 65,536 classes; if the labels are numbers to predict, use --task regression")
            }
            TaskType::Classification => (2, "2 to 65,536 classes"),
            TaskType::MultiLabel => (1, "1 to 65,536 labels"),
            TaskType::Regression => (1, "1 to 65,536 numbers per vertex"),
            TaskType::LinkPrediction => (1, "1 to 65,536 columns of an embedding"),
        };
        if !(least..=MAX_WIDTH).contains(&classes) {
            return data(format!("{classes} {}", task.columns()), allowed);
        }
        let loss = Loss::choose(settings.loss, task)?;
        let of_classes = [
            ("model.class_weights", settings.class_weights.is_some()),
            ("model.focal", settings.focal > 0.0),
        ];
        let given = of_classes.into_iter().find(|(_, given)| *given && task != TaskType::Classification);
        if let Some((key, _)) = given {
            return Err(Error::ClassesOnly { key, task: task.name() });
        }
        let listed = listed(settings, classes)?;
        let wired = wiring::sources(&listed).map_err(|refusal| {
            let wiring::Refusal { layer, attribute, found, allowed } = refusal;
            Error::Model { layer: number(layer), attribute, found, allowed }
        })?;
        let scores = scores(&listed, &wired);
        let layers = Vec::with_capacity(listed.len());
        let links = task == TaskType::LinkPrediction;
        let edge_weights = settings.edge_weights.as_ref().map(|column| column.number(&[])).transpose()?;
        let focal = settings.focal;
        let init = settings.init.clone();
        let mut model = Self { features, classes, loss, focal, links, edge_weights, init, layers };
        for ((layer, inputs), scores) in listed.iter().zip(wired).zip(scores) {
            let classes = scores.then_some(classes);
            let sources = reads(&model, layer, inputs.as_ref());
            // `wiring` has checked that the layer exists.
            let tied = layer
                .weights_of
                .as_ref()
                .and_then(|name| listed.iter().position(|layer| layer.name.as_ref() == Some(name)));
            let resolving = Resolving { settings, layer, model: &model, classes, sources, tied };
            let resolved = ModelLayer { inputs, ..resolving.layer()? };
            model.layers.push(resolved);
        }
        check_losses(&model)?;
        // A key that no layer reads was meant for another kind of model.
        let unread = |(_, given, kinds): &&OwnKey| *given && !listed.iter().any(|layer| layer.has(kinds));
        if let Some((attribute, _, kinds)) = own_keys(&settings.own).iter().find(unread) {
            return Err(Error::ModelKey { attribute, kinds: all_of(kinds) });
        }
        let gathers = model.layers.iter().any(|layer| layer.kind.gathers());
        if model.edge_weights.is_some() && !gathers {
            let kinds = "gcn, sage with the mean, gin, sgc and appnp".to_owned();
            return Err(Error::ModelKey { attribute: "edge_weights", kinds });
        }
        Ok(model)
    }

    /// Checks that the data set has all edge features that the model reads. `columns` is its number
    /// of features per edge.
    ///
    /// # Errors
    /// Returns [`Error::EdgeColumns`] if the edges have no features, or no column with the
    /// requested index.
    pub fn check_edges(&self, columns: u32) -> Result<()> {
        let asks = self.layers.iter().any(|layer| layer.edge_features);
        let asked = match (self.edge_weights, asks) {
            (Some(column), _) if column >= columns => format!("edge_weights = {column}"),
            (_, true) if columns == 0 => "edge_features = true".to_owned(),
            _ => return Ok(()),
        };
        Err(Error::EdgeColumns { asked, columns })
    }
}

/// Layer kinds that have no weights and whose output is as wide as each input. If such a layer
/// computes scores (class scores or predictions), its inputs are scores too.
const PASSED: &[&str] = &["appnp", "readout", "sum"];
/// Layer kinds that may follow a readout, because they compute each row separately.
const OF_ROWS: &[&str] = &[
    "linear",
    "readout",
    "embedding",
    "conv2d",
    "pool2d",
    "concat",
    "slice",
    "product",
    "sum",
    "normalise",
    "activate",
];
/// Layer kinds that can read edge features.
const KNOW_EDGES: &[&str] = &["gatv2", "readout", LayerSettings::OWN_ON_EDGES];

/// Joins names to a list in words for error messages, for instance `gcn, sage and gin`.
fn all_of(kinds: &[&str]) -> String {
    match kinds {
        [before @ .., one, last] if !before.is_empty() => format!("{}, {one} and {last}", before.join(", ")),
        _ => kinds.join(" and "),
    }
}

/// Returns the inputs of a layer that is not part of `model` yet. Without explicit `inputs`, the
/// defaults are those of [`Model::sources`].
fn reads(model: &Model, layer: &LayerSettings, inputs: Option<&Vec<Source>>) -> Vec<Source> {
    // At most `MAX_LAYERS`.
    let before = 0..model.layers.len() as u32;
    match inputs {
        Some(inputs) => inputs.clone(),
        None if layer.jumping.is_some() && !before.is_empty() => before.map(Source::Layer).collect(),
        None => vec![before.last().map_or(Source::Features, Source::Layer)],
    }
}

/// Checks the loss terms of layers before the last one. Such a layer must have one row per vertex,
/// graph or edge like the last layer, because both use the same targets.
fn check_losses(model: &Model) -> Result<()> {
    let last = model.layers.len().saturating_sub(1);
    for (at, layer) in model.layers.iter().enumerate() {
        let Some(weight) = layer.loss_weight else { continue };
        let of_graphs = model.layers.last().is_some_and(|last| last.of_graphs);
        let allowed = match () {
            () if model.links => "removed: link prediction compares only the last layer's rows",
            () if at == last => "removed in the last layer, whose loss has the weight 1",
            () if layer.of_graphs != of_graphs => "in a layer after the readout, like the last layer",
            () => continue,
        };
        let (attribute, found) = ("loss_weight", weight.to_string());
        return Err(Error::Model { layer: number(at), attribute, found, allowed: allowed.to_owned() });
    }
    Ok(())
}

/// Returns, for each layer, true if its rows are scores (class scores or predictions). These are
/// the rows of the last layer, of layers with their own loss, and the inputs of [`PASSED`] layers
/// with scores.
fn scores(listed: &[LayerSettings], wired: &[Option<Vec<Source>>]) -> Vec<bool> {
    let mut scores: Vec<bool> = listed.iter().map(|layer| layer.loss_weight.is_some()).collect();
    if let Some(last) = scores.last_mut() {
        *last = true;
    }
    for at in (0..listed.len()).rev() {
        if !scores[at] || !PASSED.contains(&&listed[at].kernel[..]) {
            continue;
        }
        match &wired[at] {
            None => at.checked_sub(1).into_iter().for_each(|before| scores[before] = true),
            Some(sources) => {
                for source in sources {
                    if let Source::Layer(place) = source {
                        scores[*place as usize] = true;
                    }
                }
            }
        }
    }
    scores
}

/// Key that only some layer kinds have. The fields are its name, whether the layer sets it, and the
/// layer kinds.
type OwnKey = (&'static str, bool, &'static [&'static str]);

fn own_keys(own: &KindSettings) -> [OwnKey; 10] {
    [
        ("hops", own.hops.is_some(), &["sgc", "appnp"]),
        ("alpha", own.alpha.is_some(), &["appnp"]),
        ("epsilon", own.epsilon.is_some(), &["gin"]),
        ("train_epsilon", own.train_epsilon.is_some(), &["gin"]),
        ("aggregator", own.aggregator.is_some(), &["sage"]),
        ("heads", own.heads.is_some(), WITH_HEADS),
        ("attention_dropout", own.attention_dropout.is_some(), ATTENTIONS),
        ("negative_slope", own.negative_slope.is_some(), ATTENTIONS),
        ("edge_features", own.edge_features.is_some(), KNOW_EDGES),
        ("readout", own.readout.is_some(), &["readout"]),
    ]
}

/// Returns the settings of each layer. If the model settings have only the number of layers, the
/// list is generated from it.
fn listed(settings: &ModelSettings, classes: u32) -> Result<Vec<LayerSettings>> {
    let too_many = |found: u64| {
        let (what, most) = ("layers of a model (at least 1)", u64::from(MAX_LAYERS));
        Error::TooMany { what, found, most }
    };
    let count = match &settings.layers {
        Layers::List(list) if list.is_empty() || list.len() > MAX_LAYERS as usize => {
            return Err(too_many(list.len() as u64));
        }
        Layers::List(list) => {
            return match settings.jumping {
                Some(_) => Err(Error::Model {
                    layer: number(list.len() - 1),
                    attribute: "jumping",
                    found: "set for the model, which has a list of layers".to_owned(),
                    allowed: "set in the `linear` layer that reads all earlier layers".to_owned(),
                }),
                None => Ok(list.clone()),
            };
        }
        Layers::Count(count) => *count,
    };
    let kind = settings.kind;
    let of = LayerSettings::with_kernel;
    // The class of an edge depends on both ends together, so a hidden layer follows their rows.
    let last = match settings.own.readout {
        None => Vec::new(),
        Some(readout) if readout.is_of_edges() => vec![of("readout"), of("linear"), of("linear")],
        Some(_) => vec![of("readout"), of("linear")],
    };
    let further = u32::from(settings.jumping.is_some() || kind == ModelKind::Appnp) + last.len() as u32;
    if count == 0 || count.saturating_add(further) > MAX_LAYERS {
        return Err(too_many(u64::from(count)));
    }
    let refuse_jumping = settings.jumping.filter(|_| matches!(kind, ModelKind::Sgc | ModelKind::Appnp));
    if refuse_jumping.is_some() {
        return Err(Error::Model {
            layer: number(0),
            attribute: "jumping",
            found: "set".to_owned(),
            allowed: "removed for this kind of model, which has one output".to_owned(),
        });
    }
    if kind == ModelKind::Sgc {
        let own = KindSettings { hops: settings.own.hops.or(Some(count)), ..KindSettings::default() };
        let layer = LayerSettings { own, ..of("sgc") };
        return Ok([layer].into_iter().chain(last).collect());
    }
    let mut layers = vec![of(kind.layer()); count as usize];
    if let Some(jumping) = settings.jumping {
        let width = last.is_empty().then_some(classes);
        layers.push(LayerSettings { jumping: Some(jumping), width, ..of("linear") });
    }
    if kind == ModelKind::Appnp {
        layers.push(of("appnp"));
    }
    layers.extend(last);
    Ok(layers)
}

/// Layer whose settings are being resolved, with its context.
struct Resolving<'a> {
    settings: &'a ModelSettings,
    layer: &'a LayerSettings,
    /// Model with all layers before this one.
    model: &'a Model,
    /// Number of classes if the layer's rows are scores, and `None` otherwise.
    classes: Option<u32>,
    /// Inputs of the layer.
    sources: Vec<Source>,
    /// Index of the layer whose weight this layer shares, if any.
    tied: Option<usize>,
}

impl Resolving<'_> {
    fn refuse<T>(&self, attribute: &'static str, found: String, allowed: &str) -> Result<T> {
        let layer = number(self.model.layers.len());
        Err(Error::Model { layer, attribute, found, allowed: allowed.to_owned() })
    }

    fn layer(&self) -> Result<ModelLayer> {
        let Self { settings, layer, classes, .. } = *self;
        self.check_sources()?;
        let input = self.input();
        let mut kind = self.kind()?;
        let propagates = matches!(kind, LayerKind::Appnp { .. } | LayerKind::Readout(_));
        let first = self.reads_features();
        if propagates && first {
            let allowed = "preceded by a layer with weights: put a `linear` layer before it";
            let place = if self.model.layers.is_empty() { "in the first layer" } else { "over the features" };
            return self.refuse("kernel", format!("{:?} {place}", layer.kernel), allowed);
        }
        let of_rows =
            OF_ROWS.contains(&&layer.kernel[..]) || matches!(kind, LayerKind::Own { on: On::Rows, .. });
        let of_graphs = self.behind_readout()?;
        if of_graphs && (!of_rows || propagates) {
            let allowed = "`linear`, or your own kernel on rows: rows after a readout have no neighbours";
            return self.refuse("kernel", format!("{:?} after a readout", layer.kernel), allowed);
        }
        let own = matches!(kind, LayerKind::Own { .. });
        if own && layer.width.or(classes).is_none() {
            let allowed = "set to the number of columns that the kernel computes; only the last layer's width is known from the data";
            return self.refuse("width", "left out".to_owned(), allowed);
        }
        let made = self.made(&kind)?;
        let (follows, image) = made.unzip();
        let usual = || self.tied_width().unwrap_or(settings.hidden);
        let natural = if propagates { input } else { classes.unwrap_or_else(usual) };
        let width = layer.width.or(follows).unwrap_or(natural);
        if follows.is_none() && !(1..=MAX_WIDTH).contains(&width) {
            return self.refuse("width", width.to_string(), &format!("1 to {MAX_WIDTH}"));
        }
        if propagates && follows.is_none() && width != input {
            let allowed = format!("{input}, the width of its input, because the layer has no weights");
            return self.refuse("width", width.to_string(), &allowed);
        }
        if let Some(follows) = follows.filter(|&follows| follows != width) {
            let allowed = format!("removed: it is {follows}, which is computed from the layer's inputs");
            return self.refuse("width", width.to_string(), &allowed);
        }
        if let Some(classes) = classes.filter(|&classes| classes != width) {
            let allowed = format!("{classes}, the number of classes, in a layer whose rows are scores");
            return self.refuse("width", width.to_string(), &allowed);
        }
        let (rest, weightless) = (deep::is_rest(&kind), propagates || deep::is_weightless(&kind));
        let dropout = layer.dropout.unwrap_or(if weightless { 0.0 } else { settings.dropout });
        if !is_probability(dropout as f32) {
            return self.refuse("dropout", dropout.to_string(), PROBABILITY);
        }
        if matches!(kind, LayerKind::Embedding(_)) && dropout > 0.0 {
            let allowed = "0: the input has indices of table rows; set dropout in the next layer instead";
            return self.refuse("dropout", dropout.to_string(), allowed);
        }
        let none = classes.is_some() || propagates || rest;
        match &mut kind {
            LayerKind::Gat(attention) | LayerKind::Gatv2(attention) => {
                *attention = self.attention(width, dropout)?;
            }
            LayerKind::SelfAttention(attention) => self.check_heads(attention.heads, width)?,
            LayerKind::Transformer(block) => self.check_heads(block.attention.heads, width)?,
            _ => {}
        }
        let block = matches!(kind, LayerKind::Transformer(_));
        let plain = none && !matches!(kind, LayerKind::Activate if classes.is_none());
        let said = layer.activation.filter(|_| !block);
        let attends = matches!(kind, LayerKind::Gat(_) | LayerKind::Gatv2(_));
        let like = if attends { ModelKind::Gat } else { ModelKind::Gcn };
        let usual = settings.activation.unwrap_or(like.activation());
        let activation = said.unwrap_or(if plain { Activation::Identity } else { usual });
        let activation = activation.with_slope(self.slope());
        let between = match &kind {
            LayerKind::Transformer(of) => of.between,
            _ => activation,
        };
        if layer.activation_slope.is_some() && between.slope().is_none() {
            let allowed =
                format!("removed: the activation is {:?}, and only `leaky-relu` has a slope", between.name());
            return self.refuse("activation_slope", "given".to_owned(), &allowed);
        }
        if classes.is_some() && activation != Activation::Identity {
            let allowed =
                "\"identity\" in the last layer and in layers with a `loss_weight`, whose rows are scores";
            return self.refuse("activation", format!("{:?}", activation.name()), allowed);
        }
        if weightless && layer.bias == Some(true) {
            let allowed = format!("false: `{}` layers have no bias", layer.kernel);
            return self.refuse("bias", "true".to_owned(), &allowed);
        }
        let fits = width == input && !first;
        let joins = self.sources.len() > 1 && layer.jumping.is_none();
        if layer.residual == Some(true) && (block || joins) {
            let allowed = match block {
                true => "removed: a `transformer` layer always adds its input",
                false => "removed: a layer with several inputs cannot add one of them",
            };
            return self.refuse("residual", "true".to_owned(), allowed);
        }
        if layer.residual == Some(true) && !fits {
            let found = format!("true, with {input} input columns and {width} output columns");
            return self.refuse("residual", found, "false, or used after the first layer, with equal widths");
        }
        let first_weights = match (settings.first_weights, &kind) {
            (FirstWeights::Auto, LayerKind::Gcn | LayerKind::Gat(_) | LayerKind::Gatv2(_)) => {
                FirstWeights::Glorot
            }
            (FirstWeights::Auto, _) => FirstWeights::FanIn,
            (said, _) => said,
        };
        let norm = match (&kind, layer.norm) {
            // The norm of a transformer precedes each half of the block.
            (LayerKind::Transformer(_), _) => Norm::None,
            (LayerKind::Normalise, None) if settings.norm == Norm::None => Norm::Layer,
            (LayerKind::Normalise, None) => settings.norm,
            (_, said) => said.unwrap_or(if none { Norm::None } else { settings.norm }),
        };
        Ok(ModelLayer {
            width,
            first_weights,
            dropout,
            bias: !weightless && layer.bias.unwrap_or(settings.bias && !own),
            norm,
            activation,
            residual: layer.residual.unwrap_or(settings.residual && fits && !none && !joins),
            edge_features: self.knows_edges(&kind)?,
            name: layer.name.clone(),
            inputs: None,
            image: image.flatten(),
            of_graphs: of_graphs || matches!(kind, LayerKind::Readout(_)),
            weights_of: self.tied(&kind, width)?,
            loss_weight: layer.loss_weight,
            init: layer.init.clone(),
            kind,
        })
    }

    /// Returns true if the layer reads edge features, as its settings or those of the model say.
    fn knows_edges(&self, kind: &LayerKind) -> Result<bool> {
        let reads = self.layer.own.or(self.settings.own).edge_features.unwrap_or(false);
        match kind {
            LayerKind::Readout(readout) if *readout != Readout::Ends => match self.layer.own.edge_features {
                Some(true) => {
                    let found = format!("true, with readout = {:?}", readout.name());
                    self.refuse("edge_features", found, "removed, or used with readout = \"ends\"")
                }
                _ => Ok(false),
            },
            _ => Ok(reads && self.layer.has(KNOW_EDGES)),
        }
    }

    /// Returns the slope of the layer's activation from the settings of the layer or the model.
    fn slope(&self) -> Option<f64> {
        self.layer.activation_slope.or(self.settings.activation_slope)
    }

    /// Resolves the kind of the layer and the attributes of the kind.
    fn kind(&self) -> Result<LayerKind> {
        let Self { settings, layer, .. } = *self;
        let of: [OwnKey; 2] = [
            ("jumping", layer.jumping.is_some(), &["linear"]),
            ("average", layer.average.is_some(), ATTENTIONS),
        ];
        let mut of = own_keys(&layer.own).into_iter().chain(of).chain(deep::keys(layer));
        if let Some((name, _, kinds)) = of.find(|(_, given, kinds)| *given && !layer.has(kinds)) {
            let allowed = format!("removed: it belongs to {}", all_of(kinds));
            return self.refuse(name, format!("set for kernel {:?}", layer.kernel), &allowed);
        }
        if LayerSettings::is_own(&layer.kernel) {
            return self.own_kernel();
        }
        let of = [
            ("on", layer.on.is_some()),
            ("self_loops", layer.self_loops.is_some()),
            ("attributes", !layer.attributes.is_empty()),
        ];
        if let Some((name, _)) = of.iter().find(|(_, given)| *given) {
            let allowed = "removed: it belongs to your own kernels, for instance kernel = \"./mine.wasm\"";
            return self.refuse(name, format!("set for kernel {:?}", layer.kernel), allowed);
        }
        let own = layer.own.or(settings.own);
        Ok(match layer.kernel.as_str() {
            "gcn" => LayerKind::Gcn,
            "sage" => LayerKind::Sage { aggregator: own.aggregator.unwrap_or_default() },
            "gin" => {
                let epsilon = own.epsilon.unwrap_or(0.0);
                if !(epsilon as f32).is_finite() {
                    return self.refuse("epsilon", epsilon.to_string(), "a finite number");
                }
                let trained = own.train_epsilon.unwrap_or(false);
                LayerKind::Gin { epsilon, trained }
            }
            "sgc" => LayerKind::Sgc { hops: self.hops(own.hops.unwrap_or(SGC_HOPS))? },
            "appnp" => {
                let alpha = own.alpha.unwrap_or(APPNP_ALPHA);
                if !is_probability(alpha as f32) {
                    return self.refuse("alpha", alpha.to_string(), "a number with 0 <= alpha < 1");
                }
                LayerKind::Appnp { hops: self.hops(own.hops.unwrap_or(APPNP_HOPS))?, alpha }
            }
            "readout" => LayerKind::Readout(own.readout.unwrap_or(Readout::Mean)),
            // The sizes of these kinds follow from their width.
            "gat" => LayerKind::Gat(UNRESOLVED),
            "gatv2" => LayerKind::Gatv2(UNRESOLVED),
            "linear" => {
                if layer.jumping.is_some() {
                    self.check_jumping()?;
                }
                LayerKind::Linear { jumping: layer.jumping }
            }
            other if deep::is_one(other) => self.deep()?,
            other => {
                let known = LayerSettings::KERNELS.iter().chain(&LayerSettings::BUILT_IN);
                let known = known.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
                let allowed = format!("one of {known}, {}", LayerSettings::OR_PATH);
                return self.refuse("kernel", format!("{other:?}"), &allowed);
            }
        })
    }

    fn own_kernel(&self) -> Result<LayerKind> {
        let layer = self.layer;
        let on = layer.on.unwrap_or_default();
        if on == On::Edges && !LayerSettings::is_path(&layer.kernel) {
            let allowed = "removed, or \"rows\": the kernel computes on rows";
            return self.refuse("on", "\"edges\"".to_owned(), allowed);
        }
        if on == On::Rows && layer.self_loops.is_some() {
            let allowed = "removed, or used with on = \"edges\": a kernel on rows reads no neighbours";
            return self.refuse("self_loops", "set for a kernel on rows".to_owned(), allowed);
        }
        let attribute = |(name, value): (&String, _)| Attribute::new(name, Clone::clone(value));
        Ok(LayerKind::Own {
            kernel: layer.kernel.clone(),
            on,
            attributes: layer.attributes.iter().map(attribute).collect(),
            with_self: on == On::Edges && layer.self_loops.unwrap_or(true),
        })
    }

    fn attention(&self, width: u32, dropout: f64) -> Result<Attention> {
        let Self { settings, layer, classes, .. } = *self;
        let own = layer.own.or(settings.own);
        // The model's setting does not apply to the last layer.
        let natural = || if classes.is_some() { 1 } else { own.heads.unwrap_or(GAT_HEADS) };
        let heads = layer.own.heads.unwrap_or_else(natural);
        if !(1..=MAX_HEADS).contains(&heads) {
            return self.refuse("heads", heads.to_string(), &format!("1 to {MAX_HEADS}"));
        }
        let average = layer.average.unwrap_or(classes.is_some() && heads > 1);
        if !average && !width.is_multiple_of(heads) {
            let allowed = format!("a divisor of the layer's width, {width}, or average = true");
            return self.refuse("heads", heads.to_string(), &allowed);
        }
        let features = if average { width } else { width / heads };
        if u64::from(heads) * u64::from(features) > u64::from(MAX_WIDTH) {
            let found = format!("{heads}, each of {features} columns");
            return self.refuse("heads", found, &format!("at most {MAX_WIDTH} columns in total"));
        }
        let slope = own.negative_slope.unwrap_or(GAT_SLOPE);
        if !is_probability(slope as f32) {
            return self.refuse("negative_slope", slope.to_string(), "a number with 0 <= slope < 1");
        }
        let dropout = own.attention_dropout.unwrap_or(dropout);
        if !is_probability(dropout as f32) {
            return self.refuse("attention_dropout", dropout.to_string(), PROBABILITY);
        }
        Ok(Attention { heads, features, average, slope, dropout })
    }

    fn hops(&self, hops: u32) -> Result<u32> {
        if !(1..=MAX_HOPS).contains(&hops) {
            return self.refuse("hops", hops.to_string(), &format!("1 to {MAX_HOPS}"));
        }
        Ok(hops)
    }

    fn check_jumping(&self) -> Result<()> {
        let widths: Vec<u32> = self.sources.iter().map(|&source| self.model.width_of(source)).collect();
        if self.model.layers.is_empty() {
            return self.refuse("jumping", "set in the first layer".to_owned(), "used after other layers");
        }
        let equal = widths.windows(2).all(|pair| pair[0] == pair[1]);
        if self.layer.jumping == Some(super::Jumping::Sum) && !equal {
            let found = format!("\"sum\" of layers with the widths {widths:?}");
            return self.refuse("jumping", found, "\"concat\", or used after layers of equal width");
        }
        Ok(())
    }
}

/// Returns true if the value is at least 0 and below 1.
fn is_probability(value: f32) -> bool {
    (0.0..1.0).contains(&value)
}

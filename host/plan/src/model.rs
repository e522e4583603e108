//! Models: what a user writes ([`ModelSettings`]) and what is trained ([`Model`]).
//!
//! A model is a list of layers. In a recipe's `[model]` section, or in a model file of its own with
//! the same keys:
//!
//! ```toml
//! hidden = 16                # for layers that do not say
//! dropout = 0.5
//!
//! [[layers]]                 # or just: layers = 2
//! kernel = "gcn"
//! activation = "relu"
//!
//! [[layers]]
//! kernel = "gcn"             # the last layer's width is the number of classes
//! ```

use crate::document;
use crate::error::Error;
use crate::ids::Layer;
use crate::keys;
use serde::{Deserialize, Serialize};

/// Most layers of a model.
pub const MAX_LAYERS: u32 = 64;
/// Widest layer.
pub const MAX_WIDTH: u32 = 65_536;

/// The `[model]` section of a recipe, or a model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// A model file to read in place of the keys below; the caller reads it
    /// ([`ModelSettings::parse`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Width of every layer but the last, unless the layer says.
    pub hidden: u32,
    /// What follows every layer but the last, unless the layer says.
    pub activation: Activation,
    /// Dropout on the input of every layer, unless the layer says: 0 <= dropout < 1.
    pub dropout: f64,
    /// Whether layers add a bias, unless the layer says.
    pub bias: bool,
    /// The layers.
    pub layers: Layers,
}

impl Default for ModelSettings {
    /// Kipf and Welling (2017): two layers, hidden 16, relu, dropout 0.5, bias.
    fn default() -> Self {
        Self {
            file: None,
            layers: Layers::Count(2),
            hidden: 16,
            activation: Activation::Relu,
            dropout: 0.5,
            bias: true,
        }
    }
}

impl ModelSettings {
    /// Reads a model file. `origin` is its name, for messages.
    ///
    /// # Errors
    /// As [`crate::Config::parse`].
    pub fn parse(text: &str, origin: &str) -> Result<Self, Error> {
        let mut settings = Self::default();
        let fields = document::parse(text, origin)?;
        keys::write_model_file(&mut settings, &fields)?;
        Ok(settings)
    }
}

/// The layers of a model, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Layers {
    /// So many `gcn` layers, 1 to 64.
    Count(u32),
    /// Each by itself.
    List(Vec<LayerSettings>),
}

/// A layer as written: what is `None` comes from the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerSettings {
    /// The layer's kind. Now: `gcn`.
    pub kernel: String,
    /// Width of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// What follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Dropout on its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Whether it adds a bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<bool>,
}

impl LayerSettings {
    /// A `gcn` layer that leaves everything to the model.
    #[must_use]
    pub fn gcn() -> Self {
        Self { kernel: "gcn".to_owned(), width: None, activation: None, dropout: None, bias: None }
    }
}

/// An elementwise function between layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// x
    Identity,
    /// max(x, 0)
    Relu,
    /// x if x > 0, else 0.2 x
    LeakyRelu,
    /// x if x > 0, else exp(x) - 1
    Elu,
    /// 1 / (1 + exp(-x))
    Sigmoid,
    /// tanh(x)
    Tanh,
}

impl Activation {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("identity", Self::Identity),
        ("relu", Self::Relu),
        ("leaky-relu", Self::LeakyRelu),
        ("elu", Self::Elu),
        ("sigmoid", Self::Sigmoid),
        ("tanh", Self::Tanh),
    ];

    /// Its name in recipes and in kernels' attributes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Relu => "relu",
            Self::LeakyRelu => "leaky-relu",
            Self::Elu => "elu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
        }
    }
}

/// A model for one data set: every width known, every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Features of a vertex.
    pub features: u32,
    /// Classes: the last layer's width.
    pub classes: u32,
    /// The layers, at least one, at most [`MAX_LAYERS`].
    pub layers: Vec<LayerKind>,
}

/// A layer with all its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kernel", rename_all = "kebab-case")]
pub enum LayerKind {
    /// A graph convolution.
    Gcn(Convolution),
}

/// Graph convolution (Kipf and Welling 2017): `H' = act(N dropout(H) W + b)` with
/// `N = D^-1/2 (A + I) D^-1/2`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Convolution {
    /// Columns of W and of H'.
    pub width: u32,
    /// What follows; identity for the last layer, whose rows are scores.
    pub activation: Activation,
    /// Of H, while training: 0 <= dropout < 1.
    pub dropout: f64,
    /// Whether b is there.
    pub bias: bool,
}

impl LayerKind {
    /// Columns of the layer's output.
    #[must_use]
    pub fn width(&self) -> u32 {
        match self {
            Self::Gcn(layer) => layer.width,
        }
    }
}

impl Model {
    /// A GCN by its usual numbers; the rest as in [`ModelSettings::default`].
    ///
    /// # Errors
    /// As [`Model::resolve`].
    pub fn gcn(layers: u32, hidden: u32, dropout: f64, features: u32, classes: u32) -> Result<Self, Error> {
        let layers = Layers::Count(layers);
        let settings = ModelSettings { layers, hidden, dropout, ..ModelSettings::default() };
        Self::resolve(&settings, features, classes)
    }

    /// The model for data with so many features and classes.
    ///
    /// # Errors
    /// [`Error::Data`] without features or with fewer than two classes, [`Error::Model`] for a layer
    /// that does not fit (unknown kind, width out of range, a last layer whose width is not the
    /// number of classes or which has an activation), [`Error::TooMany`] past [`MAX_LAYERS`].
    pub fn resolve(settings: &ModelSettings, features: u32, classes: u32) -> Result<Self, Error> {
        let data = |found: String, allowed| Err(Error::Data { found, allowed });
        if features == 0 || features > i32::MAX as u32 {
            return data(format!("{features} features a vertex"), "1 to 2^31 - 1 features a vertex");
        }
        if !(2..=MAX_WIDTH).contains(&classes) {
            return data(format!("{classes} classes"), "2 to 65,536 classes");
        }
        let listed: Vec<LayerSettings> = match &settings.layers {
            Layers::Count(count) => {
                let most = MAX_LAYERS.saturating_add(1);
                vec![LayerSettings::gcn(); (*count).min(most) as usize]
            }
            Layers::List(list) => list.clone(),
        };
        if listed.is_empty() || listed.len() > MAX_LAYERS as usize {
            let found = match &settings.layers {
                Layers::Count(count) => u64::from(*count),
                Layers::List(list) => list.len() as u64,
            };
            let (what, most) = ("layers of a model (at least 1)", u64::from(MAX_LAYERS));
            return Err(Error::TooMany { what, found, most });
        }
        let last = listed.len() - 1;
        let layers = listed
            .iter()
            .enumerate()
            .map(|(at, layer)| layer.resolve(settings, at, (at == last).then_some(classes)))
            .collect::<Result<_, _>>()?;
        Ok(Self { features, classes, layers })
    }

    /// Columns of a layer's input.
    #[must_use]
    pub fn input_width(&self, layer: usize) -> u32 {
        let before = layer.checked_sub(1).and_then(|before| self.layers.get(before));
        before.map_or(self.features, LayerKind::width)
    }
}

impl LayerSettings {
    /// `classes` is given for the last layer.
    fn resolve(&self, model: &ModelSettings, at: usize, classes: Option<u32>) -> Result<LayerKind, Error> {
        let layer = Layer(u16::try_from(at).unwrap_or(u16::MAX));
        let refuse = |attribute, found: String, allowed: String| {
            Err(Error::Model { layer, attribute, found, allowed })
        };
        if self.kernel != "gcn" {
            return refuse("kernel", format!("{:?}", self.kernel), "\"gcn\"".to_owned());
        }
        let width = self.width.unwrap_or(classes.unwrap_or(model.hidden));
        let dropout = self.dropout.unwrap_or(model.dropout);
        let natural = if classes.is_some() { Activation::Identity } else { model.activation };
        let activation = self.activation.unwrap_or(natural);
        if !(1..=MAX_WIDTH).contains(&width) {
            return refuse("width", width.to_string(), format!("1 to {MAX_WIDTH}"));
        }
        if !keys::is_probability(dropout as f32) {
            return refuse("dropout", dropout.to_string(), keys::PROBABILITY.to_owned());
        }
        if let Some(classes) = classes.filter(|&classes| classes != width) {
            let allowed = format!("{classes}, the number of classes, in the last layer");
            return refuse("width", width.to_string(), allowed);
        }
        if classes.is_some() && activation != Activation::Identity {
            let allowed = "\"identity\" in the last layer, whose rows are scores".to_owned();
            return refuse("activation", format!("{:?}", activation.name()), allowed);
        }
        let bias = self.bias.unwrap_or(model.bias);
        Ok(LayerKind::Gcn(Convolution { width, activation, dropout, bias }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn defaults_are_kipf_and_welling() {
        let model = Model::resolve(&ModelSettings::default(), 1433, 7).unwrap();
        assert_eq!(model, Model::gcn(2, 16, 0.5, 1433, 7).unwrap());
        let (relu, none) = (Activation::Relu, Activation::Identity);
        let layer =
            |width, activation| LayerKind::Gcn(Convolution { width, activation, dropout: 0.5, bias: true });
        assert_eq!(model.layers, [layer(16, relu), layer(7, none)]);
        assert_eq!((model.input_width(0), model.input_width(1)), (1433, 16));
    }

    #[test]
    fn layers_override_the_model() {
        let text = "hidden = 8\ndropout = 0\n[[layers]]\nkernel = \"gcn\"\nwidth = 32\n\
                    activation = \"tanh\"\n[[layers]]\nkernel = \"gcn\"\nbias = false\n\
                    [[layers]]\nkernel = \"gcn\"\ndropout = 0.25\n";
        let settings = ModelSettings::parse(text, "m.toml").unwrap();
        let model = Model::resolve(&settings, 5, 3).unwrap();
        let layer = |width, activation, dropout, bias| {
            LayerKind::Gcn(Convolution { width, activation, dropout, bias })
        };
        let wanted = [
            layer(32, Activation::Tanh, 0.0, true),
            layer(8, Activation::Relu, 0.0, false),
            layer(3, Activation::Identity, 0.25, true),
        ];
        assert_eq!(model.layers, wanted);
    }

    #[test]
    fn models_that_do_not_fit_are_refused() {
        let refused = |text: &str, classes| {
            let settings = ModelSettings::parse(text, "m.toml").unwrap();
            Model::resolve(&settings, 5, classes).unwrap_err().to_string()
        };
        let wide = "[[layers]]\nkernel = \"gcn\"\nwidth = 4\n";
        assert!(refused(wide, 3).contains("3, the number of classes"));
        let relu = "[[layers]]\nkernel = \"gcn\"\nactivation = \"relu\"\n";
        assert!(refused(relu, 3).contains("\"identity\""));
        assert!(refused("", 1).contains("1 classes"));
        assert!(Model::gcn(65, 16, 0.5, 5, 3).is_err());
        assert!(Model::gcn(u32::MAX, 16, 0.5, 5, 3).is_err());
        assert!(Model::gcn(0, 16, 0.5, 5, 3).is_err());
        assert!(Model::gcn(2, 0, 0.5, 5, 3).is_err());
        assert!(Model::gcn(2, 16, 1.0, 5, 3).is_err());
        assert!(Model::gcn(2, 16, f64::NAN, 5, 3).is_err());
        assert!(Model::gcn(64, 16, 0.5, 5, 3).is_ok());
        let error = ModelSettings::parse("file = \"x\"", "m.toml").unwrap_err();
        assert!(matches!(error, Error::UnknownKey { .. }), "{error}");
    }
}

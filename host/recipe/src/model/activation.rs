//! Activations: elementwise functions between layers.

use serde::{Deserialize, Serialize};

/// The slope of a `leaky-relu` that does not set it: PyTorch's, PyG's and ONNX's.
pub const LEAKY_SLOPE: f64 = 0.01;
/// The slope of `leaky-relu` in run folders of format 1, and the only one that kernels besides `activate` have.
const KERNELS_SLOPE: f32 = 0.2;

/// The slope of a leaky ReLU: its factor for values below 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slope(u32);

impl Slope {
    /// The slope of this value, rounded to f32.
    #[must_use]
    pub const fn new(value: f64) -> Self {
        Self((value as f32).to_bits())
    }

    /// Its value.
    #[must_use]
    pub fn value(self) -> f64 {
        // The shortest decimal that is this f32, so that 0.01 stays 0.01.
        f32::from_bits(self.0).to_string().parse().unwrap_or(LEAKY_SLOPE)
    }
}

/// An elementwise function between layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Activation {
    /// x
    Identity,
    /// max(x, 0)
    Relu,
    /// x if x > 0, else the slope times x
    LeakyRelu(Slope),
    /// x if x > 0, else exp(x) - 1
    Elu,
    /// 1 / (1 + exp(-x))
    Sigmoid,
    /// tanh(x)
    Tanh,
    /// x Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016)
    Gelu,
    /// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), an approximation of `gelu` (the same, section 2)
    GeluTanh,
    /// x / (1 + exp(-x)) (Elfwing, Uchibe and Doya 2018)
    Silu,
    /// ln(1 + exp(x))
    Softplus,
}

impl Activation {
    /// All, with their names; `leaky-relu` with its default slope.
    pub const ALL: [(&'static str, Self); 10] = [
        ("identity", Self::Identity),
        ("relu", Self::Relu),
        ("leaky-relu", Self::LeakyRelu(Slope::new(LEAKY_SLOPE))),
        ("elu", Self::Elu),
        ("sigmoid", Self::Sigmoid),
        ("tanh", Self::Tanh),
        ("gelu", Self::Gelu),
        ("gelu-tanh", Self::GeluTanh),
        ("silu", Self::Silu),
        ("softplus", Self::Softplus),
    ];

    /// Returns whether only kernel `activate` computes it, and no other kernel on the way in or out.
    pub const fn stands_alone(self) -> bool {
        match self {
            Self::LeakyRelu(slope) => slope.0 != KERNELS_SLOPE.to_bits(),
            _ => matches!(self, Self::Gelu | Self::GeluTanh | Self::Silu | Self::Softplus),
        }
    }

    /// Its name in recipes and in kernels' attributes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Relu => "relu",
            Self::LeakyRelu(_) => "leaky-relu",
            Self::Elu => "elu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu-tanh",
            Self::Silu => "silu",
            Self::Softplus => "softplus",
        }
    }

    /// The slope of a `leaky-relu`; `None` for other functions.
    #[must_use]
    pub fn slope(self) -> Option<f64> {
        match self {
            Self::LeakyRelu(slope) => Some(slope.value()),
            _ => None,
        }
    }

    /// The same function; a `leaky-relu` with this slope, if there is one.
    #[must_use]
    pub(super) fn with_slope(self, slope: Option<f64>) -> Self {
        match (self, slope) {
            (Self::LeakyRelu(_), Some(slope)) => Self::LeakyRelu(Slope::new(slope)),
            _ => self,
        }
    }
}

impl From<Activation> for String {
    /// The name; of a `leaky-relu` with another slope than the default, with the slope in brackets.
    fn from(activation: Activation) -> Self {
        match activation.slope().filter(|&slope| slope != LEAKY_SLOPE) {
            Some(slope) => format!("{}({slope})", activation.name()),
            None => activation.name().to_owned(),
        }
    }
}

impl TryFrom<String> for Activation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (name, slope) = match text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            Some((name, slope)) => (name, slope.parse().ok().filter(|slope: &f64| slope.is_finite())),
            None => (&text[..], None),
        };
        let known = Self::ALL.into_iter().find_map(|(known, of)| (known == name).then_some(of));
        known.map(|of| of.with_slope(slope)).ok_or_else(|| format!("{text:?} is no activation"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_are_read_back() {
        let other = Activation::LeakyRelu(Slope::new(0.3));
        for activation in Activation::ALL.map(|(_, activation)| activation).into_iter().chain([other]) {
            let text = String::from(activation);
            assert_eq!(Activation::try_from(text.clone()), Ok(activation), "{text}");
        }
        assert_eq!(String::from(other), "leaky-relu(0.3)");
        assert!(Activation::try_from("swish".to_owned()).is_err());
    }

    #[test]
    fn the_default_slope_is_pytorchs_and_kernel_activate_has_it() {
        let (_, leaky) = Activation::ALL[2];
        assert_eq!((leaky.slope(), leaky.stands_alone()), (Some(0.01), true));
        let of_kernels = leaky.with_slope(Some(0.2));
        assert_eq!((of_kernels.slope(), of_kernels.stands_alone()), (Some(0.2), false));
        assert_eq!(Activation::Relu.with_slope(Some(0.2)), Activation::Relu);
    }
}

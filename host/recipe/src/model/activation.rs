//! Activations, which are elementwise functions that a layer applies to its output.

use serde::{Deserialize, Serialize};

/// Default slope of `leaky-relu`, which is also the default of PyTorch, PyG and ONNX.
pub const LEAKY_SLOPE: f64 = 0.01;
/// Slope of `leaky-relu` in run folders of format 1. Kernels other than `activate` implement only
/// this slope.
const KERNELS_SLOPE: f32 = 0.2;

/// Slope of a leaky ReLU, which is the factor of values below 0. It is stored as the bits of an
/// f32, so that it can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slope(u32);

impl Slope {
    /// Creates a slope from `value`, rounded to f32.
    #[must_use]
    pub const fn new(value: f64) -> Self {
        Self((value as f32).to_bits())
    }

    /// Returns the slope as the shortest decimal number that rounds to the same f32.
    #[must_use]
    pub fn value(self) -> f64 {
        // The shortest decimal that is this f32, so that 0.01 stays 0.01.
        f32::from_bits(self.0).to_string().parse().unwrap_or(LEAKY_SLOPE)
    }
}

/// Activation, which is an elementwise function that a layer applies to its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Activation {
    /// Identity: x
    Identity,
    /// ReLU: max(x, 0)
    Relu,
    /// Leaky ReLU: x if x > 0, and slope x otherwise
    LeakyRelu(Slope),
    /// ELU: x if x > 0, and exp(x) - 1 otherwise
    Elu,
    /// Logistic function: 1 / (1 + exp(-x))
    Sigmoid,
    /// Hyperbolic tangent: tanh(x)
    Tanh,
    /// GELU: x Phi(x), where Phi is the normal distribution function (Hendrycks and Gimpel 2016)
    Gelu,
    /// Approximate GELU: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel
    /// 2016, section 2)
    GeluTanh,
    /// SiLU: x / (1 + exp(-x)) (Elfwing, Uchibe and Doya 2018)
    Silu,
    /// Softplus: ln(1 + exp(x))
    Softplus,
}

impl Activation {
    /// All activations, with their names in recipes. `leaky-relu` has the default slope.
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

    /// Returns true if only the kernel `activate` implements the activation. All other activations
    /// are also implemented by the kernel before or after them.
    pub const fn stands_alone(self) -> bool {
        match self {
            Self::LeakyRelu(slope) => slope.0 != KERNELS_SLOPE.to_bits(),
            _ => matches!(self, Self::Gelu | Self::GeluTanh | Self::Silu | Self::Softplus),
        }
    }

    /// Returns the name of the activation in recipes and in kernels' attributes.
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

    /// Returns the slope of a `leaky-relu`, or `None` for other activations.
    #[must_use]
    pub fn slope(self) -> Option<f64> {
        match self {
            Self::LeakyRelu(slope) => Some(slope.value()),
            _ => None,
        }
    }

    /// Returns this activation with another slope. It has no effect if the activation is not
    /// `leaky-relu`, or if `slope` is `None`.
    #[must_use]
    pub(super) fn with_slope(self, slope: Option<f64>) -> Self {
        match (self, slope) {
            (Self::LeakyRelu(_), Some(slope)) => Self::LeakyRelu(Slope::new(slope)),
            _ => self,
        }
    }
}

impl From<Activation> for String {
    /// Returns the name of the activation. If the slope of a `leaky-relu` differs from the default,
    /// it follows in parentheses, for instance `leaky-relu(0.2)`.
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
        known.map(|of| of.with_slope(slope)).ok_or_else(|| format!("{text:?} is not an activation"))
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

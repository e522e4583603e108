//! Plain data types of the contract.

use crate::Matrix;

/// Result of an operation of the contract.
pub type Result<T> = core::result::Result<T, Error>;

/// Typed error of the contract (`types.error`).
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// Shapes of operands do not match. The first extent is the number of rows.
    Shape {
        /// Name of the operation.
        operation: String,
        /// Name of the operand.
        operand: String,
        /// Expected extents.
        expected: Vec<u32>,
        /// Extents that were found.
        found: Vec<u32>,
    },
    /// An argument has a value that the operation does not accept.
    Argument(String),
    /// A limit of the host was exceeded.
    Limit {
        /// Name of the limit.
        limit: String,
        /// Unit of the amounts.
        unit: String,
        /// Maximum amount.
        allowed: u64,
        /// Amount that was requested.
        asked: u64,
    },
    /// Something did not happen before its deadline.
    Deadline(String),
    /// The host does not support this.
    Unsupported(String),
    /// Error of the kernel itself.
    Kernel(String),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Shape { operation, operand, expected, found } => {
                write!(f, "{operation}: {operand} has extents {found:?}, expected {expected:?}")
            }
            Self::Limit { limit, unit, allowed, asked } => {
                write!(f, "limit {limit}: {asked} {unit} asked for, {allowed} allowed")
            }
            Self::Argument(text) | Self::Deadline(text) | Self::Unsupported(text) | Self::Kernel(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for Error {}

/// Elementwise activation function of x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// x (no activation)
    Identity,
    /// max(x, 0)
    Relu,
    /// x if x > 0, else slope * x
    LeakyRelu(f32),
    /// x if x > 0, else alpha * (exp(x) - 1)
    Elu(f32),
    /// 1 / (1 + exp(-x))
    Sigmoid,
    /// tanh x
    Tanh,
}

impl Activation {
    /// Returns the function with this name in model files: `identity`, `relu`, `leaky-relu` (slope
    /// 0.2), `elu` (alpha 1), `sigmoid` or `tanh`.
    pub fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "identity" | "none" => Self::Identity,
            "relu" => Self::Relu,
            "leaky-relu" => Self::LeakyRelu(0.2),
            "elu" => Self::Elu(1.0),
            "sigmoid" => Self::Sigmoid,
            "tanh" => Self::Tanh,
            _ => {
                return Err(Error::Argument(format!(
                    "activation `{name}` is unknown; the activations are identity, relu, leaky-relu, elu, sigmoid, tanh"
                )));
            }
        })
    }
}

/// Inverted dropout: a value is dropped with `probability`, otherwise scaled by 1 / (1 -
/// probability).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Probability, 0 <= p < 1
    pub probability: f32,
    /// Index that distinguishes several dropouts of one kernel.
    pub stream: u32,
}

/// Operations before a product: u = dropout(activation(x + bias)).
#[derive(Debug, Clone, Copy)]
pub struct Prologue<'a> {
    /// Bias that is added to each row, of shape [k].
    pub bias: Option<&'a Matrix>,
    /// Activation, which is applied after the bias.
    pub activation: Activation,
    /// Dropout, which is applied after the activation, in training only.
    pub dropout: Option<Dropout>,
}

/// Operations after a product: y = activation(z + bias).
#[derive(Debug, Clone, Copy)]
pub struct Epilogue<'a> {
    /// Bias that is added to each row, of shape [m].
    pub bias: Option<&'a Matrix>,
    /// Activation, which is applied after the bias.
    pub activation: Activation,
}

/// Elementwise function of x other than an activation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Function {
    /// e^x
    Exp,
    /// Natural logarithm. It is -inf at 0, and NaN below 0.
    Log,
    /// Square root. It is NaN below 0.
    Sqrt,
    /// 1 / x. It is infinite at 0.
    Reciprocal,
    /// |x|
    Absolute,
    /// x to this power, which must be finite. It is NaN for negative x unless the power is an
    /// integer.
    Power(f32),
}

/// Smooth activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smooth {
    /// x Phi(x), where Phi is the standard normal distribution (Hendrycks and Gimpel 2016).
    Gelu,
    /// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, an approximation of `Gelu`.
    GeluTanh,
    /// x / (1 + exp(-x)) (Elfwing, Uchibe and Doya 2017).
    Silu,
    /// ln(1 + exp(x)).
    Softplus,
}

impl Smooth {
    /// Returns the function with this name in model files: `gelu`, `gelu-tanh`, `silu` or
    /// `softplus`. `None` for another name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "gelu" => Self::Gelu,
            "gelu-tanh" => Self::GeluTanh,
            "silu" => Self::Silu,
            "softplus" => Self::Softplus,
            _ => return None,
        })
    }
}

/// Geometry of the windows of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Number of values along each side of a window.
    pub kernel: u32,
    /// Distance between adjacent windows, in pixels.
    pub stride: u32,
    /// Number of zeros on each side of the image.
    pub padding: u32,
    /// Distance between adjacent values of a window, in pixels.
    pub dilation: u32,
}

impl Windows {
    /// Returns the number of windows along a side of `extent` pixels. `None` if no window fits.
    pub fn along(&self, extent: u32) -> Option<u32> {
        if extent == 0 || self.dilation == 0 {
            return None;
        }
        let reach = self.kernel.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)?;
        let room = self.padding.checked_mul(2)?.checked_add(extent)?.checked_sub(reach)?;
        room.checked_div(self.stride)?.checked_add(1)
    }
}

/// Reduction of the values of a row or a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Sum.
    Sum,
    /// Sum divided by the number of values.
    Mean,
    /// Maximum.
    Max,
}

/// Context of a call: the position in the run, and the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// True in training, when dropout applies.
    pub training: bool,
    /// Training round (one optimizer step), from 0.
    pub epoch: u32,
    /// Index of the layer in the model, from 0.
    pub layer: u32,
    /// Number of rows of the interval.
    pub rows: u32,
}

//! Plain data of the contract.

use crate::Matrix;

/// The result of a contract operation.
pub type Result<T> = core::result::Result<T, Error>;

/// A typed failure (`types.error`).
#[derive(Debug, Clone, PartialEq)]
pub enum Error {
    /// Operands of an operation do not fit together; extents are rows first.
    Shape {
        /// The import.
        operation: String,
        /// The operand.
        operand: String,
        /// Extents wanted.
        expected: Vec<u32>,
        /// Extents given.
        found: Vec<u32>,
    },
    /// A value that the operation cannot take.
    Argument(String),
    /// A limit of the host was reached.
    Limit {
        /// Its name.
        limit: String,
        /// Its unit.
        unit: String,
        /// What is allowed.
        allowed: u64,
        /// What was asked for.
        asked: u64,
    },
    /// Something did not happen in time.
    Deadline(String),
    /// The host does not offer this.
    Unsupported(String),
    /// The kernel's own failure.
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

/// An elementwise function of x.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// x
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
    /// The function that a model file names: `identity`, `relu`, `leaky-relu` (slope 0.2), `elu`
    /// (alpha 1), `sigmoid` or `tanh`.
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
                    "activation `{name}` is unknown; known are identity, relu, leaky-relu, elu, sigmoid, tanh"
                )));
            }
        })
    }
}

/// Inverted dropout: dropped with `probability`, else scaled by 1 / (1 - probability).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// 0 <= p < 1
    pub probability: f32,
    /// Tells several dropouts of one kernel apart.
    pub stream: u32,
}

/// u = dropout(activation(x + bias)).
#[derive(Debug, Clone, Copy)]
pub struct Prologue<'a> {
    /// [k]
    pub bias: Option<&'a Matrix>,
    /// Applied after the bias.
    pub activation: Activation,
    /// Applied last, while training.
    pub dropout: Option<Dropout>,
}

/// y = activation(z + bias).
#[derive(Debug, Clone, Copy)]
pub struct Epilogue<'a> {
    /// [m]
    pub bias: Option<&'a Matrix>,
    /// Applied after the bias.
    pub activation: Activation,
}

/// An elementwise function of x that is no activation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Function {
    /// e^x
    Exp,
    /// The natural logarithm: -inf at 0, NaN below.
    Log,
    /// The square root: NaN below 0.
    Sqrt,
    /// 1 / x: infinite at 0.
    Reciprocal,
    /// |x|
    Absolute,
    /// x to this power, which is finite: NaN for negative x unless the power is an integer.
    Power(f32),
}

/// Attention among the tokens of sequences, `group` rows each, of which a token sees all, or those before it and itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attention {
    /// Heads, each of an equal share of the values.
    pub heads: u32,
    /// Rows of a sequence.
    pub group: u32,
    /// Whether a token sees those before it and itself alone.
    pub causal: bool,
    /// What scores are multiplied by.
    pub scale: f32,
}

/// What brings a row u of k values to one scale, h.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowScale {
    /// h = (u - m) / sqrt(mean((u - m)^2) + e), m = mean(u), e this value (Ba, Kiros and Hinton 2016).
    Layer(f32),
    /// h = u / sqrt(mean(u^2) + e), e this value (Zhang and Sennrich 2019).
    Rms(f32),
    /// h = u / max(|u|, e), |u| the Euclidean norm, e this value.
    Length(f32),
    /// h = u.
    None,
}

/// A smooth activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Smooth {
    /// x Phi(x), Phi the standard normal distribution (Hendrycks and Gimpel 2016).
    Gelu,
    /// x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, an approximation of `Gelu`.
    GeluTanh,
    /// x / (1 + exp(-x)) (Elfwing, Uchibe and Doya 2017).
    Silu,
    /// ln(1 + exp(x)).
    Softplus,
}

impl Smooth {
    /// The function that a model file names: `gelu`, `gelu-tanh`, `silu` or `softplus`; none of another name.
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

/// Windows of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Values along a side of a window.
    pub kernel: u32,
    /// Distance between windows.
    pub stride: u32,
    /// Zeros around the image.
    pub padding: u32,
    /// Distance between a window's values.
    pub dilation: u32,
}

impl Windows {
    /// Windows along a side of `extent` values; none where no window fits.
    pub fn along(&self, extent: u32) -> Option<u32> {
        if extent == 0 || self.dilation == 0 {
            return None;
        }
        let reach = self.kernel.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)?;
        let room = self.padding.checked_mul(2)?.checked_add(extent)?.checked_sub(reach)?;
        room.checked_div(self.stride)?.checked_add(1)
    }
}

/// How rows or segments are reduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The sum divided by the count.
    Mean,
    /// The largest.
    Max,
}

/// What a call is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Whether dropout applies.
    pub training: bool,
    /// From 0.
    pub epoch: u32,
    /// From 0.
    pub layer: u32,
    /// Rows of the interval.
    pub rows: u32,
}

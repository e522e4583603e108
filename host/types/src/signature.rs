//! What a kernel says about a configured layer, as plain data.
//!
//! A mirror of `interface vertex` and `interface edge` in the kernel contract (`wit/kernel/kernel.wit`),
//! filled by the driver from the kernel host, so that plans can be made without one.

use serde::{Deserialize, Serialize};

/// The attribute by which a kernel is told how many rows, one after another, are a sequence.
pub const GROUP: &str = "group";

/// The attribute that names inputs and parameters of which a kernel reads signs and scales alone, with blanks
/// between (docs/KERNELS.md has what that is).
pub const SIGNS: &str = "signs";

/// What a layer, opened with its inputs' extents and its attributes, takes and gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Signature {
    /// Blocks of rows that forward reads; of an edge kernel, source and target.
    pub inputs: Vec<RowsSpec>,
    /// What is trained, in the kernel's order.
    pub parameters: Vec<ParameterSpec>,
    /// Blocks of rows that forward writes.
    pub outputs: Vec<RowsSpec>,
    /// What forward leaves for backward besides inputs and outputs.
    pub kept: Vec<RowsSpec>,
    /// What backward reads; an edge kernel's steps read what the contract says.
    pub backward_needs: BackwardNeeds,
    /// What `loss` (forward, loss and backward in one) compares with; `None`: it is not offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<TargetKind>,
    /// What only edge kernels have. `None`: a vertex kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<EdgeSignature>,
}

/// What a last layer's rows are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// A class a row.
    Classes,
    /// Numbers, as many as the first output has columns.
    Values,
}

/// What only an edge kernel says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeSignature {
    /// What the target's side leaves for the source's, in backward.
    pub passed: RowsSpec,
}

/// A block of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsSpec {
    /// For instance `rows`.
    pub name: String,
    /// Extents of one row, without the number of rows.
    pub extents: Vec<u32>,
}

impl RowsSpec {
    /// Values a row, or `None` past 2^32 - 1 (the contract's limit).
    #[must_use]
    pub fn width(&self) -> Option<u32> {
        self.extents.iter().try_fold(1u32, |width, &e| width.checked_mul(e))
    }
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterSpec {
    /// For instance `weight`.
    pub name: String,
    /// Extents, rows first.
    pub shape: Vec<u32>,
    /// Its first values.
    pub initialiser: Initialiser,
}

impl ParameterSpec {
    /// Number of values, or `None` past 2^32 - 1.
    #[must_use]
    pub fn values(&self) -> Option<u32> {
        self.shape.iter().try_fold(1u32, |len, &e| len.checked_mul(e))
    }
}

/// How a parameter starts. Numbers are drawn from the contract's generator with purpose 1, the
/// parameter's position in its signature as stream, its rows as global rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initialiser {
    /// All 0.
    Zeros,
    /// All the same.
    Constant(f32),
    /// Uniform in +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010).
    GlorotUniform,
    /// Uniform in +-bound.
    Uniform(f32),
    /// Normal about 0, of this standard deviation. Only a model says so.
    Normal(f32),
    /// Rows or columns, whichever are fewer, at right angles and this long. Only a model says so.
    Orthogonal(f32),
}

/// What backward reads besides gradients, parameters and kept rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackwardNeeds {
    /// The forward inputs.
    pub inputs: bool,
    /// The forward outputs.
    pub outputs: bool,
}

/// An attribute that a kernel takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttributeSpec {
    /// For instance `out-features`.
    pub name: String,
    /// What it means, in one sentence.
    pub meaning: String,
    /// `None`: it must be given.
    pub default: Option<Value>,
}

/// An attribute as given to a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attribute {
    /// For instance `out-features`.
    pub name: String,
    /// Its value.
    pub value: Value,
}

impl Attribute {
    /// An attribute from its two parts.
    #[must_use]
    pub fn new(name: &str, value: Value) -> Self {
        Self { name: name.to_owned(), value }
    }
}

/// The value of an attribute, as a model file gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A real number.
    Number(f64),
    /// Words.
    Text(String),
    /// Yes or no.
    Flag(bool),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::Flag(value) => value.fmt(f),
        }
    }
}

/// What a kernel of the user's own works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// Each row by itself: a kernel of `interface vertex`.
    #[default]
    Rows,
    /// Each vertex's in-neighbours, their rows and its own: a kernel of `interface edge`.
    Edges,
}

impl On {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("rows", Self::Rows), ("edges", Self::Edges)];

    /// The interface of the contract that such a kernel exports, as messages have it.
    #[must_use]
    pub const fn interface(self) -> &'static str {
        match self {
            Self::Rows => "`vertex`",
            Self::Edges => "`edge`",
        }
    }
}

/// Weights of edges in a gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalisation {
    /// `D^-1/2 (A + I) D^-1/2`, D the in-degrees of A + I: v itself is among the terms.
    Symmetric,
    /// 1 / in-degree of v: the mean; zero where there is no in-neighbour.
    Mean,
    /// 1: the sum.
    Sum,
}

impl Normalisation {
    /// Its name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Symmetric => "symmetric",
            Self::Mean => "mean",
            Self::Sum => "sum",
        }
    }

    /// The normalisation of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Symmetric, Self::Mean, Self::Sum].into_iter().find(|known| known.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_past_the_limit_are_none() {
        let rows = |extents: &[u32]| RowsSpec { name: "rows".into(), extents: extents.into() };
        assert_eq!(rows(&[]).width(), Some(1));
        assert_eq!(rows(&[8, 16]).width(), Some(128));
        assert_eq!(rows(&[1 << 16, 1 << 16]).width(), None);
    }

    #[test]
    fn a_signature_without_edges_is_written_as_before() {
        let mut signature = Signature::default();
        let written = toml::to_string(&signature).unwrap();
        assert!(!written.contains("edges"), "{written}");
        assert_eq!(toml::from_str::<Signature>(&written).unwrap(), signature);
        signature.edges = Some(EdgeSignature { passed: RowsSpec { name: "p".into(), extents: vec![3] } });
        let written = toml::to_string(&signature).unwrap();
        assert_eq!(toml::from_str::<Signature>(&written).unwrap(), signature);
    }
}

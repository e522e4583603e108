//! Signatures of kernels, as plain data.
//!
//! They mirror `interface vertex` and `interface edge` of the kernel contract
//! (`wit/kernel/kernel.wit`). The driver reads them from the kernel, so that planning needs no
//! WebAssembly.

use serde::{Deserialize, Serialize};

/// Name of the attribute with the number of consecutive rows that form a sequence.
pub const GROUP: &str = "group";

/// Name of the attribute with the inputs and parameters, separated by spaces, of which a kernel
/// reads only signs and scales (docs/reference/contract.md).
pub const SIGNS: &str = "signs";

/// Inputs, outputs and parameters of a layer, for given input extents and attributes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Signature {
    /// Blocks of rows that `forward` reads. An edge kernel has two: source and target.
    pub inputs: Vec<RowsSpec>,
    /// Parameters, in the kernel's order.
    pub parameters: Vec<ParameterSpec>,
    /// Blocks of rows that `forward` writes.
    pub outputs: Vec<RowsSpec>,
    /// Blocks of rows that `forward` stashes for `backward`, in addition to inputs and outputs.
    pub kept: Vec<RowsSpec>,
    /// Forward rows that `backward` reads. For edge kernels the contract fixes them.
    pub backward_needs: BackwardNeeds,
    /// Targets of the function `loss`, which does forward, loss and backward in one call. If
    /// `None`, the kernel has no such function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<TargetKind>,
    /// Additional fields of an edge kernel. If `None`, this is a vertex kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<EdgeSignature>,
}

/// Kind of training targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// One class per row.
    Classes,
    /// Numbers: one per column of the first output.
    Values,
}

/// Fields of a signature that only edge kernels have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeSignature {
    /// Rows that the backward step of the target side writes for that of the source side.
    pub passed: RowsSpec,
}

/// Name and shape of a block of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsSpec {
    /// Name, for instance `rows`.
    pub name: String,
    /// Extents of one row, without the number of rows.
    pub extents: Vec<u32>,
}

impl RowsSpec {
    /// Returns the number of values per row, or `None` above the contract's limit of 2^32 - 1.
    #[must_use]
    pub fn width(&self) -> Option<u32> {
        self.extents.iter().try_fold(1u32, |width, &e| width.checked_mul(e))
    }
}

/// Name, shape and initial values of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterSpec {
    /// Name, for instance `weight`.
    pub name: String,
    /// Extents, rows first.
    pub shape: Vec<u32>,
    /// Distribution of the initial values.
    pub initialiser: Initialiser,
}

impl ParameterSpec {
    /// Returns the number of values, or `None` above 2^32 - 1.
    #[must_use]
    pub fn values(&self) -> Option<u32> {
        self.shape.iter().try_fold(1u32, |len, &e| len.checked_mul(e))
    }
}

/// Distribution of a parameter's initial values. They are drawn from the contract's generator with
/// purpose 1, the parameter's index in its signature as stream, and its rows as global rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initialiser {
    /// All values are 0.
    Zeros,
    /// All values are this one.
    Constant(f32),
    /// Uniform in +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010).
    GlorotUniform,
    /// Uniform in +-this bound.
    Uniform(f32),
    /// Normal with mean 0 and this standard deviation. Kernels do not ask for it; models may.
    Normal(f32),
    /// Orthogonal rows or columns, whichever are fewer, of this length. Kernels do not ask for it;
    /// models may.
    Orthogonal(f32),
}

/// Forward rows that `backward` reads, in addition to gradients, parameters and stashed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackwardNeeds {
    /// True if it reads the inputs of `forward`.
    pub inputs: bool,
    /// True if it reads the outputs of `forward`.
    pub outputs: bool,
}

/// Declaration of an attribute of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttributeSpec {
    /// Name, for instance `out-features`.
    pub name: String,
    /// Its meaning, in one sentence.
    pub meaning: String,
    /// Default value. If `None`, the attribute is required.
    pub default: Option<Value>,
}

/// Name and value of an attribute that a kernel is opened with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attribute {
    /// Name, for instance `out-features`.
    pub name: String,
    /// Its value.
    pub value: Value,
}

impl Attribute {
    /// Creates an attribute.
    #[must_use]
    pub fn new(name: &str, value: Value) -> Self {
        Self { name: name.to_owned(), value }
    }
}

/// Value of an attribute, as model files have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A real number.
    Number(f64),
    /// A text.
    Text(String),
    /// A truth value.
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

/// Rows that a user's kernel computes on.
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
    /// All values with their names.
    pub const ALL: [(&'static str, Self); 2] = [("rows", Self::Rows), ("edges", Self::Edges)];

    /// Returns the name of the contract's interface that such a kernel exports, in quotes for
    /// messages.
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
    /// `D^-1/2 (A + I) D^-1/2`, where D has the in-degrees of A + I. The vertex itself is among the
    /// terms.
    Symmetric,
    /// 1 / in-degree of the vertex: the mean. The result is 0 for a vertex without in-neighbours.
    Mean,
    /// 1: the sum.
    Sum,
}

impl Normalisation {
    /// Returns the name that plans print.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Symmetric => "symmetric",
            Self::Mean => "mean",
            Self::Sum => "sum",
        }
    }

    /// Returns the normalisation with this name.
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

//! Kernel signatures as plain data.
//!
//! The types mirror `interface vertex` and `interface edge` of the kernel contract
//! (`wit/kernel/kernel.wit`). The driver reads signatures from the kernels, so that planning needs
//! no WebAssembly.

use serde::{Deserialize, Serialize};

/// Name of the attribute that sets the number of consecutive rows per sequence.
pub const GROUP: &str = "group";

/// Name of the attribute that lists inputs and parameters of which a kernel reads only signs and
/// scales. The names are separated by spaces. See docs/reference/contract.md.
pub const SIGNS: &str = "signs";

/// Inputs, outputs and parameters that a kernel declares for the input shapes and attributes that
/// it was opened with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Signature {
    /// Blocks of rows that `forward` reads. An edge kernel has two, the source rows and the target
    /// rows.
    pub inputs: Vec<RowsSpec>,
    /// Parameters, in the order in which the kernel declares them.
    pub parameters: Vec<ParameterSpec>,
    /// Blocks of rows that `forward` writes.
    pub outputs: Vec<RowsSpec>,
    /// Blocks of rows that `forward` stashes for `backward`, in addition to its inputs and outputs.
    pub kept: Vec<RowsSpec>,
    /// Inputs and outputs of `forward` that `backward` reads. For edge kernels, the kernel contract
    /// determines this value.
    pub backward_needs: BackwardNeeds,
    /// Kind of targets that the kernel's `loss` function expects. That function computes forward,
    /// loss and backward in one call. `None` if the kernel has no such function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<TargetKind>,
    /// Additional declarations of an edge kernel. `None` for a vertex kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<EdgeSignature>,
}

/// Kind of training targets that a loss function compares rows with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetKind {
    /// One class number per row.
    Classes,
    /// One number per row for each column of the first output.
    Values,
}

/// Fields of a [`Signature`] that only edge kernels have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeSignature {
    /// Rows that the first backward step (by target vertex) writes for the second one (by source
    /// vertex).
    pub passed: RowsSpec,
}

/// Name and shape of a block of rows in a kernel's signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowsSpec {
    /// Name of the block, for instance `rows`.
    pub name: String,
    /// Extents of one row. The number of rows is not included.
    pub extents: Vec<u32>,
}

impl RowsSpec {
    /// Returns the number of values per row, or `None` above the contract's limit of 2^32 - 1.
    #[must_use]
    pub fn width(&self) -> Option<u32> {
        self.extents.iter().try_fold(1u32, |width, &e| width.checked_mul(e))
    }
}

/// Name, shape and initial values of a kernel's parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParameterSpec {
    /// Name of the parameter, for instance `weight`.
    pub name: String,
    /// Extents of the parameter's matrix, with the number of rows first.
    pub shape: Vec<u32>,
    /// Distribution of the parameter's initial values.
    pub initialiser: Initialiser,
}

impl ParameterSpec {
    /// Returns the number of values of the parameter, or `None` above 2^32 - 1.
    #[must_use]
    pub fn values(&self) -> Option<u32> {
        self.shape.iter().try_fold(1u32, |len, &e| len.checked_mul(e))
    }
}

/// Distribution of a parameter's initial values. Values come from the kernel contract's random
/// number generator with purpose 1. The stream is the parameter's index in the signature, and the
/// global row is the row of the parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initialiser {
    /// All values are 0.
    Zeros,
    /// All values are the given constant.
    Constant(f32),
    /// Uniform between plus and minus `sqrt(6 / (rows + columns))` (Glorot and Bengio 2010).
    GlorotUniform,
    /// Uniform between plus and minus the given bound.
    Uniform(f32),
    /// Normal with mean 0 and the given standard deviation. Only models request this distribution,
    /// never kernels.
    Normal(f32),
    /// Orthogonal rows or columns, whichever are fewer, each of the given length. Only models
    /// request this distribution, never kernels.
    Orthogonal(f32),
}

/// Tensors of `forward` that `backward` reads, in addition to gradients, parameters and stashed
/// rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackwardNeeds {
    /// True if `backward` reads the inputs of `forward`.
    pub inputs: bool,
    /// True if `backward` reads the outputs of `forward`.
    pub outputs: bool,
}

/// Declaration of an attribute that a kernel accepts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttributeSpec {
    /// Name of the attribute, for instance `out-features`.
    pub name: String,
    /// Description of the attribute in one sentence.
    pub meaning: String,
    /// Default value. `None` if the attribute is required.
    pub default: Option<Value>,
}

/// Name and value of an attribute that configures a kernel when it is opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attribute {
    /// Name of the attribute, for instance `out-features`.
    pub name: String,
    /// Value of the attribute.
    pub value: Value,
}

impl Attribute {
    /// Creates an attribute with this name and value.
    #[must_use]
    pub fn new(name: &str, value: Value) -> Self {
        Self { name: name.to_owned(), value }
    }
}

/// Value of a kernel attribute. The variants are the value types of model files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A real number.
    Number(f64),
    /// A string.
    Text(String),
    /// A Boolean.
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

/// Interface of a user's kernel, which computes either on single rows or along edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// Each row separately, with a kernel of `interface vertex`.
    #[default]
    Rows,
    /// The rows of each vertex and of its in-neighbours, with a kernel of `interface edge`.
    Edges,
}

impl On {
    /// All kinds, each with its name in model files.
    pub const ALL: [(&'static str, Self); 2] = [("rows", Self::Rows), ("edges", Self::Edges)];

    /// Returns the contract's interface that a kernel of this kind exports. The name has backticks
    /// for use in messages.
    #[must_use]
    pub const fn interface(self) -> &'static str {
        match self {
            Self::Rows => "`vertex`",
            Self::Edges => "`edge`",
        }
    }
}

/// Edge weights of a gather, which sums the rows of a vertex's in-neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalisation {
    /// `D^-1/2 (A + I) D^-1/2`, where `A` is the adjacency matrix and `D` has the in-degrees of
    /// `A + I`. The sum includes the vertex's own row.
    Symmetric,
    /// 1 / in-degree, which yields the mean over in-neighbours. A vertex without in-neighbours
    /// receives 0.
    Mean,
    /// Weight 1, which yields the plain sum.
    Sum,
}

impl Normalisation {
    /// Returns the name of the normalisation as plans print it, for instance `mean`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Symmetric => "symmetric",
            Self::Mean => "mean",
            Self::Sum => "sum",
        }
    }

    /// Returns the normalisation called `name`, or `None` if the name is unknown.
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

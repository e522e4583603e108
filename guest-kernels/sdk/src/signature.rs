//! Signature of a kernel: attributes, parameters, inputs and outputs.

use crate::types::{Error, Result};

/// Value of a kernel attribute, as a model file gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Whole number.
    Integer(i64),
    /// Finite number.
    Number(f64),
    /// Text.
    Text(String),
    /// Boolean.
    Flag(bool),
}

/// Attribute that a kernel accepts, with its meaning and default value.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeSpec {
    /// Name of the attribute in a model file.
    pub name: &'static str,
    /// Meaning of the attribute, in one sentence.
    pub meaning: &'static str,
    /// Default value. If `None`, the attribute must be given.
    pub default: Option<Value>,
}

impl AttributeSpec {
    /// Creates the description of an attribute.
    pub fn new(name: &'static str, meaning: &'static str, default: Option<Value>) -> Self {
        Self { name, meaning, default }
    }
}

/// Attribute values with which one layer is opened.
#[derive(Debug, Clone, Default)]
pub struct Attributes(Vec<(String, Value)>);

impl Attributes {
    /// Creates attribute values from pairs of name and value.
    pub fn new(pairs: Vec<(String, Value)>) -> Self {
        Self(pairs)
    }

    /// Returns the error for an invalid attribute. The error does not contain the value, because
    /// number formatting would double the size of a small kernel. The host adds the values that
    /// were given.
    fn refuse(name: &str, needed: &str) -> Error {
        Error::Argument(["attribute `", name, "` must be ", needed].concat())
    }

    fn get(&self, name: &str, needed: &str) -> Result<&Value> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v).ok_or_else(|| Self::refuse(name, &["given: ", needed].concat()))
    }

    /// Returns the attribute as a whole number from 1 to 2^31.
    pub fn size(&self, name: &str) -> Result<u32> {
        let needed = "a whole number from 1";
        match self.get(name, needed)? {
            Value::Integer(v) if (1..=1 << 31).contains(v) => Ok(*v as u32),
            _ => Err(Self::refuse(name, needed)),
        }
    }

    /// Returns the attribute as a whole number from 0 to 2^31.
    pub fn count(&self, name: &str) -> Result<u32> {
        let needed = "a whole number from 0";
        match self.get(name, needed)? {
            Value::Integer(v) if (0..=1 << 31).contains(v) => Ok(*v as u32),
            _ => Err(Self::refuse(name, needed)),
        }
    }

    /// Returns the attribute as a finite number.
    pub fn number(&self, name: &str) -> Result<f64> {
        let needed = "a finite number";
        match self.get(name, needed)? {
            Value::Number(v) if v.is_finite() => Ok(*v),
            Value::Integer(v) => Ok(*v as f64),
            _ => Err(Self::refuse(name, needed)),
        }
    }

    /// Returns the attribute as a probability, 0 <= p < 1.
    pub fn probability(&self, name: &str) -> Result<f32> {
        let p = self.number(name)?;
        // The f32 that is nearest to a p just below 1 is 1.
        if p >= 0.0 && (p as f32) < 1.0 {
            return Ok(p as f32);
        }
        Err(Self::refuse(name, "a probability p with 0 <= p < 1"))
    }

    /// Returns the attribute as a boolean.
    pub fn flag(&self, name: &str) -> Result<bool> {
        let needed = "true or false";
        match self.get(name, needed)? {
            Value::Flag(v) => Ok(*v),
            _ => Err(Self::refuse(name, needed)),
        }
    }

    /// Returns the attribute as a text.
    pub fn text(&self, name: &str) -> Result<&str> {
        let needed = "text";
        match self.get(name, needed)? {
            Value::Text(v) => Ok(v),
            _ => Err(Self::refuse(name, needed)),
        }
    }
}

/// Initial values of a trainable parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Initialiser {
    /// All values are 0.
    Zeros,
    /// All values are this number.
    Constant(f32),
    /// Uniform in +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010).
    GlorotUniform,
    /// Uniform between -bound and +bound. The number is the bound.
    Uniform(f32),
}

/// Trainable parameter of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterSpec {
    /// Name of the parameter, which a model file can refer to.
    pub name: String,
    /// Extents of the parameter, rows first.
    pub shape: Vec<u32>,
    /// Initial values of the parameter.
    pub initialiser: Initialiser,
}

/// Block of rows that a layer reads or writes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowsSpec {
    /// Name of the block of rows. An input called `ids` contains whole numbers.
    pub name: String,
    /// Extents of one row of the block.
    pub extents: Vec<u32>,
}

impl RowsSpec {
    /// Creates the description of rows with these extents.
    pub fn new(name: &str, extents: &[u32]) -> Self {
        Self { name: name.to_owned(), extents: extents.to_vec() }
    }
}

/// Kind of target values with which the rows of a last layer are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// One class per row.
    Classes,
    /// Numbers, as many per row as the first output has columns.
    Values,
}

/// Signature of a vertex layer: inputs, outputs, parameters and requirements.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signature {
    /// Blocks of rows that `forward` reads.
    pub inputs: Vec<RowsSpec>,
    /// Trainable parameters of the layer.
    pub parameters: Vec<ParameterSpec>,
    /// Blocks of rows that `forward` writes.
    pub outputs: Vec<RowsSpec>,
    /// Rows that `forward` stashes for `backward`.
    pub kept: Vec<RowsSpec>,
    /// True if `backward` reads the inputs.
    pub needs_inputs: bool,
    /// True if `backward` reads the outputs.
    pub needs_outputs: bool,
    /// Kind of targets of [`crate::Kernel::loss`]. If `None`, the kernel has no loss.
    pub loss: Option<TargetKind>,
}

impl Signature {
    /// Creates an empty signature, to which rows and parameters are added.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a block of rows that `forward` reads.
    pub fn input(mut self, name: &str, extents: &[u32]) -> Self {
        self.inputs.push(RowsSpec::new(name, extents));
        self
    }

    /// Adds a block of rows that `forward` writes.
    pub fn output(mut self, name: &str, extents: &[u32]) -> Self {
        self.outputs.push(RowsSpec::new(name, extents));
        self
    }

    /// Adds rows that `forward` stashes for `backward`.
    pub fn keep(mut self, name: &str, extents: &[u32]) -> Self {
        self.kept.push(RowsSpec::new(name, extents));
        self
    }

    /// Adds a trainable parameter.
    pub fn parameter(mut self, name: &str, shape: &[u32], initialiser: Initialiser) -> Self {
        self.parameters.push(ParameterSpec { name: name.to_owned(), shape: shape.to_vec(), initialiser });
        self
    }

    /// Declares that `backward` reads the inputs.
    pub fn needing_inputs(mut self) -> Self {
        self.needs_inputs = true;
        self
    }

    /// Declares that `backward` reads the outputs.
    pub fn needing_outputs(mut self) -> Self {
        self.needs_outputs = true;
        self
    }

    /// Declares that the kernel is a last layer, whose rows are compared with these targets.
    pub fn with_loss(mut self, targets: TargetKind) -> Self {
        self.loss = Some(targets);
        self
    }
}

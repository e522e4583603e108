//! What a kernel says of itself: attributes, parameters, inputs and outputs.

use crate::types::{Error, Result};

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
    /// True or false.
    Flag(bool),
}

/// An attribute that a kernel takes.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeSpec {
    /// Its name in a model file.
    pub name: &'static str,
    /// What it means, in one sentence.
    pub meaning: &'static str,
    /// None: it must be given.
    pub default: Option<Value>,
}

impl AttributeSpec {
    /// An attribute.
    pub fn new(name: &'static str, meaning: &'static str, default: Option<Value>) -> Self {
        Self { name, meaning, default }
    }
}

/// The attributes of one layer.
#[derive(Debug, Clone, Default)]
pub struct Attributes(Vec<(String, Value)>);

impl Attributes {
    /// From pairs.
    pub fn new(pairs: Vec<(String, Value)>) -> Self {
        Self(pairs)
    }

    /// The error for an attribute that does not fit. It does not print the value, for formatting
    /// numbers would double a small kernel's size; the host adds what was given.
    fn refuse(name: &str, needed: &str) -> Error {
        Error::Argument(["attribute `", name, "` must be ", needed].concat())
    }

    fn get(&self, name: &str, needed: &str) -> Result<&Value> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v).ok_or_else(|| Self::refuse(name, &["given: ", needed].concat()))
    }

    /// A whole number from 1 to 2^31.
    pub fn size(&self, name: &str) -> Result<u32> {
        let needed = "a whole number from 1";
        match self.get(name, needed)? {
            Value::Integer(v) if (1..=1 << 31).contains(v) => Ok(*v as u32),
            _ => Err(Self::refuse(name, needed)),
        }
    }

    /// A whole number from 0 to 2^31.
    pub fn count(&self, name: &str) -> Result<u32> {
        let needed = "a whole number from 0";
        match self.get(name, needed)? {
            Value::Integer(v) if (0..=1 << 31).contains(v) => Ok(*v as u32),
            _ => Err(Self::refuse(name, needed)),
        }
    }

    /// A finite number.
    pub fn number(&self, name: &str) -> Result<f64> {
        let needed = "a finite number";
        match self.get(name, needed)? {
            Value::Number(v) if v.is_finite() => Ok(*v),
            Value::Integer(v) => Ok(*v as f64),
            _ => Err(Self::refuse(name, needed)),
        }
    }

    /// A probability: 0 <= p < 1.
    pub fn probability(&self, name: &str) -> Result<f32> {
        let p = self.number(name)?;
        // The nearest f32 of a p just below 1 is 1.
        if p >= 0.0 && (p as f32) < 1.0 {
            return Ok(p as f32);
        }
        Err(Self::refuse(name, "a probability p with 0 <= p < 1"))
    }

    /// True or false.
    pub fn flag(&self, name: &str) -> Result<bool> {
        let needed = "true or false";
        match self.get(name, needed)? {
            Value::Flag(v) => Ok(*v),
            _ => Err(Self::refuse(name, needed)),
        }
    }

    /// Text.
    pub fn text(&self, name: &str) -> Result<&str> {
        let needed = "text";
        match self.get(name, needed)? {
            Value::Text(v) => Ok(v),
            _ => Err(Self::refuse(name, needed)),
        }
    }
}

/// How a parameter starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Initialiser {
    /// All zero.
    Zeros,
    /// All this value.
    Constant(f32),
    /// Uniform in +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010).
    GlorotUniform,
    /// Uniform in +-bound.
    Uniform(f32),
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParameterSpec {
    /// Its name.
    pub name: String,
    /// Its extents.
    pub shape: Vec<u32>,
    /// How it starts.
    pub initialiser: Initialiser,
}

/// A block of rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RowsSpec {
    /// Its name.
    pub name: String,
    /// Extents of one row.
    pub extents: Vec<u32>,
}

impl RowsSpec {
    /// Rows of these extents each.
    pub fn new(name: &str, extents: &[u32]) -> Self {
        Self { name: name.to_owned(), extents: extents.to_vec() }
    }
}

/// What a last layer's rows are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// A class a row.
    Classes,
    /// Numbers, as many as the first output has columns.
    Values,
}

/// What a layer reads, writes, learns and needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signature {
    /// Read by forward.
    pub inputs: Vec<RowsSpec>,
    /// Learned.
    pub parameters: Vec<ParameterSpec>,
    /// Written by forward.
    pub outputs: Vec<RowsSpec>,
    /// Written by forward for backward.
    pub kept: Vec<RowsSpec>,
    /// Backward reads the inputs.
    pub needs_inputs: bool,
    /// Backward reads the outputs.
    pub needs_outputs: bool,
    /// What [`crate::Kernel::loss`] compares with; `None`: it is not called.
    pub loss: Option<TargetKind>,
}

impl Signature {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an input.
    pub fn input(mut self, name: &str, extents: &[u32]) -> Self {
        self.inputs.push(RowsSpec::new(name, extents));
        self
    }

    /// Adds an output.
    pub fn output(mut self, name: &str, extents: &[u32]) -> Self {
        self.outputs.push(RowsSpec::new(name, extents));
        self
    }

    /// Adds rows that forward keeps for backward.
    pub fn keep(mut self, name: &str, extents: &[u32]) -> Self {
        self.kept.push(RowsSpec::new(name, extents));
        self
    }

    /// Adds a parameter.
    pub fn parameter(mut self, name: &str, shape: &[u32], initialiser: Initialiser) -> Self {
        self.parameters.push(ParameterSpec { name: name.to_owned(), shape: shape.to_vec(), initialiser });
        self
    }

    /// Backward reads the inputs.
    pub fn needing_inputs(mut self) -> Self {
        self.needs_inputs = true;
        self
    }

    /// Backward reads the outputs.
    pub fn needing_outputs(mut self) -> Self {
        self.needs_outputs = true;
        self
    }

    /// The kernel is a last layer, whose rows are compared with these.
    pub fn with_loss(mut self, targets: TargetKind) -> Self {
        self.loss = Some(targets);
        self
    }
}

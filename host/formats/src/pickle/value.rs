//! Contents of a pickle as borrowed views.

use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::SparseRows;

use super::{Item, Node, Pickle};
use crate::array::Array;
use crate::csr;

/// Value in a pickle.
#[derive(Debug, Clone, Copy)]
pub enum Value<'p, 'a> {
    /// `None`, or a global that the pickle did not call.
    None,
    /// A Boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Bytes, or a `str` of Python 2.
    Bytes(&'p [u8]),
    /// Unicode text.
    Text(&'p str),
    /// An array of numbers.
    Array(&'p Array<'a>),
    /// A sparse matrix in CSR form, as the dictionary of its parts. [`Value::sparse_rows`] converts
    /// it.
    Csr(Dict<'p, 'a>),
    /// A list, a tuple, or an array of Python objects.
    List(List<'p, 'a>),
    /// A dictionary.
    Dict(Dict<'p, 'a>),
}

/// View of the items of a list or tuple.
#[derive(Debug, Clone, Copy)]
pub struct List<'p, 'a> {
    pickle: &'p Pickle<'a>,
    items: &'p [Item],
}

/// View of the key-value pairs of a dictionary.
#[derive(Debug, Clone, Copy)]
pub struct Dict<'p, 'a> {
    pickle: &'p Pickle<'a>,
    pairs: &'p [(Item, Item)],
}

impl<'p, 'a> List<'p, 'a> {
    /// Returns the items in order.
    pub fn iter(self) -> impl Iterator<Item = Value<'p, 'a>> + Clone {
        self.items.iter().map(move |&item| self.pickle.value(item))
    }

    /// Returns the number of items of the list or tuple.
    pub fn len(self) -> usize {
        self.items.len()
    }

    /// Returns whether the list has no items.
    pub fn is_empty(self) -> bool {
        self.items.is_empty()
    }
}

impl<'p, 'a> Dict<'p, 'a> {
    /// Returns the key-value pairs in the order in which they were written. A repeated key occurs
    /// several times.
    pub fn iter(self) -> impl Iterator<Item = (Value<'p, 'a>, Value<'p, 'a>)> + Clone {
        self.pairs.iter().map(move |&(k, v)| (self.pickle.value(k), self.pickle.value(v)))
    }

    /// Returns the number of key-value pairs.
    pub fn len(self) -> usize {
        self.pairs.len()
    }

    /// Returns whether the dictionary has no key-value pairs.
    pub fn is_empty(self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the value of the key `word`. If the key is repeated, it is the last value.
    pub fn get(self, word: &str) -> Option<Value<'p, 'a>> {
        let is = |key| match self.pickle.value(key) {
            Value::Text(text) => text == word,
            Value::Bytes(bytes) => bytes == word.as_bytes(),
            _ => false,
        };
        let found = self.pairs.iter().rev().find(|(key, _)| is(*key))?;
        Some(self.pickle.value(found.1))
    }
}

impl<'p, 'a> Value<'p, 'a> {
    /// Returns a description of the value's type for error messages, for instance `a list`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Bool(_) => "a flag",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Bytes(_) => "bytes",
            Self::Text(_) => "text",
            Self::Array(_) => "an array",
            Self::Csr(_) => "sparse rows",
            Self::List(_) => "a list",
            Self::Dict(_) => "a dictionary",
        }
    }

    /// Returns the value as an integer, or `None` if it is not one. An array with a single cell is
    /// converted to its cell.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Bool(value) => Some(i64::from(*value)),
            Self::Array(array) if array.shape.is_empty() => array.to_i64().ok()?.first().copied(),
            _ => None,
        }
    }

    /// Returns the value as an array. `file` is the name for error messages.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the value is not an array.
    pub fn array(&self, file: &str) -> Result<&'p Array<'a>> {
        match self {
            Self::Array(array) => Ok(array),
            other => Err(Error::malformed(Place::whole(file), "an array", other.kind())),
        }
    }

    /// Returns the value as sparse rows with sorted columns. An array with a single object is
    /// converted to the object. `file` is the name for error messages.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the value is not a sparse matrix, or if its parts are
    /// inconsistent.
    pub fn sparse_rows(&self, file: &str) -> Result<SparseRows> {
        self.stored_rows(file).map(csr::Stored::sorted)
    }

    /// Returns the value as sparse rows like [`Value::sparse_rows`], but in the stored order.
    pub(crate) fn stored_rows(&self, file: &str) -> Result<csr::Stored> {
        let parts = match self {
            Self::Csr(parts) => *parts,
            Self::List(list) if list.len() == 1 => match list.iter().next() {
                Some(Self::Csr(parts)) => parts,
                _ => return Err(wrong(file, "sparse rows", "another object")),
            },
            other => return Err(wrong(file, "sparse rows", other.kind())),
        };
        let part = |name: &'static str| {
            parts.get(name).ok_or_else(|| wrong(file, "sparse rows with all their arrays", name))
        };
        let shape = match parts.get("_shape").or_else(|| parts.get("shape")) {
            Some(Self::List(extents)) => {
                extents.iter().map(|e| e.integer().unwrap_or(-1)).collect::<Vec<_>>()
            }
            _ => return Err(wrong(file, "sparse rows with a shape", "none")),
        };
        csr::stored(
            file,
            &shape,
            part("indptr")?.array(file)?,
            part("indices")?.array(file)?,
            part("data")?.array(file)?,
        )
    }
}

fn wrong(file: &str, expected: &str, found: &str) -> Error {
    Error::malformed(Place::whole(file), expected, found)
}

impl<'a> Pickle<'a> {
    pub(super) fn value(&self, item: Item) -> Value<'_, 'a> {
        let position = match item {
            Item::None | Item::Global(_) => return Value::None,
            Item::Bool(value) => return Value::Bool(value),
            Item::Int(value) => return Value::Int(value),
            Item::Float(value) => return Value::Float(value),
            Item::Node(position) => position,
        };
        let list = |items| Value::List(List { pickle: self, items });
        match self.nodes.get(position as usize) {
            None | Some(Node::EmptyArray | Node::Dtype { .. }) => Value::None,
            Some(Node::Bytes(bytes)) => Value::Bytes(bytes),
            Some(Node::Text(text)) => Value::Text(text),
            Some(Node::Tuple(items) | Node::List(items)) => list(items),
            Some(Node::Objects(cells)) => list(self.items(*cells)),
            Some(Node::Dict(pairs)) => Value::Dict(Dict { pickle: self, pairs }),
            Some(Node::Array(array)) => Value::Array(array),
            Some(Node::Csr(parts)) => Value::Csr(Dict { pickle: self, pairs: self.pairs(*parts) }),
        }
    }

    fn items(&self, list: Item) -> &[Item] {
        match list {
            Item::Node(at) => match self.nodes.get(at as usize) {
                Some(Node::List(items) | Node::Tuple(items)) => items,
                _ => &[],
            },
            _ => &[],
        }
    }

    fn pairs(&self, dict: Option<Item>) -> &[(Item, Item)] {
        match dict {
            Some(Item::Node(at)) => match self.nodes.get(at as usize) {
                Some(Node::Dict(pairs)) => pairs,
                _ => &[],
            },
            _ => &[],
        }
    }
}

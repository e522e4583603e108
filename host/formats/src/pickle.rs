//! A pickle reader that cannot be made to do anything but read: protocols 0 to 4, and only the
//! constructors that published graph files use.
//!
//! Pickle is a program for a small stack machine. This machine has the opcodes that build lists,
//! tuples, dictionaries, numbers and text, and a fixed table of harmless globals (`globals.rs`):
//! NumPy's arrays, element types and scalars, SciPy's sparse rows, `defaultdict`, `list`, and the
//! latin-1 encoder. Any other global is refused by name. Nothing is imported, called or executed.
//!
//! Objects live in one list (an arena) and refer to each other by position, so shared and cyclic
//! structures cost nothing and no code here recurses over what it reads.
//!
//! # Limits
//! [`MAX_OBJECTS`] objects, [`MAX_STACK`] stack entries, [`MAX_MEMO`] memo entries; numbers have at
//! most 64 bits. Memory is at most about 60 times the file's length.

mod globals;
mod machine;
mod value;

pub use globals::Global;
pub use value::{List, Value};

use std::borrow::Cow;

use eciton_graph::error::Result;

use super::array::Array;

/// The most objects (lists, dictionaries, tuples, texts, arrays) of one pickle.
pub const MAX_OBJECTS: usize = 1 << 26;
/// The most entries on the machine's stack.
pub const MAX_STACK: usize = 1 << 26;
/// The most bytes of texts that are copied (other bytes stay where they lie in the file): so many,
/// and 16 times the file's length.
pub const MAX_COPIED_BYTES: usize = 64 << 20;
/// The most remembered objects.
pub const MAX_MEMO: usize = 1 << 26;

/// A pickle that was read.
#[derive(Debug)]
pub struct Pickle<'a> {
    nodes: Vec<Node<'a>>,
    root: Item,
    file: String,
    bytes_len: usize,
}

impl<'a> Pickle<'a> {
    /// Reads a pickle. `file` is named in errors.
    ///
    /// # Errors
    /// [`eciton_graph::error::Error::ForbiddenGlobal`], [`eciton_graph::error::Error::Malformed`]
    /// and [`eciton_graph::error::Error::Limit`], each with the byte.
    pub fn parse(bytes: &'a [u8], file: &str) -> Result<Self> {
        machine::Machine::new(bytes, file).run()
    }

    /// Returns the content of the pickle.
    pub fn root(&self) -> Value<'_, 'a> {
        self.value(self.root)
    }

    /// The length of the pickle: what is not shared within it has at most as many parts.
    pub fn bytes_len(&self) -> usize {
        self.bytes_len
    }

    /// The file's name in errors.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// A small value, or the position of an object in the arena.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Item {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Global(Global),
    Node(u32),
}

/// An object of the arena.
#[derive(Debug)]
enum Node<'a> {
    Bytes(Cow<'a, [u8]>),
    Text(Cow<'a, str>),
    Tuple(Vec<Item>),
    List(Vec<Item>),
    Dict(Vec<(Item, Item)>),
    /// Made by `_reconstruct`, not yet given its state.
    EmptyArray,
    Array(Array<'a>),
    /// An array of Python objects: its cells are in the list.
    Objects(Item),
    /// A type code and whether its highest byte comes first.
    Dtype {
        code: Cow<'a, str>,
        big_endian: bool,
    },
    /// Sparse rows; the dictionary of their parts once known.
    Csr(Option<Item>),
}

#[cfg(test)]
mod tests;

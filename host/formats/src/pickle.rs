//! Safe reader of Python pickles: protocols 0 to 4, limited to the constructors that published
//! graph files use.
//!
//! A pickle is a program for a small stack machine. This reader has the opcodes that build lists,
//! tuples, dictionaries, numbers and text, and a fixed table of harmless globals (`globals.rs`):
//! NumPy's arrays, element types and scalars, SciPy's sparse rows, `defaultdict`, `list`, and the
//! latin-1 encoder. Any other global is refused by name. Nothing is imported, called or executed.
//!
//! Objects are stored in one list (an arena) and refer to each other by index. Shared and cyclic
//! structures therefore cost nothing, and no code here recurses over the content.
//!
//! # Limits
//! A pickle may have [`MAX_OBJECTS`] objects, [`MAX_STACK`] stack entries and [`MAX_MEMO`] memo
//! entries. Numbers have at most 64 bits. Memory is at most about 60 times the length of the file.

mod globals;
mod machine;
mod value;

pub use globals::Global;
pub use value::{List, Value};

use std::borrow::Cow;

use eciton_graph::error::Result;

use super::array::Array;

/// Maximum number of objects (lists, dictionaries, tuples, texts, arrays) of a pickle.
pub const MAX_OBJECTS: usize = 1 << 26;
/// Maximum number of entries on the stack of the pickle machine.
pub const MAX_STACK: usize = 1 << 26;
/// Number of bytes of text that may be copied, in addition to 16 times the length of the file.
/// Other bytes are borrowed from the file.
pub const MAX_COPIED_BYTES: usize = 64 << 20;
/// Maximum number of entries of the memo, by which a pickle refers to earlier objects.
pub const MAX_MEMO: usize = 1 << 26;

/// Pickle that has been read.
#[derive(Debug)]
pub struct Pickle<'a> {
    nodes: Vec<Node<'a>>,
    root: Item,
    file: String,
    bytes_len: usize,
}

impl<'a> Pickle<'a> {
    /// Reads a pickle. Error messages name `file`.
    ///
    /// # Errors
    /// Returns [`eciton_graph::error::Error::ForbiddenGlobal`],
    /// [`eciton_graph::error::Error::Malformed`] or [`eciton_graph::error::Error::Limit`], each
    /// with the byte position.
    pub fn parse(bytes: &'a [u8], file: &str) -> Result<Self> {
        machine::Machine::new(bytes, file).run()
    }

    /// Returns the content of the pickle.
    pub fn root(&self) -> Value<'_, 'a> {
        self.value(self.root)
    }

    /// Returns the length of the pickle in bytes. Content that is not shared within the pickle has
    /// at most this number of parts.
    pub fn bytes_len(&self) -> usize {
        self.bytes_len
    }

    /// Returns the name of the file in error messages.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// Small value, or the index of an object in the arena.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Item {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Global(Global),
    Node(u32),
}

/// Object of the arena.
#[derive(Debug)]
enum Node<'a> {
    Bytes(Cow<'a, [u8]>),
    Text(Cow<'a, str>),
    Tuple(Vec<Item>),
    List(Vec<Item>),
    Dict(Vec<(Item, Item)>),
    /// Array that `_reconstruct` has created, without its state.
    EmptyArray,
    Array(Array<'a>),
    /// Array of Python objects. Its cells are in the list.
    Objects(Item),
    /// Element type: its code, and true if the most significant byte comes first.
    Dtype {
        code: Cow<'a, str>,
        big_endian: bool,
    },
    /// Sparse rows, with the dictionary of their parts once that is known.
    Csr(Option<Item>),
}

#[cfg(test)]
mod tests;

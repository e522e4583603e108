//! Safe reader for Python pickles of protocols 0 to 4. It supports only the constructors that
//! published graph files use.
//!
//! A pickle is a program for a small stack machine. This reader supports the opcodes that build
//! lists, tuples, dictionaries, numbers and text. A fixed table has the harmless globals that it
//! supports (`globals.rs`). They are NumPy's arrays, element types and scalars, SciPy's sparse
//! rows, `defaultdict`, `list`, and the latin-1 encoder. Any other global is rejected by name.
//! Nothing is imported, called or executed.
//!
//! Objects are stored in one list (an arena) and refer to each other by index. Shared and cyclic
//! structures therefore need no extra memory, and no code here recurses over the content.
//!
//! # Limits
//! A pickle may have [`MAX_OBJECTS`] objects, [`MAX_STACK`] stack entries and [`MAX_MEMO`] memo
//! entries. Integers have at most 64 bits. Reading needs at most about 60 times the length of the
//! file as memory.

mod globals;
mod machine;
mod value;

pub use globals::Global;
pub use value::{List, Value};

use std::borrow::Cow;

use eciton_graph::error::Result;

use super::array::Array;

/// Maximum number of objects (lists, dictionaries, tuples, texts and arrays) per pickle.
pub const MAX_OBJECTS: usize = 1 << 26;
/// Maximum number of entries on the stack of the pickle machine.
pub const MAX_STACK: usize = 1 << 26;
/// Maximum number of text bytes that may be copied, in addition to 16 times the length of the file.
/// All other bytes are borrowed from the file.
pub const MAX_COPIED_BYTES: usize = 64 << 20;
/// Maximum number of memo entries. A pickle refers to earlier objects by its memo.
pub const MAX_MEMO: usize = 1 << 26;

/// Parsed pickle.
#[derive(Debug)]
pub struct Pickle<'a> {
    nodes: Vec<Node<'a>>,
    root: Item,
    file: String,
    bytes_len: usize,
}

impl<'a> Pickle<'a> {
    /// Parses a pickle. `file` is the name for error messages.
    ///
    /// # Errors
    /// Returns [`eciton_graph::error::Error::ForbiddenGlobal`],
    /// [`eciton_graph::error::Error::Malformed`] or [`eciton_graph::error::Error::Limit`], each
    /// with the byte position.
    pub fn parse(bytes: &'a [u8], file: &str) -> Result<Self> {
        machine::Machine::new(bytes, file).run()
    }

    /// Returns the top-level value of the pickle.
    pub fn root(&self) -> Value<'_, 'a> {
        self.value(self.root)
    }

    /// Returns the length of the pickle in bytes. It is an upper bound on the number of values that
    /// are not shared within the pickle.
    pub fn bytes_len(&self) -> usize {
        self.bytes_len
    }

    /// Returns the name of the file for error messages.
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

/// Object in the arena.
#[derive(Debug)]
enum Node<'a> {
    Bytes(Cow<'a, [u8]>),
    Text(Cow<'a, str>),
    Tuple(Vec<Item>),
    List(Vec<Item>),
    Dict(Vec<(Item, Item)>),
    /// Array that `_reconstruct` has created and that has no state yet.
    EmptyArray,
    Array(Array<'a>),
    /// Array of Python objects. The item is the list of its cells.
    Objects(Item),
    /// Element type of an array, as its code and byte order.
    Dtype {
        code: Cow<'a, str>,
        big_endian: bool,
    },
    /// Sparse matrix in CSR form. The item is the dictionary of its parts, once it is known.
    Csr(Option<Item>),
}

#[cfg(test)]
mod tests;

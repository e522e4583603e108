//! Stack machine that interprets the opcodes of a pickle.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use eciton_graph::error::{Error, Place, Result};

use super::globals::Global;
use super::{Item, MAX_COPIED_BYTES, MAX_MEMO, MAX_OBJECTS, MAX_STACK, Node, Pickle};
use crate::array::{Array, Element};

pub(super) struct Machine<'a, 'f> {
    bytes: &'a [u8],
    file: &'f str,
    at: usize,
    /// Byte position of the current opcode.
    start: usize,
    nodes: Vec<Node<'a>>,
    stack: Vec<Item>,
    /// Height of the stack at each mark.
    marks: Vec<usize>,
    memo: HashMap<u64, Item>,
    /// Number of bytes that have been copied from texts.
    owned: Cell<usize>,
}

impl<'a, 'f> Machine<'a, 'f> {
    pub(super) fn new(bytes: &'a [u8], file: &'f str) -> Self {
        Self {
            bytes,
            file,
            at: 0,
            start: 0,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            owned: Cell::new(0),
        }
    }

    pub(super) fn run(mut self) -> Result<Pickle<'a>> {
        let (mut charge, mut charged) = (eciton_input::budget::Charge::default(), 0);
        loop {
            self.start = self.at;
            let opcode = self.byte()?;
            if opcode == b'.' {
                let root = self.pop()?;
                return Ok(Pickle {
                    nodes: self.nodes,
                    root,
                    file: self.file.to_owned(),
                    bytes_len: self.bytes.len(),
                });
            }
            self.step(opcode)?;
            self.limit("pickle stack", "entries", MAX_STACK, self.stack.len())?;
            self.limit("pickle objects", "objects", MAX_OBJECTS, self.nodes.len())?;
            self.limit("pickle memo", "entries", MAX_MEMO, self.memo.len())?;
            // Memory for objects, and for items of lists: 16 bytes for every two bytes of the
            // pickle.
            let taken = self.nodes.len() * size_of::<Node<'_>>() + 16 * self.memo.len() + 8 * self.at;
            if taken > charged {
                charged = taken + taken / 2 + (1 << 20);
                let grown = charge.grow_to(charged as u64);
                grown.map_err(|exceeded| crate::file::exceeded(self.file, exceeded))?;
            }
        }
    }

    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            0x80 => {
                let version = self.byte()?;
                if version > 4 {
                    return Err(self.wrong("pickle protocol 0 to 4", format!("{version}")));
                }
            }
            // FRAME is a hint for buffered reading.
            0x95 => drop(self.take(8)?),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => match self.marks.last() {
                // POP also removes a mark that is on top of the stack.
                Some(&height) if height == self.stack.len() => drop(self.marks.pop()),
                _ => drop(self.pop()?),
            },
            b'1' => drop(self.pop_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'N' => self.stack.push(Item::None),
            0x88 => self.stack.push(Item::Bool(true)),
            0x89 => self.stack.push(Item::Bool(false)),
            b'I' | b'L' | b'F' | b'J' | b'K' | b'M' | 0x8a | b'G' => self.number(opcode)?,
            b'S' | b'T' | b'U' | b'B' | b'C' | 0x8e => self.bytes_like(opcode)?,
            b'V' | b'X' | 0x8c | 0x8d => self.text(opcode)?,
            b')' => self.push_node(Node::Tuple(Vec::new())),
            0x85..=0x87 => {
                let count = usize::from(opcode - 0x84);
                let items = self.pop_many(count)?;
                self.push_node(Node::Tuple(items));
            }
            b't' => {
                let items = self.pop_mark()?;
                self.push_node(Node::Tuple(items));
            }
            b']' => self.push_node(Node::List(Vec::new())),
            b'l' => {
                let items = self.pop_mark()?;
                self.push_node(Node::List(items));
            }
            b'}' => self.push_node(Node::Dict(Vec::new())),
            b'd' => {
                let items = self.pop_mark()?;
                let pairs = self.pairs(&items)?;
                self.push_node(Node::Dict(pairs));
            }
            b'a' => {
                let item = self.pop()?;
                self.list()?.push(item);
            }
            b'e' => {
                let items = self.pop_mark()?;
                self.list()?.extend(items);
            }
            b's' => {
                let items = self.pop_many(2)?;
                let pairs = self.pairs(&items)?;
                self.dict()?.extend(pairs);
            }
            b'u' => {
                let items = self.pop_mark()?;
                let pairs = self.pairs(&items)?;
                self.dict()?.extend(pairs);
            }
            b'p' | b'q' | b'r' | 0x94 | b'g' | b'h' | b'j' => self.remember(opcode)?,
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.global(&String::from_utf8_lossy(module), &String::from_utf8_lossy(name))?;
            }
            0x93 => {
                let names = self.pop_many(2)?;
                let (module, name) = (self.word(names[0])?, self.word(names[1])?);
                self.global(&module, &name)?;
            }
            b'R' => self.call("REDUCE")?,
            0x81 => self.call("NEWOBJ")?,
            b'b' => self.build()?,
            other => {
                let found = format!("opcode {other:#04x}");
                return Err(self.wrong("an opcode that builds plain data", found));
            }
        }
        Ok(())
    }

    // ---- numbers, bytes and text -------------------------------------------------------------

    fn number(&mut self, opcode: u8) -> Result<()> {
        let item = match opcode {
            b'J' => Item::Int(i64::from(self.little(4)? as u32 as i32)),
            b'K' => Item::Int(self.little(1)? as i64),
            b'M' => Item::Int(self.little(2)? as i64),
            0x8a => {
                let length = usize::from(self.byte()?);
                if length > 8 {
                    return Err(self.wrong("a number of at most 64 bits", format!("{length} bytes")));
                }
                let bits = self.little(length)?;
                let unused = 64 - 8 * length as u32;
                Item::Int(if length == 0 { 0 } else { (bits << unused) as i64 >> unused })
            }
            b'G' => Item::Float(f64::from_bits(self.little(8)?.swap_bytes())),
            _ => {
                let line = String::from_utf8_lossy(self.line()?);
                let line = line.trim();
                match (opcode, line) {
                    (b'I', "00") => Item::Bool(false),
                    (b'I', "01") => Item::Bool(true),
                    (b'F', _) => match line.parse() {
                        Ok(value) => Item::Float(value),
                        Err(_) => return Err(self.wrong("a number", format!("{line:.40?}"))),
                    },
                    _ => match line.trim_end_matches('L').parse() {
                        Ok(value) => Item::Int(value),
                        Err(_) => {
                            return Err(self.wrong("a number of 64 bits", format!("{line:.40?}")));
                        }
                    },
                }
            }
        };
        self.stack.push(item);
        Ok(())
    }

    fn bytes_like(&mut self, opcode: u8) -> Result<()> {
        let bytes = match opcode {
            b'S' => {
                let line = self.line()?;
                let found = unquote(line);
                match found {
                    Some(bytes) => Cow::Owned(bytes),
                    None => return Err(self.wrong("a quoted string", "another line".to_owned())),
                }
            }
            b'U' | b'C' => Cow::Borrowed(self.counted(1)?),
            b'T' | b'B' => Cow::Borrowed(self.counted(4)?),
            _ => Cow::Borrowed(self.counted(8)?),
        };
        self.push_node(Node::Bytes(bytes));
        Ok(())
    }

    fn text(&mut self, opcode: u8) -> Result<()> {
        let text = match opcode {
            b'V' => {
                // Encoding raw-unicode-escape. Escapes occur only in names, which are not used.
                Cow::Owned(self.line()?.iter().map(|&b| char::from(b)).collect())
            }
            _ => {
                let width = match opcode {
                    0x8c => 1,
                    b'X' => 4,
                    _ => 8,
                };
                let bytes = self.counted(width)?;
                match std::str::from_utf8(bytes) {
                    Ok(text) => Cow::Borrowed(text),
                    Err(_) => return Err(self.wrong("UTF-8 text", "other bytes".to_owned())),
                }
            }
        };
        self.push_node(Node::Text(text));
        Ok(())
    }

    // ---- objects -----------------------------------------------------------------------------

    fn remember(&mut self, opcode: u8) -> Result<()> {
        let index = match opcode {
            b'p' | b'g' => {
                let line = String::from_utf8_lossy(self.line()?);
                match line.trim().parse() {
                    Ok(index) => index,
                    Err(_) => return Err(self.wrong("a memo index", format!("{line:.40?}"))),
                }
            }
            b'q' | b'h' => self.little(1)?,
            b'r' | b'j' => self.little(4)?,
            _ => self.memo.len() as u64,
        };
        if matches!(opcode, b'g' | b'h' | b'j') {
            let Some(&item) = self.memo.get(&index) else {
                return Err(self.wrong("a remembered object", format!("memo index {index}")));
            };
            self.stack.push(item);
        } else {
            let top = self.top()?;
            self.memo.insert(index, top);
        }
        Ok(())
    }

    fn global(&mut self, module: &str, name: &str) -> Result<()> {
        match Global::find(module, name) {
            Some(global) => self.stack.push(Item::Global(global)),
            None => {
                let global: String = format!("{module}.{name}").chars().take(120).collect();
                return Err(Error::ForbiddenGlobal { place: self.place(), global });
            }
        }
        Ok(())
    }

    /// Calls one of the known constructors with the arguments on the stack. The opcodes NEWOBJ and
    /// REDUCE have the same effect here.
    fn call(&mut self, opcode: &str) -> Result<()> {
        let both = self.pop_many(2)?;
        let Item::Global(global) = both[0] else {
            return Err(self.wrong("a known constructor", format!("{opcode} of another object")));
        };
        let arguments = self.tuple(both[1])?;
        let (count, first, second) = (arguments.len(), arguments.first().copied(), arguments.get(1).copied());
        let node = match (global, first) {
            (Global::Reconstruct, Some(Item::Global(Global::Array))) => Node::EmptyArray,
            (Global::Dtype, Some(code)) => {
                let code = self.word(code)?;
                if code.len() > 16 {
                    return Err(self.wrong("an element type", format!("{} bytes", code.len())));
                }
                let (order, bare) = match code.strip_prefix(['<', '>', '|', '=']) {
                    Some(bare) => (code.as_bytes().first().copied(), bare.to_owned()),
                    None => (None, code.clone().into_owned()),
                };
                Node::Dtype { code: Cow::Owned(bare), big_endian: order == Some(b'>') }
            }
            (Global::Scalar, Some(dtype)) => {
                let data = self.bytes_of(second.unwrap_or(Item::None))?;
                Node::Array(self.array(dtype, false, Vec::new(), data)?)
            }
            (Global::Csr, None) => Node::Csr(None),
            (Global::NewObject | Global::Reconstructor, Some(Item::Global(Global::Csr))) => Node::Csr(None),
            (Global::DefaultDict, None | Some(Item::None | Item::Global(Global::List))) if count < 2 => {
                Node::Dict(Vec::new())
            }
            (Global::List, None) => Node::List(Vec::new()),
            (Global::Encode, Some(text)) => {
                let text = self.word(text)?;
                let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
                match bytes {
                    Some(bytes) => {
                        self.own(bytes.len())?;
                        Node::Bytes(Cow::Owned(bytes))
                    }
                    None => {
                        return Err(self.wrong("latin-1 text", "other characters".to_owned()));
                    }
                }
            }
            _ => {
                let found = format!("{global:?} called in another form ({opcode})");
                return Err(self.wrong("a constructor call of the form that NumPy and SciPy use", found));
            }
        };
        self.push_node(node);
        Ok(())
    }

    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        let Item::Node(position) = self.top()? else {
            return Err(self.wrong("an object to give a state", "a plain value".to_owned()));
        };
        let node = match self.nodes.get(position as usize) {
            Some(Node::EmptyArray) => self.build_array(state)?,
            Some(Node::Dtype { code, .. }) => {
                let code = code.clone();
                self.build_dtype(code, state)?
            }
            Some(Node::Csr(None)) => match state {
                Item::Node(at) if matches!(self.nodes.get(at as usize), Some(Node::Dict(_))) => {
                    Node::Csr(Some(state))
                }
                _ => {
                    return Err(
                        self.wrong("a dictionary with the parts of the object", "another state".to_owned())
                    );
                }
            },
            _ => {
                let found = "a state for another object".to_owned();
                return Err(self.wrong("a state for an array, a type or sparse rows", found));
            }
        };
        if let Some(slot) = self.nodes.get_mut(position as usize) {
            *slot = node;
        }
        Ok(())
    }

    /// Builds an array from its pickled state, which is (version, shape, dtype, fortran, cells).
    /// Old files lack the version.
    fn build_array(&mut self, state: Item) -> Result<Node<'a>> {
        let state = self.tuple(state)?.to_vec();
        let &[shape, dtype, fortran, cells] = (match state.len() {
            5 => &state[1..],
            _ => &state[..],
        }) else {
            return Err(self.wrong("the state of an array", format!("{} parts", state.len())));
        };
        let extents: Option<Vec<usize>> = self
            .tuple(shape)?
            .iter()
            .map(|&extent| match extent {
                Item::Int(extent) => usize::try_from(extent).ok(),
                _ => None,
            })
            .collect();
        let Some(shape) = extents else {
            return Err(self.wrong("a shape that consists of whole numbers", "another shape".to_owned()));
        };
        let fortran = matches!(fortran, Item::Bool(true) | Item::Int(1));
        if let Item::Node(at) = cells
            && let Some(Node::List(items)) = self.nodes.get(at as usize)
        {
            if Array::cells_of(&shape) != Some(items.len()) {
                let found = format!("{} objects for shape {shape:?}", items.len());
                return Err(self.wrong("the number of objects that the shape states", found));
            }
            return Ok(Node::Objects(cells));
        }
        let data = self.bytes_of(cells)?;
        Ok(Node::Array(self.array(dtype, fortran, shape, data)?))
    }

    /// Builds an element type from its pickled state, which is (version, byte order, None, None,
    /// None, size, alignment, flags).
    fn build_dtype(&mut self, code: Cow<'a, str>, state: Item) -> Result<Node<'a>> {
        let state = self.tuple(state)?.to_vec();
        let parts = state.get(2..5).unwrap_or(&[]);
        if parts.len() != 3 || parts.iter().any(|&part| part != Item::None) {
            let found = "a type with fields".to_owned();
            return Err(self.wrong("a type with one number per cell", found));
        }
        let order = self.word(state[1])?;
        if !matches!(order.as_ref(), "<" | ">" | "|" | "=") {
            return Err(self.wrong("a byte order", format!("{order:.8?}")));
        }
        Ok(Node::Dtype { big_endian: order == ">", code })
    }

    fn array(&self, dtype: Item, fortran: bool, shape: Vec<usize>, data: Cow<'a, [u8]>) -> Result<Array<'a>> {
        let Item::Node(at) = dtype else {
            return Err(self.wrong("an element type", "another object".to_owned()));
        };
        let Some(Node::Dtype { code, big_endian }) = self.nodes.get(at as usize) else {
            return Err(self.wrong("an element type", "another object".to_owned()));
        };
        let Some(element) = Element::parse(code) else {
            return Err(self.wrong("a type of f4, f8, i1 to i8, u1 to u8, b1", format!("{code:.20?}")));
        };
        Array::new(element, *big_endian, fortran, shape, data, &self.place())
    }

    // ---- the stack ---------------------------------------------------------------------------

    fn push_node(&mut self, node: Node<'a>) {
        self.stack.push(Item::Node(self.nodes.len() as u32));
        self.nodes.push(node);
    }

    /// Returns the number of stack values above the last mark. Opcodes must not read values below
    /// the mark.
    fn available(&self) -> usize {
        self.stack.len() - self.marks.last().copied().unwrap_or(0).min(self.stack.len())
    }

    fn top(&self) -> Result<Item> {
        match self.stack.last() {
            Some(&item) if self.available() > 0 => Ok(item),
            _ => Err(self.wrong("an object on the stack", "none".to_owned())),
        }
    }

    fn pop(&mut self) -> Result<Item> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Removes the last `count` values from the stack and returns them.
    fn pop_many(&mut self, count: usize) -> Result<Vec<Item>> {
        if self.available() < count {
            let found = format!("{}", self.available());
            return Err(self.wrong(&format!("{count} objects on the stack"), found));
        }
        Ok(self.stack.split_off(self.stack.len() - count))
    }

    fn pop_mark(&mut self) -> Result<Vec<Item>> {
        match self.marks.pop() {
            Some(height) if height <= self.stack.len() => Ok(self.stack.split_off(height)),
            _ => Err(self.wrong("a mark on the stack", "none".to_owned())),
        }
    }

    fn pairs(&self, items: &[Item]) -> Result<Vec<(Item, Item)>> {
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(self.wrong("keys and values in pairs", "a key alone".to_owned()));
        }
        Ok(pairs.iter().map(|&[key, value]| (key, value)).collect())
    }

    fn list(&mut self) -> Result<&mut Vec<Item>> {
        let (top, place) = (self.top()?, self.place_at());
        if let Item::Node(at) = top
            && let Some(Node::List(items)) = self.nodes.get_mut(at as usize)
        {
            return Ok(items);
        }
        Err(refused_addition(place, "a list"))
    }

    fn dict(&mut self) -> Result<&mut Vec<(Item, Item)>> {
        let (top, place) = (self.top()?, self.place_at());
        if let Item::Node(at) = top
            && let Some(Node::Dict(pairs)) = self.nodes.get_mut(at as usize)
        {
            return Ok(pairs);
        }
        Err(refused_addition(place, "a dictionary"))
    }

    /// Returns the file and byte position of [`Machine::place`] without an allocation.
    fn place_at(&self) -> (&'f str, u64) {
        (self.file, self.start as u64)
    }

    fn tuple(&self, item: Item) -> Result<&[Item]> {
        if let Item::Node(at) = item
            && let Some(Node::Tuple(items)) = self.nodes.get(at as usize)
        {
            return Ok(items);
        }
        Err(self.wrong("a tuple", "another object".to_owned()))
    }

    fn bytes_of(&self, item: Item) -> Result<Cow<'a, [u8]>> {
        if let Item::Node(at) = item {
            match self.nodes.get(at as usize) {
                Some(Node::Bytes(bytes)) => return Ok(bytes.clone()),
                // A `str` of Python 2 that Python 3 read as latin-1 and wrote again.
                Some(Node::Text(text)) => {
                    let bytes = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
                    if let Some(bytes) = bytes {
                        let bytes: Vec<u8> = bytes;
                        self.own(bytes.len())?;
                        return Ok(Cow::Owned(bytes));
                    }
                }
                _ => {}
            }
        }
        Err(self.wrong("bytes", "another object".to_owned()))
    }

    /// Counts copied bytes against a limit, because a text in the memo could be copied arbitrarily
    /// often.
    fn own(&self, bytes: usize) -> Result<()> {
        self.owned.set(self.owned.get().saturating_add(bytes));
        self.limit(
            "pickle copies",
            "bytes",
            MAX_COPIED_BYTES.saturating_add(16 * self.bytes.len()),
            self.owned.get(),
        )
    }

    fn word(&self, item: Item) -> Result<Cow<'a, str>> {
        if let Item::Node(at) = item {
            match self.nodes.get(at as usize) {
                Some(Node::Text(text)) => return Ok(text.clone()),
                Some(Node::Bytes(bytes)) => {
                    if let Ok(text) = std::str::from_utf8(bytes) {
                        return Ok(Cow::Owned(text.to_owned()));
                    }
                }
                _ => {}
            }
        }
        Err(self.wrong("a word", "another object".to_owned()))
    }

    // ---- the bytes ---------------------------------------------------------------------------

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(found) => {
                self.at += count;
                Ok(found)
            }
            None => {
                let found = format!("{} before the end", self.bytes.len() - self.at);
                Err(self.wrong(&format!("{count} more bytes"), found))
            }
        }
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// Reads a little-endian unsigned integer of `count` bytes, at most eight.
    fn little(&mut self, count: usize) -> Result<u64> {
        Ok(self.take(count)?.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
    }

    /// Reads a byte string whose length precedes it in `width` bytes.
    fn counted(&mut self, width: usize) -> Result<&'a [u8]> {
        let length = self.little(width)?;
        match usize::try_from(length) {
            Ok(length) => self.take(length),
            Err(_) => Err(self.wrong("a length that fits into memory", format!("{length}"))),
        }
    }

    fn line(&mut self) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        match rest.iter().position(|&b| b == b'\n') {
            Some(length) => {
                self.at += length + 1;
                Ok(&rest[..length])
            }
            None => Err(self.wrong("the end of a line", "the end of the file".to_owned())),
        }
    }

    fn place(&self) -> Place {
        Place::byte(self.file, self.start as u64)
    }

    fn wrong(&self, expected: &str, found: String) -> Error {
        Error::malformed(self.place(), format!("in a pickle {expected}"), found)
    }

    fn limit(&self, limit: &'static str, unit: &'static str, most: usize, found: usize) -> Result<()> {
        if found <= most {
            return Ok(());
        }
        Err(Error::Limit {
            place: self.place(),
            limit,
            unit,
            allowed: most as u64,
            found: found as u64,
            remedy: "if you trust the file, convert the data set to plain .npy files",
        })
    }
}

fn refused_addition((file, at): (&str, u64), expected: &str) -> Error {
    let expected = format!("in a pickle {expected} to add to");
    Error::malformed(Place::byte(file, at), expected, "another object")
}

/// Parses a quoted Python string with escape sequences.
fn unquote(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.trim_ascii();
    let quote = *line.first()?;
    if !matches!(quote, b'\'' | b'"') || line.len() < 2 || *line.last()? != quote {
        return None;
    }
    let mut inner = line[1..line.len() - 1].iter().copied();
    let mut bytes = Vec::with_capacity(line.len());
    while let Some(byte) = inner.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match inner.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'x' => {
                let mut digit = || char::from(inner.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            other @ (b'\\' | b'\'' | b'"') => other,
            _ => return None,
        });
    }
    Some(bytes)
}

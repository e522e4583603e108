//! Reader for GML (Himsolt 1996, "GML: a portable graph file format"). A document consists of keys
//! with numbers, strings or bracketed lists.
//!
//! Nodes are identified by their `label` if every node has a distinct one, as in files that
//! networkx writes. Otherwise they are identified by their `id`.

use eciton_graph::error::{Error, Place, Result};

use super::records::{Document, MAX_DEPTH, Records};
use super::xml::unescape;

/// Token of a GML document.
enum Token<'a> {
    Word(&'a str),
    Text(String),
    Open,
    Close,
}

/// Callback that receives a key and its value. If the value is `None`, it is a list, which the
/// callback must read itself.
type Each<'a, T> = dyn FnMut(&mut T, &str, Option<String>) -> Result<()> + 'a;

struct Tokens<'a> {
    rest: &'a str,
    line: u64,
    file: &'a str,
}

impl<'a> Tokens<'a> {
    fn wrong(&self, expected: &str, found: &str) -> Error {
        let found = format!("{:.60?}", found);
        Error::malformed(Place::line(self.file, self.line), expected, found)
    }

    fn skip(&mut self) {
        loop {
            let trimmed = self.rest.trim_start_matches(|c: char| c.is_whitespace());
            let passed = &self.rest[..self.rest.len() - trimmed.len()];
            self.line += passed.bytes().filter(|&byte| byte == b'\n').count() as u64;
            self.rest = trimmed;
            // A comment extends to the end of the line.
            match trimmed.starts_with('#') {
                true => self.rest = &trimmed[trimmed.find('\n').unwrap_or(trimmed.len())..],
                false => return,
            }
        }
    }

    fn next(&mut self) -> Result<Option<Token<'a>>> {
        self.skip();
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        match first {
            '[' | ']' => {
                self.rest = &self.rest[1..];
                Ok(Some(if first == '[' { Token::Open } else { Token::Close }))
            }
            '"' => {
                let text = &self.rest[1..];
                let end =
                    text.find('"').ok_or_else(|| self.wrong("a closing quote", "the end of the file"))?;
                let value = &text[..end];
                let unescaped = unescape(value);
                self.line += value.bytes().filter(|&byte| byte == b'\n').count() as u64;
                self.rest = &text[end + 1..];
                Ok(Some(Token::Text(unescaped)))
            }
            _ => {
                let ends = |c: char| c.is_whitespace() || matches!(c, '[' | ']' | '"');
                let end = self.rest.find(ends).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Ok(Some(Token::Word(word)))
            }
        }
    }

    /// Reads the key-value pairs of a list up to its end, and calls `each` with each pair.
    fn pairs(&mut self, depth: usize, each: &mut Each<'_, Self>) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.wrong(&format!("lists of at most {MAX_DEPTH} levels"), "["));
        }
        loop {
            let key = match self.next()? {
                Some(Token::Word(key)) => key,
                Some(Token::Close) if depth > 0 => return Ok(()),
                None if depth == 0 => return Ok(()),
                None => return Err(self.wrong("a closing bracket ]", "the end of the file")),
                Some(Token::Text(text)) => return Err(self.wrong("a key", &text)),
                Some(Token::Open) => return Err(self.wrong("a key", "[")),
                Some(Token::Close) => return Err(self.wrong("a key", "]")),
            };
            match self.next()? {
                Some(Token::Word(value)) => each(self, key, Some(value.to_owned()))?,
                Some(Token::Text(value)) => each(self, key, Some(value))?,
                Some(Token::Open) => each(self, key, None)?,
                _ => return Err(self.wrong(&format!("a value of the key {key:.40}"), "none")),
            }
        }
    }

    /// Skips a list, including all nested lists.
    fn skip_list(&mut self, depth: usize) -> Result<()> {
        self.pairs(depth, &mut |tokens, _, value| match value {
            Some(_) => Ok(()),
            None => tokens.skip_list(depth + 1),
        })
    }

    /// Adds the attributes of a list to the current record. Attributes of nested lists have names
    /// of the form `prefix.key`. Pairs of the outermost list are first passed to `take`, which
    /// returns true if it has used the pair.
    fn attributes(
        &mut self,
        (depth, prefix): (usize, &str),
        records: &mut Records,
        take: &mut dyn FnMut(&str, &str) -> bool,
    ) -> Result<()> {
        self.pairs(depth, &mut |tokens, key, value| {
            let name = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
            match value {
                Some(value) if prefix.is_empty() && take(key, &value) => Ok(()),
                // networkx writes missing values and empty lists in this way.
                Some(value) if ["_networkx_list_start", "NAN", "NONE"].contains(&value.as_str()) => {
                    records.add(&name, String::new());
                    Ok(())
                }
                Some(value) => {
                    records.add(&name, value);
                    Ok(())
                }
                None => tokens.attributes((depth + 1, &name), records, take),
            }
        })
    }
}

pub(super) fn read(text: &str, file: &str) -> Result<Document> {
    let mut document = Document::default();
    let mut tokens = Tokens { rest: text, line: 1, file };
    let mut graphs = 0;
    tokens.pairs(0, &mut |tokens, key, value| match (key, value) {
        ("graph", None) => {
            graphs += 1;
            graph(tokens, &mut document)
        }
        (_, Some(_)) => Ok(()),
        (_, None) => tokens.skip_list(1),
    })?;
    if graphs != 1 {
        let found = format!("{graphs} lists with this name");
        return Err(Error::malformed(Place::whole(file), "one list `graph [ ... ]`", found));
    }
    match document.nodes.distinct("label") {
        Some(names) => {
            let (at, key) = (document.nodes.positions["label"] as usize, "label");
            document.nodes.positions.remove(key);
            // The labels are now used as ids.
            "id".clone_into(&mut document.nodes.keys[at]);
            document.renamed(names, file)?;
        }
        None => {
            let names = document.nodes.ids.iter().map(|[id, _]| id.clone()).collect();
            document.renamed(names, file)?;
        }
    }
    Ok(document)
}

fn graph(tokens: &mut Tokens<'_>, document: &mut Document) -> Result<()> {
    let Document { nodes, edges, .. } = document;
    tokens.pairs(1, &mut |tokens, key, value| match (key, value) {
        ("node", None) => {
            let (mut id, line) = (None, tokens.line);
            tokens.attributes((2, ""), nodes, &mut |key, value| {
                let is_id = key == "id";
                if is_id {
                    id = Some(value.to_owned());
                }
                is_id
            })?;
            let Some(id) = id else { return Err(missing(tokens, line, "a node", "id")) };
            nodes.end([id, String::new()]);
            Ok(())
        }
        ("edge", None) => {
            let (mut ends, line) = ([None, None], tokens.line);
            tokens.attributes((2, ""), edges, &mut |key, value| {
                let end = ["source", "target"].iter().position(|end| *end == key);
                if let Some(end) = end {
                    ends[end] = Some(value.to_owned());
                }
                end.is_some()
            })?;
            match ends {
                [Some(source), Some(target)] => edges.end([source, target]),
                _ => return Err(missing(tokens, line, "an edge", "source and target")),
            }
            Ok(())
        }
        (_, Some(_)) => Ok(()),
        (_, None) => tokens.skip_list(2),
    })
}

fn missing(tokens: &Tokens<'_>, line: u64, what: &str, keys: &str) -> Error {
    Error::malformed(Place::line(tokens.file, line), format!("{what} with {keys}"), "none")
}

//! Streaming reader for XML elements, attributes and text. Document type declarations are rejected,
//! because they can define entities.

use std::borrow::Cow;

use eciton_graph::error::{Error, Place, Result};

/// Parser event of an XML document, for instance the start of an element.
#[derive(Debug, PartialEq)]
pub(super) enum Event<'a> {
    /// Start of an element, with its name (without namespace prefix), its attributes, and true if
    /// the element is empty (`<name/>`).
    Open(&'a str, Vec<(&'a str, String)>, bool),
    /// End of an element, with its name.
    Close(&'a str),
    /// Text, with entities replaced.
    Text(Cow<'a, str>),
}

/// Iterator-like reader that yields the events of an XML document.
pub(super) struct Events<'a> {
    rest: &'a str,
    pub(super) line: u64,
    file: &'a str,
}

impl<'a> Events<'a> {
    pub(super) fn new(text: &'a str, file: &'a str) -> Self {
        Self { rest: text, line: 1, file }
    }

    pub(super) fn wrong(&self, expected: &str, found: &str) -> Error {
        let found = format!("{found:.60?}");
        Error::malformed(Place::line(self.file, self.line), expected, found)
    }

    /// Consumes and returns the next `bytes` bytes, which must end at a character boundary.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.bytes().filter(|&byte| byte == b'\n').count() as u64;
        self.rest = rest;
        taken
    }

    /// Consumes the text up to and including the next occurrence of `end`. Returns the text before
    /// `end`.
    fn through(&mut self, end: &str) -> Result<&'a str> {
        let at = self.rest.find(end).ok_or_else(|| self.wrong(end, "the end of the file"))?;
        let taken = self.take(at + end.len());
        Ok(&taken[..at])
    }

    pub(super) fn next(&mut self) -> Result<Option<Event<'a>>> {
        loop {
            if self.rest.is_empty() {
                return Ok(None);
            }
            if !self.rest.starts_with('<') {
                let end = self.rest.find('<').unwrap_or(self.rest.len());
                let text = self.take(end);
                return Ok(Some(Event::Text(match text.contains('&') {
                    true => Cow::Owned(unescape(text)),
                    false => Cow::Borrowed(text),
                })));
            }
            if self.rest.starts_with("<!--") {
                self.through("-->")?;
            } else if let Some(text) = self.rest.strip_prefix("<![CDATA[") {
                let skipped = self.rest.len() - text.len();
                self.take(skipped);
                return Ok(Some(Event::Text(Cow::Borrowed(self.through("]]>")?))));
            } else if self.rest.starts_with("<?") {
                self.through("?>")?;
            } else if self.rest.starts_with("<!") {
                return Err(self.wrong("an element (document type declarations are not supported)", "<!"));
            } else if self.rest.starts_with("</") {
                self.take(2);
                let name = self.through(">")?.trim();
                return Ok(Some(Event::Close(local(name))));
            } else {
                return self.element().map(Some);
            }
        }
    }

    fn element(&mut self) -> Result<Event<'a>> {
        self.take(1);
        let ends = |c: char| c.is_whitespace() || c == '>' || c == '/';
        let end = self.rest.find(ends).ok_or_else(|| self.wrong(">", "the end of the file"))?;
        let name = local(self.take(end));
        let mut attributes = Vec::new();
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.take(blanks);
            if self.rest.starts_with("/>") {
                self.take(2);
                return Ok(Event::Open(name, attributes, true));
            }
            if self.rest.starts_with('>') {
                self.take(1);
                return Ok(Event::Open(name, attributes, false));
            }
            let key = self.through("=")?.trim();
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.take(blanks);
            let quote = match self.rest.chars().next() {
                Some('"') => "\"",
                Some('\'') => "'",
                _ => return Err(self.wrong("a quoted value of an attribute", key)),
            };
            self.take(1);
            attributes.push((key, unescape(self.through(quote)?)));
        }
    }
}

/// Returns the name of an element without its namespace prefix.
fn local(name: &str) -> &str {
    name.rsplit(':').next().unwrap_or(name)
}

/// Replaces character references and the five predefined entities of XML. Unknown references are
/// not changed.
pub(super) fn unescape(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let reference = rest.get(1..).and_then(|after| after.split_once(';')).map(|(name, _)| name);
        // No valid reference is longer.
        let reference = reference.filter(|name| name.len() <= 10);
        let found = match reference {
            Some("lt") => Some('<'),
            Some("gt") => Some('>'),
            Some("amp") => Some('&'),
            Some("quot") => Some('"'),
            Some("apos") => Some('\''),
            Some(name) => name.strip_prefix('#').and_then(|number| {
                let code = match number.strip_prefix(['x', 'X']) {
                    Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)
            }),
            None => None,
        };
        let taken = match (found, reference) {
            (Some(c), Some(name)) => {
                out.push(c);
                name.len() + 2
            }
            _ => {
                out.push('&');
                1
            }
        };
        rest = &rest[taken..];
    }
    out.push_str(rest);
    out
}

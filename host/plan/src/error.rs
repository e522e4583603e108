//! What can be wrong with a recipe, a model, a kernel's signature or a plan.

use crate::ids::Layer;

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that this crate refuses. Nothing here is worth a retry: the same input fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not TOML.
    #[error("not valid TOML: {message}\n{place}")]
    Syntax {
        /// Where.
        place: Box<TextPlace>,
        /// What the parser says.
        message: String,
    },
    /// A key that nothing reads.
    #[error("unknown key `{key}`; {}\n{place}", advice(.nearest.as_deref(), known))]
    UnknownKey {
        /// The key with its section.
        key: String,
        /// The known key that it resembles most, if any does.
        nearest: Option<String>,
        /// What the section knows.
        known: Vec<String>,
        /// Where.
        place: Box<TextPlace>,
    },
    /// A known key with a value that it cannot take.
    #[error("`{key}` is {found}, but must be {allowed}\n{place}")]
    Value {
        /// The key with its section.
        key: String,
        /// The value.
        found: String,
        /// Which values it takes.
        allowed: String,
        /// Where.
        place: Box<TextPlace>,
    },
    /// Two settings that each can be, but not both.
    #[error("`{key}` is {found}, but `{other}` is {other_found}: {remedy}")]
    Together {
        /// The key that asks for more.
        key: &'static str,
        /// Its value.
        found: String,
        /// The key that does not give it.
        other: &'static str,
        /// Its value.
        other_found: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A setting that the run's executor does not read.
    #[error(
        "`{key}` is {found}, which the {kind} executor does not read; {}, or leave it out",
        readers(key, kind)
    )]
    Unread {
        /// The key with its section.
        key: String,
        /// Its value.
        found: String,
        /// The run's executor.
        kind: &'static str,
    },
    /// An override that is not `section.key=value`.
    #[error("cannot read the override {argument:?}: write section.key=value, for instance optimiser.lr=0.1")]
    Override {
        /// The argument as given.
        argument: String,
    },
    /// A price list or a task profile that is none, or says what cannot be.
    #[error("not {what}: {reason}")]
    Content {
        /// What it should be.
        what: &'static str,
        /// What was found, and what is allowed.
        reason: String,
    },
    /// A configuration that TOML cannot express.
    #[error("cannot write the configuration as TOML: {message}")]
    Write {
        /// What the serialiser says.
        message: String,
    },
    /// More of something than this version takes.
    #[error("{what}: found {found}, at most {most} are taken")]
    TooMany {
        /// Of what, with its unit.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there may be.
        most: u64,
    },
    /// A model that no plan fits on a machine.
    #[error(
        "no plan fits: {what} needs {} and has {}, {} short; {remedy}",
        bytes(*.need), bytes(*.have), bytes(need.saturating_sub(*.have))
    )]
    Short {
        /// What is short of memory, in the plan that is the least short.
        what: String,
        /// Bytes that it needs.
        need: u64,
        /// Bytes that it has.
        have: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// A model that does not fit the data or itself.
    #[error("layer {layer} of the model: `{attribute}` is {found}, but must be {allowed}")]
    Model {
        /// The layer, from 0.
        layer: Layer,
        /// Which attribute.
        attribute: &'static str,
        /// Its value.
        found: String,
        /// What it must be.
        allowed: String,
    },
    /// A key of the model that none of its layers reads.
    #[error(
        "the model says `{attribute}`, which none of its layers reads: leave it out; it belongs to {kinds}"
    )]
    ModelKey {
        /// The key.
        attribute: &'static str,
        /// The kinds of layers that it belongs to.
        kinds: String,
    },
    /// A value of a key of the model that changes nothing.
    #[error("the model says `{key}` = {found}, which none of its layers reads: {remedy}")]
    UnreadKey {
        /// The key.
        key: &'static str,
        /// Its value.
        found: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// First values of a parameter that the model does not have.
    #[error("`{key}` names the parameter {name:?}, which is not there: leave it out, or take one of {known}")]
    NoParameter {
        /// The key.
        key: String,
        /// The name.
        name: String,
        /// Names that are there.
        known: String,
    },
    /// What a model asks of edges is not in the data.
    #[error(
        "the model says `{asked}`, and the data set's edges have {}: leave it out, or give the data more \
         columns for edges (docs/DATA.md says where they are read from)",
        features(*columns)
    )]
    EdgeColumns {
        /// The key and its value.
        asked: String,
        /// Features of an edge.
        columns: u32,
    },
    /// A column of the edges' features by a name that the data set does not know.
    #[error("`model.edge_weights` is \"{name}\", and the data set has no such column for its edges: {known}")]
    EdgeColumn {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Weights of classes that do not fit the data.
    #[error(
        "`model.class_weights` has {found}, and the data has {classes} classes: give one number, not negative, a class, in their order, or \"balanced\""
    )]
    ClassWeights {
        /// What it has.
        found: String,
        /// Classes of the data.
        classes: usize,
    },
    /// A key for one class a row, and another task.
    #[error("`{key}` is for one class a row, and the task is {task}: leave it out")]
    ClassesOnly {
        /// The key.
        key: &'static str,
        /// The task.
        task: &'static str,
    },
    /// A loss or a metric that the data's task does not take.
    #[error("`{key}` is {found}, but the task is {task}: take {allowed}")]
    Objective {
        /// The key.
        key: &'static str,
        /// What it says.
        found: &'static str,
        /// The task.
        task: String,
        /// What it takes.
        allowed: String,
    },
    /// Data that no model can be made for.
    #[error("the data has {found}, but a model needs {allowed}")]
    Data {
        /// What the data has.
        found: String,
        /// What it must have.
        allowed: &'static str,
    },
    /// Settings of the pipeline that do not go together.
    #[error("the pipeline has {found}: {allowed}")]
    Pipeline {
        /// What was found.
        found: String,
        /// What to do.
        allowed: &'static str,
    },
    /// A layer that does not fit its place in a chain of convolutions.
    #[error("layer {layer} of the chain {found}, but needs {wanted}")]
    Chain {
        /// Its place, from 0.
        layer: usize,
        /// What it is.
        found: String,
        /// What would fit.
        wanted: String,
    },
    /// A model whose images cannot be split into strips.
    #[error("{found}, but must have {allowed}")]
    Strips {
        /// What was found.
        found: String,
        /// What can be split.
        allowed: &'static str,
    },
    /// A kernel did not say what it takes.
    #[error("kernel `{kernel}` (layer {layer}) refused its inputs or attributes")]
    Signature {
        /// The kernel's name.
        kernel: String,
        /// The layer that it was opened for.
        layer: Layer,
        /// What the kernel, or its host, said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A kernel's signature does not fit its place in the program.
    #[error(
        "kernel `{kernel}` (layer {layer}): {what} {found}, but its place in the program needs {expected}"
    )]
    SignatureMismatch {
        /// The kernel's name.
        kernel: String,
        /// The layer that it was opened for.
        layer: Layer,
        /// Which part of the signature.
        what: &'static str,
        /// What the signature says.
        found: String,
        /// What the program needs.
        expected: String,
    },
    /// Rows that cannot be cut, or partial sums that do not fit.
    #[error(transparent)]
    Rows(#[from] eciton_types::Error),
}

/// What to run on for a key to be read; the executor that is for tests is not recommended.
fn readers(key: &str, kind: &str) -> String {
    let names: Vec<String> =
        crate::executor::names_of_readers(key).map(|name| format!("\"{name}\"")).collect();
    let why = match (kind, key) {
        ("local", "executor.functions") => "it has no functions: ",
        _ => "",
    };
    format!("{why}set executor.kind = {}", names.join(" or "))
}

fn advice(nearest: Option<&str>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if known.is_empty() => "nothing may stand here".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// A place in a text, or an override on the command line. Prints with the line itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPlace {
    /// A file's name, or the override as given.
    pub origin: String,
    /// Line, from 1; 0 for an override.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Characters from there that are meant.
    pub length: usize,
    /// The line, control characters escaped, at most [`TextPlace::MAX_LINE`] characters.
    pub text: String,
}

impl TextPlace {
    /// Longest line that is shown, in characters.
    pub const MAX_LINE: usize = 160;

    /// The place of a byte range in a text.
    pub(crate) fn new(origin: &str, text: &str, span: std::ops::Range<usize>) -> Box<Self> {
        let start = floor(text, span.start);
        let end = floor(text, span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let clean = |part: &str| -> String {
            part.chars()
                .take(Self::MAX_LINE)
                .map(|c| if c.is_control() { if c == '\t' { ' ' } else { '\u{fffd}' } } else { c })
                .collect()
        };
        let end = end.min(line_end);
        Box::new(Self {
            origin: origin.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            length: text[start..end].chars().count().max(1),
            text: clean(text[line_start..line_end].trim_end()),
        })
    }

    /// An override on the command line.
    pub(crate) fn argument(argument: &str) -> Box<Self> {
        let shown: String = argument.chars().filter(|c| !c.is_control()).take(Self::MAX_LINE).collect();
        Box::new(Self { origin: format!("--set {shown}"), ..Self::default() })
    }
}

/// The last character boundary up to `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl std::fmt::Display for TextPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.line == 0 {
            return write!(f, "  in {}", self.origin);
        }
        let Self { origin, line, column, .. } = self;
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        write!(f, "  at {origin}:{line}:{column}\n  {number} | {}", self.text)?;
        let shown = self.text.chars().count();
        if *column <= shown {
            let marks = "^".repeat(self.length.min(shown + 1 - column));
            write!(f, "\n  {margin} | {}{marks}", " ".repeat(column - 1))?;
        }
        Ok(())
    }
}

/// Bytes in words.
fn bytes(of: u64) -> String {
    match of {
        1_000_000_000.. => format!("{:.3} GB", of as f64 / 1e9),
        1_000_000.. => format!("{:.3} MB", of as f64 / 1e6),
        _ => format!("{of} bytes"),
    }
}

/// The features of an edge in words.
fn features(columns: u32) -> String {
    match columns {
        0 => "no features".to_owned(),
        1 => "one feature, column 0".to_owned(),
        _ => format!("{columns} features, columns 0 to {}", columns - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn place_shows_the_line_and_survives_odd_ranges() {
        let text = "a = 1\nbé = \"x\"\r\n";
        let place = TextPlace::new("r.toml", text, 6..9);
        assert_eq!(place.to_string(), "  at r.toml:2:1\n  2 | bé = \"x\"\n    | ^^");
        for start in 0..20 {
            for end in 0..20 {
                let shown = TextPlace::new("r.toml", text, start..end).to_string();
                assert!(shown.contains("r.toml"), "{start}..{end}");
            }
        }
        let long = "x".repeat(5000);
        assert!(TextPlace::new("r", &long, 0..5000).to_string().len() < 400);
        assert!(TextPlace::new("r", "\u{1b}[31m", 0..1).to_string().contains('\u{fffd}'));
    }
}

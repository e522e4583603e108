//! Errors of recipes, models, price lists and sweeps.

use eciton_types::ids::Layer;

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate. None is worth a retry, because the same input fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not TOML.
    #[error("not valid TOML: {message}\n{place}")]
    Syntax {
        /// Position of the error.
        place: Box<TextPlace>,
        /// Message of the parser.
        message: String,
    },
    /// A key that nothing reads.
    #[error("unknown key `{key}`; {}\n{place}", advice(.nearest.as_deref(), known))]
    UnknownKey {
        /// The key with its section.
        key: String,
        /// The known key that it resembles most, if any does.
        nearest: Option<String>,
        /// Keys that the section has.
        known: Vec<String>,
        /// Position of the key.
        place: Box<TextPlace>,
    },
    /// A known key with a value that it cannot take.
    #[error("`{key}` is {found}, but must be {allowed}\n{place}")]
    Value {
        /// The key with its section.
        key: String,
        /// The value.
        found: String,
        /// Values that the key accepts.
        allowed: String,
        /// Position of the value.
        place: Box<TextPlace>,
    },
    /// Two settings that are valid each by itself, but exclude each other.
    #[error("`{key}` is {found}, but `{other}` is {other_found}: {remedy}")]
    Together {
        /// Key of the setting that requires more than the other one provides.
        key: &'static str,
        /// Value of `key`.
        found: String,
        /// Key of the setting that does not meet the requirement.
        other: &'static str,
        /// Value of `other`.
        other_found: String,
        /// Advice that the message ends with.
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
        /// Value of the key.
        found: String,
        /// Name of the run's executor.
        kind: &'static str,
    },
    /// An override that is not `section.key=value`.
    #[error("cannot read the override {argument:?}: write section.key=value, for instance optimiser.lr=0.1")]
    Override {
        /// The argument as given.
        argument: String,
    },
    /// An input file (for instance a price list or a task profile) with a wrong format or
    /// impossible values.
    #[error("not {what}: {reason}")]
    Content {
        /// Kind of input that was expected.
        what: &'static str,
        /// Description of the fault, and of the values that are allowed.
        reason: String,
    },
    /// A configuration that TOML cannot express.
    #[error("cannot write the configuration as TOML: {message}")]
    Write {
        /// Message of the serialiser.
        message: String,
    },
    /// A count that exceeds the limit of this version.
    #[error("{what}: found {found}, at most {most} are taken")]
    TooMany {
        /// Items that are counted, with their unit.
        what: &'static str,
        /// Number of items found.
        found: u64,
        /// Maximum number of items.
        most: u64,
    },
    /// A model that does not fit the data, or whose layers do not fit each other.
    #[error("layer {layer} of the model: `{attribute}` is {found}, but must be {allowed}")]
    Model {
        /// The layer, from 0.
        layer: Layer,
        /// Name of the attribute.
        attribute: &'static str,
        /// Value of the attribute.
        found: String,
        /// Values that the attribute may have.
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
        /// Advice that the message ends with.
        remedy: &'static str,
    },
    /// Edge features or edge weights that the model asks for and the data set does not have.
    #[error(
        "the model says `{asked}`, and the data set's edges have {}: leave it out, or give the data more \
         columns for edges (docs/reference/data-formats.md says where they are read from)",
        features(*columns)
    )]
    EdgeColumns {
        /// Key of the model, with its value.
        asked: String,
        /// Number of features of an edge.
        columns: u32,
    },
    /// A column of edge features whose name the data set does not have.
    #[error("`model.edge_weights` is \"{name}\", and the data set has no such column for its edges: {known}")]
    EdgeColumn {
        /// Name that the model asks for.
        name: String,
        /// Description of the columns that the data set has.
        known: String,
    },
    /// Class weights that do not fit the data.
    #[error(
        "`model.class_weights` has {found}, and the data has {classes} classes: give one number, not negative, a class, in their order, or \"balanced\""
    )]
    ClassWeights {
        /// Description of the weights in the setting.
        found: String,
        /// Number of classes of the data.
        classes: usize,
    },
    /// A key that only single-label classification accepts, in another task.
    #[error("`{key}` is for one class a row, and the task is {task}: leave it out")]
    ClassesOnly {
        /// The key.
        key: &'static str,
        /// The task.
        task: &'static str,
    },
    /// A loss or a metric that the data's task does not accept.
    #[error("`{key}` is {found}, but the task is {task}: take {allowed}")]
    Objective {
        /// The key.
        key: &'static str,
        /// Value of the key.
        found: &'static str,
        /// The task.
        task: String,
        /// Values that the task accepts.
        allowed: String,
    },
    /// Data that no model can be built for.
    #[error("the data has {found}, but a model needs {allowed}")]
    Data {
        /// Description of the data.
        found: String,
        /// Requirement of a model.
        allowed: &'static str,
    },
    /// Pipeline settings that exclude each other.
    #[error("the pipeline has {found}: {allowed}")]
    Pipeline {
        /// Description of the settings.
        found: String,
        /// Advice that the message ends with.
        allowed: &'static str,
    },
}

/// Advises which executors read a key. The executor that exists for tests is not recommended.
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

/// Position in a text, or an override on the command line. It is printed with the line of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPlace {
    /// A file's name, or the override as given.
    pub origin: String,
    /// Line, from 1; 0 for an override.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Number of characters that are marked, from `column` on.
    pub length: usize,
    /// Text of the line, with control characters escaped, and at most [`TextPlace::MAX_LINE`]
    /// characters.
    pub text: String,
}

impl TextPlace {
    /// Maximum number of characters of a line that is printed.
    pub const MAX_LINE: usize = 160;

    /// Returns the position of a byte range in a text.
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

    /// Returns the position of an override on the command line.
    pub(crate) fn argument(argument: &str) -> Box<Self> {
        let shown: String = argument.chars().filter(|c| !c.is_control()).take(Self::MAX_LINE).collect();
        Box::new(Self { origin: format!("--set {shown}"), ..Self::default() })
    }
}

/// Returns the last character boundary that is not after `at`.
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

/// Formats the number of features of an edge.
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

//! Errors of recipes, models, price lists and sweeps.

use eciton_types::ids::Layer;

/// Result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate. Errors are deterministic, so retrying never helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not valid TOML.
    #[error("not valid TOML: {message}\n{place}")]
    Syntax {
        /// Position of the error in the text.
        place: Box<TextPlace>,
        /// Message of the TOML parser.
        message: String,
    },
    /// A recipe has a key that does not exist.
    #[error("unknown key `{key}`; {}\n{place}", advice(.nearest.as_deref(), known))]
    UnknownKey {
        /// Unknown key with its section.
        key: String,
        /// Most similar existing key, or `None` if no key is similar.
        nearest: Option<String>,
        /// Existing keys of the section.
        known: Vec<String>,
        /// Position of the key in the text.
        place: Box<TextPlace>,
    },
    /// The value of a key is out of range or has the wrong type.
    #[error("`{key}` is {found}, but must be {allowed}\n{place}")]
    Value {
        /// Key that has the value, with its section, for instance `optimiser.lr`.
        key: String,
        /// The invalid value that was found.
        found: String,
        /// Description of the values that the key accepts.
        allowed: String,
        /// Position of the value in the file or override.
        place: Box<TextPlace>,
    },
    /// Two settings are valid on their own, but exclude each other.
    #[error("`{key}` is {found}, but `{other}` is {other_found}: {remedy}")]
    Together {
        /// Key of the setting that has a requirement.
        key: &'static str,
        /// Value of the setting `key`.
        found: String,
        /// Key of the setting that violates the requirement.
        other: &'static str,
        /// Value of the setting `other`.
        other_found: String,
        /// Advice to the user, as an imperative sentence at the end of the message.
        remedy: &'static str,
    },
    /// The executor of the run does not read a setting.
    #[error(
        "`{key}` is {found}, which the {kind} executor does not read; {}, or remove the key",
        readers(key, kind)
    )]
    Unread {
        /// Key that the executor does not read, with its section.
        key: String,
        /// Value of the key that the executor does not read.
        found: String,
        /// Name of the run's executor.
        kind: &'static str,
    },
    /// An override does not have the form `section.key=value`.
    #[error("cannot read the override {argument:?}: write section.key=value, for instance optimiser.lr=0.1")]
    Override {
        /// Override as given on the command line.
        argument: String,
    },
    /// An input file, for instance a price list or a task profile, has the wrong format or
    /// impossible values.
    #[error("not {what}: {reason}")]
    Content {
        /// Kind of input that was expected, for instance `a cloud file`.
        what: &'static str,
        /// Description of the problem and of the allowed values.
        reason: String,
    },
    /// TOML cannot express a value of the configuration.
    #[error("cannot write the configuration as TOML: {message}")]
    Write {
        /// Message of the TOML serialiser.
        message: String,
    },
    /// A count exceeds its maximum.
    #[error("{what}: found {found}, but the maximum is {most}")]
    TooMany {
        /// Name of the counted items, for instance `bytes of a recipe or model file`.
        what: &'static str,
        /// Number of items found.
        found: u64,
        /// Maximum number of items.
        most: u64,
    },
    /// A layer does not fit the data set or the other layers.
    #[error("layer {layer} of the model: `{attribute}` is {found}, but must be {allowed}")]
    Model {
        /// Index of the layer, from 0.
        layer: Layer,
        /// Name of the layer's attribute.
        attribute: &'static str,
        /// Value of the attribute in the model.
        found: String,
        /// Description of the values that are allowed for the attribute.
        allowed: String,
    },
    /// The model has a key that only other kinds of layers read.
    #[error(
        "`model.{attribute}` is set, but none of the model's layers reads it: remove it; it belongs to {kinds}"
    )]
    ModelKey {
        /// Key of the model, without its section.
        attribute: &'static str,
        /// Kinds of layers that read the key.
        kinds: String,
    },
    /// The model has a key or value that has no effect on any of its layers.
    #[error("`model.{key}` is {found}, which none of the model's layers reads: {remedy}")]
    UnreadKey {
        /// Key of the model, without its section.
        key: &'static str,
        /// Value of the key in the model.
        found: String,
        /// Advice to the user, as an imperative sentence at the end of the message.
        remedy: &'static str,
    },
    /// The model requires edge features or edge weights, but the data set has none or too few.
    #[error(
        "`model.{asked}`, but the data set's edges have {}: remove the key, or add columns to the data \
         set's edges (docs/reference/data-formats.md describes their files)",
        features(*columns)
    )]
    EdgeColumns {
        /// Key and value of the model setting with the requirement.
        asked: String,
        /// Number of features per edge in the data set.
        columns: u32,
    },
    /// The model names an edge feature column that the data set does not have.
    #[error("`model.edge_weights` is \"{name}\", but the data set has no such edge column: {known}")]
    EdgeColumn {
        /// Name of the column in the model setting.
        name: String,
        /// Description of the columns in the data set.
        known: String,
    },
    /// The class weights do not match the classes of the data set.
    #[error(
        "`model.class_weights` has {found}, but the data set has {classes} classes: give one number of at least 0 for each class, in the order of the classes, or \"balanced\""
    )]
    ClassWeights {
        /// Description of the weights in the setting.
        found: String,
        /// Number of classes of the data set.
        classes: usize,
    },
    /// A key for single-label classification is used with another task.
    #[error("`{key}` requires a task with one class per row, but the task is {task}: remove it")]
    ClassesOnly {
        /// Key that requires single-label classification, with its section.
        key: &'static str,
        /// Name of the run's task.
        task: &'static str,
    },
    /// The learning task does not support this loss or metric.
    #[error("`{key}` is {found}, but the task is {task}: use {allowed}")]
    Objective {
        /// Key of the loss or metric, with its section.
        key: &'static str,
        /// Name of the loss or metric that the task does not support.
        found: &'static str,
        /// Name of the run's task.
        task: String,
        /// Description of the values that the task accepts.
        allowed: String,
    },
    /// The data set is not suitable for any model.
    #[error("the data set has {found}, but a model requires {allowed}")]
    Data {
        /// Description of the unsuitable property of the data set.
        found: String,
        /// Description of the data that every model requires.
        allowed: &'static str,
    },
    /// Settings of the pipeline exclude each other.
    #[error("the pipeline has {found}: {allowed}")]
    Pipeline {
        /// Description of the conflicting settings.
        found: String,
        /// Advice to the user, as an imperative sentence at the end of the message.
        allowed: &'static str,
    },
}

/// Returns advice that names the executors which read the key `key`. The executor `loopback` is
/// omitted, because it exists for tests.
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
        None if known.is_empty() => "no key is allowed here".to_owned(),
        None => format!("keys that exist here: {}", known.join(", ")),
    }
}

/// Position of a key or value, either in a file or in an override on the command line. Error
/// messages show it with its line of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPlace {
    /// Name of the file, or the override itself.
    pub origin: String,
    /// Line number, from 1. It is 0 for an override.
    pub line: usize,
    /// Column of the first marked character, from 1.
    pub column: usize,
    /// Number of marked characters.
    pub length: usize,
    /// Text of the line, cut to at most [`TextPlace::MAX_LINE`] characters, with control characters
    /// replaced.
    pub text: String,
}

impl TextPlace {
    /// Maximum number of characters that an error message shows of a line.
    pub const MAX_LINE: usize = 160;

    /// Converts a byte range of `text` to a position. `origin` is the name of the file.
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

    /// Returns the position that stands for an override on the command line.
    pub(crate) fn argument(argument: &str) -> Box<Self> {
        let shown: String = argument.chars().filter(|c| !c.is_control()).take(Self::MAX_LINE).collect();
        Box::new(Self { origin: format!("--set {shown}"), ..Self::default() })
    }
}

/// Returns the last character boundary at or before byte `at`.
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

/// Describes the features per edge for error messages, given their number.
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

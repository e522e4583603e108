//! TOML text as fields with their positions, and conversions of fields to the types of settings.

use crate::error::{Error, TextPlace};
use crate::every::Every;
use crate::model::MAX_LAYERS;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// Maximum size of a recipe or model file, in bytes.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// Maximum length of a section's name in the path of a key, in bytes. Longer names are cut. All
/// existing sections have shorter names.
const MAX_SECTION_BYTES: usize = 256;

/// Key of a TOML text, with its value and the positions of both.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Last part of the key, without its section.
    pub(crate) name: String,
    /// Key with its section, for error messages. Section names are cut after [`MAX_SECTION_BYTES`]
    /// bytes.
    pub(crate) path: String,
    /// Position of the key in the text.
    pub(crate) position: Position,
    /// Position of the value in the text.
    pub(crate) value_position: Position,
    pub(crate) value: Found,
}

/// Position of a key or a value. A text position is stored as a byte range, and its line is
/// computed only for error messages. Counting lines for each key would take quadratic time.
#[derive(Clone, Debug)]
pub(crate) enum Position {
    /// Position in a recipe or model file.
    Text {
        /// Name of the file.
        origin: Arc<str>,
        /// Whole text of the file.
        text: Arc<str>,
        /// Byte range of the key or the value in the text.
        bytes: Range<usize>,
    },
    /// Override on the command line that contains the key.
    Override(Box<TextPlace>),
}

impl Position {
    /// Returns the position as line and column, for an error message.
    pub(crate) fn place(&self) -> Box<TextPlace> {
        match self {
            Self::Text { origin, text, bytes } => TextPlace::new(origin, text, bytes.clone()),
            Self::Override(place) => place.clone(),
        }
    }
}

/// Value of a field, as parsed from TOML.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found {
    Integer(i64),
    Number(f64),
    Text(String),
    Flag(bool),
    List(Vec<Found>),
    /// A table with its fields.
    Table(Fields),
    /// A value that no key accepts, as text. It is a date, or a number out of TOML's range.
    Other(String),
}

/// Fields of a table, in the order of the text. Two tables are equal if names and values are,
/// regardless of positions.
#[derive(Clone, Debug)]
pub(crate) struct Fields(pub(crate) Vec<Field>);

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        let pairs = |fields: &Self| {
            fields.0.iter().map(|field| (field.name.clone(), field.value.clone())).collect::<Vec<_>>()
        };
        pairs(self) == pairs(other)
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => write!(f, "{value:?}"),
            Self::Text(value) if value.chars().count() > 80 => {
                let start: String = value.chars().take(80).collect();
                write!(f, "the text {start:?}...")
            }
            Self::Text(value) => write!(f, "the text {value:?}"),
            Self::Flag(value) => value.fmt(f),
            Self::List(items) if items.len() > 8 => write!(f, "a list of {} items", items.len()),
            Self::List(items) => {
                write!(f, "the list [")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                write!(f, "]")
            }
            Self::Table(_) => write!(f, "a table"),
            Self::Other(text) => write!(f, "{text}"),
        }
    }
}

/// Parses a TOML text into fields. `origin` is the name of the file for error messages.
pub(crate) fn parse(text: &str, origin: &str) -> Result<Fields, Error> {
    if text.len() > MAX_BYTES {
        let (found, most) = (text.len() as u64, MAX_BYTES as u64);
        return Err(Error::TooMany { what: "bytes of a recipe or model file", found, most });
    }
    match DeTable::parse(text) {
        Ok(table) => Ok(Reader { text: text.into(), origin: origin.into() }.fields(table.get_ref(), "")),
        Err(error) => Err(Error::Syntax {
            place: TextPlace::new(origin, text, error.span().unwrap_or(0..0)),
            message: error.message().to_owned(),
        }),
    }
}

/// Parses an override of the form `section.key=value`. A value that is not valid TOML is taken as
/// text, so paths need no quotes.
pub(crate) fn parse_override(argument: &str) -> Result<Field, Error> {
    let bad = || Error::Override { argument: argument.chars().take(TextPlace::MAX_LINE).collect() };
    let (path, value) = argument.split_once('=').ok_or_else(bad)?;
    let (path, value) = (path.trim(), value.trim());
    let name = path.rsplit('.').next().unwrap_or(path);
    if name.is_empty() || argument.len() > MAX_BYTES || path.chars().any(char::is_whitespace) {
        return Err(bad());
    }
    // The text must be one line, so that a value cannot add further keys.
    let line = format!("value = {value}");
    let parsed = (!value.contains('\n')).then(|| parse(&line, "--set").ok()).flatten();
    let found = parsed.and_then(|mut fields| fields.0.pop()).map(|field| field.value);
    let position = Position::Override(TextPlace::argument(argument));
    let mut value = found.unwrap_or_else(|| Found::Text(value.to_owned()));
    relabel(&mut value, path, &position);
    let value_position = position.clone();
    Ok(Field { name: name.to_owned(), path: path.to_owned(), position, value_position, value })
}

/// Sets the path and position of all fields within a value of an override. Their position is that
/// of the override.
fn relabel(value: &mut Found, path: &str, position: &Position) {
    match value {
        Found::List(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                relabel(item, &indexed(path, at), position);
            }
        }
        Found::Table(Fields(fields)) => {
            for field in fields {
                field.path = joined(path, &field.name);
                (field.position, field.value_position) = (position.clone(), position.clone());
                relabel(&mut field.value, &field.path, position);
            }
        }
        _ => {}
    }
}

/// Returns the first [`MAX_SECTION_BYTES`] bytes of a section's name, without splitting a
/// character.
fn cut(section: &str) -> &str {
    section.get(..section.floor_char_boundary(MAX_SECTION_BYTES)).unwrap_or_default()
}

/// Returns the path of a key, for instance `optimiser.lr`.
fn joined(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{}.{name}", cut(section)) }
}

/// Returns the path of a list element, for instance `model.layers[0]`.
fn indexed(list: &str, at: usize) -> String {
    format!("{}[{at}]", cut(list))
}

struct Reader {
    text: Arc<str>,
    origin: Arc<str>,
}

impl Reader {
    fn position(&self, bytes: Range<usize>) -> Position {
        Position::Text { origin: self.origin.clone(), text: self.text.clone(), bytes }
    }

    fn fields(&self, table: &DeTable<'_>, section: &str) -> Fields {
        let field = |key: &toml::Spanned<toml::de::DeString<'_>>, value: &toml::Spanned<DeValue<'_>>| {
            let name = key.get_ref().to_string();
            let path = joined(section, &name);
            Field {
                position: self.position(key.span()),
                value_position: self.position(value.span()),
                value: self.found(value.get_ref(), &path),
                name,
                path,
            }
        };
        // The table's own order is alphabetical; errors should name the first in the text.
        let mut keys: Vec<_> = table.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        Fields(keys.into_iter().map(|(key, value)| field(key, value)).collect())
    }

    fn found(&self, value: &DeValue<'_>, path: &str) -> Found {
        match value {
            DeValue::String(text) => Found::Text(text.to_string()),
            DeValue::Integer(digits) => i64::from_str_radix(digits.as_str(), digits.radix())
                .map_or_else(|_| Found::Other(digits.as_str().to_owned()), Found::Integer),
            DeValue::Float(digits) => digits
                .as_str()
                .parse()
                .map_or_else(|_| Found::Other(digits.as_str().to_owned()), Found::Number),
            DeValue::Boolean(flag) => Found::Flag(*flag),
            DeValue::Datetime(date) => Found::Other(format!("the date {date}")),
            DeValue::Array(items) => Found::List(
                items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| self.found(item.get_ref(), &indexed(path, at)))
                    .collect(),
            ),
            DeValue::Table(table) => Found::Table(self.fields(table, path)),
        }
    }
}

impl Field {
    /// Returns the value as a time in epochs, steps or seconds.
    pub(crate) fn every(&self) -> Result<Every, Error> {
        let text = match &self.value {
            Found::Integer(epochs) => epochs.to_string(),
            Found::Text(text) => text.clone(),
            _ => String::new(),
        };
        text.parse().map_err(|form: String| self.refuse(form))
    }

    /// Creates the error for a value that the field does not accept. `allowed` describes the
    /// accepted values.
    pub(crate) fn refuse(&self, allowed: impl Into<String>) -> Error {
        Error::Value {
            key: self.path.clone(),
            found: self.value.to_string(),
            allowed: allowed.into(),
            place: self.value_position.place(),
        }
    }

    pub(crate) fn integer(&self, allowed: RangeInclusive<u64>) -> Result<u64, Error> {
        match &self.value {
            Found::Integer(value) => u64::try_from(*value).ok().filter(|v| allowed.contains(v)),
            _ => None,
        }
        .ok_or_else(|| self.refuse(format!("a whole number from {} to {}", allowed.start(), allowed.end())))
    }

    pub(crate) fn integer32(&self, allowed: RangeInclusive<u32>) -> Result<u32, Error> {
        let value = self.integer(u64::from(*allowed.start())..=u64::from(*allowed.end()))?;
        Ok(u32::try_from(value).unwrap_or(*allowed.end()))
    }

    /// Returns the whole numbers of a list, of a single number, or of text with numbers separated by
    /// commas. Returns `None` for another value.
    pub(crate) fn list(&self) -> Option<Vec<i64>> {
        let number = |value: &Found| match value {
            Found::Integer(value) => Some(*value),
            _ => None,
        };
        match &self.value {
            Found::List(items) => items.iter().map(number).collect(),
            Found::Text(text) => text.split(',').map(|item| item.trim().parse().ok()).collect(),
            one => number(one).map(|one| vec![one]),
        }
    }

    /// Returns the value as a list of whole numbers. The value may be a list, a single number, or
    /// text with numbers separated by commas, as in command-line flags.
    pub(crate) fn integers32(&self, allowed: RangeInclusive<u32>) -> Result<Vec<u32>, Error> {
        let number = |value: i64| u32::try_from(value).ok().filter(|value| allowed.contains(value));
        let found = self.list().and_then(|found| found.into_iter().map(number).collect());
        found.filter(|numbers: &Vec<u32>| !numbers.is_empty()).ok_or_else(|| {
            let (least, most) = (allowed.start(), allowed.end());
            self.refuse(format!("whole numbers from {least} to {most}, as [25, 10]"))
        })
    }

    /// Returns the value as a number if `check` accepts it. `check` receives the number rounded to
    /// f32, in which kernels compute. `allowed` describes the accepted numbers for the error
    /// message.
    pub(crate) fn number(&self, allowed: &str, check: fn(f32) -> bool) -> Result<f64, Error> {
        number(&self.value, check).ok_or_else(|| self.refuse(allowed))
    }

    pub(crate) fn text(&self, allowed: &str) -> Result<String, Error> {
        match &self.value {
            Found::Text(text) if !text.is_empty() => Ok(text.clone()),
            _ => Err(self.refuse(allowed)),
        }
    }

    pub(crate) fn flag(&self) -> Result<bool, Error> {
        match self.value {
            Found::Flag(flag) => Ok(flag),
            _ => Err(self.refuse("true or false")),
        }
    }

    /// Returns the value as layer indices, from 0, in ascending order and without duplicates. The
    /// value may be a list, a single number, or text with numbers separated by commas.
    pub(crate) fn layers(&self) -> Result<Vec<u32>, Error> {
        let last = MAX_LAYERS - 1;
        let refuse = || self.refuse(format!("a list of layers such as [0, 1], each from 0 to {last}"));
        let layer = |number: i64| u32::try_from(number).ok().filter(|layer| *layer <= last);
        let layers: Option<Vec<u32>> = match &self.value {
            Found::Integer(number) => layer(*number).map(|layer| vec![layer]),
            Found::List(items) => items
                .iter()
                .map(|item| match item {
                    Found::Integer(number) => layer(*number),
                    _ => None,
                })
                .collect(),
            Found::Text(text) => text.split(',').map(|word| layer(word.trim().parse().ok()?)).collect(),
            _ => None,
        };
        let mut layers = layers.ok_or_else(refuse)?;
        layers.sort_unstable();
        layers.dedup();
        Ok(layers)
    }

    /// Returns the value if it is one of `words`, and `None` otherwise.
    pub(crate) fn word<'w>(&self, words: &[&'w str]) -> Option<&'w str> {
        match &self.value {
            Found::Text(text) => words.iter().find(|word| *word == text).copied(),
            _ => None,
        }
    }

    /// Returns the choice whose name is the value of the field. `choices` has pairs of name and
    /// choice.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Error> {
        let found = match &self.value {
            Found::Text(text) => choices.iter().find(|(name, _)| name == text),
            _ => None,
        };
        found.map(|&(_, choice)| choice).ok_or_else(|| {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
            self.refuse(if names.len() == 1 {
                names.concat()
            } else {
                format!("one of {}", names.join(", "))
            })
        })
    }
}

/// Returns a value as a number, or `None` if it is not a number or `check` does not accept it.
pub(crate) fn number(value: &Found, check: fn(f32) -> bool) -> Option<f64> {
    let value = match value {
        Found::Integer(value) => *value as f64,
        Found::Number(value) => *value,
        _ => return None,
    };
    check(value as f32).then_some(value)
}

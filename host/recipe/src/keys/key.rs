//! Declaration of a key: its name, help, type, range and command-line flag, and the setting that it
//! writes.

use crate::document::{Field, Found};
use crate::error::Result;

/// Declaration of a key in a section whose settings have the type `T`.
pub(crate) struct Key<T: 'static> {
    /// Name of the key within its section.
    pub(crate) name: &'static str,
    /// Meaning of the key: a noun phrase with its unit. It does not list the values.
    pub(crate) help: &'static str,
    /// Type and range of the values.
    pub(crate) kind: Kind,
    /// Function that reads a field and writes the setting of this key.
    pub(crate) write: Write<T>,
    /// Other common names of the key, for suggestions in error messages.
    pub(crate) synonyms: &'static [&'static str],
    /// Earlier name of the key. Recipes with this name are accepted for one version, with a
    /// deprecation warning.
    pub(crate) former: Option<&'static str>,
    /// Earlier names of the key's values, each with its present name.
    pub(crate) former_values: &'static [(&'static str, &'static str)],
    /// Description of what happens without the key, if it has no default value.
    pub(crate) absent: &'static str,
    /// Command-line flag of `eciton train` and other commands that sets the key.
    pub(crate) flag: Option<Flag>,
}

/// Function that reads a field, checks it by a [`Kind`], and writes the setting.
pub(crate) type Write<T> = fn(&mut T, &Field, &Kind) -> Result<()>;

/// Declares a key without synonyms and without a command-line flag.
pub(crate) const fn key<T>(
    name: &'static str,
    help: &'static str,
    (kind, write): (Kind, Write<T>),
) -> Key<T> {
    Key { name, help, kind, write, synonyms: &[], former: None, former_values: &[], absent: "", flag: None }
}

impl<T> Key<T> {
    /// Returns true for the name of the key, and for its earlier name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.name == name || self.former == Some(name)
    }

    /// Adds other common names of the key, for suggestions in error messages.
    pub(crate) const fn also(mut self, synonyms: &'static [&'static str]) -> Self {
        self.synonyms = synonyms;
        self
    }

    /// Adds the earlier name of the key.
    pub(crate) const fn formerly(mut self, name: &'static str) -> Self {
        self.former = Some(name);
        self
    }

    /// Adds earlier names of the key's values, each with its present name.
    pub(crate) const fn values_formerly(mut self, names: &'static [(&'static str, &'static str)]) -> Self {
        self.former_values = names;
        self
    }

    /// Adds the description of what happens without the key.
    pub(crate) const fn absent(mut self, effect: &'static str) -> Self {
        self.absent = effect;
        self
    }

    /// Adds a command-line flag: its name without `--`, the placeholder of its value, and its group
    /// in help texts.
    pub(crate) const fn flag(mut self, name: &'static str, value: &'static str, group: Group) -> Self {
        self.flag = Some(Flag { name, value, group });
        self
    }
}

/// Command-line flag that sets a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name of the flag, without `--`.
    pub name: &'static str,
    /// Placeholder of the flag's value in help texts.
    pub value: &'static str,
    /// Group of the flag in help texts.
    pub group: Group,
}

/// Group of flags under one heading in help texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Data set and its split.
    Data,
    /// Model and its layers.
    Model,
    /// Epochs, optimiser, loss and metric.
    Training,
    /// Mini-batches and their samplers.
    Batches,
    /// Lanes and workers.
    Pipeline,
    /// Threads, storage and the executor.
    Execution,
    /// Functions of a cloud.
    Functions,
}

impl Group {
    /// Returns the heading of the group in help texts.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Data => "Data",
            Self::Model => "Model",
            Self::Training => "Training",
            Self::Batches => "Batches",
            Self::Pipeline => "Pipeline",
            Self::Execution => "Execution",
            Self::Functions => "Functions",
        }
    }
}

/// Range of numbers that a key accepts. An infinite end means no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Lower end of the range.
    pub least: f64,
    /// Upper end of the range.
    pub most: f64,
    /// True if the lower end itself is not allowed.
    pub above: bool,
    /// True if the upper end itself is not allowed.
    pub below: bool,
}

impl Bounds {
    /// Any finite number.
    pub(crate) const FINITE: Self =
        Self { least: f64::NEG_INFINITY, most: f64::INFINITY, above: true, below: true };
    /// Numbers above 0.
    pub(crate) const POSITIVE: Self = Self { least: 0.0, ..Self::FINITE };
    /// Numbers of 0 or more.
    pub(crate) const NOT_NEGATIVE: Self = Self { above: false, ..Self::POSITIVE };
    /// Shares from 0 to 1.
    pub(crate) const SHARE: Self = Self::from(0.0, 1.0);
    /// Shares from 0 to below 1.
    pub(crate) const SHARE_BELOW_1: Self = Self { below: true, ..Self::SHARE };

    /// Creates a range that includes both ends.
    pub(crate) const fn from(least: f64, most: f64) -> Self {
        Self { least, most, above: false, below: false }
    }

    /// Creates a range without its lower end.
    pub(crate) const fn above(least: f64, most: f64) -> Self {
        Self { above: true, ..Self::from(least, most) }
    }

    /// Returns true if a number is in the range after rounding to f32, which is the type of the
    /// arithmetic.
    fn contains(&self, value: f64) -> bool {
        let value = f64::from(value as f32);
        let above = if self.above { value > self.least } else { value >= self.least };
        let below = if self.below { value < self.most } else { value <= self.most };
        value.is_finite() && above && below
    }

    /// Returns the range in words, for messages about the key `name`.
    fn text(&self, name: &str) -> String {
        let Self { least, most, above, below } = *self;
        match (least.is_finite(), most.is_finite()) {
            (false, _) => "a finite number".to_owned(),
            (true, false) if above => format!("a number above {least}"),
            (true, false) => format!("a number of {least} or more"),
            (true, true) => match (above, below) {
                (false, false) => format!("a number from {least} to {most}"),
                (true, false) => format!("a number above {least}, at most {most}"),
                (false, true) => format!("a number with {least} <= {name} < {most}"),
                (true, true) => format!("a number with {least} < {name} < {most}"),
            },
        }
    }

    /// Returns the range in short form, for help texts of the key `name`.
    fn short(&self, name: &str) -> String {
        let text = self.text(name);
        ["a number with ", "a number from ", "a number "]
            .iter()
            .find_map(|start| text.strip_prefix(start))
            .map_or(text.clone(), str::to_owned)
    }
}

/// Type and range of the values of a key.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Whole number between two ends, which are both allowed.
    Integer(u64, u64),
    /// Whole number between two ends, or the word `auto`.
    IntegerOrAuto(u64, u64),
    /// List of whole numbers between two ends. It may be a list, one number, or text with commas
    /// between the numbers.
    Integers(u64, u64),
    /// List of layer numbers, from 0.
    Layers,
    /// Number within a range.
    Number(Bounds),
    /// Boolean: `true` or `false`.
    Flag,
    /// Text that is not empty. The noun phrase describes it.
    Text(&'static str),
    /// One of the words that the function returns.
    Choice(fn() -> Vec<&'static str>),
    /// One of the words that the function returns, or another text, which the noun phrase
    /// describes.
    Open(fn() -> Vec<&'static str>, &'static str),
    /// Value of another form, which the noun phrase describes.
    Other(&'static str),
}

impl Kind {
    /// Returns the allowed values in words, for messages about the key `name`.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        match self {
            Self::Integer(least, most) => format!("a whole number from {least} to {most}"),
            Self::IntegerOrAuto(least, most) => format!("a whole number from {least} to {most}, or \"auto\""),
            Self::Integers(least, most) => format!("whole numbers from {least} to {most}, as [25, 10]"),
            Self::Layers => "a list of layers such as [0, 1]".to_owned(),
            Self::Number(bounds) => bounds.text(name),
            Self::Flag => "true or false".to_owned(),
            Self::Text(what) | Self::Other(what) => (*what).to_owned(),
            Self::Choice(names) => {
                let names: Vec<String> = names().iter().map(|name| format!("{name:?}")).collect();
                format!("one of {}", names.join(", "))
            }
            Self::Open(names, what) => {
                let names: Vec<String> = names().iter().map(|name| format!("{name:?}")).collect();
                format!("one of {}, or {what}", names.join(", "))
            }
        }
    }

    /// Returns the allowed values as a short list, for help texts and comments. The text is empty
    /// if the key's help already describes them.
    #[must_use]
    pub fn short(&self, name: &str) -> String {
        match self {
            Self::Integer(least, most) => format!("{} to {}", count(*least), count(*most)),
            Self::IntegerOrAuto(least, most) => format!("{} to {}, or auto", count(*least), count(*most)),
            Self::Integers(least, most) => format!("a list of {} to {}", count(*least), count(*most)),
            Self::Layers => "a list of layers, from 0".to_owned(),
            Self::Number(bounds) => bounds.short(name),
            Self::Flag => "true or false".to_owned(),
            Self::Text(_) => String::new(),
            Self::Other(what) => (*what).to_owned(),
            Self::Choice(names) => names().join(", "),
            Self::Open(names, what) => format!("{}, or {what}", names().join(", ")),
        }
    }

    pub(crate) fn integer(&self, field: &Field) -> Result<u64> {
        match self {
            Self::Integer(least, most) => field.integer(*least..=*most),
            other => Err(field.refuse(other.text(&field.name))),
        }
    }

    pub(crate) fn integer32(&self, field: &Field) -> Result<u32> {
        // The range of every such key is within u32.
        self.integer(field).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
    }

    pub(crate) fn auto(&self, field: &Field) -> Result<Option<u32>> {
        match (self, &field.value) {
            (_, Found::Text(text)) if text == "auto" => Ok(None),
            (Self::IntegerOrAuto(least, most), Found::Integer(_)) => {
                field.integer(*least..=*most).map(|value| u32::try_from(value).ok())
            }
            _ => Err(field.refuse(self.text(&field.name))),
        }
    }

    pub(crate) fn integers(&self, field: &Field) -> Result<Vec<u32>> {
        let end = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        match self {
            Self::Integers(least, most) => field.integers32(end(*least)..=end(*most)),
            other => Err(field.refuse(other.text(&field.name))),
        }
    }

    pub(crate) fn layers(&self, field: &Field) -> Result<Vec<u32>> {
        field.layers()
    }

    pub(crate) fn number(&self, field: &Field) -> Result<f64> {
        let value = match field.value {
            Found::Integer(value) => Some(value as f64),
            Found::Number(value) => Some(value),
            _ => None,
        };
        match self {
            Self::Number(bounds) => value.filter(|value| bounds.contains(*value)),
            _ => None,
        }
        .ok_or_else(|| field.refuse(self.text(&field.name)))
    }

    pub(crate) fn flag(&self, field: &Field) -> Result<bool> {
        field.flag()
    }

    pub(crate) fn string(&self, field: &Field) -> Result<String> {
        field.text(&self.text(&field.name))
    }
}

/// Returns a number as text. Large numbers are written as powers of 2 or 10.
fn count(value: u64) -> String {
    let power = |above: u64| above.is_power_of_two().then(|| format!("2^{}", above.trailing_zeros()));
    if value >= 1_000_000 {
        if let Some(text) = power(value) {
            return text;
        }
        if let Some(text) = value.checked_add(1).and_then(power) {
            return format!("{text} - 1");
        }
        let tens = value.ilog10();
        if value == 10u64.pow(tens) {
            return format!("10^{tens}");
        }
    }
    value.to_string()
}

/// Returns the names of a table of named choices.
pub(crate) fn names<T, const N: usize>(all: &[(&'static str, T); N]) -> Vec<&'static str> {
    all.iter().map(|(name, _)| *name).collect()
}

/// Expands to a [`Kind`] and the [`Write`] function for a setting of this kind. With `some`, the
/// function writes `Some`. The file that uses the macro defines `To`, the type of its settings.
macro_rules! value {
    (integer($least:expr, $most:expr) => $($to:ident).+) => {
        (Kind::Integer($least, $most), |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = kind.integer(field)?; Ok(()) })
    };
    (some integer($least:expr, $most:expr) => $($to:ident).+) => {
        (Kind::Integer($least, $most), |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = Some(kind.integer(field)?); Ok(()) })
    };
    (integer32($least:expr, $most:expr) => $($to:ident).+) => {
        (Kind::Integer($least as u64, $most as u64), |to: &mut To, field: &Field, kind: &Kind| {
            to.$($to).+ = kind.integer32(field)?;
            Ok(())
        })
    };
    (some integer32($least:expr, $most:expr) => $($to:ident).+) => {
        (Kind::Integer($least as u64, $most as u64), |to: &mut To, field: &Field, kind: &Kind| {
            to.$($to).+ = Some(kind.integer32(field)?);
            Ok(())
        })
    };
    (integers($least:expr, $most:expr) => $($to:ident).+) => {
        (Kind::Integers($least as u64, $most as u64), |to: &mut To, field: &Field, kind: &Kind| {
            to.$($to).+ = kind.integers(field)?;
            Ok(())
        })
    };
    (layers => $($to:ident).+) => {
        (Kind::Layers, |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = kind.layers(field)?; Ok(()) })
    };
    (number($bounds:expr) => $($to:ident).+) => {
        (Kind::Number($bounds), |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = kind.number(field)?; Ok(()) })
    };
    (some number($bounds:expr) => $($to:ident).+) => {
        (Kind::Number($bounds), |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = Some(kind.number(field)?); Ok(()) })
    };
    (flag => $($to:ident).+) => {
        (Kind::Flag, |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = kind.flag(field)?; Ok(()) })
    };
    (some flag => $($to:ident).+) => {
        (Kind::Flag, |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = Some(kind.flag(field)?); Ok(()) })
    };
    (text($what:expr) => $($to:ident).+) => {
        (Kind::Text($what), |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = kind.string(field)?; Ok(()) })
    };
    (some text($what:expr) => $($to:ident).+) => {
        (Kind::Text($what), |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = Some(kind.string(field)?); Ok(()) })
    };
    (choice($all:expr) => $($to:ident).+) => {
        (Kind::Choice(|| names(&$all)), |to: &mut To, field: &Field, _: &Kind| { to.$($to).+ = field.choice(&$all)?; Ok(()) })
    };
    (some choice($all:expr) => $($to:ident).+) => {
        (Kind::Choice(|| names(&$all)), |to: &mut To, field: &Field, _: &Kind| { to.$($to).+ = Some(field.choice(&$all)?); Ok(()) })
    };
}
pub(crate) use value;

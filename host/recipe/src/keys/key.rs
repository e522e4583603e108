//! Declaration of a key, with its name, help, type, range, command-line flag, and the setting that
//! it writes.

use crate::document::{Field, Found};
use crate::error::Result;

/// Declaration of a key. `T` is the type of the settings of its section.
pub(crate) struct Key<T: 'static> {
    /// Name of the key, without its section.
    pub(crate) name: &'static str,
    /// Meaning of the key, as a noun phrase with its unit. It does not list the allowed values.
    pub(crate) help: &'static str,
    /// Type and range of the allowed values.
    pub(crate) kind: Kind,
    /// Function that parses a field and writes it to the setting.
    pub(crate) write: Write<T>,
    /// Other common names for the setting, which error messages recognise for suggestions.
    pub(crate) synonyms: &'static [&'static str],
    /// Outdated name of the key. It is still accepted for one version, with a deprecation warning.
    pub(crate) former: Option<&'static str>,
    /// Outdated names of the key's values, as pairs of outdated and current name.
    pub(crate) former_values: &'static [(&'static str, &'static str)],
    /// Description of the effect of leaving the key out. It is empty if the key has a default
    /// value.
    pub(crate) absent: &'static str,
    /// Command-line flag that sets the key, for `eciton train` and other commands.
    pub(crate) flag: Option<Flag>,
}

/// Function that checks a field against a [`Kind`] and writes its value to the settings.
pub(crate) type Write<T> = fn(&mut T, &Field, &Kind) -> Result<()>;

/// Declares a key without synonyms, outdated names or a command-line flag.
pub(crate) const fn key<T>(
    name: &'static str,
    help: &'static str,
    (kind, write): (Kind, Write<T>),
) -> Key<T> {
    Key { name, help, kind, write, synonyms: &[], former: None, former_values: &[], absent: "", flag: None }
}

impl<T> Key<T> {
    /// Returns true if `name` is the current or the outdated name of the key.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.name == name || self.former == Some(name)
    }

    /// Adds other common names for the setting, which error messages recognise for suggestions.
    pub(crate) const fn also(mut self, synonyms: &'static [&'static str]) -> Self {
        self.synonyms = synonyms;
        self
    }

    /// Adds the outdated name of the key.
    pub(crate) const fn formerly(mut self, name: &'static str) -> Self {
        self.former = Some(name);
        self
    }

    /// Adds outdated names of the key's values, as pairs of outdated and current name.
    pub(crate) const fn values_formerly(mut self, names: &'static [(&'static str, &'static str)]) -> Self {
        self.former_values = names;
        self
    }

    /// Adds a description of the effect of leaving the key out.
    pub(crate) const fn absent(mut self, effect: &'static str) -> Self {
        self.absent = effect;
        self
    }

    /// Adds a command-line flag. `name` has no `--`, `value` is the placeholder of its value in
    /// help texts, and `group` is its heading there.
    pub(crate) const fn flag(mut self, name: &'static str, value: &'static str, group: Group) -> Self {
        self.flag = Some(Flag { name, value, group });
        self
    }
}

/// Command-line flag that sets a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name of the flag, without the leading `--`.
    pub name: &'static str,
    /// Placeholder of the value in help texts, for instance `N`.
    pub value: &'static str,
    /// Heading under which help texts list the flag.
    pub group: Group,
}

/// Heading under which help texts list a flag.
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
    /// Cloud functions.
    Functions,
}

impl Group {
    /// Returns the text of the heading in help texts.
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

/// Range of numbers that a key accepts. An infinite bound means no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Lower bound of the range.
    pub least: f64,
    /// Upper bound of the range.
    pub most: f64,
    /// True if the lower bound is excluded.
    pub above: bool,
    /// True if the upper bound is excluded.
    pub below: bool,
}

impl Bounds {
    /// Any finite number.
    pub(crate) const FINITE: Self =
        Self { least: f64::NEG_INFINITY, most: f64::INFINITY, above: true, below: true };
    /// Finite numbers above 0.
    pub(crate) const POSITIVE: Self = Self { least: 0.0, ..Self::FINITE };
    /// Finite numbers of at least 0.
    pub(crate) const NOT_NEGATIVE: Self = Self { above: false, ..Self::POSITIVE };
    /// Numbers from 0 to 1, both included.
    pub(crate) const SHARE: Self = Self::from(0.0, 1.0);
    /// Numbers from 0 (included) to 1 (excluded).
    pub(crate) const SHARE_BELOW_1: Self = Self { below: true, ..Self::SHARE };

    /// Creates a range that includes both bounds.
    pub(crate) const fn from(least: f64, most: f64) -> Self {
        Self { least, most, above: false, below: false }
    }

    /// Creates a range that excludes its lower bound and includes its upper bound.
    pub(crate) const fn above(least: f64, most: f64) -> Self {
        Self { above: true, ..Self::from(least, most) }
    }

    /// Returns true if a number is within the range after rounding to f32, in which kernels
    /// compute.
    fn contains(&self, value: f64) -> bool {
        let value = f64::from(value as f32);
        let above = if self.above { value > self.least } else { value >= self.least };
        let below = if self.below { value < self.most } else { value <= self.most };
        value.is_finite() && above && below
    }

    /// Returns a description of the range for error messages about the key `name`, for instance
    /// `a number from 0 to 1`.
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

    /// Returns a short description of the range for help texts of the key `name`, for instance
    /// `0 to 1`.
    fn short(&self, name: &str) -> String {
        let text = self.text(name);
        ["a number with ", "a number from ", "a number "]
            .iter()
            .find_map(|start| text.strip_prefix(start))
            .map_or(text.clone(), str::to_owned)
    }
}

/// Type and range of the values that a key accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number between two bounds, both included.
    Integer(u64, u64),
    /// A whole number between two bounds (both included), or the word `auto`.
    IntegerOrAuto(u64, u64),
    /// Whole numbers between two bounds, both included. The value may be a list, a single number,
    /// or text with numbers separated by commas.
    Integers(u64, u64),
    /// Whole numbers from 1 to the given bound, or -1 for all. The value may be a list, a single
    /// number, or text with numbers separated by commas.
    FanOuts(u32),
    /// Indices of layers, from 0.
    Layers,
    /// A number within a range.
    Number(Bounds),
    /// A Boolean, `true` or `false`.
    Flag,
    /// Non-empty text. The noun phrase describes it.
    Text(&'static str),
    /// One of the words that the function returns.
    Choice(fn() -> Vec<&'static str>),
    /// One of the words that the function returns, or another text that the noun phrase describes.
    Open(fn() -> Vec<&'static str>, &'static str),
    /// A value of another form, which the noun phrase describes.
    Other(&'static str),
}

impl Kind {
    /// Returns a description of the allowed values for error messages about the key `name`.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        match self {
            Self::Integer(least, most) => format!("a whole number from {least} to {most}"),
            Self::IntegerOrAuto(least, most) => format!("a whole number from {least} to {most}, or \"auto\""),
            Self::Integers(least, most) => format!("whole numbers from {least} to {most}, as [25, 10]"),
            Self::FanOuts(most) => format!("whole numbers from 1 to {most} or -1 for all, as [25, 10]"),
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

    /// Returns a short description of the allowed values for help texts and comments. It is empty
    /// if the help of the key already describes them.
    #[must_use]
    pub fn short(&self, name: &str) -> String {
        match self {
            Self::Integer(least, most) => format!("{} to {}", count(*least), count(*most)),
            Self::IntegerOrAuto(least, most) => format!("{} to {}, or auto", count(*least), count(*most)),
            Self::Integers(least, most) => format!("a list of {} to {}", count(*least), count(*most)),
            Self::FanOuts(most) => format!("a list of 1 to {}, or -1", count(u64::from(*most))),
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

    pub(crate) fn fan_outs(&self, field: &Field) -> Result<Vec<i32>> {
        let number = |&value: &i64| match self {
            Self::FanOuts(most) => value == -1 || (1..=i64::from(*most)).contains(&value),
            _ => false,
        };
        let found = field.list().filter(|found| !found.is_empty() && found.iter().all(number));
        let found = found.map(|found| found.into_iter().filter_map(|value| value.try_into().ok()).collect());
        found.ok_or_else(|| field.refuse(self.text(&field.name)))
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

/// Formats a number. Large powers are written in short form, for instance `2^31 - 1` or `10^9`.
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

/// Returns the names of a table that has pairs of name and choice.
pub(crate) fn names<T, const N: usize>(all: &[(&'static str, T); N]) -> Vec<&'static str> {
    all.iter().map(|(name, _)| *name).collect()
}

/// Expands to a pair of a [`Kind`] and the [`Write`] function of a setting. With `some`, the
/// function writes an `Option`. The file that uses the macro must define `To`, the type of its
/// settings.
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
    (fan_outs($most:expr) => $($to:ident).+) => {
        (Kind::FanOuts($most), |to: &mut To, field: &Field, kind: &Kind| { to.$($to).+ = kind.fan_outs(field)?; Ok(()) })
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

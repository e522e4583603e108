//! Time between two repetitions of an action, such as an evaluation, a checkpoint or a report. It
//! is counted in epochs, in steps (weight updates), or in seconds.
//!
//! In recipes, a whole number counts epochs. Other units are part of a text, for instance
//! `"500 steps"` or `"30 s"`.
//!
//! ```
//! use eciton_recipe::Every;
//! let every: Every = "500 steps".parse()?;
//! assert_eq!((every, every.steps(20)), (Every::Steps(500), Some(500)));
//! assert_eq!(Every::from(2).steps(20), Some(40));
//! # Ok::<(), String>(())
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Description of the accepted form, for error messages.
pub(crate) const FORM: &str = "a whole number of epochs, or a text such as \"500 steps\" or \"30 s\"";
/// Maximum number of units.
const MOST: u32 = 1_000_000_000;

/// Time between two repetitions of an action. 0 means that it is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Every {
    /// Number of epochs.
    Epochs(u32),
    /// Number of steps (weight updates).
    Steps(u32),
    /// Number of seconds. The action follows the first step that ends after this time.
    Seconds(u32),
}

/// Form of an [`Every`] in recipes.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Epochs(u32),
    Text(String),
}

impl Every {
    /// Returns true if the action is not repeated.
    #[must_use]
    pub const fn is_never(self) -> bool {
        matches!(self, Self::Epochs(0) | Self::Steps(0) | Self::Seconds(0))
    }

    /// Returns the number of steps between two repetitions, for epochs of `steps_per_epoch` steps.
    /// Returns `None` for times in seconds, and if the action is not repeated.
    #[must_use]
    pub fn steps(self, steps_per_epoch: u32) -> Option<u32> {
        match self {
            _ if self.is_never() => None,
            Self::Epochs(epochs) => Some(epochs.saturating_mul(steps_per_epoch)),
            Self::Steps(steps) => Some(steps),
            Self::Seconds(_) => None,
        }
    }
}

impl From<u32> for Every {
    fn from(epochs: u32) -> Self {
        Self::Epochs(epochs)
    }
}

impl fmt::Display for Every {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Epochs(epochs) => write!(f, "{epochs}"),
            Self::Steps(steps) => write!(f, "\"{steps} steps\""),
            Self::Seconds(seconds) => write!(f, "\"{seconds} s\""),
        }
    }
}

impl FromStr for Every {
    type Err = String;

    /// Parses a number with its unit. A number alone counts epochs.
    ///
    /// # Errors
    /// Returns a description of the accepted form.
    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || FORM.to_owned();
        let text = text.trim();
        let (count, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let count: u32 = count.parse().map_err(|_| refuse())?;
        let of: fn(u32) -> Self = match unit.trim() {
            "" | "epoch" | "epochs" => Self::Epochs,
            "step" | "steps" | "update" | "updates" => Self::Steps,
            "s" | "second" | "seconds" => Self::Seconds,
            "min" | "minute" | "minutes" => |minutes| Self::Seconds(minutes.saturating_mul(60)),
            _ => return Err(refuse()),
        };
        if count > MOST { Err(refuse()) } else { Ok(of(count)) }
    }
}

impl From<Every> for Written {
    fn from(every: Every) -> Self {
        match every {
            Every::Epochs(epochs) => Self::Epochs(epochs),
            other => Self::Text(other.to_string().trim_matches('"').to_owned()),
        }
    }
}

impl TryFrom<Written> for Every {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Epochs(epochs) => Ok(Self::Epochs(epochs)),
            Written::Text(text) => text.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_have_a_number_and_a_unit() {
        for (text, every) in [
            ("3", Every::Epochs(3)),
            ("1 epoch", Every::Epochs(1)),
            ("500 steps", Every::Steps(500)),
            ("1update", Every::Steps(1)),
            ("30 s", Every::Seconds(30)),
            ("2 min", Every::Seconds(120)),
            ("0 steps", Every::Steps(0)),
        ] {
            assert_eq!(text.parse(), Ok(every), "{text}");
            assert_eq!(every.to_string().trim_matches('"').parse(), Ok(every));
            let toml = toml::Value::try_from(every).unwrap();
            assert_eq!(toml.try_into::<Every>().unwrap(), every);
        }
        for text in ["", "steps", "1.5 steps", "-1", "3 hours", "1000000001", "5 s s"] {
            assert_eq!(text.parse::<Every>(), Err(FORM.to_owned()), "{text}");
        }
        let never = [Every::Epochs(0), Every::Steps(0), Every::Seconds(0)];
        assert!(never.iter().all(|every| every.is_never() && every.steps(7).is_none()));
        assert_eq!((Every::Seconds(5).steps(7), Every::Epochs(2).steps(u32::MAX)), (None, Some(u32::MAX)));
    }
}

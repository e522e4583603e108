//! Record of the keys that were asked for, and of the settings that the data decided.

use std::collections::{BTreeMap, BTreeSet};

use super::Config;
use super::commented::settings;
use crate::document;
use crate::error::Result;
use crate::keys;

/// Setting that follows from the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The key with its section, for instance `model.hidden`.
    pub key: String,
    /// The value, as TOML.
    pub value: String,
    /// The property of the data that decides it, for instance `240 rows, 4 classes`.
    pub reason: String,
}

impl Choice {
    /// Returns the origin of the setting, as `config.toml` records it.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{ORIGIN}{}", self.reason)
    }
}

/// Beginning of each choice's origin.
const ORIGIN: &str = "default: ";

/// Keys that were asked for, and settings that the data decided. Two configurations are equal
/// whatever decided their settings.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// True if the data decide settings that were not asked for. It is false for a recipe's file.
    pub open: bool,
    /// Settings that the data decided, in order.
    pub made: Vec<Choice>,
    asked: BTreeSet<String>,
}

impl PartialEq for Choices {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Choices {
    /// Records a key that was asked for.
    pub fn ask(&mut self, key: &str) {
        self.asked.insert(key.to_owned());
    }

    /// Returns whether a key was asked for.
    #[must_use]
    pub fn is_asked(&self, key: &str) -> bool {
        self.asked.contains(key)
    }

    /// Returns whether any key of a section was asked for.
    #[must_use]
    pub fn is_section_asked(&self, section: &str) -> bool {
        self.asked.iter().any(|key| key.split_once('.').is_some_and(|(of, _)| of == section))
    }
}

impl Config {
    /// Reads a recipe, and records its keys as asked for. `origin` is the recipe's name, for
    /// messages.
    ///
    /// # Errors
    /// The errors of [`Config::parse`].
    pub fn parse_asked(text: &str, origin: &str) -> Result<Self> {
        let mut config = Self::parse(text, origin)?;
        for section in document::parse(text, origin)?.0 {
            if let document::Found::Table(fields) = section.value {
                fields.0.iter().for_each(|field| config.choices.ask(&field.path));
            }
        }
        Ok(config)
    }

    /// Records the choices of an earlier run with this configuration. `origins` are those of the
    /// run's `config.toml` ([`super::origins`]).
    ///
    /// # Errors
    /// The errors of [`Config::to_toml`].
    pub fn recall_choices(&mut self, origins: &BTreeMap<String, String>) -> Result<()> {
        let text = self.to_toml()?;
        self.choices.made.extend(settings(&text).filter_map(|(key, line)| {
            let reason = origins.get(&key)?.strip_prefix(ORIGIN)?.to_owned();
            Some(Choice { value: line.split_once(" = ")?.1.to_owned(), key, reason })
        }));
        Ok(())
    }

    /// Makes a setting unless its key was asked for or the other settings exclude it. Returns true
    /// if the setting was made.
    ///
    /// # Errors
    /// A key or a value that does not exist.
    pub fn choose(&mut self, choice: Choice) -> Result<bool> {
        if self.choices.is_asked(&choice.key) {
            return Ok(false);
        }
        let mut changed = self.clone();
        let field = document::parse_override(&format!("{}={}", choice.key, choice.value))?;
        keys::write_override(&mut changed, field)?;
        if changed.check().is_err() {
            return Ok(false);
        }
        changed.choices.made.push(choice);
        *self = changed;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_that_were_asked_for_stay() {
        let mut config = Config::parse_asked("[model]\nkind = \"gat\"\n[run]\nepochs = 7\n", "r").unwrap();
        config.set("model.hidden=8").unwrap();
        let choice = |key: &str, value: &str| Choice {
            key: key.to_owned(),
            value: value.to_owned(),
            reason: "240 rows".to_owned(),
        };
        for key in ["model.kind", "model.hidden", "run.epochs"] {
            assert!(!config.choose(choice(key, "1")).unwrap(), "{key}");
        }
        assert!(config.choose(choice("optimiser.lr", "0.5")).unwrap());
        assert_eq!((config.model.hidden, config.run.epochs, config.optimiser.lr), (8, 7, 0.5));
        assert_eq!(config.choices.made, [choice("optimiser.lr", "0.5")]);
        // A run that continues reports the same choices.
        let from = |key: &str| config.choices.made.iter().find(|made| made.key == key).map(Choice::origin);
        let text = config.to_commented_toml(&from).unwrap();
        let mut again = Config::parse(&text, "again").unwrap();
        again.recall_choices(&crate::origins(&text)).unwrap();
        assert_eq!(again.choices.made, config.choices.made);
        // Without evaluations no epoch is the best.
        config.set("run.eval_every=0").unwrap();
        assert!(!config.choose(choice("run.keep", "\"best\"")).unwrap());
        assert!(config.choose(choice("run.keeps", "\"best\"")).is_err());
        assert!(config.choices.is_section_asked("run") && !config.choices.is_section_asked("batch"));
    }
}

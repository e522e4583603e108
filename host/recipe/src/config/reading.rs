//! Parsing of recipes and overrides into a configuration.

use std::collections::BTreeMap;

use super::Config;
use super::choices::{Choice, ORIGIN};
use super::commented::settings;
use crate::document;
use crate::error::Result;
use crate::keys;

impl Config {
    /// Parses a recipe. Settings that it does not give have their defaults. `origin` is the
    /// recipe's name, for messages.
    ///
    /// # Errors
    /// Returns [`crate::Error::Syntax`] for a text that is not TOML, [`crate::Error::UnknownKey`]
    /// for a key that does not exist, and [`crate::Error::Value`] for a value out of range. These
    /// messages name the line. Returns [`crate::Error::TooMany`] for a text of more than 1 MiB.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let mut config = Self::default();
        config.apply(text, origin)?;
        Ok(config)
    }

    /// Replaces the settings that a recipe gives. If there is an error, nothing changes.
    ///
    /// # Errors
    /// Returns the errors of [`Config::parse`].
    pub fn apply(&mut self, text: &str, origin: &str) -> Result<()> {
        let fields = document::parse(text, origin)?;
        let mut changed = self.clone();
        keys::write_config(&mut changed, &fields)?;
        *self = changed;
        Ok(())
    }

    /// Applies one override, `section.key=value`. The value is read as TOML. If it is not valid
    /// TOML, it is read as text. If there is an error, nothing changes.
    ///
    /// # Errors
    /// Returns [`crate::Error::Override`] for an argument that is not `section.key=value`, and the
    /// errors of [`Config::parse`].
    pub fn set(&mut self, argument: &str) -> Result<()> {
        let mut changed = self.clone();
        let field = document::parse_override(argument)?;
        let key = field.path.clone();
        keys::write_override(&mut changed, field)?;
        let key = changed.choices.present_name(&key).to_owned();
        changed.choices.ask(&key);
        if let Some(key) = key.strip_prefix("model.") {
            changed.model.note_set(key);
        }
        if changed.executor.kind != self.executor.kind {
            changed.run_on(changed.executor.kind);
        }
        *self = changed;
        Ok(())
    }
}

impl Config {
    /// Parses a recipe like [`Config::parse`], and records its keys as set by the user.
    ///
    /// # Errors
    /// Returns the errors of [`Config::parse`].
    pub fn parse_asked(text: &str, origin: &str) -> Result<Self> {
        let mut config = Self::parse(text, origin)?;
        for section in document::parse(text, origin)?.0 {
            if let document::Found::Table(fields) = section.value {
                for field in &fields.0 {
                    let key = config.choices.present_name(&field.path).to_owned();
                    config.choices.ask(&key);
                }
            }
        }
        Ok(config)
    }

    /// Restores the choices of an earlier run that had this configuration. `origins` has the
    /// origins in that run's `config.toml` ([`super::origins`]).
    ///
    /// # Errors
    /// Returns the errors of [`Config::to_toml`].
    pub fn recall_choices(&mut self, origins: &BTreeMap<String, String>) -> Result<()> {
        let text = self.to_toml()?;
        self.choices.made.extend(settings(&text).filter_map(|(key, line)| {
            let reason = origins.get(&key)?.strip_prefix(ORIGIN)?.to_owned();
            Some(Choice { value: line.split_once(" = ")?.1.to_owned(), key, reason })
        }));
        Ok(())
    }

    /// Applies a choice from the data, unless the user set the key or the other settings exclude
    /// the value. Returns true if the choice was applied.
    ///
    /// # Errors
    /// Returns an error if the key or the value does not exist.
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
        // A resumed run reports the same choices.
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

//! Parsing of recipes and overrides into a configuration.

use std::collections::BTreeMap;

use super::Config;
use super::choices::{Choice, ORIGIN};
use super::commented::settings;
use crate::document;
use crate::error::Result;
use crate::keys;

impl Config {
    /// Parses the text of a recipe. All other settings have their defaults. `origin` is the name of
    /// the recipe for error messages.
    ///
    /// # Errors
    /// Returns [`crate::Error::Syntax`] if the text is not TOML, [`crate::Error::UnknownKey`] for
    /// an unknown key, and [`crate::Error::Value`] for a value out of range. These messages have
    /// the line. Returns [`crate::Error::TooMany`] if the text is longer than 1 MiB.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let mut config = Self::default();
        config.apply(text, origin)?;
        Ok(config)
    }

    /// Applies the settings of a recipe to this configuration. After an error, the configuration is
    /// unchanged.
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

    /// Applies an override of the form `section.key=value`. A value that is not valid TOML is taken
    /// as text. After an error, the configuration is unchanged.
    ///
    /// # Errors
    /// Returns [`crate::Error::Override`] if the argument does not have this form. Also returns the
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
    /// Parses the text of a recipe like [`Config::parse`], and records that the user set its keys.
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

    /// Restores the record of derived settings of an earlier run with this configuration. `origins`
    /// are the origins of that run's `config.toml` ([`super::origins`]).
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

    /// Applies a setting that was derived from the data. It is not applied if the user set the key,
    /// or if other settings exclude the value. Returns true if it was applied.
    ///
    /// # Errors
    /// Returns an error if the key is unknown or the value is invalid.
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

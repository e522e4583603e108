//! Command-line flags that set recipe keys. They are generated from the declarations of the keys.

use clap::{Arg, ArgMatches, Command};
use eciton_recipe::keys::Flag;

use crate::keys::flagged;
use crate::recipe::Setting;

/// The flags that the user gave, each with the recipe key that it sets and its value. Values are
/// unparsed text, which the recipe parses later.
#[derive(Debug, Default)]
pub(crate) struct KeyFlags(Vec<(&'static Flag, &'static str, String)>);

impl KeyFlags {
    /// Returns one recipe setting per flag that was given.
    pub(crate) fn settings(&self) -> impl Iterator<Item = Setting> {
        self.0.iter().map(|(flag, key, value)| Setting {
            key: (*key).to_owned(),
            value: value.clone(),
            shown: format!("--{} {value}", flag.name),
        })
    }

    /// Returns true if the user gave the flag that sets the recipe key `key`.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(_, set, _)| *set == key)
    }
}

impl clap::FromArgMatches for KeyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = flagged().iter().filter_map(|(flag, info)| {
            let value = matches.get_one::<String>(flag.name)?;
            Some((flag, info.key.as_str(), value.clone()))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for KeyFlags {
    fn augment_args(command: Command) -> Command {
        flagged().iter().fold(command, |command, (flag, info)| {
            let help = match info.default_text() {
                "" => info.text(),
                default => format!("{} [default: {default}]", info.text()),
            };
            command.arg(
                Arg::new(flag.name)
                    .long(flag.name)
                    .value_name(flag.value)
                    // A value such as -1 reaches the key, whose error names the allowed values.
                    .allow_negative_numbers(true)
                    .help_heading(flag.group.heading())
                    .help(help),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_has_one_key() {
        let mut names: Vec<&str> = flagged().iter().map(|(flag, _)| flag.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count > 40, "{count}");
    }
}

//! Serialisation of a configuration as a recipe with a comment above each setting.

use std::collections::BTreeMap;

use super::Config;
use crate::error::Result;
use crate::keys;

/// Maximum length of a comment line, in characters.
const WIDTH: usize = 100;

impl Config {
    /// Returns the same text as [`Config::to_toml`], with a comment above each setting. The comment
    /// has the meaning of the setting and its origin.
    ///
    /// `from` returns the origin of a key. If it returns `None`, the origin is `default` for a
    /// default value, and `set` for any other value.
    ///
    /// # Errors
    /// Returns the errors of [`Config::to_toml`].
    pub fn to_commented_toml(&self, from: &dyn Fn(&str) -> Option<String>) -> Result<String> {
        let meanings: BTreeMap<String, String> =
            keys::keys().into_iter().map(|info| (info.key.clone(), info.text())).collect();
        let default = Self::default().to_toml()?;
        let defaults: Vec<(String, &str)> = settings(&default).collect();
        let plain = self.to_toml()?;
        let mut text = String::with_capacity(plain.len() * 4);
        let mut known = settings(&plain).peekable();
        for line in plain.lines() {
            if let Some((key, value)) = known.next_if(|(_, setting)| *setting == line)
                && let Some(meaning) = meanings.get(&key)
            {
                let usual = || defaults.iter().any(|(of, line)| *of == key && *line == value);
                let from = from(&key).unwrap_or_else(|| if usual() { "default" } else { "set" }.to_owned());
                comment(&mut text, &format!("{meaning} ({from})"));
            }
            text.push_str(line);
            text.push('\n');
        }
        Ok(text)
    }
}

/// Returns the origin of each setting by key, parsed from the comments that
/// [`Config::to_commented_toml`] wrote. A resumed run restores the recorded origins in this way.
#[must_use]
pub fn origins(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let (mut section, mut words) = ("", String::new());
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix('#') {
            words.push_str(comment);
            continue;
        }
        let comment = std::mem::take(&mut words);
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        } else if let Some((name, _)) = line.split_once(" = ")
            && let Some((_, from)) = comment.strip_suffix(')').and_then(|comment| comment.rsplit_once(" ("))
        {
            found.insert(format!("{section}.{name}"), from.to_owned());
        }
    }
    found
}

/// Returns each key of a recipe's text with its section, and the line that sets it. Keys of nested
/// tables are skipped.
pub(super) fn settings(text: &str) -> impl Iterator<Item = (String, &str)> {
    let mut section = String::new();
    text.lines().filter_map(move |line| {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_owned();
            return None;
        }
        let (name, _) = line.split_once(" = ")?;
        let key = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        key.then(|| (format!("{section}.{name}"), line))
    })
}

/// Appends `words` as comment lines of at most [`WIDTH`] characters.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("#");
    for word in words.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH && line.len() > 1 {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_setting_has_its_meaning_and_reads_back() {
        let mut config = Config::parse("[run]\nepochs = 7\n", "r.toml").unwrap();
        config.model.activation = Some(crate::Activation::Elu);
        let from = |key: &str| (key == "model.activation").then(|| "default of gat".to_owned());
        let text = config.to_commented_toml(&from).unwrap();
        assert_eq!(Config::parse(&text, "again").unwrap(), config);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        let above = |setting: &str| {
            let at = lines.iter().position(|line| *line == setting).unwrap();
            lines[at - 1]
        };
        assert!(above("activation = \"elu\"").ends_with("(default of gat)"), "{text}");
        assert!(above("epochs = 7").ends_with("(set)") && above("seed = 0").ends_with("(default)"), "{text}");
        // Written comments can be parsed and written again.
        let said = origins(&text);
        let again = config.to_commented_toml(&|key: &str| said.get(key).cloned()).unwrap();
        assert_eq!((again, &said["model.activation"][..]), (text.clone(), "default of gat"));
        // Every plain setting has a comment.
        let is_setting = |line: &str| line.contains(" = ") && !line.starts_with('#');
        let bare = lines.windows(2).filter(|pair| is_setting(pair[1]) && !pair[0].starts_with('#'));
        assert_eq!(bare.count(), 0, "{text}");
    }
}

//! Application of fields to settings by the declarations of keys, and errors for unknown keys.

use super::key::Key;
use crate::document::{Field, Found};
use crate::error::{Error, Result};

/// Existing key that the error message for an unknown key may suggest.
pub(super) struct Offer {
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    pub(super) synonyms: &'static [&'static str],
}

impl Offer {
    /// Creates the suggestion for a key of a section. `section` is empty for keys outside of
    /// sections.
    pub(super) fn new<T>(section: &'static str, key: &Key<T>) -> Self {
        Self { section, name: key.name, synonyms: key.synonyms }
    }
}

/// Outdated name of a key or value that a recipe or override contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deprecated {
    /// Setting as the user wrote it, for instance `workers.redundant`.
    pub found: String,
    /// Current name of the key or value.
    pub present: String,
}

impl std::fmt::Display for Deprecated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { found, present } = self;
        write!(f, "`{found}` is now `{present}`; the next version will refuse the earlier name")
    }
}

/// Writes fields to `target` in the order in which `keys` are declared, and returns the outdated
/// names that the fields use. `others` returns the keys of all sections, which error messages may
/// suggest.
pub(super) fn write<T>(
    target: &mut T,
    section: &'static str,
    keys: &[Key<T>],
    fields: &[Field],
    others: fn() -> Vec<Offer>,
) -> Result<Vec<Deprecated>> {
    let keys: Vec<&Key<T>> = keys.iter().collect();
    write_each(target, section, &keys, fields, others)
}

/// Writes fields that have no section, with the keys of two lists.
pub(super) fn write_with<T>(
    target: &mut T,
    keys: &[Key<T>],
    more: &[Key<T>],
    fields: &[Field],
) -> Result<Vec<Deprecated>> {
    let keys: Vec<&Key<T>> = keys.iter().chain(more).collect();
    write_each(target, "", &keys, fields, Vec::new)
}

fn write_each<T>(
    target: &mut T,
    section: &'static str,
    keys: &[&Key<T>],
    fields: &[Field],
    others: fn() -> Vec<Offer>,
) -> Result<Vec<Deprecated>> {
    let mut deprecated = Vec::new();
    for field in fields {
        if !keys.iter().any(|key| key.has_name(&field.name)) {
            let own: Vec<Offer> = keys.iter().map(|key| Offer::new(section, key)).collect();
            return Err(unknown(field, &own, &others()));
        }
    }
    for key in keys {
        for field in fields.iter().filter(|field| key.has_name(&field.name)) {
            let path = |name: &str| match field.path.rsplit_once('.') {
                Some((section, _)) => format!("{section}.{name}"),
                None => name.to_owned(),
            };
            if key.former == Some(&field.name) {
                deprecated.push(Deprecated { found: field.path.clone(), present: path(key.name) });
            }
            let is_former = |(former, _): &&(&str, &str)| match &field.value {
                Found::Text(text) => text == former,
                Found::Flag(flag) => flag.to_string() == **former,
                _ => false,
            };
            match key.former_values.iter().find(is_former) {
                Some((former, present)) => {
                    let found = format!("{} = \"{former}\"", path(key.name));
                    let renamed = Field { value: Found::Text((*present).to_owned()), ..field.clone() };
                    (key.write)(target, &renamed, &key.kind)?;
                    deprecated
                        .push(Deprecated { found, present: format!("{} = \"{present}\"", path(key.name)) });
                }
                None => (key.write)(target, field, &key.kind)?,
            }
        }
    }
    Ok(deprecated)
}

/// Creates the error for an unknown key, which suggests the most similar key. `own` has the keys of
/// its section, and `others` those of other sections.
pub(super) fn unknown(field: &Field, own: &[Offer], others: &[Offer]) -> Error {
    let mut best: (f64, Option<String>) = (0.55, None);
    let mut offer = |key: &Offer, share: f64| {
        let home = key.section;
        let path = if home.is_empty() { key.name.to_owned() } else { format!("{home}.{}", key.name) };
        let written = field.path.rsplit('.').next().unwrap_or(&field.name);
        let synonym = key.synonyms.contains(&field.name.as_str()) || key.synonyms.contains(&written);
        let name = resemblance(written, key.name);
        let score = share * name.max(resemblance(&field.path, &path)).max(if synonym { 0.98 } else { 0.0 });
        if score > best.0 {
            best = (score, Some(path));
        }
    };
    own.iter().for_each(|key| offer(key, 1.0));
    others.iter().for_each(|key| offer(key, 0.95));
    Error::UnknownKey {
        key: field.path.chars().take(80).collect(),
        nearest: best.1,
        known: own.iter().map(|key| key.name.to_owned()).collect(),
        place: field.position.place(),
    }
}

/// Returns the similarity of two keys, from 0 to 1. Long keys are cut, because the comparison takes
/// quadratic time.
fn resemblance(left: &str, right: &str) -> f64 {
    let cut: String = left.chars().take(64).flat_map(char::to_lowercase).collect();
    strsim::normalized_damerau_levenshtein(&cut.replace('-', "_"), right)
}

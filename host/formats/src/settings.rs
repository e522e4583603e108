//! Settings file `data.toml`, in which a user states how the tables of a folder are read.
//!
//! ```toml
//! [nodes]
//! file = "people.csv"
//!
//! [nodes.columns]
//! person = "id"
//! age = "number"
//! department = "label"
//!
//! [edges]
//! file = "contacts.csv"
//!
//! [edges.columns]
//! from = "source"
//! to = "target"
//! ```
//!
//! The use of a column is `id`, `label`, `split`, or one of [`Kind::ALL`]. In an edge table it is
//! `source`, `target`, `number` or `ignore`. Columns that the file does not mention are read as if
//! there were no such file. `eciton data init` writes the file.

use std::path::Path;

use eciton_graph::encoding::Kind;
use eciton_graph::error::{Error, Place, Result};
use eciton_input::file::present;
use eciton_input::text::listed;
use toml::{Table as Toml, Value};

use crate::file;

/// File name of the settings file.
pub const FILE: &str = "data.toml";
/// Maximum length of the settings file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Use of a column in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Id,
    Label,
    Split,
    Source,
    Target,
    Feature(Kind),
}

impl Use {
    const NODES: [(&str, Self); 3] = [("id", Self::Id), ("label", Self::Label), ("split", Self::Split)];
    const EDGES: [(&str, Self); 2] = [("source", Self::Source), ("target", Self::Target)];

    fn parse(word: &str, edges: bool) -> Option<Self> {
        let roles: &[(&str, Self)] = if edges { &Self::EDGES } else { &Self::NODES };
        let role = roles.iter().find(|(name, _)| *name == word).map(|(_, role)| *role);
        let kind = Kind::parse(word).filter(|kind| !edges || matches!(kind, Kind::Number | Kind::Ignored));
        role.or(kind.map(Self::Feature))
    }

    fn known(edges: bool) -> Vec<&'static str> {
        match edges {
            true => vec!["source", "target", "number", "ignore"],
            false => {
                let roles = Self::NODES.iter().map(|(name, _)| *name);
                roles.chain(Kind::ALL.iter().map(|(name, _)| *name)).collect()
            }
        }
    }
}

/// Uses that the settings file sets for the columns of a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TableSettings {
    /// File name of the table. If `None`, the settings apply to a table of any name.
    pub(crate) file: Option<String>,
    pub(crate) columns: Vec<(String, Use)>,
}

impl TableSettings {
    /// Returns the use of the column `name`, or `None` if it is not set.
    pub(crate) fn column(&self, name: &str) -> Option<Use> {
        self.columns.iter().find(|(known, _)| known == name).map(|(_, how)| *how)
    }

    /// Returns the kind of the feature column `name`, or `None` if it is not set.
    pub(crate) fn kind(&self, name: &str) -> Option<Kind> {
        match self.column(name) {
            Some(Use::Feature(kind)) => Some(kind),
            _ => None,
        }
    }

    /// Returns the position of the column with the use `wanted`, which only one column may have.
    /// Returns `None` if the use is not set.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the table lacks the column, or if two columns have this use.
    pub(crate) fn position(&self, wanted: Use, names: &[String], file: &str) -> Result<Option<usize>> {
        let mut of = self.columns.iter().filter(|(_, how)| *how == wanted);
        let Some((name, _)) = of.next() else { return Ok(None) };
        if let Some((second, _)) = of.next() {
            let found = format!("{name:.40?} and {second:.40?}");
            return Err(refused(file, "one column for each role", &found));
        }
        match names.iter().position(|known| known == name) {
            Some(at) => Ok(Some(at)),
            None => Err(refused(
                file,
                &format!("a column {name:.40?}, which {FILE} names"),
                &format!("the columns {}", listed(names)),
            )),
        }
    }

    /// Checks that the table has all columns that the settings mention.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the names of the table's columns if one is missing.
    pub(crate) fn check(&self, names: &[String], file: &str) -> Result<()> {
        match self.columns.iter().find(|(name, _)| !names.contains(name)) {
            None => Ok(()),
            Some((name, _)) => Err(refused(
                file,
                &format!("a column {name:.40?}, which {FILE} names"),
                &format!("the columns {}", listed(names)),
            )),
        }
    }
}

fn refused(file: &str, expected: &str, found: &str) -> Error {
    Error::Malformed {
        place: Place::whole(file),
        expected: expected.to_owned(),
        found: found.to_owned(),
        remedy: "correct data.toml, or remove it to let content and names decide",
    }
}

/// Contents of a settings file. They are empty if the folder has no `data.toml`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Settings {
    pub(crate) nodes: TableSettings,
    pub(crate) edges: TableSettings,
}

impl Settings {
    /// Reads the `data.toml` of a folder. If there is none, the settings are empty.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the file is not TOML, or has unknown tables, keys or uses.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        if !present(&path) {
            return Ok(Self::default());
        }
        let name = file::name(&path);
        let refused_read = |source| Error::Read { path: path.clone(), source };
        let text = eciton_input::file::read_text(&path, MAX_BYTES).map_err(refused_read)?;
        let parsed: Toml = text.parse().map_err(|error: toml::de::Error| {
            refused(&name, "TOML", &eciton_input::text::cut(error.message(), 100))
        })?;
        let mut made = Self::default();
        for (key, value) in &parsed {
            match (key.as_str(), value) {
                ("nodes", Value::Table(table)) => made.nodes = settings(table, &name, key, false)?,
                ("edges", Value::Table(table)) => made.edges = settings(table, &name, key, true)?,
                _ => return Err(refused(&name, "the tables [nodes] and [edges]", &format!("{key:.40}"))),
            }
        }
        Ok(made)
    }

    /// Returns the settings for the node table at `path`. They are empty if the settings name
    /// another file.
    pub(crate) fn nodes_in(&self, path: &Path) -> TableSettings {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let same = self.nodes.file.as_ref().is_none_or(|file| Some(file.as_str()) == name.as_deref());
        if same { self.nodes.clone() } else { TableSettings::default() }
    }
}

fn settings(table: &Toml, file: &str, key: &str, edges: bool) -> Result<TableSettings> {
    let mut made = TableSettings::default();
    for (name, value) in table {
        match (name.as_str(), value) {
            ("file", Value::String(file)) => made.file = Some(file.clone()),
            ("columns", Value::Table(columns)) => {
                for (column, value) in columns {
                    let how = value.as_str().and_then(|word| Use::parse(word, edges));
                    let how = how.ok_or_else(|| {
                        let expected =
                            format!("one of {} for column {column:.40?}", Use::known(edges).join(", "));
                        refused(file, &expected, &eciton_input::text::cut(&value.to_string(), 60))
                    })?;
                    made.columns.push((column.clone(), how));
                }
            }
            _ => {
                let expected = format!("file = \"NAME\" and [{key}.columns] in [{key}]");
                return Err(refused(file, &expected, &format!("{name:.40}")));
            }
        }
    }
    Ok(made)
}

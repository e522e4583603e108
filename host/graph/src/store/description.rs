//! Description of a store in the file `store.json`, which is read and written here.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::section::{PIECE_BYTES, Section, Written};
use super::source::Source;
use crate::edge_features::check_columns;
use crate::error::{Error, Place, Result};
use crate::labels::MAX_LABEL_COLUMNS;
use crate::names::Names;
use crate::summary::{Summary, ValueKind};

/// File name of a store's description. A folder with such a file is recognised as a store.
pub const DESCRIPTION: &str = "store.json";
/// Name of the store format, which `store.json` contains.
pub const FORMAT: &str = "eciton-store";
/// Latest store version that this program reads. A store is written in the first version that
/// supports its content, so that older programs can also read it. Version 1 has classes, 2 other
/// labels, 3 edge features, 4 many graphs, 5 corrections of features, and 6 parts for hosts.
pub const VERSION: u64 = 6;
/// Maximum total length of the names of classes and columns in a store, in bytes of JSON.
pub const MAX_NAMES_BYTES: usize = 1 << 19;

/// Maximum length of a `store.json` file that is read, in bytes.
pub const MAX_DESCRIPTION_BYTES: u64 = 1 << 20;
/// First store version, whose labels are classes.
const CLASSES_VERSION: u64 = 1;
/// First store version that supports flags and numbers as labels.
const VALUES_VERSION: u64 = 2;
/// First store version that supports edge features.
const EDGES_VERSION: u64 = 3;
/// First store version that supports data sets of many graphs.
const GRAPHS_VERSION: u64 = 4;
/// First store version that supports corrections of features.
const CORRECTIONS_VERSION: u64 = 5;
/// First store version that supports parts for hosts.
const PARTS_VERSION: u64 = 6;
const _: () = assert!(PARTS_VERSION == VERSION);

/// Format in which a store contains the features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One column per vertex. Each row has a 1 in its own column, and no values are stored.
    Identity,
    Dense,
    Sparse,
}

/// Kind of the labels in a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LabelKind {
    /// Classes. The value is the number of classes.
    Classes(u32),
    /// Flags that are 0 or 1. The value is the number of label columns.
    Flags(u32),
    /// Numbers. The value is the number of label columns.
    Numbers(u32),
}

/// Form in which a store contains the user's ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    Dense,
    Numbers,
    Words,
}

impl Ids {
    fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Numbers => "numbers",
            Self::Words => "words",
        }
    }
}

/// Content of the file `store.json`, which describes a store.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Description {
    pub(super) name: String,
    pub(super) vertices: u64,
    pub(super) edges: u64,
    pub(super) symmetric: bool,
    pub(super) labels: LabelKind,
    pub(super) features: (Kind, u32),
    /// Number of corrections of features.
    pub(super) corrections: u64,
    /// Number of edge feature columns. `None` if edges have no features.
    pub(super) edge_features: Option<u32>,
    /// Form of the user's ids of graphs. `None` if the data set is a single graph.
    pub(super) graphs: Option<Ids>,
    pub(super) ids: Ids,
    pub(super) names: Names,
    /// First vertex of each part. Empty for a store without parts.
    pub(super) parts: Vec<u32>,
    /// Facts about the values. `None` for a store without parts or without dense features.
    pub(super) summary: Option<Summary>,
    /// Size of the pieces of sections that have a checksum of their own, in bytes. Only a store with
    /// parts has such checksums.
    pub(super) piece_bytes: u64,
    pub(super) sections: Vec<Written>,
}

impl Description {
    /// Returns the first store version that supports the content of this store.
    fn version(&self) -> u64 {
        match (self.graphs, self.edge_features, self.labels) {
            _ if !self.parts.is_empty() => PARTS_VERSION,
            _ if self.corrections > 0 => CORRECTIONS_VERSION,
            (Some(_), _, _) => GRAPHS_VERSION,
            (None, Some(_), _) => EDGES_VERSION,
            (None, None, LabelKind::Flags(_) | LabelKind::Numbers(_)) => VALUES_VERSION,
            (None, None, LabelKind::Classes(_)) => CLASSES_VERSION,
        }
    }

    /// Returns the sections that this store must have. Each is paired with its number of values if
    /// that is known.
    pub(super) fn expected(&self) -> Vec<(Section, Option<u64>)> {
        let (v, e) = (self.vertices, self.edges);
        let mut all = vec![(Section::Offsets, Some(v + 1)), (Section::Neighbours, Some(e))];
        if !self.symmetric {
            all.extend([(Section::OutOffsets, Some(v + 1)), (Section::OutNeighbours, Some(e))]);
        }
        match self.features {
            (Kind::Identity, _) => {}
            (Kind::Dense, columns) => {
                let stride = eciton_tensor::stride_for(columns as usize) as u64;
                all.push((Section::Features, v.checked_mul(stride)));
            }
            (Kind::Sparse, _) => all.extend([
                (Section::FeatureOffsets, Some(v + 1)),
                (Section::FeatureColumns, None),
                (Section::FeatureValues, None),
            ]),
        }
        if self.corrections > 0 {
            let count = Some(self.corrections);
            all.extend([
                (Section::CorrectionRows, count),
                (Section::CorrectionColumns, count),
                (Section::CorrectionValues, count),
            ]);
        }
        if self.summary.is_some() {
            all.push((Section::Moments, Some(2 * u64::from(self.features.1))));
        }
        if let Some(columns) = self.edge_features {
            all.push((Section::EdgeFeatures, e.checked_mul(u64::from(columns))));
        }
        all.push(match self.labels {
            LabelKind::Classes(_) => (Section::Labels, Some(v)),
            LabelKind::Flags(columns) | LabelKind::Numbers(columns) => {
                (Section::LabelValues, v.checked_mul(u64::from(columns)))
            }
        });
        all.extend([(Section::Train, None), (Section::Validation, None), (Section::Test, None)]);
        if let Some(ids) = self.graphs {
            all.push((Section::Graphs, Some(v)));
            match ids {
                Ids::Dense => {}
                Ids::Numbers => all.push((Section::GraphIds, None)),
                Ids::Words => all.extend([(Section::GraphIdEnds, None), (Section::GraphIdText, None)]),
            }
        }
        match self.ids {
            Ids::Dense => {}
            Ids::Numbers => all.push((Section::Ids, Some(v))),
            Ids::Words => all.extend([(Section::IdEnds, Some(v)), (Section::IdText, None)]),
        }
        all
    }

    /// Returns the text of the file `store.json`.
    pub(super) fn to_text(&self) -> String {
        let section = |s: &Written| {
            let mut section = json!({"file": s.section.file(), "values": s.values, "crc32": s.crc32});
            if !self.parts.is_empty() {
                section["pieces"] = s.pieces.clone().into();
            }
            section
        };
        let sections: Vec<Value> = self.sections.iter().map(section).collect();
        let features = json!({
            "kind": match self.features.0 {
                Kind::Identity => "identity",
                Kind::Dense => "dense",
                Kind::Sparse => "sparse",
            },
            "columns": self.features.1,
        });
        let mut all = json!({
            "format": FORMAT, "version": self.version(), "name": self.name,
            "vertices": self.vertices, "edges": self.edges, "symmetric": self.symmetric,
            "features": features, "ids": self.ids.name(), "sections": sections,
        });
        if self.corrections > 0 {
            all["features"]["corrections"] = self.corrections.into();
        }
        if !self.parts.is_empty() {
            all["parts"] = self.parts.clone().into();
            all["piece_bytes"] = self.piece_bytes.into();
        }
        if let Some(Summary { filled, values, largest, homophily }) = self.summary {
            // Numbers with a fraction are stored as bits, so that they are read back unchanged.
            all["summary"] = json!({
                "filled": filled, "values": values.name(), "largest_bits": largest.to_bits(),
                "homophily_bits": homophily.map(f64::to_bits),
            });
        }
        if let Some(columns) = self.edge_features {
            all["edge_features"] = json!({"columns": columns});
        }
        if let Some(ids) = self.graphs {
            all["graphs"] = json!({"ids": ids.name()});
        }
        match self.labels {
            LabelKind::Classes(count) => all["classes"] = count.into(),
            LabelKind::Flags(columns) => all["labels"] = json!({"kind": "flags", "columns": columns}),
            LabelKind::Numbers(columns) => all["labels"] = json!({"kind": "numbers", "columns": columns}),
        }
        if let Some(names) = names(&self.names) {
            all["names"] = names;
        }
        let crc32 = crc32fast::hash(all.to_string().as_bytes());
        if let Value::Object(all) = &mut all {
            all.insert("crc32".to_owned(), crc32.into());
        }
        format!("{all:#}\n")
    }

    /// Reads and checks the `store.json` of a store.
    pub(super) fn open(source: &(impl Source + ?Sized)) -> Result<Self> {
        let path = source.shown(DESCRIPTION);
        let bytes = source.description().map_err(|source| match source.kind() {
            std::io::ErrorKind::FileTooLarge => wrong(&path, "at most a MiB of JSON", source.to_string()),
            _ => Error::Read { path: path.clone(), source },
        })?;
        Self::parse(&bytes, &path)
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let json = serde_json::from_slice(bytes).map_err(|e| {
            let place = Place::line(path.display().to_string(), e.line() as u64);
            Error::malformed(place, "JSON", e.to_string())
        })?;
        let Value::Object(mut json) = json else {
            return Err(wrong(path, "an object", "another value"));
        };
        let fields = Fields { json: &json, path };
        if fields.text("format")? != FORMAT {
            return Err(wrong(path, format!("the format {FORMAT:?}"), fields.text("format")?));
        }
        // The version is checked first, because later versions may rename other keys.
        let version = fields.number("version")?;
        if !(CLASSES_VERSION..=VERSION).contains(&version) {
            return Err(Error::StoreVersion { path: path.to_owned(), found: version, known: VERSION });
        }
        let expected = fields.small("crc32")?;
        json.remove("crc32");
        // Keys are sorted, so the text is a function of the content.
        let found = crc32fast::hash(Value::Object(json.clone()).to_string().as_bytes());
        if found != expected {
            return Err(Error::Checksum { path: path.to_owned(), expected, found });
        }
        Self::from_fields(&Fields { json: &json, path })
    }

    fn from_fields(fields: &Fields<'_>) -> Result<Self> {
        let features = fields.object("features")?;
        let kind = match features.text("kind")? {
            "identity" => Kind::Identity,
            "dense" => Kind::Dense,
            "sparse" => Kind::Sparse,
            other => return Err(wrong(fields.path, "features: identity, dense or sparse", other)),
        };
        let version = fields.number("version")?;
        let has_edge_features = match version {
            GRAPHS_VERSION.. => fields.json.contains_key("edge_features"),
            _ => version == EDGES_VERSION,
        };
        let edge_features = match has_edge_features {
            true => {
                let columns = fields.object("edge_features")?.small("columns")?;
                check_columns(columns.into(), || Place::whole(fields.file()))?;
                Some(columns)
            }
            false => None,
        };
        let labels = match version {
            CLASSES_VERSION => LabelKind::Classes(fields.small("classes")?),
            EDGES_VERSION.. if fields.json.contains_key("classes") => {
                LabelKind::Classes(fields.small("classes")?)
            }
            _ => {
                let labels = fields.object("labels")?;
                let columns = labels.small("columns")?;
                if !(1..=MAX_LABEL_COLUMNS).contains(&columns) {
                    let expected = format!("1 to {MAX_LABEL_COLUMNS} columns of labels");
                    return Err(wrong(fields.path, expected, columns.to_string()));
                }
                match labels.text("kind")? {
                    "flags" => LabelKind::Flags(columns),
                    "numbers" => LabelKind::Numbers(columns),
                    other => return Err(wrong(fields.path, "labels: flags or numbers", other)),
                }
            }
        };
        let piece_bytes = match version {
            PARTS_VERSION.. => Some(fields.number("piece_bytes")?),
            _ => None,
        };
        let described = Self {
            name: fields.text("name")?.to_owned(),
            vertices: fields.number("vertices")?,
            edges: fields.number("edges")?,
            symmetric: fields.get("symmetric", "true or false", Value::as_bool)?,
            labels,
            features: (kind, features.small("columns")?),
            corrections: match version {
                CORRECTIONS_VERSION => features.number("corrections")?,
                PARTS_VERSION if features.json.contains_key("corrections") => {
                    features.number("corrections")?
                }
                _ => 0,
            },
            edge_features,
            graphs: match version {
                GRAPHS_VERSION => Some(fields.object("graphs")?.ids()?),
                CORRECTIONS_VERSION.. if fields.json.contains_key("graphs") => {
                    Some(fields.object("graphs")?.ids()?)
                }
                _ => None,
            },
            ids: fields.ids()?,
            names: fields.names()?,
            parts: match version {
                PARTS_VERSION.. => fields.small_list("parts")?,
                _ => Vec::new(),
            },
            summary: match kind {
                Kind::Dense if version >= PARTS_VERSION => Some(fields.object("summary")?.summary()?),
                _ => None,
            },
            piece_bytes: piece_bytes.unwrap_or(PIECE_BYTES),
            sections: fields.sections(piece_bytes)?,
        };
        let ascends = described.parts.is_sorted_by(|a, b| a < b);
        let starts = described.parts.first().is_none_or(|first| *first == 0);
        let last = described.parts.last().is_none_or(|last| u64::from(*last) < described.vertices);
        if !(ascends && starts && last) {
            let expected = format!("parts that ascend from 0, below {}", described.vertices);
            return Err(wrong(fields.path, expected, format!("{:.60}", json!(described.parts).to_string())));
        }
        crate::adjacency::check_vertices(described.vertices, || Place::whole(fields.file()))?;
        let same = |(written, expected): (&Written, &(Section, Option<u64>))| {
            written.section == expected.0 && expected.1.is_none_or(|n| n == written.values)
        };
        let expected = described.expected();
        if expected.len() != described.sections.len() || !described.sections.iter().zip(&expected).all(same) {
            let names = expected.iter().map(|(s, n)| format!("{} of {n:?}", s.file())).collect::<Vec<_>>();
            return Err(wrong(fields.path, format!("the sections {}", names.join(", ")), "others"));
        }
        Ok(described)
    }
}

/// Returns the names of classes and columns as JSON. A list that does not fit into the rest of
/// [`MAX_NAMES_BYTES`] is left out.
fn names(names: &Names) -> Option<Value> {
    let mut room = MAX_NAMES_BYTES;
    let mut all = Map::new();
    let lists = [
        ("labels", &names.labels),
        ("target", &names.target),
        ("edge_features", &names.edge_features),
        ("features", &names.features),
    ];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        let text = Value::from(list.clone());
        let bytes = text.to_string().len();
        if bytes <= room {
            room -= bytes;
            all.insert(key.to_owned(), text);
        }
    }
    if !names.split.is_empty() {
        all.insert("split".to_owned(), names.split.clone().into());
    }
    (!all.is_empty()).then_some(Value::Object(all))
}

fn wrong(path: &Path, expected: impl Into<String>, found: impl Into<String>) -> Error {
    Error::malformed(Place::whole(path.display().to_string()), expected, found)
}

/// Fields of a JSON object in the file `store.json`.
struct Fields<'a> {
    json: &'a Map<String, Value>,
    path: &'a Path,
}

impl<'a> Fields<'a> {
    fn file(&self) -> String {
        self.path.display().to_string()
    }

    fn get<T>(&self, key: &str, kind: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<T> {
        let value = self.json.get(key);
        value.and_then(read).ok_or_else(|| {
            let found = value.map_or("nothing".to_owned(), |v| format!("{v:.40}"));
            wrong(self.path, format!("{key:?} with {kind}"), found)
        })
    }

    fn text(&self, key: &str) -> Result<&'a str> {
        self.get(key, "a text", Value::as_str)
    }

    fn number(&self, key: &str) -> Result<u64> {
        self.get(key, "a whole number", Value::as_u64)
    }

    fn small(&self, key: &str) -> Result<u32> {
        self.get(key, "a number below 2^32", |v| v.as_u64().and_then(|n| u32::try_from(n).ok()))
    }

    fn ids(&self) -> Result<Ids> {
        let known = [Ids::Dense, Ids::Numbers, Ids::Words];
        let found = self.text("ids")?;
        let ids = known.into_iter().find(|ids| ids.name() == found);
        ids.ok_or_else(|| wrong(self.path, "ids that are dense, numbers or words", found))
    }

    /// Returns the names of classes and columns. They are empty if the file contains none.
    fn names(&self) -> Result<Names> {
        if !self.json.contains_key("names") {
            return Ok(Names::default());
        }
        let names = self.object("names")?;
        let list = |key: &str| match names.json.get(key) {
            None => Ok(Vec::new()),
            Some(_) => {
                let words = |value: &Value| -> Option<Vec<String>> {
                    value.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect()
                };
                names.get(key, "a list of words", words)
            }
        };
        Ok(Names {
            labels: list("labels")?,
            features: list("features")?,
            edge_features: list("edge_features")?,
            target: list("target")?,
            split: names.json.get("split").and_then(Value::as_str).unwrap_or_default().to_owned(),
        })
    }

    /// Returns the facts about the values.
    fn summary(&self) -> Result<Summary> {
        let name = self.text("values")?;
        let values = ValueKind::ALL.into_iter().find(|kind| kind.name() == name);
        let homophily = match self.json.get("homophily_bits") {
            None | Some(Value::Null) => None,
            Some(_) => Some(f64::from_bits(self.number("homophily_bits")?)),
        };
        Ok(Summary {
            filled: self.number("filled")?,
            values: values.ok_or_else(|| wrong(self.path, "values: flags, counts or numbers", name))?,
            largest: f32::from_bits(self.small("largest_bits")?),
            homophily,
        })
    }

    fn object(&self, key: &str) -> Result<Self> {
        Ok(Self { json: self.get(key, "an object", Value::as_object)?, path: self.path })
    }

    /// Returns a list of numbers below 2^32.
    fn small_list(&self, key: &str) -> Result<Vec<u32>> {
        let number = |value: &Value| value.as_u64().and_then(|n| u32::try_from(n).ok());
        let list = |value: &Value| value.as_array()?.iter().map(number).collect();
        self.get(key, "a list of numbers below 2^32", list)
    }

    /// Returns the sections. Those of a store with parts have checksums of their pieces, which have
    /// `piece_bytes` each.
    fn sections(&self, piece_bytes: Option<u64>) -> Result<Vec<Written>> {
        let list = self.get("sections", "a list", Value::as_array)?;
        list.iter()
            .map(|section| {
                let Some(json) = section.as_object() else {
                    return Err(wrong(self.path, "sections that are objects", format!("{section:.40}")));
                };
                let fields = Fields { json, path: self.path };
                let file = fields.text("file")?;
                let Some(&section) = Section::ALL.iter().find(|s| s.file() == file) else {
                    return Err(wrong(self.path, "known sections", format!("{file:.40}")));
                };
                let (values, crc32) = (fields.number("values")?, fields.small("crc32")?);
                let Some(piece_bytes) = piece_bytes else {
                    return Ok(Written { section, values, crc32, pieces: Vec::new() });
                };
                let pieces = fields.small_list("pieces")?;
                let expected = values.saturating_mul(section.width()).div_ceil(piece_bytes.max(1));
                if pieces.len() as u64 != expected {
                    let expected = format!("{expected} checksums of pieces of {file}");
                    return Err(wrong(self.path, expected, pieces.len().to_string()));
                }
                Ok(Written { section, values, crc32, pieces })
            })
            .collect()
    }
}

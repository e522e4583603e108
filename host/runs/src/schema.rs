//! Model schemas, which describe the columns, classes and tokens that a model was trained on.
//!
//! A run folder contains the schema as `schema.json`. The commands `predict`, `eval`, `resume` and
//! `generate` read it from there, as do the setting `run.init` and the Python package. They call
//! [`Schema::fit`], which matches columns and classes by name if both sides have names, and by
//! position otherwise.
//!
//! The file has a version number. A reader ignores unknown fields, so later versions of Eciton may
//! add some.

mod fit;

use eciton_formats::sequence::{Unit, Vocabulary};
use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Moments, Scaling};
use eciton_graph::encoding::{Encoder, Kind};
use eciton_graph::expected::Expected;
use eciton_recipe::{NormaliseFeatures, TaskType};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use fit::{FitError, Purpose};

use crate::provenance::DataDigest;

/// Version of the schema file that this version of Eciton writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// Description of the data that a model was trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// Version of the file's layout.
    pub version: u32,
    /// Task of the model.
    pub task: TaskType,
    /// Feature columns of the vertices or rows.
    pub features: Columns,
    /// Feature columns of the edges.
    #[serde(default, skip_serializing_if = "Columns::is_absent")]
    pub edge_features: Columns,
    /// Classes, label columns or numbers that the model predicts.
    pub outputs: Outputs,
    /// Tokens of the text or list that the model was trained on. `None` for all other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Digests of the data that the model was trained on. `None` if an older version of Eciton
    /// wrote the run folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataDigest>,
}

/// Source of the feature columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The data set has the columns.
    #[default]
    Data,
    /// The data set has no features. Each vertex has its own column with the value 1, so the model
    /// knows only these vertices.
    OneColumnPerVertex,
}

/// Feature columns of the data that a model was trained on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// Number of columns. `None` if an older version of Eciton wrote the run folder and its record
    /// does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Source of the columns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: Source,
    /// SHA-256 of the vertices' names, in hexadecimal. `None` unless each vertex has a column of
    /// its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vertices: Option<String>,
    /// Scaling that is applied to the columns before the model reads them. `None` if they are not
    /// scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<NormaliseFeatures>,
    /// Columns of the table that the feature columns are encoded from. Empty if the data set has
    /// the feature columns themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// One entry per column. Empty if the columns have neither names nor transformations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
}

/// Type of a column's values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnType {
    /// A finite number.
    #[default]
    Number,
    /// The index of a token in [`Schema::tokens`].
    Token,
}

/// Column of a table before it is encoded, with all that the encoder learned from the training
/// rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Name of the column.
    pub name: String,
    /// Kind of the values: number, boolean, date, category or hashed.
    pub kind: String,
    /// Mean of the column over the training rows, which replaces missing numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<f64>,
    /// True if a feature column marks missing values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Categories, in the order of their feature columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl Input {
    fn of(encoder: &Encoder) -> Self {
        Self {
            name: encoder.name.clone(),
            kind: encoder.kind.name().to_owned(),
            fill: encoder.kind.is_numeric().then_some(encoder.fill),
            missing: encoder.flag,
            values: encoder.values.clone(),
        }
    }

    /// Returns the encoder. `None` for a kind that this version of Eciton does not know.
    fn encoder(&self) -> Option<Encoder> {
        let kind = Kind::parse(&self.kind).filter(|kind| *kind != Kind::Ignored)?;
        let (name, values) = (self.name.clone(), self.values.clone());
        Some(Encoder { name, kind, fill: self.fill.unwrap_or_default(), flag: self.missing, values })
    }
}

/// One feature column, with its name and scaling.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Name that the training data gave the column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Type of the values.
    #[serde(default, rename = "type")]
    pub kind: ColumnType,
    /// Mean over the training rows, which is subtracted from each value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Standard deviation over the training rows, by which each difference is divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

/// Values that a model predicts: classes, label columns or numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outputs {
    /// Number of classes, label columns or numbers. `None` if an older version of Eciton wrote the
    /// run folder and its record does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Names of the classes, label columns or numbers. Empty if they had no names; classes are then
    /// whole numbers from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Names of the columns of the table that held the labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

/// Unit of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenUnit {
    /// Code point of a text.
    Characters,
    /// Byte of a text.
    Bytes,
    /// Token id of a `.npy` file.
    Numbers,
}

/// The distinct tokens of a text or list. A token is encoded as its index in this list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Unit of a token.
    #[serde(rename = "tokens")]
    pub unit: TokenUnit,
    /// Code points, bytes or token ids in ascending order.
    pub symbols: Vec<u32>,
}

impl Tokens {
    /// Returns the tokens of a vocabulary, in the form of the schema file.
    #[must_use]
    pub fn of(vocabulary: &Vocabulary) -> Self {
        let unit = match vocabulary.unit {
            Unit::Characters => TokenUnit::Characters,
            Unit::Bytes => TokenUnit::Bytes,
            Unit::Numbers => TokenUnit::Numbers,
        };
        Self { unit, symbols: vocabulary.symbols.clone() }
    }

    /// Returns the vocabulary of these tokens. Returns `None` unless the symbols are in ascending
    /// order.
    #[must_use]
    pub fn vocabulary(&self) -> Option<Vocabulary> {
        let ascend = self.symbols.windows(2).all(|pair| pair.first() < pair.last());
        let unit = match self.unit {
            TokenUnit::Characters => Unit::Characters,
            TokenUnit::Bytes => Unit::Bytes,
            TokenUnit::Numbers => Unit::Numbers,
        };
        ascend.then(|| Vocabulary { unit, symbols: self.symbols.clone() })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Columns {
    /// Returns whether there are no columns.
    fn is_absent(&self) -> bool {
        self.count.is_none_or(|count| count == 0) && self.columns.is_empty()
    }

    fn new(count: u32, names: &[String]) -> Self {
        let named = |name: &String| Column { name: Some(name.clone()), ..Column::default() };
        Self { count: Some(count), columns: names.iter().map(named).collect(), ..Self::default() }
    }

    /// Returns the names of the columns. Returns an empty list unless every column has a name.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names: Option<Vec<String>> = self.columns.iter().map(|column| column.name.clone()).collect();
        names.unwrap_or_default()
    }

    /// Returns the entries of all columns, so that the caller can change them.
    fn all(&mut self) -> &mut [Column] {
        self.columns.resize(self.count.unwrap_or_default() as usize, Column::default());
        &mut self.columns
    }

    /// Returns the means and standard deviations of the columns. `None` unless every column has
    /// both, as finite numbers with a deviation above 0.
    pub fn moments(&self) -> Option<Moments> {
        let of = |column: &Column| {
            let deviation = column.deviation.filter(|value| value.is_finite() && *value > 0.0)?;
            Some((column.mean.filter(|value| value.is_finite())?, deviation))
        };
        let both: Option<Vec<(f64, f64)>> = self.columns.iter().map(of).collect();
        let (mean, deviation) = both.filter(|both| !both.is_empty())?.into_iter().unzip();
        Some(Moments { mean, deviation })
    }
}

impl Schema {
    /// Creates the schema of a data set as it was read, for a model with this learning task.
    pub fn of(dataset: &Dataset, task: TaskType) -> Self {
        let names = &dataset.names;
        let mut features = Columns::new(dataset.features.columns(), &names.features);
        if is_identity(&dataset.features) {
            features.source = Source::OneColumnPerVertex;
            features.vertices = Some(vertex_digest(dataset));
        }
        if let Some(encoded) = &dataset.encoded {
            features.inputs = encoded.encoders.iter().map(Input::of).collect();
        }
        features.scaling = Some(scaled(dataset));
        if let Scaling::Columns(moments) = &dataset.scaling {
            for ((column, &mean), &deviation) in
                features.all().iter_mut().zip(&moments.mean).zip(&moments.deviation)
            {
                (column.mean, column.deviation) = (Some(mean), Some(deviation));
            }
        }
        let edges = dataset.edge_features.as_ref().map_or(0, EdgeFeatures::columns);
        let outputs = match task {
            TaskType::LinkPrediction => Outputs::default(),
            _ => Outputs {
                count: Some(dataset.labels.width()),
                names: names.labels.clone(),
                columns: names.target.clone(),
            },
        };
        let edge_features =
            if edges == 0 { Columns::default() } else { Columns::new(edges, &names.edge_features) };
        let data = Some(DataDigest::of(dataset));
        Self { version: VERSION, task, features, edge_features, outputs, tokens: None, data }
    }

    /// Returns the schema of a run folder without a schema file. Only counts are known, so columns
    /// and classes are matched by position. `model` is the model's name, for instance `gcn
    /// 1433-16-7`.
    pub(crate) fn of_older(model: &str, task: TaskType) -> Self {
        let widths = model.rsplit(' ').next().unwrap_or_default();
        let widths: Option<Vec<u32>> = widths.split('-').map(|width| width.parse().ok()).collect();
        let widths = widths.filter(|widths| widths.len() > 1).unwrap_or_default();
        Self {
            version: 0,
            task,
            features: Columns { count: widths.first().copied(), ..Columns::default() },
            edge_features: Columns::default(),
            outputs: Outputs { count: widths.last().copied(), ..Outputs::default() },
            tokens: None,
            data: None,
        }
    }

    /// Returns whether the schema was derived for a run folder without a schema file.
    pub fn is_older(&self) -> bool {
        self.version == 0
    }

    /// Returns this schema with the tokens of a text or list.
    pub fn with_tokens(mut self, vocabulary: Option<&Vocabulary>) -> Self {
        self.tokens = vocabulary.map(Tokens::of);
        if self.tokens.is_some() {
            self.features.all().iter_mut().for_each(|column| column.kind = ColumnType::Token);
        }
        self
    }

    /// Returns what a reader of data needs to know of the model: columns, encoders and classes.
    pub fn expected(&self) -> Expected {
        Expected {
            encoders: self.features.inputs.iter().filter_map(Input::encoder).collect(),
            features: self.features.names(),
            feature_count: self.features.count.unwrap_or_default(),
            edge_features: self.edge_features.names(),
            target: self.outputs.columns.clone(),
            classes: self.outputs.names.clone(),
            // Labels of data for link prediction are not used, so they may have any form.
            classification: matches!(self.task, TaskType::Classification | TaskType::LinkPrediction),
        }
    }
}

/// Returns the scaling of the features of a prepared data set.
pub fn scaled(dataset: &Dataset) -> NormaliseFeatures {
    match dataset.scaling {
        Scaling::None => NormaliseFeatures::None,
        Scaling::Rows => NormaliseFeatures::Rows,
        Scaling::Columns(_) => NormaliseFeatures::Columns,
    }
}

/// Returns whether each vertex has a column of its own with the value 1. Readers create such
/// columns if a data set has no features.
fn is_identity(features: &Features) -> bool {
    let Features::Sparse(rows) = features else { return false };
    rows.rows() > 1
        && rows.columns as usize == rows.rows()
        && rows.indices.len() == rows.rows()
        && rows.indices.iter().zip(0u32..).all(|(&column, row)| column == row)
        && rows.values.iter().all(|&value| value == 1.0)
}

/// Returns the SHA-256 of the names of all vertices, in order.
fn vertex_digest(dataset: &Dataset) -> String {
    let mut hasher = Sha256::new();
    for vertex in 0..dataset.vertices() {
        hasher.update(dataset.ids.name(vertex));
        hasher.update([0]);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

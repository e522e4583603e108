//! Model schemas. A schema describes the columns, classes and tokens that a model was trained on.
//!
//! A run folder contains the schema as `schema.json`. The commands `predict`, `eval`, `resume` and
//! `generate` read it, and so do the setting `run.init` and the Python package. They call
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
use eciton_graph::labelled_edges::LabelledEdges;
use eciton_recipe::{NormaliseFeatures, TaskType};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use fit::{FitError, Purpose};

use crate::provenance::DataDigest;

/// Newest version of the schema file that this crate reads. It is also the version that this crate
/// writes.
pub const VERSION: u32 = 1;

/// Description of the data that a model was trained on, as in `schema.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// Version of the layout of `schema.json`. 0 if the run folder has no such file.
    pub version: u32,
    /// Learning task that the model was trained for.
    pub task: TaskType,
    /// Feature columns of the rows (vertices or table rows) that the model reads.
    pub features: Columns,
    /// Feature columns of the edges that the model reads.
    #[serde(default, skip_serializing_if = "Columns::is_absent")]
    pub edge_features: Columns,
    /// Classes, label columns or regression targets that the model predicts.
    pub outputs: Outputs,
    /// Tokens of the text or token list that the model was trained on. `None` for other data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Digests of the data that the model was trained on. `None` if an older version of Eciton
    /// wrote the run folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<DataDigest>,
}

/// Origin of a model's feature columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The columns come from the data set.
    #[default]
    Data,
    /// The data set has no features, so each vertex has its own column with the value 1. The model
    /// can only be applied to these vertices.
    OneColumnPerVertex,
}

/// Feature columns that a model reads, of vertices or of edges.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// Number of columns. `None` if the run folder has no schema file and its name of the model
    /// does not contain the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Origin of the columns.
    #[serde(default, skip_serializing_if = "is_default")]
    pub source: Source,
    /// SHA-256 of the names of all vertices, in hexadecimal. `None` unless each vertex has its own
    /// column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vertices: Option<String>,
    /// Scaling of the column values before the model reads them. `None` if it is not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<NormaliseFeatures>,
    /// Table columns from which the feature columns are encoded. Empty if the data set has feature
    /// columns itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<Input>,
    /// Name and scaling of each column. Empty if the columns have neither names nor scaling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
}

/// Type of the values in a feature column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ColumnType {
    /// A finite number.
    #[default]
    Number,
    /// The index of a token in [`Schema::tokens`].
    Token,
}

/// A table column before it is encoded, with the parameters that the encoder learned from the
/// training rows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Name of the table column.
    pub name: String,
    /// Kind of the values, for instance `number` or `category`.
    pub kind: String,
    /// Mean over the training rows. It replaces missing values. `None` unless the column is
    /// numeric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<f64>,
    /// True if an additional feature column marks the rows in which the value is missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Known categories, in the order of their feature columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl Input {
    fn from_encoder(encoder: &Encoder) -> Self {
        Self {
            name: encoder.name.clone(),
            kind: encoder.kind.name().to_owned(),
            fill: encoder.kind.is_numeric().then_some(encoder.fill),
            missing: encoder.flag,
            values: encoder.values.clone(),
        }
    }

    /// Returns the encoder of this column. Returns `None` if this version of Eciton does not know
    /// the kind of the values.
    fn encoder(&self) -> Option<Encoder> {
        let kind = Kind::parse(&self.kind).filter(|kind| *kind != Kind::Ignored)?;
        let (name, values) = (self.name.clone(), self.values.clone());
        Some(Encoder { name, kind, fill: self.fill.unwrap_or_default(), flag: self.missing, values })
    }
}

/// One feature column, with its name and scaling.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Name of the column in the training data. `None` if it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Type of the column's values.
    #[serde(default, rename = "type")]
    pub kind: ColumnType,
    /// Mean over the training rows. Scaling subtracts it from each value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Standard deviation over the training rows. Scaling divides by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
}

/// The outputs of a model: classes, label columns or regression targets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outputs {
    /// Number of outputs. `None` if the run folder has no schema file and its name of the model
    /// does not contain the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// Names of the outputs in order. Empty if the training data did not name them, in which case
    /// classes are whole numbers from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Names of the table columns from which the labels were read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

/// Unit of text or data that one token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenUnit {
    /// A Unicode code point of a text.
    Characters,
    /// A byte of a text.
    Bytes,
    /// A token id of a `.npy` file.
    Numbers,
}

/// The distinct tokens of the training data. The model reads each token as its index in this list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Unit that one token stands for.
    #[serde(rename = "tokens")]
    pub unit: TokenUnit,
    /// Code points, bytes or token ids, in ascending order.
    pub symbols: Vec<u32>,
}

impl Tokens {
    /// Returns the tokens of a vocabulary, in the form of the schema file.
    #[must_use]
    pub fn from_vocabulary(vocabulary: &Vocabulary) -> Self {
        let unit = match vocabulary.unit {
            Unit::Characters => TokenUnit::Characters,
            Unit::Bytes => TokenUnit::Bytes,
            Unit::Numbers => TokenUnit::Numbers,
        };
        Self { unit, symbols: vocabulary.symbols.clone() }
    }

    /// Returns the tokens as a [`Vocabulary`]. Returns `None` if they are not in ascending order.
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
    /// Returns true if there are no columns.
    fn is_absent(&self) -> bool {
        self.count.is_none_or(|count| count == 0) && self.columns.is_empty()
    }

    fn new(count: u32, names: &[String]) -> Self {
        let named = |name: &String| Column { name: Some(name.clone()), ..Column::default() };
        Self { count: Some(count), columns: names.iter().map(named).collect(), ..Self::default() }
    }

    /// Returns the name of each column. Returns an empty list if any column has no name.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let names: Option<Vec<String>> = self.columns.iter().map(|column| column.name.clone()).collect();
        names.unwrap_or_default()
    }

    /// Returns a mutable entry for each column. Missing entries are created.
    fn all(&mut self) -> &mut [Column] {
        self.columns.resize(self.count.unwrap_or_default() as usize, Column::default());
        &mut self.columns
    }

    /// Records the mean and the standard deviation of each column.
    fn set_moments(&mut self, moments: &Moments) {
        for ((column, &mean), &deviation) in self.all().iter_mut().zip(&moments.mean).zip(&moments.deviation)
        {
            (column.mean, column.deviation) = (Some(mean), Some(deviation));
        }
    }

    /// Returns the mean and the standard deviation of each column. Returns `None` unless every
    /// column has both, finite and with a deviation above 0.
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
    pub fn from_dataset(dataset: &Dataset, task: TaskType) -> Self {
        let names = &dataset.names;
        let mut features = Columns::new(dataset.features.columns(), &names.features);
        if is_identity(&dataset.features) {
            features.source = Source::OneColumnPerVertex;
            features.vertices = Some(vertex_digest(dataset));
        }
        if let Some(encoded) = &dataset.encoded {
            features.inputs = encoded.encoders.iter().map(Input::from_encoder).collect();
        }
        features.scaling = Some(scaled(dataset));
        if let Scaling::Columns(moments) = &dataset.scaling {
            features.set_moments(moments);
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
        let mut edge_features =
            if edges == 0 { Columns::default() } else { Columns::new(edges, &names.edge_features) };
        if let Some(LabelledEdges { scaling: Scaling::Columns(moments), .. }) = &dataset.labelled_edges {
            edge_features.set_moments(moments);
        }
        let data = Some(DataDigest::compute(dataset));
        Self { version: VERSION, task, features, edge_features, outputs, tokens: None, data }
    }

    /// Returns the schema of a run folder of format 1, which has no schema file. Only the numbers
    /// of columns and outputs are known. They come from `model`, the model's description, for
    /// instance `gcn 1433-16-7`.
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

    /// Returns true if the schema was derived for a run folder of format 1, which has no schema
    /// file.
    pub fn is_older(&self) -> bool {
        self.version == 0
    }

    /// Returns this schema with the tokens of `vocabulary`. All feature columns then contain token
    /// indices.
    pub fn with_tokens(mut self, vocabulary: Option<&Vocabulary>) -> Self {
        self.tokens = vocabulary.map(Tokens::from_vocabulary);
        if self.tokens.is_some() {
            self.features.all().iter_mut().for_each(|column| column.kind = ColumnType::Token);
        }
        self
    }

    /// Returns the columns, encoders and classes that a reader of data needs for this model.
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

/// Returns the kind of scaling that was applied to the features of a prepared data set.
pub fn scaled(dataset: &Dataset) -> NormaliseFeatures {
    match dataset.scaling {
        Scaling::None => NormaliseFeatures::None,
        Scaling::Rows => NormaliseFeatures::Rows,
        Scaling::Columns(_) => NormaliseFeatures::Columns,
    }
}

/// Returns true if each row has its own column with the value 1. Readers create such features if a
/// data set has none.
fn is_identity(features: &Features) -> bool {
    let Features::Sparse(rows) = features else { return false };
    rows.rows() > 1
        && rows.columns as usize == rows.rows()
        && rows.indices.len() == rows.rows()
        && rows.indices.iter().zip(0u32..).all(|(&column, row)| column == row)
        && rows.values.iter().all(|&value| value == 1.0)
}

/// Returns the SHA-256 of the names of all vertices in order, in hexadecimal.
fn vertex_digest(dataset: &Dataset) -> String {
    let mut hasher = Sha256::new();
    for vertex in 0..dataset.vertices() {
        hasher.update(dataset.ids.name(vertex));
        hasher.update([0]);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

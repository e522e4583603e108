//! Tables of typed columns, and the encoders that turn them into features.
//!
//! A reader of tables fills a [`Table`]: named columns of numbers or of words, each with a [`Kind`]. It
//! does not matter which format the columns come from. [`Encoder::fit`] learns from the training rows
//! what a column needs: the mean for missing values and the list of categories. [`encode`] applies the
//! encoders to any table with the same columns, for instance to the rows of a prediction.
//!
//! | kind | feature columns |
//! | --- | --- |
//! | number, date, boolean | `NAME`: the number, days since 1970-01-01, or 0 and 1 |
//! | category | `NAME=VALUE` for each value of the training rows: 1 for rows with the value, else 0 |
//! | hashed | `NAME#0` to `NAME#63`: 1 in the column that the hash of the value names |
//! | any, with missing values in the training rows | `NAME is missing`: 1 for missing values |
//!
//! A missing number is the mean of the training rows. A value that no training row has is 0 in all columns
//! of its category, which [`Encoded::unseen`] reports. Columns of the kind [`Kind::Ignored`] are no features.

mod apply;
mod kind;

pub use apply::{Encoded, Encoder, Unseen, encode};
pub use kind::Kind;

use crate::corrections::Number;

/// Code of a missing value in [`Cells::Words`].
pub const MISSING: u32 = u32::MAX;
/// Maximum number of distinct values of a word column that is one-hot encoded by default. Columns
/// with more values are hashed.
pub const MAX_CATEGORIES: usize = 64;
/// Maximum number of distinct values of a column whose kind is set to category by the user.
pub const MAX_SET_CATEGORIES: usize = 4096;
/// Number of feature columns of a hashed column.
pub const HASH_COLUMNS: u32 = 64;

/// Values of a table column, one per row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Numbers. NaN is a missing value.
    Numbers(Vec<Number>),
    /// Words, stored as codes.
    Words {
        /// Index in `words` for each row, or [`MISSING`].
        codes: Vec<u32>,
        /// Distinct words in order of first appearance.
        words: Vec<String>,
    },
}

impl Cells {
    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Words { codes, .. } => codes.len(),
        }
    }

    /// Returns whether the value of a row is missing. A row that does not exist has no value.
    #[must_use]
    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.get(row).is_none_or(|number| number.rounded.is_nan()),
            Self::Words { codes, .. } => codes.get(row).is_none_or(|&code| code == MISSING),
        }
    }

    /// Returns the number of missing values.
    #[must_use]
    pub fn missing(&self) -> usize {
        (0..self.rows()).filter(|&row| self.is_missing(row)).count()
    }
}

/// Named column of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name of the column in the file.
    pub name: String,
    /// Meaning of the values, from which the encoding follows.
    pub kind: Kind,
    /// Values of the rows. Numbers, booleans and dates are stored as numbers, all other kinds as
    /// words.
    pub cells: Cells,
}

/// Table of named columns with the same rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// File that the table comes from, for messages.
    pub file: String,
    /// Number of rows.
    pub rows: usize,
    /// Columns in the order of the file.
    pub columns: Vec<Column>,
}

impl Table {
    /// Returns whether at least one column is a feature.
    #[must_use]
    pub fn has_features(&self) -> bool {
        self.columns.iter().any(|column| column.kind != Kind::Ignored)
    }
}

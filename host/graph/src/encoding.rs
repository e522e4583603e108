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

/// Code of a missing value in the column type [`Cells::Words`].
pub const MISSING: u32 = u32::MAX;
/// Maximum number of distinct values for which a word column is one-hot encoded by default. Columns
/// with more values are hashed.
pub const MAX_CATEGORIES: usize = 64;
/// Maximum number of distinct values of a column that the user declares as a category.
pub const MAX_SET_CATEGORIES: usize = 4096;
/// Number of feature columns that a hashed table column is encoded to.
pub const HASH_COLUMNS: u32 = 64;

/// Values of a table column, with one value per row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Numbers, of which NaN is a missing value.
    Numbers(Vec<Number>),
    /// Words, which are stored as codes.
    Words {
        /// Code of each row, which is an index in `words` or [`MISSING`].
        codes: Vec<u32>,
        /// Distinct words of the column, in the order of their first appearance.
        words: Vec<String>,
    },
}

impl Cells {
    /// Returns the number of rows of the column.
    #[must_use]
    pub fn rows(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.len(),
            Self::Words { codes, .. } => codes.len(),
        }
    }

    /// Returns true if the value of the row `row` is missing, or if the row does not exist.
    #[must_use]
    pub fn is_missing(&self, row: usize) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.get(row).is_none_or(|number| number.rounded.is_nan()),
            Self::Words { codes, .. } => codes.get(row).is_none_or(|&code| code == MISSING),
        }
    }

    /// Returns the number of rows whose value is missing.
    #[must_use]
    pub fn missing(&self) -> usize {
        (0..self.rows()).filter(|&row| self.is_missing(row)).count()
    }
}

/// Named and typed column of a table, with its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name of the column in the file.
    pub name: String,
    /// Kind of the values, which determines how they are encoded.
    pub kind: Kind,
    /// Values of the rows. Numbers, booleans and dates are stored as numbers, all other kinds as
    /// words.
    pub cells: Cells,
}

/// Table of named columns that have the same number of rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Name of the file that the table comes from, for messages.
    pub file: String,
    /// Number of rows of every column.
    pub rows: usize,
    /// Columns in the order of the file.
    pub columns: Vec<Column>,
}

impl Table {
    /// Returns true if at least one column is used as a feature.
    #[must_use]
    pub fn has_features(&self) -> bool {
        self.columns.iter().any(|column| column.kind != Kind::Ignored)
    }
}

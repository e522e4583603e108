//! Counts of the fields of a text column by the kinds that they could be.

use eciton_graph::corrections::Number;
use eciton_graph::encoding::Kind;
use eciton_graph::error::{Error, Place, Result};

use super::{boolean, date};
use crate::numbers::{exact, is_infinite};
use crate::table::Table;

/// Counts of the known (not missing) fields of a column.
#[derive(Default)]
pub(super) struct Survey {
    /// Number of fields that are not missing values.
    known: u64,
    numbers: u64,
    /// Number of fields that are infinite as f32, including words for infinity.
    infinite: u64,
    booleans: u64,
    dates: u64,
    /// Line and text of the first known field that is not a finite number.
    not_number: Option<(u64, String)>,
    /// Line and text of the first known field that is not a date.
    not_date: Option<(u64, String)>,
}

impl Survey {
    /// Returns whether no fields have been counted.
    pub(super) fn is_empty(&self) -> bool {
        self.known == 0
    }

    /// Counts `times` fields with the same known text. `line` is the line of the first one.
    /// `finite` is the value if the text is a finite number.
    pub(super) fn see(&mut self, field: &str, line: u64, finite: Option<Number>, times: u64) {
        self.known += times;
        if finite.is_some() {
            self.numbers += times;
            if self.not_date.is_none() {
                self.not_date = Some((line, field.to_owned()));
            }
            return;
        }
        match exact(field) {
            Some(_) => self.infinite += times,
            None if is_infinite(field) => self.infinite += times,
            None => {
                // Every date starts with a digit, and no boolean does.
                match field.as_bytes().first().is_some_and(u8::is_ascii_digit) {
                    true => self.dates += times * u64::from(date::days(field).is_some()),
                    false => self.booleans += times * u64::from(boolean(field).is_some()),
                }
            }
        }
        if self.not_number.is_none() {
            self.not_number = Some((line, field.to_owned()));
        }
        if self.not_date.is_none() && date::days(field).is_none() {
            self.not_date = Some((line, field.to_owned()));
        }
    }

    /// Adds the counts of fields that follow the fields counted so far.
    pub(super) fn add(&mut self, after: Self) {
        self.known += after.known;
        self.numbers += after.numbers;
        self.infinite += after.infinite;
        self.booleans += after.booleans;
        self.dates += after.dates;
        self.not_number = self.not_number.take().or(after.not_number);
        self.not_date = self.not_date.take().or(after.not_date);
    }

    /// Returns the kind of the column. All columns of words are [`Kind::Category`] here, because
    /// the number of distinct words is not known yet.
    pub(super) fn kind(&self) -> Kind {
        match self.known {
            0 => Kind::Ignored,
            known if self.numbers == known => Kind::Number,
            known if self.booleans == known => Kind::Boolean,
            known if self.dates == known => Kind::Date,
            _ => Kind::Category,
        }
    }

    /// Checks that a column in which at least half of the fields are numbers or dates has no other
    /// fields.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the line of the first other field.
    pub(super) fn check(&self, table: &Table, name: &str) -> Result<()> {
        if self.kind() != Kind::Category {
            return Ok(());
        }
        let numbers = self.numbers + self.infinite;
        let (what, count, fault) = match () {
            () if 2 * numbers >= self.known => ("number", self.numbers, &self.not_number),
            () if 2 * self.dates >= self.known => ("date", self.dates, &self.not_date),
            () => return Ok(()),
        };
        let Some((line, field)) = fault else { return Ok(()) };
        let finite = if self.infinite > 0 && what == "number" { "finite " } else { "" };
        Err(Error::Malformed {
            place: Place::line(&table.file, *line),
            expected: format!(
                "a {finite}{what} in column {name:.40}, as in {count} of its {} fields that are not empty",
                self.known
            ),
            found: format!("{field:.60?}"),
            remedy: "correct the field, or leave it empty; a data.toml (`eciton data init`) can set the kind of the \
                     column to category",
        })
    }
}

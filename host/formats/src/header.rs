//! Headers whose column names are numbers, for instance `0,1,2` or years. pandas writes such
//! headers for arrays.

use eciton_graph::error::Result;

use crate::numbers::{canonical, number};
use crate::table::Table;

/// Returns the number of numeric fields if they count upwards by one from 0, from 1 or from a year.
/// Returns `None` otherwise. Words and empty fields are ignored.
pub(crate) fn counting<'a>(fields: impl Iterator<Item = &'a str>) -> Option<usize> {
    let mut last = None;
    let mut count = 0;
    for field in fields.filter(|field| number(field).is_some() && !field.is_empty()) {
        let value = canonical(field)?;
        let follows = match last {
            None => value <= 1 || (1800..=2200).contains(&value),
            Some(last) => Some(value) == u64::checked_add(last, 1),
        };
        if !follows {
            return None;
        }
        last = Some(value);
        count += 1;
    }
    (count > 0).then_some(count)
}

/// Summary of a table's columns below its first record.
pub(crate) struct Below {
    /// Number of records below the first one.
    pub(crate) rows: u64,
    /// For each column, true if every field is a number.
    pub(crate) numbers: Vec<bool>,
    /// For each column, true if every field is a number with a decimal point or an exponent.
    pub(crate) fractions: Vec<bool>,
    /// For each column, true if the first record's field occurs again below.
    pub(crate) again: Vec<bool>,
}

impl Below {
    pub(crate) fn from_table(table: &Table) -> Result<Self> {
        let mut rows = table.records(0)?;
        let first: Vec<String> =
            rows.next()?.map(|row| row.fields().map(str::to_owned).collect()).unwrap_or_default();
        let width = first.len();
        let (numbers, again) = (vec![true; width], vec![false; width]);
        let mut found = Self { rows: 0, numbers: numbers.clone(), fractions: numbers, again };
        while let Some(row) = rows.next()? {
            found.rows += 1;
            for (at, (field, name)) in row.fields().zip(&first).enumerate() {
                let is_number = !field.is_empty() && number(field).is_some();
                found.numbers[at] &= is_number;
                found.fractions[at] &= is_number && field.contains(['.', 'e', 'E']);
                found.again[at] |= field == name;
            }
        }
        Ok(found)
    }
}

/// Adds a warning to the reading report that a first record of counting numbers was read as data.
pub(crate) fn doubt(table: &Table) {
    let Ok(first) = table.first(0) else { return };
    let words: Vec<&str> = first.fields().collect();
    eciton_input::notes::warn(format!(
        "{}, line {}: \"{}\" was read as data, but its numbers count like the column names that pandas gives \
         an array; if the line is a header, give the columns names, or write the table with header=False",
        table.file,
        first.line(),
        eciton_input::text::cut(&words.join(", "), 60)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_count_are_found_among_words() {
        let count = |line: &str| counting(line.split(','));
        assert_eq!(count("0,1,2"), Some(3));
        assert_eq!(count(",0,1,label"), Some(2));
        assert_eq!(count("id,1,2,3"), Some(3));
        assert_eq!(count("2019,2020,sales"), Some(2));
        for line in ["0,2", "3,4", "a,b", "0.0,1.0", "1,0", "0,1,-1", "007,8", ""] {
            assert_eq!(count(line), None, "{line}");
        }
    }
}

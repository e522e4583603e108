//! Recognition of headers by comparison of a folder's tables. It covers words that start several
//! tables, and numbers that count like the columns of an array.
//!
//! A first record is a header if its id does not occur as an id anywhere else. If the records of a
//! single table suffice for the decision, [`Table`] makes it.

use std::collections::HashSet;

use eciton_graph::error::Result;

use super::ids::Ids;
use crate::file;
use crate::header::{Below, counting, doubt};
use crate::missing::is_missing;
use crate::numbers::number;
use crate::table::{Table, is_header, is_number};

/// Tables of a folder, as far as they exist.
pub(super) struct Tables<'a> {
    pub(super) edges: Option<&'a Table>,
    pub(super) features: Option<&'a Table>,
    pub(super) labels: Option<&'a Table>,
    pub(super) graphs: Option<&'a Table>,
    pub(super) split: Option<&'a Table>,
    /// True if vertices are numbered 0 to V - 1, because features or labels are an array.
    pub(super) dense: bool,
}

/// Table whose first record may be a header.
struct Candidate<'a> {
    table: &'a Table,
    /// Ids in the first record.
    ids: Vec<String>,
    /// True if the first record consists of counting numbers, optionally after a first word.
    counts: bool,
}

impl<'a> Tables<'a> {
    pub(super) fn all(&self) -> impl Iterator<Item = &'a Table> {
        [self.edges, self.features, self.labels, self.graphs, self.split].into_iter().flatten()
    }

    /// Returns the number of columns of a table that contain ids.
    fn id_columns(&self, table: &Table) -> usize {
        let is = |other: Option<&Table>| other.is_some_and(|other| std::ptr::eq(other, table));
        if is(self.edges) || is(self.graphs) { 2 } else { 1 }
    }

    /// Decides for each table whether its first record is a header, as far as the comparison of the
    /// tables shows it.
    ///
    /// # Errors
    /// Returns the errors of reading the tables.
    pub(super) fn settle(&self) -> Result<()> {
        let mut firsts = Vec::new();
        for table in self.all() {
            let first = table.first(2)?;
            firsts.push((table, first.fields().map(str::to_owned).collect::<Vec<_>>()));
        }
        let mut candidates = Vec::new();
        for (table, first) in &firsts {
            let (word, columns) = (first[0].as_str(), self.id_columns(table));
            if is_header(word) || table.is_settled() {
                continue;
            }
            let shared = !is_number(word)
                && firsts.iter().any(|(other, fields)| !std::ptr::eq(*other, *table) && fields[0] == word);
            let count = counting(first.iter().map(String::as_str)).unwrap_or_default();
            let words = first.len() - first.iter().filter(|field| is_number(field)).count();
            let counts = count >= 2 && (words == 0 || (words == 1 && !is_number(word)));
            if shared || counts {
                let ids = first.iter().take(columns).cloned().collect();
                candidates.push(Candidate { table, ids, counts });
            } else if columns == 2 && self.is_edges(table) {
                word_above_numbers(table, first)?;
            }
        }
        // If a table's first record has an id of another table, it is data. Then the first record
        // counts in comparisons.
        loop {
            let skipped: Vec<&Table> = candidates.iter().map(|candidate| candidate.table).collect();
            let before = candidates.len();
            let mut left = Vec::new();
            for candidate in candidates {
                if self.may_be_header(&candidate, &skipped)? {
                    left.push(candidate);
                }
            }
            candidates = left;
            if candidates.len() == before {
                break;
            }
        }
        let skipped: Vec<&Table> = candidates.iter().map(|candidate| candidate.table).collect();
        let words: Vec<&str> = candidates
            .iter()
            .filter(|candidate| !candidate.counts)
            .map(|candidate| &candidate.ids[0][..])
            .collect();
        for candidate in &candidates {
            match candidate.counts {
                false if words.iter().filter(|word| **word == candidate.ids[0]).count() > 1 => {
                    candidate.table.settle(true);
                    let why =
                        "its first field is also the first field of another table, and is not an id anywhere";
                    candidate.table.note(true, why);
                }
                false => {}
                true if self.is_edges(candidate.table) => self.settle_edges(candidate, &skipped)?,
                true => self.settle_counting(candidate, &skipped)?,
            }
        }
        Ok(())
    }

    fn is_edges(&self, table: &Table) -> bool {
        self.edges.is_some_and(|edges| std::ptr::eq(edges, table))
    }

    /// Returns whether the ids of a candidate's first record occur as ids nowhere else. Ids that
    /// are numbers may occur again in later records of a table in which each id occurs once. A word
    /// that starts several tables must be above another word that no other record has. The first
    /// records of the tables `skipped` are ignored.
    fn may_be_header(&self, candidate: &Candidate<'_>, skipped: &[&Table]) -> Result<bool> {
        let edges = self.is_edges(candidate.table);
        let ids = if edges { &candidate.ids[..] } else { &candidate.ids[..1] };
        if candidate.counts && !edges && holds(candidate.table, 1, ids, skipped)? {
            return Ok(true);
        }
        for table in self.all() {
            if self.holds(table, ids, skipped)? {
                return Ok(false);
            }
        }
        if candidate.counts || edges {
            return Ok(true);
        }
        let first = candidate.table.first(2)?;
        let below = Below::from_table(candidate.table)?;
        let word = first.get(1);
        let again = below.again.get(1).is_some_and(|again| *again);
        Ok(!again && number(word).is_none() && !is_missing(word))
    }

    /// Decides whether a first record of numbers in an edge table is a header. It is one if other
    /// tables contain the ids of all edges, but not these numbers.
    fn settle_edges(&self, candidate: &Candidate<'_>, skipped: &[&Table]) -> Result<()> {
        let others: Vec<&Table> = [self.features, self.labels.filter(|_| self.graphs.is_none()), self.graphs]
            .into_iter()
            .flatten()
            .collect();
        let (mut rows, mut known, mut repeats) = (0u64, !others.is_empty(), false);
        let mut ids = HashSet::new();
        for table in others {
            let _charge = file::charge(&table.file, 4 * table.bytes()?)?;
            each_below(table, skipped, |row| {
                ids.insert(row.get(0).to_owned());
                true
            })?;
        }
        let mut seen = HashSet::new();
        each_below(candidate.table, skipped, |row| {
            rows += 1;
            for end in [row.get(0), row.get(1)] {
                known &= ids.contains(end);
                repeats |= seen.len() < 1 << 16 && !seen.insert(end.to_owned());
            }
            true
        })?;
        let below = Below::from_table(candidate.table)?;
        let fractions = below.fractions.iter().skip(2).any(|&fractions| fractions);
        if rows > 0 && ((known && !self.dense) || fractions) {
            candidate.table.settle(true);
            candidate
                .table
                .note(true, "its numbers count like column names, and neither is the id of a vertex");
        } else if rows > 1 && repeats {
            candidate.table.settle(false);
            doubt(candidate.table);
        }
        Ok(())
    }

    /// Decides whether a first record of numbers, optionally after a word, is a header. Each id
    /// occurs once in the table.
    fn settle_counting(&self, candidate: &Candidate<'_>, skipped: &[&Table]) -> Result<()> {
        let table = candidate.table;
        let (mut others, mut held, mut joins) = (false, false, false);
        let mut some = Vec::new();
        each_below(table, &[table], |row| {
            some.push(row.get(0).to_owned());
            some.len() < 5
        })?;
        let own = holds(table, 1, &candidate.ids[..1], &[table])?;
        for other in self.all().filter(|other| !std::ptr::eq(*other, table)) {
            others = true;
            held |= self.holds(other, &candidate.ids[..1], skipped)?;
            for id in &some {
                joins |= self.holds(other, std::slice::from_ref(id), skipped)?;
            }
        }
        let is_features = self.features.is_some_and(|features| std::ptr::eq(features, table));
        let word = !is_number(&candidate.ids[0]);
        let why = if own {
            "its id occurs again below"
        } else if !held && others && joins && (word || !self.dense) {
            "its numbers count like column names, and its id is not an id anywhere"
        } else if !held && is_features && {
            let below = Below::from_table(table)?;
            below.rows > 0 && below.fractions.iter().skip(1).all(|&fractions| fractions)
        } {
            "its numbers count like column names above fractions"
        } else {
            if !held && is_features {
                table.settle(false);
                doubt(table);
            }
            return Ok(());
        };
        table.settle(true);
        table.note(true, why);
        Ok(())
    }

    /// Returns whether an id column of the table contains one of the ids `wanted`. The first
    /// records of the tables `skipped` are ignored.
    fn holds(&self, table: &Table, wanted: &[String], skipped: &[&Table]) -> Result<bool> {
        holds(table, self.id_columns(table), wanted, skipped)
    }
}

/// Returns whether one of the first `columns` columns contains one of the ids `wanted`. The first
/// records of the tables `skipped` are ignored.
fn holds(table: &Table, columns: usize, wanted: &[String], skipped: &[&Table]) -> Result<bool> {
    let mut found = false;
    each_below(table, skipped, |row| {
        found = (0..columns).any(|column| wanted.iter().any(|id| id == row.get(column)));
        !found
    })?;
    Ok(found)
}

/// Calls `each` with the records of a table until it returns false. The first records of the tables
/// `skipped` are omitted.
fn each_below(
    table: &Table,
    skipped: &[&Table],
    mut each: impl FnMut(&crate::table::Row) -> bool,
) -> Result<()> {
    let mut rows = table.records(2)?;
    if skipped.iter().any(|skipped| std::ptr::eq(*skipped, table)) {
        rows.next()?;
    }
    while let Some(row) = rows.next()? {
        if !each(row) {
            break;
        }
    }
    Ok(())
}

/// Settles that the first record of an edge table is a header if it has a word above a column of
/// numbers. Only columns after the two ids are considered.
fn word_above_numbers(edges: &Table, first: &[String]) -> Result<()> {
    let is_word = |field: &String| !field.is_empty() && field.parse::<f64>().is_err();
    let numbers = first.iter().any(|field| number(field).is_some() && !field.is_empty());
    let named = !numbers || counting(first.iter().map(String::as_str)).is_some();
    if !named || !first.iter().skip(2).any(is_word) {
        return Ok(());
    }
    let below = Below::from_table(edges)?;
    let above = |at: usize| is_word(&first[at]) && below.numbers[at];
    if below.rows > 0 && (2..first.len()).any(above) {
        edges.settle(true);
        edges.note(true, "a word stands above a column of numbers");
    }
    Ok(())
}

/// Decides whether the first row of a table is a header. If `ids` are known, a row whose id is not
/// one of them is a header.
pub(super) fn ids_or_header(table: &Table, ids: Option<&Ids>) -> Result<()> {
    let Some(ids) = ids else { return table.find_header_of_words() };
    if table.is_settled() {
        return Ok(());
    }
    let first = table.first(2)?;
    let word = first.get(0);
    let counts = first.len() > 1 && counting(first.fields()) == Some(first.len());
    let is_word = number(word).is_none() && !is_missing(word);
    let header = word.is_empty() || ((is_word || counts) && ids.position(word).is_none());
    table.set_header(header);
    if header && counts {
        table.note(true, "its numbers count like column names, and its id is not an id of the data set");
    } else if header && ids.are_words() && !is_header(word) {
        table.note(true, "its id is not an id of the data set");
    }
    Ok(())
}

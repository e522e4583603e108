//! A table of rows: one record a row, one column a feature, and one with labels.
//!
//! * The first record is a header if none of its fields is a number, and one is not empty.
//! * The labels' column is named `label`, `target`, `class` or `y`, in any case; without such a name, or
//!   without a header, it is the last one.
//! * A column named `id` holds what the rows are called, one named `split` `train`, `val`, `test` or
//!   nothing. All other columns are features: finite numbers.
//! * Labels are classes where all are whole numbers from 0 or words (in alphabetical order), numbers where
//!   one of them has a fraction or an exponent, or is negative and not -1. Empty, or -1, is none.

use std::path::Path;

use eciton_graph::adjacency::check_vertices;
use eciton_graph::dataset::{Dataset, Names, VertexIds};
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::Features;
use eciton_graph::labels::{Labels, Values};
use eciton_graph::split::{NO_LABEL, Split};

use crate::folder::{canonical, number, whole};
use crate::table::{Row, Table};
use crate::{file, labels};

/// Names of the labels' column.
const LABELS: [&str; 4] = ["label", "target", "class", "y"];
/// First columns of a table of edges.
const SOURCES: [&str; 7] = ["source", "src", "from", "u", "id_1", "node_1", "head"];

/// Which column is what.
struct Columns {
    count: usize,
    label: usize,
    id: Option<usize>,
    split: Option<usize>,
    /// Names, where there is a header.
    names: Vec<String>,
}

impl Columns {
    fn of(table: &Table) -> Result<Self> {
        let first = table.first(2)?;
        let names: Vec<String> = first.fields().map(str::to_ascii_lowercase).collect();
        let header = first.fields().any(is_word) && !first.fields().any(|field| number(field).is_some());
        let named = |name: &str| names.iter().position(|known| header && known == name);
        if header && SOURCES.contains(&names[0].as_str()) {
            return Err(Error::Malformed {
                place: Place::line(&table.file, first.line()),
                expected: "a row of features and a label".to_owned(),
                found: format!("the header of a table of edges: {:.60?}", names.join(", ")),
                remedy: "name the folder that it lies in, as edges.csv",
            });
        }
        table.header.set(header);
        let label = LABELS.iter().find_map(|name| named(name)).unwrap_or(names.len() - 1);
        let (id, split) = (named("id"), named("split"));
        let names = if header { names } else { Vec::new() };
        let columns = Self { count: first.len(), label, id, split, names };
        if columns.features().next().is_none() {
            return Err(table.wrong(first.line(), "a column of features beside the label", "none"));
        }
        Ok(columns)
    }

    fn features(&self) -> impl Iterator<Item = usize> + Clone {
        let others = [Some(self.label), self.id, self.split];
        (0..self.count).filter(move |&column| !others.contains(&Some(column)))
    }

    fn name(&self, column: usize) -> String {
        match self.names.get(column) {
            Some(name) => format!("column {name:.40}"),
            None => format!("column {}", column + 1),
        }
    }
}

/// Whether a field is neither a number nor empty.
fn is_word(field: &str) -> bool {
    !field.is_empty() && number(field).is_none()
}

/// Whether the first record of a file names a column for labels, as an edge list's does not.
pub(crate) fn names_labels(path: &Path) -> bool {
    let first = Table::open(path).and_then(|table| table.first(2));
    first.is_ok_and(|first| {
        let source = SOURCES.contains(&first.get(0).to_ascii_lowercase().as_str());
        !source && first.fields().any(|name| LABELS.contains(&name.to_ascii_lowercase().as_str()))
    })
}

/// Reads such a table.
///
/// # Errors
/// [`Error::Malformed`] with line and column for what is no number, and for records of other lengths.
pub(crate) fn open(path: &Path) -> Result<Dataset> {
    let table = Table::open(path)?;
    let columns = Columns::of(&table)?;
    let width = columns.features().count();
    let mut values = file::Grown::new(&table.file);
    let mut found = Found::new(&table.file);
    table.each(1, |row| {
        if row.len() != columns.count {
            let wanted = format!("{} fields, as in the first record", columns.count);
            return Err(table.wrong(row.line(), &wanted, &format!("{} fields", row.len())));
        }
        let room: &mut Vec<f32> = values.room(width)?;
        for column in columns.features() {
            room.push(feature(&table, row, column, &columns)?);
        }
        found.add(&table, row, &columns)
    })?;
    let values = values.finish();
    let rows = (values.len() / width) as u64;
    if rows == 0 {
        return Err(table.empty("a row of features and a label at least"));
    }
    check_vertices(rows, || Place::whole(&table.file))?;
    let columns_of = u32::try_from(width).unwrap_or(u32::MAX);
    let features = Features::from_dense(columns_of, &values)?;
    let (labels, classes, split, ids) = found.finish(&table, &columns)?;
    let all = table.names(0)?;
    let of_features: Option<Vec<String>> = columns.features().map(|at| all.get(at).cloned()).collect();
    let of_labels = match &labels {
        Labels::Classes { .. } => classes,
        _ => all.get(columns.label).cloned().into_iter().collect(),
    };
    let names = Names { labels: of_labels, features: of_features.unwrap_or_default(), ..Names::default() };
    super::dataset(file::stem(path), features, labels, split, ids, names)
}

fn feature(table: &Table, row: &Row, column: usize, columns: &Columns) -> Result<f32> {
    let field = row.get(column);
    number(field).filter(|value| value.is_finite()).ok_or_else(|| {
        let wanted = format!("a finite number in {}, a feature", columns.name(column));
        table.wrong(row.line(), &wanted, field)
    })
}

/// What stands in columns that are no features.
struct Found {
    labels: file::Grown<String>,
    ids: file::Grown<String>,
    split: Split,
    rows: u32,
}

impl Found {
    fn new(file: &str) -> Self {
        let (labels, ids) = (file::Grown::new(file), file::Grown::new(file));
        Self { labels, ids, split: Split::default(), rows: 0 }
    }

    fn add(&mut self, table: &Table, row: &Row, columns: &Columns) -> Result<()> {
        self.labels.push(row.get(columns.label).to_owned())?;
        if let Some(id) = columns.id {
            self.ids.push(row.get(id).to_owned())?;
        }
        if let Some(split) = columns.split {
            match row.get(split).to_lowercase().as_str() {
                "" => {}
                "train" | "training" => self.split.train.push(self.rows),
                "val" | "valid" | "validation" => self.split.validation.push(self.rows),
                "test" => self.split.test.push(self.rows),
                other => return Err(table.wrong(row.line(), "train, val, test or nothing", other)),
            }
        }
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    /// Labels with names of their classes, split and ids.
    fn finish(
        self,
        table: &Table,
        columns: &Columns,
    ) -> Result<(Labels, Vec<String>, Option<Split>, VertexIds)> {
        let (labels, classes) = labels_of(table, columns, &self.labels.finish())?;
        let ids = match columns.id {
            None => VertexIds::Dense,
            Some(_) => {
                let ids = unique(table, self.ids.finish())?;
                let dense = (0u64..).zip(&ids).all(|(row, id)| canonical(id) == Some(row));
                if dense { VertexIds::Dense } else { VertexIds::Words(ids) }
            }
        };
        Ok((labels, classes, columns.split.map(|_| self.split), ids))
    }
}

/// Ids, of which each row has its own.
fn unique(table: &Table, ids: Vec<String>) -> Result<Vec<String>> {
    let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(ids),
        Some(pair) => {
            let found = format!("{:.60?} twice", pair[0]);
            Err(Error::malformed(Place::whole(&table.file), "another id in each row", found))
        }
    }
}

fn labels_of(table: &Table, columns: &Columns, fields: &[String]) -> Result<(Labels, Vec<String>)> {
    let known = || fields.iter().filter(|field| !field.is_empty());
    let place = format!("{}, {}", table.file, columns.name(columns.label));
    if known().all(|field| whole(field).is_some()) {
        let numbers: Vec<i64> = fields.iter().map(|field| whole(field).unwrap_or(-1)).collect();
        if numbers.iter().any(|&number| number < -1) {
            let values = fields.iter().map(|field| number(field).unwrap_or(f32::NAN)).collect();
            return Ok((Labels::Numbers(Values::named(1, values, &place)?), Vec::new()));
        }
        return Ok((labels::from_numbers(&numbers, &place)?, Vec::new()));
    }
    if known().all(|field| number(field).is_some()) {
        let values = fields.iter().map(|field| number(field).unwrap_or(f32::NAN)).collect();
        return Ok((Labels::Numbers(Values::named(1, values, &place)?), Vec::new()));
    }
    let none = |field: &str| field.is_empty() || field == "-1";
    let mut words: Vec<&str> = fields.iter().map(String::as_str).filter(|field| !none(field)).collect();
    words.sort_unstable();
    words.dedup();
    let class = |field: &String| match none(field) {
        true => NO_LABEL,
        false => words.binary_search(&field.as_str()).map_or(NO_LABEL, |at| at as u32),
    };
    let labels = Labels::classes(fields.iter().map(class).collect(), words.len() as u32);
    Ok((labels, words.into_iter().map(str::to_owned).collect()))
}

//! Encoders of table columns, which learn from training rows and then compute features.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use eciton_tensor::Buffer;

use super::{Cells, Column, HASH_COLUMNS, Kind, MISSING, Table};
use crate::corrections::{Collector, Number};
use crate::error::{Error, Place, Result};
use crate::features::{DenseRows, Features, SPARSE_COLUMNS, SparseBuilder};
use eciton_input::threads::{on_threads, shares, threads_for};

/// Maximum number of distinct values that an [`Unseen`] lists as examples.
const MAX_LISTED: usize = 5;

/// Encoder of a table column, with the facts about the training data that a prediction needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoder {
    /// Name of the table column.
    pub name: String,
    /// Kind of the table column. It is never [`Kind::Ignored`].
    pub kind: Kind,
    /// Mean of the training rows, by which missing numbers are replaced. It is 0 for words.
    pub fill: f64,
    /// True if values were missing in training rows. An additional feature column then marks
    /// missing values.
    pub flag: bool,
    /// Categories that occur in the training rows, in ascending order.
    pub values: Vec<String>,
}

/// Values of a column that did not occur in the training rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// Name of the column.
    pub column: String,
    /// Number of rows that have such a value.
    pub rows: u64,
    /// Examples of such values, which are the first distinct ones. There are at most 5.
    pub values: Vec<String>,
    /// Number of rows without a value. It is 0 if values were also missing in training rows.
    pub missing: u64,
}

impl Encoder {
    /// Fits an encoder to the values of `column` in the training rows `rows`. Returns `None` if the
    /// column is not used as a feature.
    #[must_use]
    pub fn fit(column: &Column, rows: &[u32]) -> Option<Self> {
        let Column { name, kind, cells } = column;
        if *kind == Kind::Ignored {
            return None;
        }
        let flag = rows.iter().any(|&row| cells.is_missing(row as usize));
        let (mut fill, mut values) = (0.0, Vec::new());
        match cells {
            Cells::Numbers(numbers) => fill = mean(numbers, rows),
            Cells::Words { codes, words } if *kind == Kind::Category => {
                let mut known = vec![false; words.len()];
                for code in rows.iter().filter_map(|&row| codes.get(row as usize)) {
                    if let Some(known) = known.get_mut(*code as usize) {
                        *known = true;
                    }
                }
                let seen = words.iter().zip(known).filter(|(_, known)| *known);
                values = seen.map(|(word, _)| word.clone()).collect();
                values.sort_unstable();
            }
            Cells::Words { .. } => {}
        }
        Some(Self { name: name.clone(), kind: *kind, fill, flag, values })
    }

    /// Fits an encoder to each column that is used as a feature. `rows` are the training rows.
    #[must_use]
    pub fn fit_all(table: &Table, rows: &[u32]) -> Vec<Self> {
        table.columns.iter().filter_map(|column| Self::fit(column, rows)).collect()
    }

    /// Returns the names of the feature columns that the encoder computes, for instance
    /// `colour=red`.
    #[must_use]
    pub fn feature_names(&self) -> Vec<String> {
        let name = &self.name;
        let mut names = match self.kind {
            Kind::Category => self.values.iter().map(|value| format!("{name}={value}")).collect(),
            Kind::Hashed => (0..HASH_COLUMNS).map(|at| format!("{name}#{at}")).collect(),
            _ => vec![name.clone()],
        };
        if self.flag {
            names.push(format!("{name} is missing"));
        }
        names
    }

    /// Returns the number of feature columns that the encoder computes.
    #[must_use]
    pub fn width(&self) -> u32 {
        let own = match self.kind {
            Kind::Category => self.values.len() as u32,
            Kind::Hashed => HASH_COLUMNS,
            _ => 1,
        };
        own + u32::from(self.flag)
    }

    /// Returns the feature column of each word, relative to the encoder's first column. Unknown
    /// words have `None`.
    fn columns_of(&self, words: &[String]) -> Vec<Option<u32>> {
        let find = |word: &String| match self.kind {
            Kind::Hashed => Some((hash(word) % u64::from(HASH_COLUMNS)) as u32),
            _ => self.values.binary_search(word).ok().map(|at| at as u32),
        };
        words.iter().map(find).collect()
    }
}

/// Returns the mean of the known numbers in the rows `rows`, or 0 if no row has a number. Sums are
/// relative to the first number, so that columns far from 0 lose no precision.
fn mean(numbers: &[Number], rows: &[u32]) -> f64 {
    let known = || {
        let of = rows.iter().filter_map(|&row| numbers.get(row as usize));
        of.filter(|number| !number.rounded.is_nan()).map(|number| number.value())
    };
    let Some(first) = known().next() else { return 0.0 };
    let sum: f64 = known().map(|value| value - first).sum();
    first + sum / known().count().max(1) as f64
}

/// Returns the 64-bit FNV-1a hash of `word`. Its halves are mixed, so that the lowest bits depend
/// on all bytes.
fn hash(word: &str) -> u64 {
    let mixed = word
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    mixed ^ (mixed >> 32)
}

/// Values of a table column in the form that an encoder reads.
enum Source<'a> {
    Numbers(&'a [Number]),
    /// Codes of the rows, the feature column of each code, and the distinct words.
    Words(&'a [u32], Vec<Option<u32>>, &'a [String]),
}

/// Computes the features of a table with `encoders`. Returns the features, their names, and values
/// that did not occur in the training rows. Table columns without an encoder are ignored.
///
/// # Errors
/// Returns [`Error::Malformed`] if the table lacks a column with an encoder's name and kind, and
/// [`Error::Memory`] if the features do not fit in memory.
pub fn encode(table: &Table, encoders: &[Encoder]) -> Result<(Features, Vec<String>, Vec<Unseen>)> {
    let by_name: HashMap<&str, &Column> =
        table.columns.iter().map(|column| (column.name.as_str(), column)).collect();
    let mut sources = Vec::new();
    for encoder in encoders {
        let column = by_name.get(encoder.name.as_str());
        sources.push(match column.map(|column| &column.cells) {
            Some(Cells::Numbers(numbers)) if encoder.kind.is_numeric() => Source::Numbers(numbers),
            Some(Cells::Words { codes, words }) if !encoder.kind.is_numeric() => {
                Source::Words(codes, encoder.columns_of(words), words)
            }
            found => {
                return Err(Error::malformed(
                    Place::whole(&table.file),
                    format!("a column {:.40?} of the kind {}", encoder.name, encoder.kind.name()),
                    if found.is_some() { "another kind" } else { "none" },
                ));
            }
        });
    }
    let names: Vec<String> = encoders.iter().flat_map(Encoder::feature_names).collect();
    let width = names.len();
    let mut unseen: Vec<Unseen> = encoders.iter().map(|encoder| Unseen::none(&encoder.name)).collect();
    let sparse = width >= SPARSE_COLUMNS as usize;
    let mut corrections = if sparse { Collector::sparse(&table.file) } else { Collector::dense(&table.file) };
    let sources: Vec<(u32, &Encoder, Source<'_>)> = encoders
        .iter()
        .zip(sources)
        .scan(0, |next, (encoder, source)| {
            let first = *next;
            *next += encoder.width();
            Some((first, encoder, source))
        })
        .collect();
    let features = match sparse {
        true => {
            let mut builder = SparseBuilder::new(width as u32);
            let mut entries: Vec<(u32, f32)> = Vec::new();
            for row in 0..table.rows {
                entries.clear();
                sources.iter().for_each(|source| {
                    source.2.each(row, source, |column, value| entries.push((column, value)))
                });
                builder.push_row(&mut entries);
                // For sparse rows, the threshold of negligible corrections depends on the number of
                // rows so far.
                inspect(&sources, row..row + 1, &mut corrections, &mut unseen);
            }
            Features::from_sparse(builder.finish())?
        }
        false => dense(&sources, (table.rows, width), &mut corrections, &mut unseen)?,
    };
    unseen.retain(|unseen| unseen.rows > 0 || unseen.missing > 0);
    Ok((features.with_corrections(corrections.finish()), names, unseen))
}

/// Computes dense features on all processors, while one thread inspects the values.
fn dense(
    sources: &[(u32, &Encoder, Source<'_>)],
    (rows, width): (usize, usize),
    corrections: &mut Collector,
    unseen: &mut [Unseen],
) -> Result<Features> {
    let failed = Error::memory("features");
    let buffer = Buffer::zeroed(rows, width).map_err(&failed)?;
    let threads = threads_for(rows.saturating_mul(width) as u64).saturating_sub(1).max(1);
    let mut inspected = Some((corrections, unseen));
    let mut work = vec![(0..0, inspected.take())];
    work.extend(shares(rows, threads).into_iter().map(|share| (share, None)));
    let fill = |(share, inspected): (Range<usize>, Option<(&mut Collector, &mut [Unseen])>)| {
        if let Some((corrections, unseen)) = inspected {
            inspect(sources, 0..rows, corrections, unseen);
            return Ok(());
        }
        let mut lease = buffer.write(share.clone()).map_err(&failed)?;
        let mut view = lease.view_mut();
        for (at, row) in share.enumerate() {
            let to = view.row_mut(at);
            for source in sources {
                source.2.each(row, source, |column, value| {
                    if let Some(to) = to.get_mut(column as usize) {
                        *to = value;
                    }
                });
            }
        }
        Ok(())
    };
    on_threads(work, fill).into_iter().collect::<Result<()>>()?;
    Ok(Features::Dense(DenseRows::new(&buffer)?))
}

/// Collects the corrections of the values in `rows`, and the values that did not occur in training
/// rows.
fn inspect(
    sources: &[(u32, &Encoder, Source<'_>)],
    rows: Range<usize>,
    corrections: &mut Collector,
    unseen: &mut [Unseen],
) {
    for ((first, encoder, source), unseen) in sources.iter().zip(unseen) {
        let mut missing = 0;
        match source {
            Source::Numbers(numbers) => {
                for row in rows.clone() {
                    let number = known(numbers, row);
                    let value = number.unwrap_or_else(|| Number::from(encoder.fill));
                    corrections.push(row as u32, *first, value);
                    missing += u64::from(number.is_none());
                }
            }
            Source::Words(codes, columns, words) => {
                for row in rows.clone() {
                    let code = codes.get(row).copied().unwrap_or(MISSING);
                    if let Some(None) = columns.get(code as usize) {
                        unseen.see(words.get(code as usize));
                    }
                    missing += u64::from(code == MISSING);
                }
            }
        }
        unseen.missing += if encoder.flag { 0 } else { missing };
    }
}

/// Returns the number in the row `row`, or `None` if it is missing.
fn known(numbers: &[Number], row: usize) -> Option<Number> {
    numbers.get(row).copied().filter(|number| !number.rounded.is_nan())
}

impl Source<'_> {
    /// Calls `each` with the column and value of each feature of the row `row` that is not zero.
    fn each(&self, row: usize, (first, encoder, _): &(u32, &Encoder, Self), mut each: impl FnMut(u32, f32)) {
        let missing = match self {
            Self::Numbers(numbers) => {
                let number = known(numbers, row);
                each(*first, number.unwrap_or_else(|| Number::from(encoder.fill)).rounded);
                number.is_none()
            }
            Self::Words(codes, columns, _) => {
                let code = codes.get(row).copied().unwrap_or(MISSING);
                if let Some(Some(column)) = columns.get(code as usize) {
                    each(first + column, 1.0);
                }
                code == MISSING
            }
        };
        if missing && encoder.flag {
            each(first + encoder.width() - 1, 1.0);
        }
    }
}

impl Unseen {
    fn none(column: &str) -> Self {
        Self { column: column.to_owned(), rows: 0, values: Vec::new(), missing: 0 }
    }

    fn see(&mut self, word: Option<&String>) {
        self.rows += 1;
        if let Some(word) = word.filter(|_| self.values.len() < MAX_LISTED)
            && !self.values.contains(word)
        {
            self.values.push(word.clone());
        }
    }
}

/// Table from which features were encoded, together with its encoders.
#[derive(Debug, Clone, PartialEq)]
pub struct Encoded {
    /// The table as it was read.
    pub table: Arc<Table>,
    /// Encoders of the columns that are used as features.
    pub encoders: Arc<[Encoder]>,
    /// True if the encoders come from a trained model. They are then never fitted again.
    pub given: bool,
    /// Values of the table that did not occur in the training rows.
    pub unseen: Vec<Unseen>,
}

impl Encoded {
    /// Encodes a table with the encoders `known` of a trained model. If `known` is empty, encoders
    /// are fitted to the training rows `rows`.
    ///
    /// # Errors
    /// Returns the errors of [`encode`].
    pub fn new(table: Arc<Table>, rows: &[u32], known: &[Encoder]) -> Result<(Self, Features, Vec<String>)> {
        match known {
            [] => Self::fitted(table, rows),
            known => Self::by(table, known.into(), true),
        }
    }

    /// Encodes a table with encoders that are fitted to the training rows `rows`.
    ///
    /// # Errors
    /// Returns the errors of [`encode`].
    pub fn fitted(table: Arc<Table>, rows: &[u32]) -> Result<(Self, Features, Vec<String>)> {
        let encoders = Encoder::fit_all(&table, rows);
        Self::by(table, encoders.into(), false)
    }

    fn by(table: Arc<Table>, encoders: Arc<[Encoder]>, given: bool) -> Result<(Self, Features, Vec<String>)> {
        let (features, names, unseen) = encode(&table, &encoders)?;
        Ok((Self { table, encoders, given, unseen }, features, names))
    }

    /// Encodes the table again with encoders that are fitted to other training rows. Returns `None`
    /// if the encoders do not change.
    ///
    /// # Errors
    /// Returns the errors of [`encode`].
    pub fn refitted(&self, rows: &[u32]) -> Result<Option<(Self, Features, Vec<String>)>> {
        if self.given || Encoder::fit_all(&self.table, rows)[..] == self.encoders[..] {
            return Ok(None);
        }
        Self::fitted(self.table.clone(), rows).map(Some)
    }

    /// Adds values that did not occur in training rows to the reading report. They are warnings for
    /// data of a prediction, and notes otherwise.
    pub fn report(&self) {
        for Unseen { column, rows, values, missing } in &self.unseen {
            let file = &self.table.file;
            if *rows > 0 {
                let shown: Vec<String> = values.iter().map(|value| format!("{value:.40?}")).collect();
                let more = if values.len() == MAX_LISTED { ", ..." } else { "" };
                let text = format!(
                    "{file}: column {column:.40}: {rows} rows have values that no training row has ({}{more}); they \
                     are 0 in all columns of the category",
                    shown.join(", ")
                );
                match self.given {
                    true => eciton_input::notes::warn(text),
                    false => eciton_input::notes::add(text),
                }
            }
            if *missing > 0 {
                let how = match self.encoders.iter().find(|encoder| encoder.name == *column) {
                    Some(encoder) if encoder.kind.is_numeric() => {
                        format!("the mean {} stands for them", encoder.fill as f32)
                    }
                    _ => "they are 0 in all columns of the category".to_owned(),
                };
                let text = format!(
                    "{file}: column {column:.40}: {missing} values are missing, but no training row has a missing \
                     one; {how}"
                );
                match self.given {
                    true => eciton_input::notes::warn(text),
                    false => eciton_input::notes::add(text),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::random::SplitMix64;

    fn words(name: &str, kind: Kind, of: &[&str]) -> Column {
        let (mut codes, mut words) = (Vec::new(), Vec::<String>::new());
        for &word in of {
            let known = words.iter().position(|known| known == word);
            codes.push(match word {
                "" => MISSING,
                _ => known.unwrap_or_else(|| {
                    words.push(word.to_owned());
                    words.len() - 1
                }) as u32,
            });
        }
        Column { name: name.to_owned(), kind, cells: Cells::Words { codes, words } }
    }

    fn numbers(name: &str, of: &[f64]) -> Column {
        let cells = Cells::Numbers(of.iter().map(|&value| value.into()).collect());
        Column { name: name.to_owned(), kind: Kind::Number, cells }
    }

    fn table(columns: Vec<Column>) -> Table {
        Table { file: "t.csv".to_owned(), rows: columns[0].cells.rows(), columns }
    }

    fn rows(features: &Features) -> Vec<Vec<f32>> {
        let mut row = vec![0.0; features.columns() as usize];
        (0..features.rows())
            .map(|at| {
                features.copy_row(at, &mut row);
                row.clone()
            })
            .collect()
    }

    #[test]
    fn encoders_know_the_training_rows_alone() {
        let columns = vec![
            numbers("age", &[1.0, f64::NAN, 3.0, 100.0]),
            words("city", Kind::Category, &["b", "a", "", "c"]),
            words("note", Kind::Ignored, &["x", "y", "z", "w"]),
        ];
        let (encoded, features, names) = Encoded::fitted(Arc::new(table(columns)), &[0, 1, 2]).unwrap();
        assert_eq!(names, ["age", "age is missing", "city=a", "city=b", "city is missing"]);
        assert_eq!(
            rows(&features),
            [[1., 0., 0., 1., 0.], [2., 1., 1., 0., 0.], [3., 0., 0., 0., 1.], [100., 0., 0., 0., 0.]]
        );
        assert_eq!(
            encoded.unseen,
            [Unseen { rows: 1, values: vec!["c".to_owned()], ..Unseen::none("city") }]
        );
        assert_eq!(encoded.refitted(&[2, 1, 0]).unwrap(), None);
        let (other, _, names) = encoded.refitted(&[0, 3]).unwrap().unwrap();
        assert_eq!(names, ["age", "city=b", "city=c"]);
        assert_eq!(other.unseen.iter().map(|unseen| unseen.missing).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn new_rows_get_the_columns_of_the_training() {
        let train = table(vec![numbers("x", &[1.0, 3.0]), words("c", Kind::Category, &["p", "q"])]);
        let (encoded, ..) = Encoded::fitted(Arc::new(train), &[0, 1]).unwrap();
        let new =
            table(vec![words("c", Kind::Category, &["q", "r", ""]), numbers("x", &[5.0, 6.0, f64::NAN])]);
        let (given, features, names) = Encoded::new(Arc::new(new), &[], &encoded.encoders).unwrap();
        assert_eq!(names, ["x", "c=p", "c=q"]);
        assert_eq!(rows(&features), [[5., 0., 1.], [6., 0., 0.], [2., 0., 0.]]);
        assert!(given.given && given.refitted(&[0]).unwrap().is_none());
        let other = table(vec![numbers("c", &[1.0]), numbers("x", &[1.0])]);
        let error = Encoded::new(Arc::new(other), &[], &encoded.encoders).unwrap_err().to_string();
        assert!(error.contains("a column \"c\" of the kind category"), "{error}");
    }

    #[test]
    fn encoding_is_the_same_for_any_order_of_new_rows() {
        let seed = 46_001;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for _ in 0..40 {
            let count = 1 + random.next_u64() as usize % 60;
            let mut word = |most: u64| match random.next_u64() % most {
                0 => String::new(),
                at => format!("w{at}"),
            };
            let few: Vec<String> = (0..count).map(|_| word(5)).collect();
            let many: Vec<String> = (0..count).map(|_| word(400)).collect();
            let number: Vec<f64> =
                few.iter().map(|word| word[word.len().min(1)..].parse().unwrap_or(f64::NAN)).collect();
            let build = |order: &[usize]| {
                let pick = |of: &[String]| order.iter().map(|&at| of[at].clone()).collect::<Vec<_>>();
                let (few, many) = (pick(&few), pick(&many));
                let few: Vec<&str> = few.iter().map(String::as_str).collect();
                let many: Vec<&str> = many.iter().map(String::as_str).collect();
                table(vec![
                    words("few", Kind::Category, &few),
                    words("many", Kind::Hashed, &many),
                    numbers("n", &order.iter().map(|&at| number[at]).collect::<Vec<_>>()),
                ])
            };
            let order: Vec<usize> = (0..count).collect();
            let mut mixed = order.clone();
            for at in (1..count).rev() {
                mixed.swap(at, random.next_u64() as usize % (at + 1));
            }
            let training: Vec<u32> = (0..count as u32).filter(|row| row % 3 != 1).collect();
            let (encoded, features, _) = Encoded::fitted(Arc::new(build(&order)), &training).unwrap();
            let (_, again, _) = Encoded::new(Arc::new(build(&mixed)), &[], &encoded.encoders).unwrap();
            let (first, second) = (rows(&features), rows(&again));
            for (new, &old) in mixed.iter().enumerate() {
                assert_eq!(second[new], first[old]);
            }
        }
    }
}

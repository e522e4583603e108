//! Corrections of feature values, which are the differences between exact values and their f32.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use eciton_input::budget::Charge;

use crate::error::{Error, Place, Result};

/// Smallest correction that matters, as a fraction of the column's standard deviation. Columns
/// whose values are within 64 deviations of 0 lose less than this in f32.
const NEGLIGIBLE: f64 = 1.0 / (1u64 << 20) as f64;
/// Column index from which on statistics are in a map. Statistics of lower columns are in a vector.
const LISTED_COLUMNS: u32 = 1 << 16;
/// Number of entries for which memory is requested from the reading budget at a time.
const CHARGED_ENTRIES: usize = 1 << 12;

/// Number that was rounded to f32, together with its rounding error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Number {
    /// The nearest f32 to the exact value.
    pub rounded: f32,
    /// Exact value minus `rounded`. It is 0 if f32 represents the value exactly, or if either value
    /// is not finite.
    pub residual: f64,
}

impl Number {
    /// Parses a number like `str::parse` for f32, which also accepts the words for infinity and
    /// NaN.
    #[must_use]
    pub fn parse(field: &str) -> Option<Self> {
        let real: f64 = field.parse().ok()?;
        // Whole numbers that f64 would round are parsed as integers.
        if real.abs() >= (1u64 << 53) as f64
            && let Ok(whole) = field.parse::<i64>()
        {
            return Some(Self::from(whole));
        }
        let rounded = real as f32;
        // Parsing through f64 rounds twice. Results differ only if the f64 is half-way between two
        // f32 values or below the smallest normal one.
        let halfway = real.to_bits() & 0x1fff_ffff == 0x1000_0000;
        let rounded = match halfway || rounded.abs() <= f32::MIN_POSITIVE {
            true => field.parse().ok()?,
            false => rounded,
        };
        Some(Self::between(real, rounded))
    }

    fn between(exact: f64, rounded: f32) -> Self {
        let residual = exact - f64::from(rounded);
        Self { rounded, residual: if residual.is_finite() { residual } else { 0.0 } }
    }

    /// Returns the exact value as f64. Whole numbers beyond 2^53 are rounded.
    #[must_use]
    pub fn value(self) -> f64 {
        f64::from(self.rounded) + self.residual
    }

    /// Returns true if the value is a whole number that f32 cannot represent. Numbers beyond 64
    /// bits do not count, because they are probably measurements in a small unit.
    #[must_use]
    pub fn is_rounded_whole(self) -> bool {
        let value = self.value();
        self.residual != 0.0 && value.fract() == 0.0 && value.abs() <= u64::MAX as f64
    }
}

impl From<f64> for Number {
    fn from(exact: f64) -> Self {
        Self::between(exact, exact as f32)
    }
}

impl From<i64> for Number {
    fn from(exact: i64) -> Self {
        i128::from(exact).into()
    }
}

impl From<i128> for Number {
    fn from(exact: i128) -> Self {
        let rounded = exact as f32;
        // Both values are far below 2^127 for 64-bit numbers, and their difference is below 2^40.
        Self { rounded, residual: exact.saturating_sub(rounded as i128) as f64 }
    }
}

/// Correction of one feature value by its rounding error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correction {
    /// Row of the value in the features.
    pub row: u32,
    /// Column of the value in the features.
    pub column: u32,
    /// Exact value minus the f32 that is stored.
    pub residual: f64,
}

/// Corrections of the features of a data set, ordered by row and column. Clones share the memory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Corrections(Option<Arc<[Correction]>>);

impl Corrections {
    /// Empty set of corrections, which means that all stored values are exact.
    pub const NONE: Self = Self(None);

    /// Creates corrections from entries in any order. There must be at most one entry per value.
    #[must_use]
    pub fn new(mut entries: Vec<Correction>) -> Self {
        let place = |entry: &Correction| (entry.row, entry.column);
        if !entries.is_sorted_by_key(place) {
            entries.sort_unstable_by_key(place);
        }
        Self((!entries.is_empty()).then(|| entries.into()))
    }

    /// Returns true if there are no corrections.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns all corrections, ordered by row and column.
    #[must_use]
    pub fn entries(&self) -> &[Correction] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns the corrections of the row `row`, ordered by column.
    #[must_use]
    pub fn of_row(&self, row: u32) -> &[Correction] {
        let all = self.entries();
        let from = all.partition_point(|entry| entry.row < row);
        let rest = &all[from..];
        &rest[..rest.partition_point(|entry| entry.row == row)]
    }

    /// Returns the corrections after the rows have been reordered. `new_of_old[row]` is the new
    /// index of the row `row`.
    #[must_use]
    pub fn permuted(&self, new_of_old: &[u32]) -> Self {
        let moved =
            |entry: &Correction| new_of_old.get(entry.row as usize).map(|&row| Correction { row, ..*entry });
        Self::new(self.entries().iter().filter_map(moved).collect())
    }

    /// Returns the corrections of the given columns. The columns are renumbered in the order of
    /// `columns`.
    #[must_use]
    pub fn selected(&self, columns: &[u32]) -> Self {
        let moved = |entry: &Correction| {
            let column = columns.iter().position(|&column| column == entry.column)? as u32;
            Some(Correction { column, ..*entry })
        };
        Self::new(self.entries().iter().filter_map(moved).collect())
    }

    /// Checks that every correction is finite, and belongs to a value of `rows` rows of `columns`
    /// columns. No value may have two corrections. Error messages contain `file`.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if a correction is invalid.
    pub fn validate(&self, rows: usize, columns: u32, file: &str) -> Result<()> {
        let all = self.entries();
        let ascending = all.is_sorted_by(|a, b| (a.row, a.column) < (b.row, b.column));
        let inside = |entry: &Correction| {
            (entry.row as usize) < rows && entry.column < columns && entry.residual.is_finite()
        };
        match ascending && all.iter().all(inside) {
            true => Ok(()),
            false => Err(Error::malformed(
                Place::whole(file),
                format!("finite corrections of {rows} rows of {columns} features, each once"),
                "others",
            )),
        }
    }
}

/// Running statistics of the values in a feature column.
#[derive(Debug, Clone, Copy)]
struct Column {
    count: u64,
    sum: f64,
    squares: f64,
    least: f64,
    most: f64,
}

impl Default for Column {
    fn default() -> Self {
        Self { count: 0, sum: 0.0, squares: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY }
    }
}

impl Column {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// Returns the largest correction of the column that does not change its scaled values. The
    /// column has `rows` rows, of which those that were not added count as zeros. If the mean is
    /// large, the difference of sums is inexact, but its error is far below the corrections.
    fn negligible(&self, rows: u64) -> f64 {
        let count = self.count.max(rows).max(1) as f64;
        let mean = self.sum / count;
        let constant = self.least == self.most && self.count as f64 == count;
        match constant {
            true => f64::INFINITY,
            false => NEGLIGIBLE * (self.squares / count - mean * mean).max(0.0).sqrt(),
        }
    }
}

/// Statistics of all feature columns of which values were added.
#[derive(Debug, Default)]
struct Columns {
    /// Statistics of the columns below [`LISTED_COLUMNS`], by column.
    first: Vec<Column>,
    others: HashMap<u32, Column>,
}

impl Columns {
    fn get(&self, column: u32) -> Column {
        let found = match column < LISTED_COLUMNS {
            true => self.first.get(column as usize),
            false => self.others.get(&column),
        };
        found.copied().unwrap_or_default()
    }

    fn get_mut(&mut self, column: u32) -> &mut Column {
        if column >= LISTED_COLUMNS {
            return self.others.entry(column).or_default();
        }
        let at = column as usize;
        if at >= self.first.len() {
            self.first.resize(at + 1, Column::default());
        }
        &mut self.first[at]
    }
}

/// Collector of the corrections of features, which a reader fills in any order of rows.
///
/// A correction is recorded if it is above 2^-20 of the column's standard deviation so far. It is
/// dropped at the end if it is not above that fraction of the final deviation. Corrections of whole
/// numbers are never dropped. Memory is charged to the memory budget of reading. If the budget is
/// not sufficient, all corrections are dropped with a warning.
#[derive(Debug)]
pub struct Collector {
    file: String,
    columns: Columns,
    /// True if values that are not added are zeros, as in sparse rows.
    sparse: bool,
    rows: u64,
    /// Corrections of whole numbers, which are always kept.
    whole: Vec<Correction>,
    /// Corrections that may turn out to be negligible.
    others: Vec<Correction>,
    charge: Charge,
    exceeded: bool,
}

impl Collector {
    /// Creates a collector for dense rows. Warnings contain the name `file`.
    #[must_use]
    pub fn dense(file: &str) -> Self {
        Self::new(file, false)
    }

    /// Creates a collector for sparse rows, of which only values other than zero are added.
    /// Warnings contain the name `file`.
    #[must_use]
    pub fn sparse(file: &str) -> Self {
        Self::new(file, true)
    }

    fn new(file: &str, sparse: bool) -> Self {
        Self {
            file: file.to_owned(),
            columns: Columns::default(),
            sparse,
            rows: 0,
            whole: Vec::new(),
            others: Vec::new(),
            charge: Charge::default(),
            exceeded: false,
        }
    }

    /// Adds the value at `row` and `column`, and records its correction if that matters. Returns
    /// the value as f32.
    pub fn push(&mut self, row: u32, column: u32, number: Number) -> f32 {
        self.rows = self.rows.max(u64::from(row) + 1);
        let rows = if self.sparse { self.rows } else { 0 };
        let of = self.columns.get_mut(column);
        of.add(number.value());
        if number.residual != 0.0 {
            // The deviation of a column that is constant so far is not yet known.
            let limit = of.negligible(rows);
            let entry = Correction { row, column, residual: number.residual };
            if number.is_rounded_whole() {
                self.record(entry, true);
            } else if limit.is_infinite() || number.residual.abs() > limit {
                self.record(entry, false);
            }
        }
        number.rounded
    }

    fn record(&mut self, entry: Correction, whole: bool) {
        if self.exceeded {
            return;
        }
        let held = self.whole.len() + self.others.len();
        let list = if whole { &mut self.whole } else { &mut self.others };
        if list.len() == list.capacity() {
            let more = CHARGED_ENTRIES.max(list.len() / 2);
            // [`Collector::finish`] copies all entries once, so twice the memory is charged.
            let bytes = (held + more).saturating_mul(2 * size_of::<Correction>());
            if self.charge.grow_to(bytes as u64).is_err() {
                (self.exceeded, self.charge) = (true, Charge::default());
                (self.whole, self.others) = (Vec::new(), Vec::new());
                return;
            }
            list.reserve_exact(more);
        }
        list.push(entry);
    }

    /// Returns the corrections that are not negligible for their column.
    #[must_use]
    pub fn finish(self) -> Corrections {
        let Self { file, columns, sparse, rows, mut whole, others, charge, exceeded } = self;
        if exceeded {
            eciton_input::notes::warn(format!(
                "{file}: features are rounded to f32 before they are scaled, because the memory for reading \
                 does not suffice for their exact values; raise it with --input-memory"
            ));
            return Corrections::NONE;
        }
        let rows = if sparse { rows } else { 0 };
        let mut limits: BTreeMap<u32, f64> = BTreeMap::new();
        whole.extend(others.into_iter().filter(|entry| {
            let limit =
                limits.entry(entry.column).or_insert_with(|| columns.get(entry.column).negligible(rows));
            entry.residual.abs() > *limit
        }));
        charge.keep();
        Corrections::new(whole)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn numbers_are_rounded_as_f32_is_parsed_and_keep_the_rest() {
        let number = |field| Number::parse(field).unwrap();
        assert_eq!(number("1700000029"), Number { rounded: 1_700_000_000.0, residual: 29.0 });
        assert_eq!(number("0.5"), Number { rounded: 0.5, residual: 0.0 });
        let stamp = number("1700000000123456789");
        assert_eq!(stamp.rounded as i128 + stamp.residual as i128, 1_700_000_000_123_456_789);
        assert_eq!(number("-9223372036854775808").residual, 0.0);
        assert!(number("inf").rounded.is_infinite() && number("nan").rounded.is_nan());
        assert_eq!(Number::parse("1e39").unwrap().residual, 0.0);
        assert!(Number::parse("x").is_none() && Number::parse("").is_none());
        assert!(number("16777217").is_rounded_whole() && !number("16777216").is_rounded_whole());
        assert!(!number("0.1").is_rounded_whole());

        let seed = 20_261_127;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let check = |text: &str| {
            let expected: f32 = text.parse().unwrap();
            assert_eq!(Number::parse(text).unwrap().rounded.to_bits(), expected.to_bits(), "{text}");
        };
        for _ in 0..20_000 {
            let value = f32::from_bits(random.next_u64() as u32);
            if value.is_finite() {
                let above = f32::from_bits(value.to_bits().wrapping_add(1));
                // Half-way between two f32, and a little beside it.
                let middle = (f64::from(value) + f64::from(above)) / 2.0;
                check(&format!("{middle:e}"));
                check(&format!("{:.60}", middle.clamp(-1e20, 1e20)));
                check(&format!("{:.60}1", middle.clamp(-1e20, 1e20)));
                check(&format!("{value:e}"));
            }
        }
    }

    #[test]
    fn columns_around_their_mean_have_no_corrections() {
        let mut collector = Collector::dense("x");
        let mut random = SplitMix64::new(3);
        for row in 0..1000 {
            let noise = random.next_u64() as f64 / u64::MAX as f64;
            collector.push(row, 0, noise.into());
            collector.push(row, 1, (5.0 - noise).into());
            collector.push(row, 2, 0.1.into());
            collector.push(row, 3, (1e9 + noise).into());
        }
        let found = collector.finish();
        assert!(found.entries().iter().all(|entry| entry.column == 3), "{:?}", &found.entries()[..4]);
        assert!(found.entries().len() > 990);
        assert_eq!((found.of_row(7).len(), found.of_row(7)[0].column, found.of_row(1000).len()), (1, 3, 0));
    }

    #[test]
    fn whole_numbers_are_kept_whatever_their_deviation() {
        let mut collector = Collector::dense("x");
        for (row, value) in (0..).zip([0i64, 0, 0, 16_777_217, 0, 1 << 40]) {
            collector.push(row, 0, value.into());
        }
        let found = collector.finish();
        assert_eq!(found.entries(), [Correction { row: 3, column: 0, residual: 1.0 }]);
    }

    #[test]
    fn rows_in_any_order_and_permutations() {
        let mut collector = Collector::sparse("x");
        for row in [2, 0, 1] {
            collector.push(row, 70_000, (1_700_000_000i64 + i64::from(row)).into());
        }
        let found = collector.finish();
        assert_eq!(
            found.entries().iter().map(|e| (e.row, e.residual)).collect::<Vec<_>>(),
            [(1, 1.0), (2, 2.0)]
        );
        let moved = found.permuted(&[1, 2, 0]);
        assert_eq!(
            moved.entries().iter().map(|e| (e.row, e.residual)).collect::<Vec<_>>(),
            [(0, 2.0), (2, 1.0)]
        );
        assert!(found.validate(3, 70_001, "x").is_ok());
        assert!(found.validate(2, 70_001, "x").is_err() && found.validate(3, 70_000, "x").is_err());
    }
}

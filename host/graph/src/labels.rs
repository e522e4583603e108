//! Labels of vertices, which a model learns to predict. They are classes, flags or numbers.

use crate::error::{Error, Place, Result};

/// Maximum number of classes of a data set.
pub const MAX_CLASSES: u32 = 1 << 20;

/// Class index that marks a vertex without a label.
pub const NO_LABEL: u32 = u32::MAX;

/// Maximum number of label columns in [`Values`].
pub const MAX_LABEL_COLUMNS: u32 = 1 << 16;

/// Maximum number of label values in a data set of many graphs, which is vertices times label
/// columns. The label of a graph is stored at one of its vertices, but every vertex takes space.
pub const MAX_GRAPH_VALUES: u64 = 1 << 31;

/// Names of the two classes if the labels in the file are -1 and 1 (see [`Labels::from_signs`]).
pub const SIGN_CLASSES: [&str; 2] = ["-1", "1"];

/// Labels of vertices, which a model learns to predict.
#[derive(Debug, Clone, PartialEq)]
pub enum Labels {
    /// One class per vertex, for classification.
    Classes {
        /// Class of each vertex, which is below `count`, or [`NO_LABEL`].
        of: Vec<u32>,
        /// Number of classes, including those without a vertex.
        count: u32,
    },
    /// Several flags per vertex, for multi-label classification. A flag is 1 if it is true, 0 if it
    /// is false, and NaN if it is unknown.
    Flags(Values),
    /// One or more numbers per vertex, for regression. NaN marks an unknown value.
    Numbers(Values),
}

/// Label values of all vertices, row by row. Each value is a finite number, or NaN if it is
/// unknown.
#[derive(Debug, Clone)]
pub struct Values {
    columns: u32,
    /// Values of all rows, row by row. Every NaN has the bits of [`f32::NAN`].
    values: Vec<f32>,
}

impl PartialEq for Values {
    /// Compares the bits of the values, so that two unknown values are equal.
    fn eq(&self, other: &Self) -> bool {
        let bits = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits();
        self.columns == other.columns
            && self.values.len() == other.values.len()
            && self.values.iter().zip(&other.values).all(bits)
    }
}

impl Values {
    /// Creates label values with `columns` values per vertex (1 to [`MAX_LABEL_COLUMNS`]), given
    /// row by row.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the number of columns is invalid or the last row is
    /// incomplete, and with the row if a value is infinite.
    pub fn new(columns: u32, values: Vec<f32>) -> Result<Self> {
        Self::named(columns, values, "labels")
    }

    /// Creates label values like [`Values::new`]. Error messages contain the name `file`.
    ///
    /// # Errors
    /// Returns the errors of [`Values::new`].
    pub fn named(columns: u32, mut values: Vec<f32>, file: &str) -> Result<Self> {
        let wrong = |place, expected: String, found: String, remedy| {
            Err(Error::Malformed { place, expected, found, remedy })
        };
        if !(1..=MAX_LABEL_COLUMNS).contains(&columns) {
            let expected = format!("1 to {MAX_LABEL_COLUMNS} columns of labels");
            let remedy = "select the columns that are to be predicted";
            return wrong(Place::whole(file), expected, columns.to_string(), remedy);
        }
        let width = columns as usize;
        if !values.len().is_multiple_of(width) {
            let expected = format!("rows of {columns} labels");
            let found = format!("{} values", values.len());
            return wrong(Place::whole(file), expected, found, "give each vertex a complete row");
        }
        for (at, value) in values.iter_mut().enumerate() {
            if value.is_infinite() {
                let found = format!("{value} in column {}", at % width);
                let remedy = "replace the value, or mark it as unknown with NaN or an empty field";
                let place = Place::row(file, (at / width) as u64);
                return wrong(place, "a finite label, or none".to_owned(), found, remedy);
            }
            if value.is_nan() {
                *value = f32::NAN;
            }
        }
        Ok(Self { columns, values })
    }

    /// Creates label values that are known to be finite. There must be at least one column and only
    /// complete rows.
    pub(crate) fn of_finite(columns: u32, values: Vec<f32>) -> Self {
        debug_assert!(columns > 0 && values.iter().all(|value| value.is_finite()));
        Self { columns, values }
    }

    /// Returns the number of label values per vertex.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Returns the number of rows, which is the number of vertices.
    pub fn rows(&self) -> usize {
        self.values.len() / self.columns as usize
    }

    /// Returns the label values of the vertex `row`, one per column.
    ///
    /// # Panics
    /// Panics if the row does not exist.
    pub fn row(&self, row: usize) -> &[f32] {
        let width = self.columns as usize;
        &self.values[row * width..(row + 1) * width]
    }

    /// Returns the values of all vertices, row by row.
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// Returns the first value for which `passes` returns false, preceded by its row and column.
    fn find(&self, passes: impl Fn(f32) -> bool) -> Option<(u64, usize, f32)> {
        let at = self.values.iter().position(|&value| !passes(value))?;
        let width = self.columns as usize;
        Some(((at / width) as u64, at % width, self.values[at]))
    }

    /// Returns the rows with the indices `order`, in this order.
    pub(crate) fn reordered(&self, order: &[u32]) -> Self {
        let mut values = Vec::with_capacity(order.len() * self.columns as usize);
        for &row in order {
            values.extend_from_slice(self.row(row as usize));
        }
        Self { columns: self.columns, values }
    }
}

/// Returns true if a value can be a flag, which is 0, 1 or NaN.
fn is_flag(value: f32) -> bool {
    value == 0.0 || value == 1.0 || value.is_nan()
}

impl Labels {
    /// Creates labels with one class per vertex. Each value of `of` is below `count` or is
    /// [`NO_LABEL`].
    pub fn classes(of: Vec<u32>, count: u32) -> Self {
        Self::Classes { of, count }
    }

    /// Creates labels for `vertices` vertices, none of which has a class.
    pub fn none(vertices: u32) -> Self {
        Self::classes(vec![NO_LABEL; vertices as usize], 0)
    }

    /// Creates two classes from whole numbers that are all -1 or 1, with at least one of each.
    /// Class 0 stands for -1 and class 1 for 1, and their names are [`SIGN_CLASSES`]. A row that is
    /// `None` has no label. Returns `None` for other numbers, because -1 then means that a row has
    /// no label.
    #[must_use]
    pub fn from_signs(numbers: impl Iterator<Item = Option<i64>> + Clone) -> Option<Self> {
        let (mut negative, mut positive) = (false, false);
        for number in numbers.clone().flatten() {
            match number {
                -1 => negative = true,
                1 => positive = true,
                _ => return None,
            }
        }
        let class = |number: Option<i64>| number.map_or(NO_LABEL, |number| u32::from(number == 1));
        (negative && positive).then(|| Self::classes(numbers.map(class).collect(), 2))
    }

    /// Creates flags if every value is 0, 1 or unknown, and numbers otherwise.
    pub fn of_values(values: Values) -> Self {
        match values.find(is_flag) {
            None => Self::Flags(values),
            Some(_) => Self::Numbers(values),
        }
    }

    /// Returns the number of scores that a model computes per vertex. It is the number of classes
    /// or of label columns.
    pub fn width(&self) -> u32 {
        match self {
            Self::Classes { count, .. } => *count,
            Self::Flags(values) | Self::Numbers(values) => values.columns(),
        }
    }

    /// Returns the number of rows, which is the number of vertices.
    pub fn rows(&self) -> usize {
        match self {
            Self::Classes { of, .. } => of.len(),
            Self::Flags(values) | Self::Numbers(values) => values.rows(),
        }
    }

    /// Returns true if a vertex has a class, or at least one value that is not NaN. Returns false
    /// for a vertex that does not exist.
    pub fn known(&self, vertex: usize) -> bool {
        match self {
            Self::Classes { of, .. } => of.get(vertex).is_some_and(|&label| label != NO_LABEL),
            Self::Flags(values) | Self::Numbers(values) => {
                vertex < values.rows() && values.row(vertex).iter().any(|value| !value.is_nan())
            }
        }
    }

    /// Returns the class of each vertex, which is [`NO_LABEL`] for a vertex without a label.
    /// Returns `None` if labels are flags or numbers.
    pub fn as_classes(&self) -> Option<&[u32]> {
        match self {
            Self::Classes { of, .. } => Some(of),
            _ => None,
        }
    }

    /// Returns the flags or numbers, or `None` if labels are classes.
    pub fn as_values(&self) -> Option<&Values> {
        match self {
            Self::Classes { .. } => None,
            Self::Flags(values) | Self::Numbers(values) => Some(values),
        }
    }

    /// Converts the labels to one class per vertex. A single column of flags becomes two classes,
    /// of which class 1 means that the flag is true. A single column of whole numbers from 0
    /// becomes classes with these numbers. Error messages contain the name `place`.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] for several columns, or with the row for a number that is not a
    /// class.
    pub fn into_classes(self, place: &str) -> Result<Self> {
        let (values, least) = match self {
            Self::Classes { .. } => return Ok(self),
            Self::Flags(values) => (values, 2),
            Self::Numbers(values) => (values, 0),
        };
        if values.columns() != 1 {
            return Err(Error::Malformed {
                place: Place::whole(place),
                expected: "one column, for classes".to_owned(),
                found: format!("{} columns", values.columns()),
                remedy: "predict several labels or numbers, or select one column",
            });
        }
        let is_class = |v: f32| v.is_nan() || (v.fract() == 0.0 && (0.0..MAX_CLASSES as f32).contains(&v));
        if let Some((row, _, value)) = values.find(is_class) {
            return Err(Error::Malformed {
                place: Place::row(place, row),
                expected: format!("a class, which is a whole number from 0 and below {MAX_CLASSES}"),
                found: value.to_string(),
                remedy: "predict the column as numbers, or correct the value",
            });
        }
        let class = |&value: &f32| if value.is_nan() { NO_LABEL } else { value as u32 };
        let of: Vec<u32> = values.values.iter().map(class).collect();
        let count = of.iter().filter(|&&c| c != NO_LABEL).max().map_or(0, |&c| c + 1).max(least);
        Ok(Self::classes(of, count))
    }

    /// Converts the labels to flags. Two classes become one column that is 1 for class 1. Numbers
    /// must all be 0 or 1. Error messages contain the name `place`.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the row of a class or number that is not a flag.
    pub fn into_flags(self, place: &str) -> Result<Self> {
        match self {
            Self::Classes { of, count } if count > 2 => {
                let row = of.iter().position(|&class| class >= 2 && class != NO_LABEL);
                Err(Error::Malformed {
                    place: row.map_or(Place::whole(place), |row| Place::row(place, row as u64)),
                    expected: "at most two classes, for a flag".to_owned(),
                    found: match row {
                        Some(row) => format!("class {} of {count}", of[row]),
                        None => format!("{count} classes"),
                    },
                    remedy: "predict classes, or write one column of 0 and 1 for each class",
                })
            }
            Self::Classes { .. } => Ok(Self::Flags(self.column())),
            Self::Flags(_) => Ok(self),
            Self::Numbers(values) => match values.find(is_flag) {
                None => Ok(Self::Flags(values)),
                Some((row, column, value)) => Err(Error::Malformed {
                    place: Place::row(place, row),
                    expected: "0, 1 or an empty field in each column, for flags".to_owned(),
                    found: format!("{value} in column {column}"),
                    remedy: "predict numbers, or correct the value",
                }),
            },
        }
    }

    /// Converts the labels to numbers. Flags become 0 and 1. Classes become one column of class
    /// indices.
    pub fn into_numbers(self) -> Self {
        match self {
            Self::Classes { .. } => Self::Numbers(self.column()),
            Self::Flags(values) | Self::Numbers(values) => Self::Numbers(values),
        }
    }

    /// Returns classes as one column of class indices. Flags and numbers are returned unchanged.
    fn column(self) -> Values {
        match self {
            Self::Classes { of, .. } => {
                let number = |&class: &u32| if class == NO_LABEL { f32::NAN } else { class as f32 };
                Values { columns: 1, values: of.iter().map(number).collect() }
            }
            Self::Flags(values) | Self::Numbers(values) => values,
        }
    }

    /// Checks that classes are below their count and that flags are 0 or 1. Error messages contain
    /// the name `file`.
    pub(crate) fn validate(&self, file: &str) -> Result<()> {
        match self {
            Self::Classes { of, count } => match of.iter().position(|l| l >= count && *l != NO_LABEL) {
                Some(row) => Err(Error::LabelRange {
                    place: Place::row(file, row as u64),
                    label: i64::from(of[row]),
                    classes: u64::from(*count),
                }),
                None => Ok(()),
            },
            Self::Flags(values) => match values.find(is_flag) {
                Some((row, column, value)) => Err(Error::Malformed {
                    place: Place::row(file, row),
                    expected: "flags: 0, 1 or NaN for unknown".to_owned(),
                    found: format!("{value} in column {column}"),
                    remedy: "correct the value, or store the labels as numbers",
                }),
                None => Ok(()),
            },
            Self::Numbers(_) => Ok(()),
        }
    }

    /// Assigns the labels of graphs to the vertices that represent them. Row r goes to the vertex
    /// `at[r]`, and the result has labels for `vertices` vertices. All other vertices have no
    /// label. Error messages contain the name `file`.
    ///
    /// # Errors
    /// Returns [`Error::Limit`] if there are more than [`MAX_GRAPH_VALUES`] values.
    pub fn at_vertices(&self, at: &[u32], vertices: u32, file: &str) -> Result<Self> {
        let spread = |values: &Values| {
            let width = values.columns as usize;
            let found = u64::from(vertices) * u64::from(values.columns);
            if found > MAX_GRAPH_VALUES {
                return Err(Error::Limit {
                    place: Place::whole(file),
                    limit: "vertices times labels of a graph",
                    unit: "values",
                    allowed: MAX_GRAPH_VALUES,
                    found,
                    remedy: "select fewer label columns, or divide the data set",
                });
            }
            let mut all = vec![f32::NAN; found as usize];
            for (row, &vertex) in at.iter().enumerate() {
                all[vertex as usize * width..][..width].copy_from_slice(values.row(row));
            }
            Ok(Values { columns: values.columns, values: all })
        };
        Ok(match self {
            Self::Classes { of, count } => {
                let mut all = vec![NO_LABEL; vertices as usize];
                at.iter().zip(of).for_each(|(&vertex, &class)| all[vertex as usize] = class);
                Self::classes(all, *count)
            }
            Self::Flags(values) => Self::Flags(spread(values)?),
            Self::Numbers(values) => Self::Numbers(spread(values)?),
        })
    }

    /// Returns the labels of the vertices `order`, in this order.
    #[must_use]
    pub fn reordered(&self, order: &[u32]) -> Self {
        match self {
            Self::Classes { of, count } => {
                Self::classes(order.iter().map(|&v| of[v as usize]).collect(), *count)
            }
            Self::Flags(values) => Self::Flags(values.reordered(order)),
            Self::Numbers(values) => Self::Numbers(values.reordered(order)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NAN: f32 = f32::NAN;

    fn values(columns: u32, values: &[f32]) -> Values {
        Values::new(columns, values.to_vec()).unwrap()
    }

    #[test]
    fn rows_and_what_is_known() {
        let some = values(2, &[1.0, NAN, NAN, NAN, 0.0, 1.0]);
        assert_eq!((some.columns(), some.rows(), some.row(2)), (2, 3, &[0.0, 1.0][..]));
        // Any NaN is the same unknown.
        let other = f32::from_bits(0xffc0_0001);
        assert_eq!(some, values(2, &[1.0, other, other, NAN, 0.0, 1.0]));
        assert_ne!(some, values(3, some.as_slice()));
        assert_ne!(some, values(2, &[1.0, NAN, NAN, NAN, 0.0, 0.0]));
        for labels in [Labels::Flags(some.clone()), Labels::Numbers(some)] {
            assert_eq!((labels.width(), labels.rows()), (2, 3));
            assert_eq!([0, 1, 2, 3].map(|v| labels.known(v)), [true, false, true, false]);
            assert!(labels.as_classes().is_none() && labels.as_values().is_some());
        }
        let classes = Labels::classes(vec![4, NO_LABEL], 5);
        assert_eq!((classes.width(), classes.rows()), (5, 2));
        assert_eq!([0, 1, 2].map(|v| classes.known(v)), [true, false, false]);
        assert!(classes.as_values().is_none());
        assert_eq!(Labels::none(2), Labels::classes(vec![NO_LABEL; 2], 0));
        assert_eq!(values(1, &[]).rows(), 0);
    }

    #[test]
    fn other_shapes_and_infinities_are_refused() {
        let said = |columns, of: &[f32]| Values::new(columns, of.to_vec()).unwrap_err().to_string();
        for columns in [0, MAX_LABEL_COLUMNS + 1] {
            let text = said(columns, &[]);
            assert!(text.contains("1 to 65536 columns of labels, found"), "{text}");
        }
        assert!(said(2, &[1.0]).contains("rows of 2 labels, found 1 values"));
        let text = said(2, &[1.0, 2.0, 3.0, f32::NEG_INFINITY]);
        assert!(text.contains("labels, row 1: expected a finite label, or none, found -inf in column 1"));
        assert!(Values::new(MAX_LABEL_COLUMNS, vec![]).is_ok());
    }

    #[test]
    fn meanings_turn_into_each_other() {
        let two = Labels::classes(vec![0, 1, NO_LABEL], 2);
        let column = values(1, &[0.0, 1.0, NAN]);
        assert_eq!(two.clone().into_flags("a").unwrap(), Labels::Flags(column.clone()));
        assert_eq!(two.clone().into_numbers(), Labels::Numbers(column.clone()));
        assert_eq!(two.clone().into_classes("a").unwrap(), two);
        for labels in [Labels::Flags(column.clone()), Labels::Numbers(column.clone())] {
            assert_eq!(labels.clone().into_classes("a").unwrap(), two);
            assert_eq!(labels.clone().into_flags("a").unwrap(), Labels::Flags(column.clone()));
            assert_eq!(labels.into_numbers(), Labels::Numbers(column.clone()));
        }
        let nothing = Labels::Flags(values(1, &[NAN, NAN]));
        assert_eq!(Labels::none(2).into_flags("a").unwrap(), nothing);
        assert_eq!(nothing.into_classes("a").unwrap(), Labels::classes(vec![NO_LABEL; 2], 2));
        let ages = Labels::Numbers(values(1, &[3.0, NAN, 0.0]));
        assert_eq!(ages.clone().into_classes("a").unwrap(), Labels::classes(vec![3, NO_LABEL, 0], 4));
        let text = ages.into_flags("ages.csv").unwrap_err().to_string();
        assert!(text.contains("ages.csv, row 0: expected 0, 1 or an empty field in each column"), "{text}");
    }

    #[test]
    fn what_has_no_other_meaning_says_so() {
        let several = Labels::Flags(values(2, &[0.0, 1.0]));
        let text = several.into_classes("a.csv").unwrap_err().to_string();
        assert!(text.contains("a.csv: expected one column, for classes, found 2 columns"));
        for (value, found) in [(0.5, "0.5"), (-1.0, "-1"), (MAX_CLASSES as f32, "1048576")] {
            let text = Labels::Numbers(values(1, &[NAN, value])).into_classes("a").unwrap_err().to_string();
            assert!(text.contains("a, row 1: expected a class") && text.contains(found), "{text}");
        }
        let text = Labels::classes(vec![NO_LABEL, 1, 2], 3).into_flags("a").unwrap_err().to_string();
        assert!(text.contains("a, row 2: expected at most two classes") && text.contains("class 2 of 3"));
        let text = Labels::classes(vec![0], 9).into_flags("a").unwrap_err().to_string();
        assert!(text.contains("a: expected at most two classes") && text.contains("found 9 classes"));
    }

    #[test]
    fn faults_are_found() {
        Labels::Flags(values(2, &[0.0, NAN, 1.0, 1.0])).validate("a").unwrap();
        let text = Labels::Flags(values(2, &[0.0, NAN, 1.0, 2.0])).validate("a").unwrap_err().to_string();
        assert!(text.contains("a, row 1: expected flags") && text.contains("2 in column 1"), "{text}");
        let text = Labels::classes(vec![0, 2], 2).validate("a").unwrap_err().to_string();
        assert!(text.contains("a, row 1: label 2, but classes are 0..2"), "{text}");
    }
}

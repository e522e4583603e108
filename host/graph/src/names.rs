//! Names of a data set's classes and columns, as its files give them.
//!
//! A list is empty where the files give none, and numbers are the names then. Else it has a name a
//! class or column.
//!
//! ```
//! use eciton_graph::names::{Names, column};
//! let names = Names { labels: vec!["ant".to_owned(), "wasp".to_owned()], ..Names::default() };
//! assert_eq!((names.label(1), names.label(7)), ("wasp".to_owned(), "7".to_owned()));
//! assert_eq!(column(&names.labels, "wasp"), Some(1));
//! ```

use crate::error::{Error, Place, Result};
use crate::features::Features;

/// Names of classes, labels, features and features of edges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Names of classes; of several labels or numbers those of their columns.
    pub labels: Vec<String>,
    /// Names of the columns of features.
    pub features: Vec<String>,
    /// Names of the columns of features of edges.
    pub edge_features: Vec<String>,
    /// Names of the label columns: of classes the one column that holds them. Empty if the files
    /// give none.
    pub target: Vec<String>,
    /// The way in which the split was drawn, or its name in the files; empty where the files have
    /// one without a name.
    pub split: String,
}

/// The split of labelled rows whose files have none.
pub const DRAWN: &str = "60 / 20 / 20 % of the labelled rows, drawn from seed 0";

impl Names {
    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
            && self.features.is_empty()
            && self.edge_features.is_empty()
            && self.target.is_empty()
            && self.split.is_empty()
    }

    /// Name of a class or of a column of labels; its number where it has none.
    #[must_use]
    pub fn label(&self, at: usize) -> String {
        self.labels.get(at).cloned().unwrap_or_else(|| at.to_string())
    }

    /// Names of all `count` classes or columns of labels.
    #[must_use]
    pub fn all_labels(&self, count: usize) -> Vec<String> {
        (0..count).map(|at| self.label(at)).collect()
    }

    /// Clears each list that does not have a name for each class or column.
    pub(crate) fn fit(&mut self, labels: u32, features: &Features, edge_features: u32) {
        let fit = |names: &mut Vec<String>, count: u32| {
            if names.len() != count as usize {
                names.clear();
            }
        };
        fit(&mut self.labels, labels);
        fit(&mut self.features, features.columns());
        fit(&mut self.edge_features, edge_features);
    }

    /// Checks that each list of names of `data_set` is empty or has a name for each class or column.
    /// `counts` are the numbers of classes or label columns, of features and of edge features. Any
    /// number of names is valid for a count of 0, since files may name classes that no vertex has.
    pub(crate) fn check(&self, data_set: &str, counts: [u32; 3]) -> Result<()> {
        let all = [
            ("names of labels", &self.labels),
            ("names of features", &self.features),
            ("names of edge features", &self.edge_features),
        ];
        for ((what, names), count) in all.into_iter().zip(counts) {
            if !names.is_empty() && count > 0 && names.len() != count as usize {
                return Err(Error::Mismatch {
                    place: Place::whole(format!("{data_set} {what}")),
                    what: "names",
                    found: names.len() as u64,
                    expected: u64::from(count),
                    other: "the data set".to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// Place of a name among others: as it is written, else whatever its case; `None` where no name
/// fits or two do.
#[must_use]
pub fn column(names: &[String], wanted: &str) -> Option<u32> {
    let find = |same: &dyn Fn(&str) -> bool| {
        let mut found = (0u32..).zip(names).filter(|(_, name)| same(name));
        found.next().filter(|_| found.next().is_none()).map(|(at, _)| at)
    };
    find(&|name| name == wanted).or_else(|| find(&|name| name.eq_ignore_ascii_case(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_one_name() {
        let names = ["Km", "km", "Lanes"].map(str::to_owned);
        assert_eq!([column(&names, "km"), column(&names, "Km")], [Some(1), Some(0)]);
        assert_eq!([column(&names, "KM"), column(&names, "lanes")], [None, Some(2)]);
        assert_eq!(column(&["a".to_owned(), "a".to_owned()], "a"), None);
    }
}

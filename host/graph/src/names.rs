//! Names of the classes and columns of a data set, which come from its files.
//!
//! A list is empty if the files contain no names. Messages then show numbers. Otherwise the list
//! has one name per class or column.
//!
//! ```
//! use eciton_graph::names::{Names, column};
//! let names = Names { labels: vec!["ant".to_owned(), "wasp".to_owned()], ..Names::default() };
//! assert_eq!((names.label(1), names.label(7)), ("wasp".to_owned(), "7".to_owned()));
//! assert_eq!(column(&names.labels, "wasp"), Some(1));
//! ```

use crate::error::{Error, Place, Result};
use crate::features::Features;

/// Names of the classes, label columns, feature columns and edge feature columns of a data set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// Names of the classes. If labels are flags or numbers, names of the label columns.
    pub labels: Vec<String>,
    /// Names of the feature columns.
    pub features: Vec<String>,
    /// Names of the edge feature columns.
    pub edge_features: Vec<String>,
    /// Names of the label columns. For classes, it is the name of the only column that contains
    /// them. Empty if the files contain no names.
    pub target: Vec<String>,
    /// Description of how the split was drawn, or the split's name in the files. Empty if the files
    /// contain a split without a name.
    pub split: String,
}

/// Description of the split that is drawn for a data set without one.
pub const DRAWN: &str = "60 / 20 / 20 % of the labelled rows, drawn from seed 0";

impl Names {
    /// Returns true if no list contains a name and the split has no description.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
            && self.features.is_empty()
            && self.edge_features.is_empty()
            && self.target.is_empty()
            && self.split.is_empty()
    }

    /// Returns the name of the class or label column with the index `at`. Returns the index as text
    /// if there is no name.
    #[must_use]
    pub fn label(&self, at: usize) -> String {
        self.labels.get(at).cloned().unwrap_or_else(|| at.to_string())
    }

    /// Returns the names of all `count` classes or label columns.
    #[must_use]
    pub fn all_labels(&self, count: usize) -> Vec<String> {
        (0..count).map(|at| self.label(at)).collect()
    }

    /// Clears each list of names whose length differs from the number of classes or columns.
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

    /// Checks that each list of names is empty or has one name per class or column. `counts` are
    /// the numbers of classes or label columns, of features and of edge features. A count of 0
    /// allows any number of names, because files may name classes that no vertex has.
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

/// Returns the index of the name `wanted` in a list. If there is no exact match, upper and lower
/// case are not distinguished. Returns `None` if no name or several names match.
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

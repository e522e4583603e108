//! Generated tabular data, which has rows without a graph. The class of a row can be learned from
//! its values.

use super::keyed::{Purpose, fill_normal, stream};
use super::{MAX_FEATURES, real, whole};
use crate::adjacency::{Graph, Options};
use crate::dataset::Dataset;
use crate::error::Result;
use crate::features::Features;
use crate::labels::Labels;
use crate::split::Split;

/// Length of the hidden vector of a user or an item.
const HIDDEN: usize = 8;
/// Maximum number of rows in a generated table.
const MAX_ROWS: u64 = 1 << 26;
/// Maximum number of users or items. Up to this limit, f32 represents each id exactly.
const MAX_IDS: u64 = 1 << 24;

/// Specification of rows whose class is the index of the largest of several linear scores.
#[derive(Debug, Clone, Copy)]
pub struct LinearRows {
    /// Number of rows of the table.
    pub rows: u64,
    /// Number of feature columns.
    pub features: u32,
    /// Number of classes.
    pub classes: u32,
    /// Random seed of all rows.
    pub seed: u64,
}

/// Specification of rows that consist of a user, an item and further numbers. Their class is
/// binary.
#[derive(Debug, Clone, Copy)]
pub struct TowerRows {
    /// Number of rows of the table.
    pub rows: u64,
    /// Number of distinct users.
    pub users: u64,
    /// Number of distinct items.
    pub items: u64,
    /// Number of further feature columns.
    pub numbers: u32,
    /// Standard deviation of the noise in the score that determines the class.
    pub noise: f64,
    /// Random seed of all rows.
    pub seed: u64,
}

fn dot(left: &[f32], right: &[f32]) -> f32 {
    left.iter().zip(right).map(|(a, b)| a * b).sum()
}

fn dataset(name: &str, columns: u32, values: &[f32], labels: Labels, seed: u64) -> Result<Dataset> {
    let rows = labels.rows() as u64;
    let split = Split::random(&labels, [0.6, 0.2], seed);
    Dataset::new(
        name.to_owned(),
        Graph::from_edges(rows, std::iter::empty(), Options::default())?,
        Features::dense(columns, values)?,
        labels,
        split,
    )
    .checked()
}

impl LinearRows {
    /// Generates the data set as dense rows without edges.
    ///
    /// # Errors
    /// Returns [`crate::error::Error::Parameter`] if a parameter is outside its limits.
    pub fn dataset(&self, name: &str) -> Result<Dataset> {
        let &Self { rows, features, classes, seed } = self;
        whole("rows", rows, 3, MAX_ROWS)?;
        whole("features", features.into(), 1, MAX_FEATURES.into())?;
        whole("classes", classes.into(), 2, 1 << 16)?;
        let columns = features as usize;
        let mut weights = vec![0.0; columns * classes as usize];
        for (class, column) in (0..).zip(weights.chunks_exact_mut(columns)) {
            fill_normal(stream(seed, Purpose::Mean, class), column);
        }
        let mut values = vec![0.0; rows as usize * columns];
        let mut labels = Vec::with_capacity(rows as usize);
        for (row, x) in (0..).zip(values.chunks_exact_mut(columns)) {
            fill_normal(stream(seed, Purpose::Noise, row), x);
            let scores: Vec<f32> = weights.chunks_exact(columns).map(|column| dot(x, column)).collect();
            labels.push(crate::metrics::best(&scores).unwrap_or(0) as u32);
        }
        dataset(name, features, &values, Labels::classes(labels, classes), seed)
    }
}

impl TowerRows {
    /// Generates the data set as dense rows without edges. Its columns are the user, the item and
    /// the further numbers.
    ///
    /// # Errors
    /// Returns [`crate::error::Error::Parameter`] if a parameter is outside its limits.
    pub fn dataset(&self, name: &str) -> Result<Dataset> {
        let &Self { rows, users, items, numbers, noise, seed } = self;
        whole("rows", rows, 3, MAX_ROWS)?;
        whole("users", users, 1, MAX_IDS)?;
        whole("items", items, 1, MAX_IDS)?;
        whole("numbers", numbers.into(), 1, u64::from(MAX_FEATURES) - 2)?;
        real("noise", noise, 0.0, 100.0)?;
        let (length, columns) = (numbers as usize, numbers as usize + 2);
        let mut weights = vec![0.0; length];
        fill_normal(stream(seed, Purpose::Mean, 0), &mut weights);
        // Streams of users have even positions, streams of items odd ones.
        let vector = |id: u64, of: u64| {
            let mut vector = [0.0; HIDDEN];
            fill_normal(stream(seed, Purpose::Target, 2 * id + of), &mut vector);
            vector
        };
        let mut values = vec![0.0; rows as usize * columns];
        let mut labels = Vec::with_capacity(rows as usize);
        let mut own = vec![0.0; length + 1];
        for (row, x) in (0..).zip(values.chunks_exact_mut(columns)) {
            let mut ids = stream(seed, Purpose::Kinds, row);
            let (user, item) = (ids.below(users), ids.below(items));
            fill_normal(stream(seed, Purpose::Noise, row), &mut own);
            let (known, unknown) = own.split_at(length);
            let score = dot(&vector(user, 0), &vector(item, 1)) / (HIDDEN as f32).sqrt()
                + dot(known, &weights) / (length as f32).sqrt()
                + unknown.first().map_or(0.0, |value| value * noise as f32);
            (x[0], x[1]) = (user as f32, item as f32);
            x[2..].copy_from_slice(known);
            labels.push(u32::from(score > 0.0));
        }
        dataset(name, numbers + 2, &values, Labels::classes(labels, 2), seed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn classes_follow_from_rows_and_are_about_as_frequent() {
        let made = LinearRows { rows: 2000, features: 20, classes: 4, seed: 3 };
        let (data, again) = (made.dataset("a").unwrap(), made.dataset("a").unwrap());
        assert!(data.labels == again.labels);
        let classes = data.labels.as_classes().unwrap();
        assert!((0..4).all(|class| classes.iter().filter(|&&found| found == class).count() > 150));
        let towers = TowerRows { rows: 3000, users: 50, items: 20, numbers: 4, noise: 0.1, seed: 3 };
        let data = towers.dataset("a").unwrap();
        let ones = data.labels.as_classes().unwrap().iter().filter(|&&class| class == 1).count();
        assert!((1000..2000).contains(&ones), "{ones}");
        let mut row = [0.0; 6];
        for at in 0..3000 {
            data.features.copy_row(at, &mut row);
            assert!(row[0] < 50.0 && row[1] < 20.0 && row[0].fract() == 0.0);
        }
        assert!(LinearRows { rows: 2, ..made }.dataset("a").is_err());
    }
}

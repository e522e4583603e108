//! Splits of the vertices into training, validation and test sets. A split always consists of
//! vertex ids, and never of chunks.

mod draw;

use crate::error::{Error, Place, Result};
use crate::graphs::Graphs;
use crate::labels::Labels;
use crate::random::{NumpyRandomState, SplitMix64};

pub use crate::labels::NO_LABEL;
pub use draw::Draw;

/// Split of the vertices into three disjoint lists of vertex ids, each in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Split {
    /// Ids of the vertices whose labels are used for training.
    pub train: Vec<u32>,
    /// Ids of the vertices for validation, on which models are compared.
    pub validation: Vec<u32>,
    /// Ids of the vertices for test, on which final metrics are reported.
    pub test: Vec<u32>,
}

impl Split {
    /// Draws `per_class_train` training and `per_class_validation` validation vertices of each
    /// class, with [`SplitMix64`]. `labels` has the class of each vertex or [`NO_LABEL`]. All other
    /// labelled vertices are for test. A class with no more vertices than both numbers together
    /// goes to the test set completely.
    pub fn stratified(
        labels: &[u32],
        per_class_train: usize,
        per_class_validation: usize,
        seed: u64,
    ) -> Self {
        let mut random = SplitMix64::new(seed);
        Self::by_class(labels, per_class_train, per_class_validation, |v| random.shuffle(v))
    }

    /// Draws a split like [`Split::stratified`] with NumPy's legacy generator. The result equals
    /// that of Python code of the form `RandomState(seed).permutation(np.where(y == k)[0])`, one
    /// class after the other.
    pub fn stratified_numpy(
        labels: &[u32],
        per_class_train: usize,
        per_class_validation: usize,
        seed: u32,
    ) -> Self {
        let mut random = NumpyRandomState::new(seed);
        Self::by_class(labels, per_class_train, per_class_validation, |v| random.shuffle(v))
    }

    fn by_class(
        labels: &[u32],
        train: usize,
        validation: usize,
        mut shuffle: impl FnMut(&mut [u32]),
    ) -> Self {
        let mut order: Vec<u32> =
            (0..labels.len() as u32).filter(|&v| labels[v as usize] != NO_LABEL).collect();
        // The sort is stable, so ids ascend within a class.
        order.sort_by_key(|&v| labels[v as usize]);
        let mut split = Self::default();
        for class in order.chunk_by_mut(|&a, &b| labels[a as usize] == labels[b as usize]) {
            shuffle(class);
            let chosen = train.saturating_add(validation);
            if class.len() > chosen {
                split.train.extend(&class[..train]);
                split.validation.extend(&class[train..chosen]);
                split.test.extend(&class[chosen..]);
            } else {
                split.test.extend(&*class);
            }
        }
        split.sorted()
    }

    /// Draws a split of the labelled vertices with [`SplitMix64`]. `fractions` are the fractions
    /// for training and for validation, and the rest is for test. Fractions outside 0..=1 are
    /// clamped.
    pub fn random(labels: &Labels, fractions: [f64; 2], seed: u64) -> Self {
        Self::random_among(labelled(labels), fractions, seed)
    }

    /// Draws a split of the vertices `order` like [`Split::random`]. They must be in ascending
    /// order.
    pub(crate) fn random_among(mut order: Vec<u32>, fractions: [f64; 2], seed: u64) -> Self {
        SplitMix64::new(seed).shuffle(&mut order);
        Self::cut(&order, fractions)
    }

    /// Draws a split like [`Split::random`] with NumPy's legacy generator. It applies
    /// `RandomState(seed).permutation(n)` to the labelled vertices.
    pub fn random_numpy(labels: &Labels, fractions: [f64; 2], seed: u32) -> Self {
        let mut order = labelled(labels);
        NumpyRandomState::new(seed).shuffle(&mut order);
        Self::cut(&order, fractions)
    }

    fn cut(order: &[u32], [train, validation]: [f64; 2]) -> Self {
        // Casts saturate, and NaN becomes 0.
        let at = |share: f64| ((order.len() as f64 * share) as usize).min(order.len());
        let first = at(train);
        let second = at(train + validation).max(first);
        Self {
            train: order[..first].to_vec(),
            validation: order[first..second].to_vec(),
            test: order[second..].to_vec(),
        }
        .sorted()
    }

    /// Returns the rows over which statistics of features are computed. They are the training rows.
    /// In a data set of many graphs, they are all vertices of training graphs. Without training
    /// rows, as in link prediction, all `rows` rows are returned.
    #[must_use]
    pub fn training_rows(&self, graphs: Option<&Graphs>, rows: usize) -> Vec<u32> {
        match graphs {
            _ if self.train.is_empty() => (0..rows as u32).collect(),
            None => self.train.clone(),
            Some(graphs) => {
                let of = graphs.standing_of_vertices();
                let trains: std::collections::BTreeSet<u32> =
                    self.train.iter().filter_map(|&vertex| of.get(vertex as usize).copied()).collect();
                (0u32..)
                    .zip(of)
                    .filter(|(_, graph)| trains.contains(graph))
                    .map(|(vertex, _)| vertex)
                    .collect()
            }
        }
    }

    /// Returns the split with each of its lists in ascending order.
    pub fn sorted(mut self) -> Self {
        for part in [&mut self.train, &mut self.validation, &mut self.test] {
            part.sort_unstable();
        }
        self
    }

    /// Returns the three lists of vertex ids with their names, for instance `train`.
    pub fn parts(&self) -> [(&'static str, &[u32]); 3] {
        [("train", &self.train), ("validation", &self.validation), ("test", &self.test)]
    }

    /// Checks that every vertex exists, has a label and occurs only once in all three lists.
    /// `labels` has one row per vertex. Error messages contain the name `file`.
    ///
    /// # Errors
    /// Returns [`Error::SplitVertex`] for a vertex that does not exist or has no label, and
    /// [`Error::SplitOverlap`] for a vertex that occurs twice.
    pub fn validate(&self, labels: &Labels, file: &str) -> Result<()> {
        let mut owner: Vec<u8> = vec![u8::MAX; labels.rows()];
        let names = ["train", "validation", "test"];
        for (at, (part, vertices)) in self.parts().into_iter().enumerate() {
            for (position, &vertex) in vertices.iter().enumerate() {
                let place = Place::row(file, position as u64);
                let problem = match owner.get_mut(vertex as usize) {
                    None => "which does not exist",
                    Some(_) if !labels.known(vertex as usize) => "which has no label",
                    Some(slot) => {
                        if let Some(first) = names.get(usize::from(*slot)) {
                            return Err(Error::SplitOverlap { place, vertex, first, second: part });
                        }
                        *slot = at as u8;
                        continue;
                    }
                };
                return Err(Error::SplitVertex { place, part, vertex: vertex.to_string(), problem });
            }
        }
        Ok(())
    }
}

fn labelled(labels: &Labels) -> Vec<u32> {
    (0..labels.rows() as u32).filter(|&v| labels.known(v as usize)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn labels() -> Labels {
        Labels::classes((0..300).map(|v| if v % 10 == 9 { NO_LABEL } else { v % 3 }).collect(), 3)
    }

    #[test]
    fn stratified_takes_from_every_class() {
        let known = labels();
        let labels = known.as_classes().unwrap();
        let split = Split::stratified(labels, 20, 30, 5);
        split.validate(&known, "split").unwrap();
        assert_eq!((split.train.len(), split.validation.len()), (60, 90));
        assert_eq!(split.test.len(), 270 - 150);
        for class in 0..3 {
            assert_eq!(split.train.iter().filter(|&&v| labels[v as usize] == class).count(), 20);
        }
        assert_eq!(split, Split::stratified(labels, 20, 30, 5));
        assert_ne!(split, Split::stratified(labels, 20, 30, 6));
        let whole = Split::stratified(labels, 80, 30, 5);
        assert_eq!((whole.train.len(), whole.test.len()), (0, 270));
        Split::stratified(labels, usize::MAX, 3, 5).validate(&known, "split").unwrap();
    }

    #[test]
    fn random_takes_fractions_of_the_labelled() {
        let labels = labels();
        let split = Split::random(&labels, [0.6, 0.2], 1);
        split.validate(&labels, "split").unwrap();
        assert_eq!((split.train.len(), split.validation.len(), split.test.len()), (162, 54, 54));
        let odd = Split::random(&labels, [f64::NAN, 7.0], 1);
        odd.validate(&labels, "split").unwrap();
    }

    #[test]
    fn faults_are_named() {
        let labels = Labels::classes(vec![0, 1, NO_LABEL, 1], 2);
        let split = |train: &[u32], test: &[u32]| {
            Split { train: train.to_vec(), test: test.to_vec(), ..Split::default() }
                .validate(&labels, "split.csv")
                .unwrap_err()
                .to_string()
        };
        let text = split(&[0, 1], &[3, 1]);
        assert!(text.contains("vertex 1 is in the train and in the test split"), "{text}");
        assert!(split(&[0, 0], &[]).contains("in the train and in the train"));
        assert!(split(&[4], &[]).contains("vertex 4, which does not exist"));
        assert!(split(&[], &[2]).contains("vertex 2, which has no label"));
    }
}

//! Fingerprint of the data set that a run reads. It prevents a run from resuming with other data.
//!
//! The fingerprint covers the sizes of the data set, all labels, and samples of the graph and the
//! features. Up to 2^16 evenly spaced values are sampled of each array, so it is fast to compute
//! even for a billion edges. A change of the graph or the features is detected only if it changes a
//! sampled value. Of a store with parts, the fingerprint covers the checksums of all arrays.

use eciton_graph::dataset::Labels;
use eciton_tensor::Matrix;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::data::Inputs;
use crate::edge_data::KnownEdges;
use crate::error::{Result, at};

/// Maximum number of values that are sampled from one array.
const PLACES: usize = 1 << 16;

/// Fingerprint of a data set, consisting of its sizes and a digest of its labels, its split and
/// samples of its other data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub vertices: u32,
    pub edges: u64,
    pub features: u32,
    pub classes: u32,
    /// SHA-256 of the labels, the split and the samples, in hexadecimal.
    pub sha256: String,
}

/// Returns at most [`PLACES`] evenly spaced indices below `count`. The first is 0.
fn places(count: usize) -> impl Iterator<Item = usize> {
    (0..count).step_by(count.div_ceil(PLACES).max(1))
}

impl Fingerprint {
    /// Computes the fingerprint of a data set before its features are gathered.
    pub(crate) fn compute(inputs: &Inputs) -> Result<Self> {
        let dataset = &inputs.dataset;
        let mut hasher = Sha256::new();
        let split = &dataset.split;
        let mut all = |count: usize, numbers: &mut dyn Iterator<Item = u32>| {
            hasher.update((count as u64).to_le_bytes());
            let mut piece = Vec::with_capacity(1 << 14);
            for number in numbers {
                piece.extend(number.to_le_bytes());
                if piece.len() == 1 << 14 {
                    hasher.update(&piece);
                    piece.clear();
                }
            }
            hasher.update(&piece);
        };
        if let Some((_, split)) = inputs.of_read_out.as_ref().filter(|_| dataset.graphs.is_none()) {
            // The data digest has the labels and ends of edges. Their split may follow from settings.
            for ids in [&split.train, &split.validation, &split.test] {
                all(ids.len(), &mut ids.iter().copied());
            }
        }
        match &dataset.labels {
            Labels::Classes { of, .. } => all(of.len(), &mut of.iter().copied()),
            Labels::Flags(values) | Labels::Numbers(values) => {
                let values = values.as_slice();
                all(values.len(), &mut values.iter().map(|value| value.to_bits()));
            }
        }
        for ids in [&split.train, &split.validation, &split.test] {
            all(ids.len(), &mut ids.iter().copied());
        }
        if let Some(graphs) = &dataset.graphs {
            all(graphs.standing_of_vertices().len(), &mut graphs.standing_of_vertices().iter().copied());
        }
        if let Some(digest) = inputs.schema.data.as_ref().filter(|_| !dataset.parts.is_empty()) {
            // A host may have read only its own rows, and a store with parts has all checksums.
            hasher.update(digest.all.as_bytes());
            return Ok(Self::new(inputs, hasher));
        }
        let (offsets, neighbours) = (dataset.graph.offsets(), dataset.graph.neighbours());
        places(offsets.len()).for_each(|place| hasher.update(offsets[place].to_le_bytes()));
        places(neighbours.len()).for_each(|place| hasher.update(neighbours[place].to_le_bytes()));
        match &inputs.features {
            Matrix::Sparse(sparse) => {
                hasher.update((sparse.data.stored() as u64).to_le_bytes());
                for row in places(inputs.features.rows()) {
                    let (columns, values) = sparse.data.row(row);
                    if let (Some(column), Some(value)) = (columns.last(), values.last()) {
                        hasher.update(column.to_le_bytes());
                        hasher.update(value.to_le_bytes());
                    }
                }
            }
            Matrix::Dense(dense) => {
                let held = dense.hold(None).map_err(at("features"))?;
                let view = held.view();
                for row in places(view.rows()) {
                    // Each row samples another column, so that all columns are covered.
                    let value = view.row(row).get(row % view.columns().max(1));
                    hasher.update(value.copied().unwrap_or_default().to_le_bytes());
                }
            }
        }
        let edges = &inputs.edges;
        let weights = edges.weights.as_ref().map(|weights| &weights.along(false)[..]);
        for known in [weights, edges.features.as_ref().map(KnownEdges::values)].into_iter().flatten() {
            places(known.len()).for_each(|place| hasher.update(known[place].to_le_bytes()));
        }
        Ok(Self::new(inputs, hasher))
    }

    fn new(inputs: &Inputs, hasher: Sha256) -> Self {
        Self {
            vertices: inputs.shape.rows,
            edges: inputs.dataset.edges(),
            features: inputs.shape.features,
            classes: inputs.shape.classes,
            sha256: hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    /// Returns the differences between this data set and the data set `now`, as sentences for the
    /// user. `parts` are such sentences from a comparison of exact digests. If it is `None`, the
    /// digests of the two fingerprints are compared.
    pub(super) fn differences(&self, now: &Self, parts: Option<Vec<String>>) -> Vec<String> {
        let pairs = [
            ("vertices", u64::from(self.vertices), u64::from(now.vertices)),
            ("edges", self.edges, now.edges),
            ("features", u64::from(self.features), u64::from(now.features)),
            ("classes", u64::from(self.classes), u64::from(now.classes)),
        ];
        let mut found: Vec<String> = pairs
            .iter()
            .filter(|(_, then, now)| then != now)
            .map(|(what, then, now)| format!("the data had {then} {what} and now has {now}"))
            .collect();
        match parts {
            Some(parts) => found.extend(parts),
            None if found.is_empty() && self.sha256 != now.sha256 => {
                found.push("the data has the same size, but different content".to_owned());
            }
            None => {}
        }
        found
    }
}

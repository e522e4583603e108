//! Changes of Eciton that give some models another `model_digest`.
//!
//! A checkpoint records the number of changes that existed when it was written. A run that resumes
//! from it reports the later changes, because its results may differ from those of an uninterrupted
//! run of the earlier version.

/// Descriptions of all changes since Eciton 0.1.0 that affect results, oldest first. Each of them
/// is also in CHANGELOG.md.
pub(crate) const CHANGES: [&str; 7] = [
    "edges: weights of repeated edges are added, entries of weight 0 are not edges, and data.self_loops \
     applies to self-loops",
    "scaling: with data.normalise_features = \"columns\", means and standard deviations are computed in f64",
    "leaky-relu: the default slope is 0.01, but a run of version 0.1.0 continues with 0.2",
    "batches: gradients of tabular data are summed in a tree of up to 512 leaves of at least 8 rows",
    "norms: moments of norm = \"batch\" and \"pair\" are merged from blocks of rows, and evaluations with \
     norm = \"batch\" use running moments",
    "empty rounds: a batch without a training row is no update of the weights",
    "sums over rows: those of layer norm, RMS norm and lengths, and of the squared gradients of \
     optimiser.clip_norm, are added in 16 lanes; gradients of self-attention are added by blocks of 32 tokens",
];

/// Returns the changes that were made after a checkpoint was written. `known` is the number of
/// changes that existed then.
pub(crate) fn crossed(known: usize) -> &'static [&'static str] {
    CHANGES.get(known..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_crosses_the_changes_that_its_writer_did_not_know() {
        assert_eq!(crossed(0), CHANGES);
        assert!(crossed(CHANGES.len()).is_empty() && crossed(usize::MAX).is_empty());
    }
}

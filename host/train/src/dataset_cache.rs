//! Cache of the most recently read data set, for consecutive runs of one process on the same data.

use std::sync::{Mutex, PoisonError};

use eciton_graph::dataset::Dataset;
use eciton_recipe::{Config, Data};
use eciton_runs::provenance::DataDigest;

use crate::data::{self, checked};
use crate::error::Result;

/// Cache of the most recently read data set, before any preparation. Runs share its graph and
/// features, but have their own normalisation, split and row order.
#[derive(Debug, Default)]
pub struct Published {
    last: Mutex<Option<(Data, Dataset)>>,
    /// Digests of prepared data sets, with the settings that determine each preparation.
    digests: Mutex<Vec<(Prepared, DataDigest)>>,
}

/// Settings that determine the preparation of a data set: those of `[data]`, and `run.init`.
type Prepared = (Data, Option<String>);

/// Maximum number of cached digests. Each fold of a cross-validation needs its own.
const MAX_DIGESTS: usize = 64;

/// Returns the cache key of a data set. It has the settings that [`data::open`] reads, and defaults
/// for all others.
fn key(data: &Data) -> Data {
    let Data { source, name, sequence, tokens, self_loops, .. } = data.clone();
    Data { source, name, sequence, tokens, self_loops, ..Data::default() }
}

impl Published {
    /// Returns the data set of these settings. Reads it unless it is the cached one. If several
    /// threads call this at once, one reads and the others wait.
    ///
    /// # Errors
    /// Returns the errors of [`data::open`]. Errors are not cached, so the next call tries again.
    pub(crate) fn dataset(&self, data: &Data) -> Result<Dataset> {
        let key = key(data);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, dataset)) = last.as_ref().filter(|(known, _)| *known == key) {
            return Ok(dataset.clone());
        }
        // Releases the cached data set first, so that two are never in memory.
        *last = None;
        let dataset = data::open(data)?;
        *last = Some((key, dataset.clone()));
        Ok(dataset)
    }

    /// Returns the digests of the data set that a run with this configuration trains on.
    ///
    /// # Errors
    /// Returns the errors of [`Published::dataset`], and an error if the settings do not suit the
    /// data set.
    pub(crate) fn digest(&self, config: &Config) -> Result<DataDigest> {
        let key = (config.data.clone(), config.run.init.clone());
        let locked = || self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, digest)) = locked().iter().find(|(known, _)| *known == key) {
            return Ok(digest.clone());
        }
        let digest = DataDigest::compute(&checked(config, self.dataset(&config.data)?)?);
        let mut digests = locked();
        if digests.len() == MAX_DIGESTS {
            digests.remove(0);
        }
        digests.push((key, digest.clone()));
        Ok(digest)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_data_set_is_read_once_and_another_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, edges: &str| {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
            std::fs::write(dir.path().join(name).join("edges.csv"), edges).unwrap();
        };
        write("a", "source,target\n0,1\n1,2\n");
        write("b", "source,target\n0,1\n");
        let of = |name: &str, split_seed| {
            let source = dir.path().join(name).display().to_string();
            Data { source, split_seed, ..Data::default() }
        };
        let published = Published::default();
        let first = published.dataset(&of("a", 0)).unwrap();
        // The files are not read again, for any split of their data.
        std::fs::remove_dir_all(dir.path().join("a")).unwrap();
        assert_eq!(published.dataset(&of("a", 1)).unwrap(), first);
        assert_eq!(published.dataset(&of("b", 0)).unwrap().graph.vertices(), 2);
        assert!(published.dataset(&of("a", 0)).is_err(), "it was let go of");
        assert!(published.dataset(&of("c", 0)).is_err());
    }
}

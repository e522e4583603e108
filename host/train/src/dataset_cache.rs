//! Cache of the data set that was read last. Runs of one process that name the same data share it.

use std::sync::{Mutex, PoisonError};

use eciton_graph::dataset::Dataset;
use eciton_recipe::{Config, Data};
use eciton_runs::provenance::DataDigest;

use crate::data::{self, checked};
use crate::error::Result;

/// The data set that was read last. Graph and features are shared with the runs that get it; what a run makes of
/// them (normalised features, a split, an order) is its own.
#[derive(Debug, Default)]
pub struct Published {
    last: Mutex<Option<(Data, Dataset)>>,
    /// Digests of prepared data sets, by all settings that prepare one.
    digests: Mutex<Vec<(Prepared, DataDigest)>>,
}

/// The settings that prepare a data set: its own, and the run or model that training begins from.
type Prepared = (Data, Option<String>);

/// Maximum number of digests that are remembered: the folds of a cross-validation have one each.
const MAX_DIGESTS: usize = 64;

/// The key of a data set that is read: all that [`data::open`] looks at.
fn key(data: &Data) -> Data {
    let Data { source, name, sequence, tokens, self_loops, .. } = data.clone();
    Data { source, name, sequence, tokens, self_loops, ..Data::default() }
}

impl Published {
    /// The data set of these settings, read unless it was the last one. Runs that ask at once wait for one reader.
    ///
    /// # Errors
    /// No data set, data that cannot be read; the next who asks tries again.
    pub(crate) fn of(&self, data: &Data) -> Result<Dataset> {
        let key = key(data);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, dataset)) = last.as_ref().filter(|(known, _)| *known == key) {
            return Ok(dataset.clone());
        }
        // Room for the next one.
        *last = None;
        let dataset = data::open(data)?;
        *last = Some((key, dataset.clone()));
        Ok(dataset)
    }

    /// Returns the digests of the data set that a run of these settings is trained on.
    ///
    /// # Errors
    /// As [`Published::of`]; a data set that the settings do not suit.
    pub(crate) fn digest(&self, config: &Config) -> Result<DataDigest> {
        let key = (config.data.clone(), config.run.init.clone());
        let locked = || self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, digest)) = locked().iter().find(|(known, _)| *known == key) {
            return Ok(digest.clone());
        }
        let digest = DataDigest::of(&checked(config, self.of(&config.data)?)?);
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
        let first = published.of(&of("a", 0)).unwrap();
        // The files are not looked at again, whatever split is drawn of them.
        std::fs::remove_dir_all(dir.path().join("a")).unwrap();
        assert_eq!(published.of(&of("a", 1)).unwrap(), first);
        assert_eq!(published.of(&of("b", 0)).unwrap().graph.vertices(), 2);
        assert!(published.of(&of("a", 0)).is_err(), "it was let go of");
        assert!(published.of(&of("c", 0)).is_err());
    }
}

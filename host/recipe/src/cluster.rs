//! Description of the machines of a pipeline, in section `[cluster]` of a recipe. Plans, runs and
//! simulations read the same description.

use serde::{Deserialize, Serialize};

use crate::document;
use crate::error::{Error, Result};

/// Section `[cluster]` of a recipe: the workers of a pipeline, and their links. Each list has one
/// value for all workers, or one value per worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cluster {
    /// Path of a file with this section. Its values are used for all keys that are not set
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Speed of each worker's processor, in percent of the machine that measured the profile. If
    /// empty, workers on this machine share its cores, and other workers are as fast as the
    /// measured machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub speed_percent: Vec<u32>,
    /// Memory of each worker process, in MiB. If empty, there is no limit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_mib: Vec<u32>,
    /// Bandwidth of each worker's link in each direction, in Mbit/s. If empty, workers are on this
    /// machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link_mbits: Vec<u32>,
    /// Bandwidth of the host's link in each direction, in Mbit/s. If `None`, it is the bandwidth of
    /// the fastest worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_link_mbits: Option<u32>,
    /// Time of a transfer in addition to its bytes divided by the bandwidth, in microseconds. If
    /// `None`, planners use a built-in value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_us: Option<u32>,
    /// Mean number of failures per worker and hour, by which plans choose a protection. If `None`,
    /// plans expect no failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures_per_hour: Option<f64>,
    /// Time until a failed worker is replaced, in seconds. If `None`, it is
    /// [`REPLACED_AFTER_S`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_after_s: Option<u32>,
    /// Price of a worker and hour, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_hour: Option<f64>,
    /// Price of a worker and hour that does not fail, in US dollars. If `None`, there are no such
    /// workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reliable_usd_hour: Option<f64>,
}

/// Default of [`Cluster::replaced_after_s`].
pub const REPLACED_AFTER_S: u32 = 300;

/// Bytes per second that correspond to 1 Mbit/s.
const MBIT: f64 = 1e6 / 8.0;

/// Returns the value of a list for worker `at`. A list with one value has it for all workers.
fn value<T: Copy>(list: &[T], at: usize) -> Option<T> {
    match list {
        [only] => Some(*only),
        _ => list.get(at).copied(),
    }
}

impl Cluster {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the speed of worker `at`, relative to the machine that measured the profile.
    #[must_use]
    pub fn speed(&self, at: usize) -> Option<f64> {
        value(&self.speed_percent, at).map(|percent| f64::from(percent) / 100.0)
    }

    /// Returns the memory of the process of worker `at`, in bytes. `None` means no limit.
    #[must_use]
    pub fn memory_bytes(&self, at: usize) -> Option<u64> {
        value(&self.memory_mib, at).map(|mib| u64::from(mib) << 20)
    }

    /// Returns the bandwidth of the link of worker `at`, in bytes per second and direction. `None`
    /// means that the worker is on this machine.
    #[must_use]
    pub fn link(&self, at: usize) -> Option<f64> {
        value(&self.link_mbits, at).map(|mbits| f64::from(mbits) * MBIT)
    }

    /// Returns the bandwidth of the host's link, in bytes per second and direction. `None` means
    /// that all workers are on the host's machine.
    #[must_use]
    pub fn host_link(&self) -> Option<f64> {
        let mbits = self.host_link_mbits.or_else(|| self.link_mbits.iter().max().copied());
        mbits.map(|mbits| f64::from(mbits) * MBIT)
    }

    /// Parses a file with the section `[cluster]`, such as `cluster.toml` of a run. `origin` is the
    /// path of the file for error messages.
    ///
    /// # Errors
    /// Returns the errors of a recipe, an error if the text has another section, and
    /// [`Error::Content`] if it names another file.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let fields = document::parse(text, origin)?;
        if let Some(field) = fields.0.iter().find(|field| field.name != "cluster") {
            return Err(field.refuse("only the section [cluster]".to_owned()));
        }
        let mut config = crate::Config::default();
        crate::keys::write_config(&mut config, &fields)?;
        match config.cluster.file {
            None => Ok(config.cluster),
            Some(other) => Err(Error::Content {
                what: "a description of a cluster",
                reason: format!("{origin} names another file, {other:?}: remove `file` and list its values"),
            }),
        }
    }

    /// Adds the values of a file for all keys that are not set.
    pub fn complete(&mut self, file: Self) {
        let lists = [
            (&mut self.speed_percent, file.speed_percent),
            (&mut self.memory_mib, file.memory_mib),
            (&mut self.link_mbits, file.link_mbits),
        ];
        for (own, other) in lists {
            if own.is_empty() {
                *own = other;
            }
        }
        self.host_link_mbits = self.host_link_mbits.or(file.host_link_mbits);
        self.transfer_us = self.transfer_us.or(file.transfer_us);
        self.failures_per_hour = self.failures_per_hour.or(file.failures_per_hour);
        self.replaced_after_s = self.replaced_after_s.or(file.replaced_after_s);
        self.usd_hour = self.usd_hour.or(file.usd_hour);
        self.reliable_usd_hour = self.reliable_usd_hour.or(file.reliable_usd_hour);
    }

    /// Checks that each list has one value, or one per worker.
    ///
    /// # Errors
    /// Returns [`Error::Together`] for a list of another length, for failures without a price, and
    /// for a description without lanes.
    pub fn check(&self, workers: u32) -> Result<()> {
        if workers == 0 && !self.is_default() {
            return Err(Error::Together {
                key: "cluster",
                found: "given".to_owned(),
                other: "lanes.count",
                other_found: "0".to_owned(),
                remedy: "set the number of lanes: lanes.count, or --lanes",
            });
        }
        if let Some(failures) = self.failures_per_hour.filter(|_| self.usd_hour.is_none()) {
            return Err(Error::Together {
                key: "cluster.failures_per_hour",
                found: failures.to_string(),
                other: "cluster.usd_hour",
                other_found: "not set".to_owned(),
                remedy: "set the price of a worker and hour: plans compare costs per row",
            });
        }
        let lists = [
            ("cluster.speed_percent", &self.speed_percent),
            ("cluster.memory_mib", &self.memory_mib),
            ("cluster.link_mbits", &self.link_mbits),
        ];
        match lists.into_iter().find(|(_, list)| list.len() > 1 && list.len() != workers as usize) {
            Some((key, list)) => Err(Error::Together {
                key,
                found: format!("{} values", list.len()),
                other: "lanes.count",
                other_found: workers.to_string(),
                remedy: "set one value for all workers, or one value per lane",
            }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_has_one_section_whose_values_fill_the_keys_that_are_not_set() {
        let text = "[cluster]\nmemory_mib = [200, 300]\nlink_mbits = 100\ntransfer_us = 900\n";
        let file = Cluster::parse(text, "cluster.toml").unwrap();
        assert_eq!((file.memory_bytes(1), file.memory_bytes(2)), (Some(300 << 20), None));
        assert_eq!((file.link(0), file.link(7), file.speed(0)), (Some(12.5e6), Some(12.5e6), None));
        assert_eq!(file.host_link(), Some(12.5e6));
        let mut own = Cluster { memory_mib: vec![64], host_link_mbits: Some(8), ..Cluster::default() };
        own.complete(file.clone());
        assert_eq!((&own.memory_mib, own.host_link(), own.transfer_us), (&vec![64], Some(1e6), Some(900)));
        assert_eq!(own.link_mbits, file.link_mbits);
        let refused = |text: &str| Cluster::parse(text, "cluster.toml").unwrap_err().to_string();
        assert!(refused("[run]\nepochs = 3\n").contains("only the section [cluster]"));
        assert!(refused("[cluster]\nmemory_mib = 0\n").contains("cluster.toml"));
        assert!(refused("[cluster]\nfile = \"other.toml\"\n").contains("other.toml"));
    }

    #[test]
    fn a_list_has_one_value_or_one_per_worker() {
        let of = |list: &[u32]| Cluster { link_mbits: list.to_vec(), ..Cluster::default() };
        assert!(of(&[]).check(4).is_ok() && of(&[1]).check(4).is_ok() && of(&[1; 4]).check(4).is_ok());
        let text = of(&[1; 3]).check(4).unwrap_err().to_string();
        assert!(text.contains("cluster.link_mbits") && text.contains("3 values"), "{text}");
    }
}

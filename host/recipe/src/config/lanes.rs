//! Checks of the lane and worker settings against the other sections.

use super::Config;
use crate::error::{Error, Result};
use crate::executor::FusionChoice;
use crate::lanes::Lanes;
use crate::pipeline::{Mode, WeightVersions};
use crate::workers::Workers;

impl Config {
    /// Checks that the lane settings are compatible with each other and with the other sections.
    pub(super) fn check_lanes(&self) -> Result<()> {
        self.lanes.check()?;
        let count = self.lanes.lanes.count;
        self.cluster.check(count)?;
        let refuse = |other, other_found: String, remedy| {
            let found = count.to_string();
            Err(Error::Together { key: "lanes.count", found, other, other_found, remedy })
        };
        match () {
            () if count == 0 => Ok(()),
            () if self.pipeline.mode != Mode::Pipe || self.pipeline.auto => {
                let found = self.pipeline.mode.name().to_owned();
                refuse(
                    "pipeline.mode",
                    found,
                    "set pipeline.mode = \"pipe\": lanes exchange rows of one round only",
                )
            }
            () if self.executor.fuse != FusionChoice::None => {
                let remedy = "remove executor.fuse: the layers of a lane are always one task";
                refuse("executor.fuse", "given".to_owned(), remedy)
            }
            () if self.executor.audit > 0.0 && !self.audits_lanes() => {
                let remedy = "remove executor.audit: the host can recompute the tasks of lanes only with \
                              workers.owner = \"host\" and one version of the weights";
                refuse("executor.audit", self.executor.audit.to_string(), remedy)
            }
            () if self.executor.kind.has_workers() => {
                let workers = self.workers.count;
                match workers == count {
                    true => Ok(()),
                    false => {
                        let remedy =
                            "set workers.count to the number of lanes: each lane runs on its own worker";
                        refuse("workers.count", workers.to_string(), remedy)
                    }
                }
            }
            () if !self.executor.kind.is_here() => {
                let found = self.executor.kind.name().to_owned();
                let remedy =
                    "set executor.kind = \"local\" or \"workers\": lanes run on threads or on workers";
                refuse("executor.kind", found, remedy)
            }
            () => Ok(()),
        }
    }

    /// Returns true if the host has all inputs of lane tasks, so that it can recompute these tasks
    /// for an audit.
    fn audits_lanes(&self) -> bool {
        !self.workers.own() && self.pipeline.weights() == WeightVersions::Latest
    }

    /// Checks the worker settings if workers run the tasks.
    pub(super) fn check_workers(&self) -> Result<()> {
        let together = |key, found: String, other, other_found: &str, remedy| {
            Err(Error::Together { key, found, other, other_found: other_found.to_owned(), remedy })
        };
        let Workers { count, listen, tokens, redundant, fail_at, .. } = &self.workers;
        match () {
            () if !self.executor.kind.has_workers() => Ok(()),
            () if *count == 0 => {
                let remedy = "set the number of workers: workers.count, or --workers";
                together("executor.kind", "\"workers\"".to_owned(), "workers.count", "0", remedy)
            }
            () if listen.is_some() && tokens.is_none() => {
                let remedy = "set the folder for the workers' tokens: workers.tokens";
                together("workers.listen", "given".to_owned(), "workers.tokens", "left out", remedy)
            }
            () if *redundant && self.lanes.lanes.count == 0 => {
                let remedy = "set the number of lanes: lanes.count, or --lanes";
                together("workers.redundant", "true".to_owned(), "lanes.count", "0", remedy)
            }
            () if !fail_at.is_empty() && listen.is_some() => {
                let remedy = "remove workers.fail_at: it applies only to workers that the run starts itself";
                together("workers.fail_at", "given".to_owned(), "workers.listen", "given", remedy)
            }
            () if self.workers.own() => self.check_owned(),
            () if self.workers.replicas.iter().any(|&count| count > 0) => {
                let remedy = "set workers.owner = \"worker\", or remove workers.replicas: the host already has all weights";
                together(
                    "workers.replicas",
                    format!("{:?}", self.workers.replicas),
                    "workers.owner",
                    "\"host\"",
                    remedy,
                )
            }
            () => Ok(()),
        }
    }

    /// Returns true if the workers of lanes store the sums of gradients until the weight update.
    /// The sums are sent to the host only in rounds that are audited.
    ///
    /// If the host owns the parameters, rounds must not overlap. The sums of a failed worker are
    /// then recomputed from the rows of the round.
    #[must_use]
    pub fn sums_stay(&self) -> bool {
        let one_version = self.pipeline.gradient_versions() == 1;
        self.has_worker_lanes() && (self.workers.own() || one_version)
    }

    /// Returns the lanes whose caps limit the row buffers to the micro-batches in flight. If lanes
    /// run on workers, the result has no lanes, so the buffers hold all micro-batches of a round.
    /// The reason is that a lane may exceed its cap after a failure, and steps may be repeated
    /// ([`Config::sums_stay`]).
    #[must_use]
    pub fn ring_lanes(&self) -> Lanes {
        if self.has_worker_lanes() { Lanes::default() } else { self.lanes.lanes }
    }

    /// Returns true if each lane (share of the pipeline) runs on its own worker.
    #[must_use]
    pub fn has_worker_lanes(&self) -> bool {
        self.executor.kind.has_workers() && self.lanes.lanes.count > 0
    }

    /// Returns true if the workers of lanes are on other machines: their links have a bandwidth, or
    /// they connect to an address that is not the loopback address.
    #[must_use]
    pub fn has_remote_workers(&self) -> bool {
        let local = |address: &str| ["127.", "localhost:", "[::1]:"].iter().any(|of| address.starts_with(of));
        let listens = self.workers.listen.as_deref().is_some_and(|address| !local(address));
        self.has_worker_lanes() && (listens || !self.cluster.link_mbits.is_empty())
    }

    /// Checks that `workers.owner = "worker"` is compatible with the other settings.
    fn check_owned(&self) -> Result<()> {
        let together = |other, other_found: &str, remedy| {
            let (key, found) = ("workers.owner", "\"worker\"".to_owned());
            Err(Error::Together { key, found, other, other_found: other_found.to_owned(), remedy })
        };
        let lanes = &self.lanes.lanes;
        match () {
            () if lanes.count == 0 => {
                together("lanes.count", "0", "set the number of lanes: lanes.count, or --lanes")
            }
            () if lanes.width > 1 && self.workers.replicas.iter().any(|&count| count > 0) => {
                let remedy = "remove workers.replicas: each replica of the pipeline has all weights";
                together("lanes.width", &lanes.width.to_string(), remedy)
            }
            () if self.workers.redundant => {
                let remedy = "remove workers.redundant: after a failure the run rolls back to a snapshot of the weights";
                together("workers.redundant", "true", remedy)
            }
            () if self.workers.replicas.len() > 1 && self.workers.replicas.len() != lanes.count as usize => {
                let remedy = "set workers.replicas to one number, or to a list with one number per lane";
                together("lanes.count", &lanes.count.to_string(), remedy)
            }
            () if self.run.keep.is_by_validation() => together(
                "run.keep",
                &format!("{:?}", self.run.keep.name()),
                "set run.keep = \"last\": snapshots have no earlier models",
            ),
            () => Ok(()),
        }
    }
}

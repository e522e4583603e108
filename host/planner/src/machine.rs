//! Inputs of a planner: the lanes with their links, and the allowed plans.

use crate::error::{Error, Result};
use eciton_recipe::Error as Refused;
use eciton_recipe::lanes::MAX_LANES;
use eciton_recipe::pipeline_schedule::PipelineSchedule;

/// Maximum number of steps of a prediction. The number is micro-batches x stages x
/// [`STEPS_A_PLACE`].
const MAX_STEPS: u64 = 1 << 24;
/// Number of predicted steps per micro-batch and stage. It is forward and backward, times the
/// number of rounds that are timed if there are many micro-batches.
const STEPS_A_PLACE: u64 = 10;

/// Properties of a lane, which is a worker's share of the pipeline and runs one step at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// Speed, relative to the times of the graph.
    pub pace: f64,
    /// Memory of the lane, in bytes. If `None`, there is no limit.
    pub memory: Option<f64>,
    /// Network bandwidth in each direction, in bytes per second. Both directions work at the same
    /// time.
    pub link: f64,
}

/// Host that owns the weights and the rows between lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Bandwidth in bytes per second that all lanes together have to the host. The host sends with
    /// the same bandwidth at the same time.
    pub link: f64,
    /// Memory of the host, in bytes. If `None`, there is no limit.
    pub memory: Option<f64>,
}

/// Machine that runs a pipeline: its lanes, and the owner of the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Lanes of the machine.
    pub lanes: Vec<Lane>,
    /// Host, if there is one. The host then owns the weights, and all rows between lanes pass
    /// through it (owner = host). Without a host, lanes own their weights, send rows to each other
    /// and add gradients in a ring (owner = lanes).
    pub host: Option<Host>,
    /// Time of a transfer in addition to its bytes divided by the bandwidth, in seconds.
    pub transfer: f64,
}

impl Machine {
    /// Returns a machine of `count` equal lanes, without a host.
    #[must_use]
    pub fn equal(count: u32, lane: Lane) -> Self {
        Self { lanes: vec![lane; count as usize], host: None, transfer: 0.0 }
    }

    fn check(&self) -> Result<()> {
        let (found, most) = (self.lanes.len() as u64, u64::from(MAX_LANES));
        if found > most {
            return Err(Error::from(Refused::TooMany { what: "lanes of a machine", found, most }));
        }
        let wrong = |reason: String| Err(Error::from(Refused::Content { what: "a machine", reason }));
        if self.lanes.is_empty() {
            return wrong("found no lane, expected at least one".to_owned());
        }
        for (at, lane) in self.lanes.iter().enumerate() {
            let figures = [("pace", lane.pace), ("link", lane.link), ("memory", lane.memory.unwrap_or(1.0))];
            if let Some((name, figure)) = figures.into_iter().find(|&(_, figure)| !is_above_zero(figure)) {
                return wrong(format!("lane {at} has a {name} of {figure}: set a number above 0"));
            }
        }
        if !(self.transfer.is_finite() && self.transfer >= 0.0) {
            return wrong(format!("a transfer takes {} s: set a number of at least 0", self.transfer));
        }
        let host = self.host.map_or([1.0, 1.0], |host| [host.link, host.memory.unwrap_or(1.0)]);
        match host.into_iter().find(|&figure| !is_above_zero(figure)) {
            Some(figure) => {
                wrong(format!("the host has a bandwidth or memory of {figure}: set a number above 0"))
            }
            None => Ok(()),
        }
    }
}

/// Shape of a pipeline: its rows, schedule, replicas, lanes and micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Number of rows per update (the batch).
    pub rows: u32,
    /// Schedule of the pipeline: the order of a lane's steps, and the weights that they read.
    pub schedule: PipelineSchedule,
    /// Number of replicas of the pipeline.
    pub width: u32,
    /// Number of lanes of each replica. Stage k is on lane k mod depth.
    pub depth: u32,
    /// Number of stages on each lane.
    pub chunks: u32,
    /// Number of micro-batches per update, over all replicas.
    pub micro: u32,
}

/// Constraints on a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Numbers of rows per update (batches) that the plan may have.
    pub rows: Vec<u32>,
    /// Schedules that the plan may have.
    pub schedules: Vec<PipelineSchedule>,
    /// Number of stages on each lane, in schedules that allow several. If `None`, it is the default
    /// of the order of steps.
    pub chunks: Option<u32>,
    /// Numbers of replicas that the plan may have.
    pub widths: Vec<u32>,
    /// Numbers of micro-batches per update that the plan may have, over all replicas. Those that
    /// are not a multiple of the number of replicas are not used.
    pub micro: Vec<u32>,
    /// True if a stage may stash only its inputs and repeat its forward step before its backward
    /// step (recomputation).
    pub recompute: bool,
    /// True if independent stages may run at the same time (GraphPipe). Otherwise each stage
    /// follows the previous one, as in plans for chains.
    pub parallel: bool,
    /// Number of copies of the weights that their owner stores in addition to the versions. They
    /// are the sum of gradients and the optimiser's moments (Adam: 3).
    pub copies: f64,
    /// Number of copies of its weights that a lane stores in addition to the versions if the host
    /// owns the weights. They are the sum of gradients, and copies in transit.
    pub lane_copies: f64,
    /// Work of the host's own thread, which hands out steps and updates the weights.
    pub work: HostWork,
}

/// Work of the host's thread, which hands out steps and updates the weights, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostWork {
    /// Time between the end of a step and the start of a step that depends on it, in seconds.
    pub step: f64,
    /// Time of an update, in seconds. The gradients of all micro-batches are summed, and the
    /// weights are updated.
    pub update: f64,
    /// Number of cores that lanes share with the host's thread. If 0, the thread has its own core.
    pub cores: u32,
    /// Bandwidth at which lanes receive the data that operators read, in bytes per second. The data
    /// of a micro-batch arrive during the backward step of the previous one. If `None`, the lanes
    /// already have the data.
    pub data: Option<f64>,
}

impl Wanted {
    /// Checks that plans with these constraints can exist for a machine.
    pub(super) fn check(&self, machine: &Machine, operators: usize) -> Result<()> {
        machine.check()?;
        let wrong = |reason: String| {
            Err(Error::from(Refused::Content { what: "a valid request for a plan", reason }))
        };
        if self.rows.is_empty() || self.rows.contains(&0) {
            return wrong(format!("found {:?} rows of an update: set at least 1", self.rows));
        }
        if self.schedules.is_empty() {
            return wrong("found no schedule to choose from: name at least one".to_owned());
        }
        let chunks = self.schedules.iter().map(|&schedule| self.chunks(schedule)).max().unwrap_or(1);
        if chunks as usize > operators {
            return wrong(format!(
                "lanes.chunks is {chunks}, but the model has {operators} operators: set lanes.chunks to at most \
                 {operators}, or use more layers"
            ));
        }
        let copies = [self.copies, self.lane_copies];
        if let Some(copies) = copies.into_iter().find(|copies| !(copies.is_finite() && *copies >= 0.0)) {
            return wrong(format!("found {copies} copies of the weights: set a number of at least 0"));
        }
        let times = [self.work.step, self.work.update];
        if let Some(time) = times.into_iter().find(|time| !(time.is_finite() && *time >= 0.0)) {
            return wrong(format!("found {time} seconds of the host's thread: set a number of at least 0"));
        }
        if let Some(link) = self.work.data.filter(|&link| !is_above_zero(link)) {
            return wrong(format!(
                "found a bandwidth of {link} bytes per second for the data: set a number above 0"
            ));
        }
        for Shape { depth, micro, .. } in self.shapes(machine) {
            let (what, stages) = ("steps of a prediction", u64::from(depth) * u64::from(chunks));
            let found = STEPS_A_PLACE * u64::from(micro) * stages;
            if found > MAX_STEPS {
                return Err(Error::from(Refused::TooMany { what, found, most: MAX_STEPS }));
            }
        }
        if self.shapes(machine).next().is_none() {
            return wrong(format!(
                "widths {:?} and {:?} micro-batches of {:?} rows on {} lanes: set a width of at most the number of \
                 lanes, and a number of micro-batches that is a multiple of the width and at most the number of rows",
                self.widths,
                self.micro,
                self.rows,
                machine.lanes.len()
            ));
        }
        Ok(())
    }

    /// Returns the number of stages on each lane in a schedule.
    fn chunks(&self, schedule: PipelineSchedule) -> u32 {
        let own = schedule.settings().0.default_chunks();
        self.chunks.filter(|_| own > 1).unwrap_or(own).max(1)
    }

    /// Returns the allowed shapes that are possible on a machine.
    pub(super) fn shapes(&self, machine: &Machine) -> impl Iterator<Item = Shape> {
        let lanes = machine.lanes.len() as u32;
        let widths = self.widths.iter().copied().filter(move |&width| 0 < width && width <= lanes);
        let pairs = widths.flat_map(move |width| self.rows.iter().map(move |&rows| (width, rows)));
        pairs.flat_map(move |(width, rows)| {
            let fits = move |&micro: &u32| micro > 0 && micro <= rows && micro.is_multiple_of(width);
            let micro = self.micro.iter().copied().filter(fits);
            micro.flat_map(move |micro| {
                let shape = move |&schedule: &PipelineSchedule| {
                    let chunks = self.chunks(schedule);
                    Shape { rows, schedule, width, depth: lanes / width, chunks, micro }
                };
                self.schedules.iter().map(shape)
            })
        })
    }
}

pub(super) fn is_above_zero(figure: f64) -> bool {
    figure.is_finite() && figure > 0.0
}

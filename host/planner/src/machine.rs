//! Inputs of a planner: the lanes with their links, and the allowed plans.

use crate::error::{Error, Result};
use eciton_recipe::Error as Refused;
use eciton_recipe::lanes::MAX_LANES;
use eciton_recipe::pipeline_schedule::PipelineSchedule;

/// Maximum number of steps of a prediction: micro-batches x stages x [`STEPS_A_PLACE`].
const MAX_STEPS: u64 = 1 << 24;
/// Steps per micro-batch and stage: forward and backward, in the number of rounds that are timed if
/// there are many micro-batches.
const STEPS_A_PLACE: u64 = 10;

/// Figures of a lane, which runs one step at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// Speed relative to the figures of the graph.
    pub pace: f64,
    /// Bytes that the lane may hold. If `None`, there is no limit.
    pub memory: Option<f64>,
    /// Bytes per second, in each direction at once.
    pub link: f64,
}

/// The host that owns weights and boundary rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Bytes per second that all lanes together send through the host. The host forwards the same
    /// number of bytes per second at once.
    pub link: f64,
    /// Bytes that the host may hold. If `None`, there is no limit.
    pub memory: Option<f64>,
}

/// The lanes, and the owner of the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Lanes of the machine.
    pub lanes: Vec<Lane>,
    /// The host, if there is one. It then owns the weights, and all rows between lanes pass through
    /// it (owner = host). Without a host, lanes own their weights, send rows to each other and add
    /// gradients in a ring (owner = lanes).
    pub host: Option<Host>,
}

impl Machine {
    /// Returns a machine of `count` equal lanes, without a host.
    #[must_use]
    pub fn equal(count: u32, lane: Lane) -> Self {
        Self { lanes: vec![lane; count as usize], host: None }
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
        let host = self.host.map_or([1.0, 1.0], |host| [host.link, host.memory.unwrap_or(1.0)]);
        match host.into_iter().find(|&figure| !is_above_zero(figure)) {
            Some(figure) => {
                wrong(format!("the host has a bandwidth or memory of {figure}: set a number above 0"))
            }
            None => Ok(()),
        }
    }
}

/// Schedule, lanes and micro-batches of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Schedule: the order of a lane's steps and the weights that they read.
    pub schedule: PipelineSchedule,
    /// Number of replicas.
    pub width: u32,
    /// Number of lanes of a replica. Stage k is on lane k mod depth.
    pub depth: u32,
    /// Number of stages of a lane.
    pub chunks: u32,
    /// Number of micro-batches of an update, of all replicas.
    pub micro: u32,
}

/// Constraints on a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Number of rows of an update.
    pub rows: u32,
    /// Allowed schedules.
    pub schedules: Vec<PipelineSchedule>,
    /// Number of runs of stages of a lane, in orders that have several. If `None`, it is the
    /// default of the order.
    pub chunks: Option<u32>,
    /// Allowed numbers of replicas.
    pub widths: Vec<u32>,
    /// Allowed numbers of micro-batches of an update, of all replicas together. They are multiples
    /// of the width.
    pub micro: Vec<u32>,
    /// True if a stage may stash only its inputs and repeat its forward step before its backward
    /// step.
    pub recompute: bool,
    /// True if independent stages may run at the same time (GraphPipe). Otherwise each stage
    /// follows the previous one, as in plans for chains.
    pub parallel: bool,
    /// Number of copies of the weights that their owner holds in addition to the versions: the sum
    /// of gradients and the optimiser's moments (Adam: 3).
    pub copies: f64,
    /// Work of the host's own thread.
    pub work: HostWork,
}

/// Work of the thread that hands out steps and updates the weights, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostWork {
    /// Seconds between the end of a step and the beginning of a step that depends on it.
    pub step: f64,
    /// Seconds of an update, in which the gradients of all micro-batches are summed and the weights
    /// are updated.
    pub update: f64,
    /// Number of cores that lanes share with this thread. If 0, the thread has its own core.
    pub cores: u32,
    /// Bytes per second at which lanes receive the data that operators read. The data of a
    /// micro-batch arrive during the backward step of the previous one. If `None`, the lanes
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
        if self.rows == 0 {
            return wrong("found 0 rows of an update: set at least 1".to_owned());
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
        if !(self.copies.is_finite() && self.copies >= 0.0) {
            return wrong(format!("found {} copies of the weights: set a number of at least 0", self.copies));
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
                "widths {:?} and {:?} micro-batches of {} rows on {} lanes: set a width of at most the number of \
                 lanes, and a number of micro-batches that is a multiple of the width and at most the number of rows",
                self.widths,
                self.micro,
                self.rows,
                machine.lanes.len()
            ));
        }
        Ok(())
    }

    /// Returns the number of runs of stages of a lane in a schedule.
    fn chunks(&self, schedule: PipelineSchedule) -> u32 {
        let own = schedule.settings().0.default_chunks();
        self.chunks.filter(|_| own > 1).unwrap_or(own).max(1)
    }

    /// Returns the allowed shapes that are possible on a machine.
    pub(super) fn shapes(&self, machine: &Machine) -> impl Iterator<Item = Shape> {
        let lanes = machine.lanes.len() as u32;
        let widths = self.widths.iter().copied().filter(move |&width| 0 < width && width <= lanes);
        widths.flat_map(move |width| {
            let fits = move |&micro: &u32| micro > 0 && micro <= self.rows && micro.is_multiple_of(width);
            let micro = self.micro.iter().copied().filter(fits);
            micro.flat_map(move |micro| {
                let shape = move |&schedule: &PipelineSchedule| {
                    let chunks = self.chunks(schedule);
                    Shape { schedule, width, depth: lanes / width, chunks, micro }
                };
                self.schedules.iter().map(shape)
            })
        })
    }
}

fn is_above_zero(figure: f64) -> bool {
    figure.is_finite() && figure > 0.0
}

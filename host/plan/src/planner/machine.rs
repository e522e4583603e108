//! What a planner plans for: lanes with their links, and what is wanted of them.

use crate::error::{Error, Result};
use crate::lanes::MAX_LANES;
use crate::policy::PipelineSchedule;

/// Most steps of a prediction: micro-batches x stages x [`STEPS_A_PLACE`].
const MAX_STEPS: u64 = 1 << 24;
/// Forward and backward, in as many rounds as are timed of many micro-batches.
const STEPS_A_PLACE: u64 = 10;

/// A place that does one step at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// How many times as fast as the graph's figures.
    pub pace: f64,
    /// Bytes that it may hold; `None`: no limit.
    pub memory: Option<f64>,
    /// Bytes a second, each way at once.
    pub link: f64,
}

/// The host that owns weights and boundary rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    /// Bytes a second that all lanes together send through it; it sends as many on at once.
    pub link: f64,
    /// Bytes that it may hold; `None`: no limit.
    pub memory: Option<f64>,
}

/// Lanes, and who owns the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The lanes.
    pub lanes: Vec<Lane>,
    /// With a host, weights are its own and all rows between lanes pass through it (owner = host).
    /// Without one, lanes keep their weights, send rows to each other and add gradients in a ring
    /// (owner = lanes).
    pub host: Option<Host>,
}

impl Machine {
    /// So many lanes of one kind, without a host.
    #[must_use]
    pub fn equal(count: u32, lane: Lane) -> Self {
        Self { lanes: vec![lane; count as usize], host: None }
    }

    fn check(&self) -> Result<()> {
        let (found, most) = (self.lanes.len() as u64, u64::from(MAX_LANES));
        if found > most {
            return Err(Error::TooMany { what: "lanes of a machine", found, most });
        }
        let wrong = |reason: String| Err(Error::Content { what: "a machine", reason });
        if self.lanes.is_empty() {
            return wrong("no lane, where one is needed at least".to_owned());
        }
        for (at, lane) in self.lanes.iter().enumerate() {
            let figures = [("pace", lane.pace), ("link", lane.link), ("memory", lane.memory.unwrap_or(1.0))];
            if let Some((name, figure)) = figures.into_iter().find(|&(_, figure)| !is_above_zero(figure)) {
                return wrong(format!("lane {at} has a {name} of {figure}: take a number above 0"));
            }
        }
        let host = self.host.map_or([1.0, 1.0], |host| [host.link, host.memory.unwrap_or(1.0)]);
        match host.into_iter().find(|&figure| !is_above_zero(figure)) {
            Some(figure) => {
                wrong(format!("the host has a link or memory of {figure}: take a number above 0"))
            }
            None => Ok(()),
        }
    }
}

/// Schedule, lanes and micro-batches of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// What lanes do first, and which weights they read.
    pub schedule: PipelineSchedule,
    /// Replicas.
    pub width: u32,
    /// Lanes of a replica. Stage k is on lane k mod depth.
    pub depth: u32,
    /// Stages of a lane.
    pub chunks: u32,
    /// Micro-batches of an update, of all replicas.
    pub micro: u32,
}

/// What a plan may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Rows of an update.
    pub rows: u32,
    /// Schedules to choose from.
    pub schedules: Vec<PipelineSchedule>,
    /// Runs of stages of a lane, in orders that have several; `None`: as many as the order takes by
    /// itself.
    pub chunks: Option<u32>,
    /// Numbers of replicas to choose from.
    pub widths: Vec<u32>,
    /// Micro-batches of an update, of all replicas together, to choose from: multiples of the
    /// width.
    pub micro: Vec<u32>,
    /// True if a stage may keep its inputs only, and go forward again before it goes back.
    pub recompute: bool,
    /// True if stages that do not need each other may run side by side (GraphPipe); else each
    /// follows the one before it, as in plans for chains.
    pub parallel: bool,
    /// Copies of the weights that their owner holds besides their versions: the sum of gradients
    /// and the optimiser's moments (Adam: 3).
    pub copies: f64,
    /// Work of the host's own thread.
    pub work: HostWork,
}

/// Work of the thread that hands out steps and updates the weights, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostWork {
    /// Seconds between the end of a step and the beginning of what follows it.
    pub step: f64,
    /// Seconds of an update: gradients of all parts are summed, and the weights follow.
    pub update: f64,
    /// Cores that lanes and this thread have in common; 0: it has one of its own.
    pub cores: u32,
    /// Bytes a second over which lanes get what operators read of the data, with each micro-batch,
    /// while they go back on the one before. `None`: it is there.
    pub data: Option<f64>,
}

impl Wanted {
    /// Whether there can be such plans for a machine.
    pub(super) fn check(&self, machine: &Machine, operators: usize) -> Result<()> {
        machine.check()?;
        let wrong = |reason: String| Err(Error::Content { what: "a wish for a plan", reason });
        if self.rows == 0 {
            return wrong("0 rows of an update: take 1 at least".to_owned());
        }
        if self.schedules.is_empty() {
            return wrong("no schedule to choose from: name one at least".to_owned());
        }
        let chunks = self.schedules.iter().map(|&schedule| self.chunks(schedule)).max().unwrap_or(1);
        if chunks as usize > operators {
            return wrong(format!(
                "{chunks} runs of stages a lane (lanes.chunks) of {operators} operators: take as many runs at most, or \
                 more layers"
            ));
        }
        if !(self.copies.is_finite() && self.copies >= 0.0) {
            return wrong(format!("{} copies of the weights: take a number of at least 0", self.copies));
        }
        let times = [self.work.step, self.work.update];
        if let Some(time) = times.into_iter().find(|time| !(time.is_finite() && *time >= 0.0)) {
            return wrong(format!("{time} seconds of the host's thread: take a number of at least 0"));
        }
        if let Some(link) = self.work.data.filter(|&link| !is_above_zero(link)) {
            return wrong(format!("a link of {link} bytes a second for the data: take a number above 0"));
        }
        for Shape { depth, micro, .. } in self.shapes(machine) {
            let (what, stages) = ("steps of a prediction", u64::from(depth) * u64::from(chunks));
            let found = STEPS_A_PLACE * u64::from(micro) * stages;
            if found > MAX_STEPS {
                return Err(Error::TooMany { what, found, most: MAX_STEPS });
            }
        }
        if self.shapes(machine).next().is_none() {
            return wrong(format!(
                "widths {:?} and {:?} micro-batches of {} rows on {} lanes: have a width of at most as many \
                 lanes, and a multiple of it, of at most as many rows, as micro-batches",
                self.widths,
                self.micro,
                self.rows,
                machine.lanes.len()
            ));
        }
        Ok(())
    }

    /// Runs of stages of a lane in a schedule.
    fn chunks(&self, schedule: PipelineSchedule) -> u32 {
        let own = schedule.settings().0.rules().chunks();
        self.chunks.filter(|_| own > 1).unwrap_or(own).max(1)
    }

    /// Returns the shapes to choose from that are possible on a machine.
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

//! State that workers own: gradient sums, and parameters if these live on workers. A lane is a
//! share of the pipeline, with consecutive stages, that one worker runs.
//!
//! A worker adds up the gradients of its lane until the update (optimiser step). It then sends one
//! sum for each use of a parameter to the owner of the parameter. The owner is the host (the
//! process that drives the run), or the worker of the first lane that reads the parameter. If
//! workers are owners, the host stores only a snapshot: values and optimiser moments of all
//! parameters after one update, in a file.
//!
//! After a failure, a run continues from the newest version of the parameters that is available on
//! the host, on workers or in the snapshot. If parameters live on the host, the engine recomputes
//! the rows and sums of a failed worker. If parameters live on workers, workers send rows directly
//! to each other, so that the rows of a round in flight are lost. The round is then repeated from
//! the available version. Connected workers take over the lanes, and those with values of another
//! version get new ones. A round is a pure function of the weights, so the results are the same as
//! without failures.
//!
//! If the peers of a failed worker share its lane ([`Takeover::Peers`]), each of them stores the
//! partial sums of the intervals that it has taken over. Before the update, the host requests these
//! partial sums, and sends them to one worker of the lane, which adds them up. The sums have
//! the same bits as without failures, because they are added along the same tree.
//!
//! ```text
//! host                                             worker
//!   Begin {tree}               ──────────────────>   removes sums
//!                              <──────────────────   Owned {parameter, update}
//!   Own {parameter} + values, moments ───────────>
//!   Stay {parameters}          ──────────────────>   removes all others
//!   tasks that read weights    ──────────────────>   reads values, adds up gradients
//!   Give {sum}                 ──────────────────>
//!                              <──────────────────   sum, if the parameter lives on the host
//!   Norm, Update               ──────────────────>   values of update V + 1
//!   Give {weight or moment}    ──────────────────>
//!                              <──────────────────   matrix: into the snapshot
//! ```

mod instruction;
mod ledger;
mod log;
mod restore;
mod updating;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use eciton_exec::{self as exec, Affinity, Cancel, Completion, Draw, Executor, Job, Work};
use eciton_kernel::CachedRows;
use eciton_planner::policy::Takeover;
use eciton_program::Program;
use eciton_recipe::{Lanes, Optimiser};
use eciton_runs::run_folder::tensor::{Entry, Pieces, Values};
use eciton_tensor::Matrix;
use eciton_tensor::frame::Frame;
use eciton_types::{
    Attempt, IntervalId, Location, Node, ParameterId, Round, StageId, Step, Task, TensorKey, Version,
};

use self::instruction::{Instruction, OwnLane, Reply};
pub(crate) use self::ledger::Ledger;
use self::log::Log;
pub(crate) use self::updating::{COLLECTED_BYTES, Collected};
use crate::error::{Error, Result};
use crate::weights::{self, Parameter};

/// Pass number of jobs that carry instructions. They belong to no pass (run of the engine).
const NO_PASS: u32 = u32::MAX;
/// Maximum time that the host waits for completions at a time, while it waits for answers to
/// instructions.
const LOOK: Duration = Duration::from_millis(200);

/// The host's record of a parameter that workers read or own.
#[derive(Debug)]
struct Owned {
    /// The parameter without its values.
    of: Parameter,
    /// For each use of the parameter, the stage of a lane that computes the gradient. `None` if no
    /// lane does.
    makers: Vec<Option<Maker>>,
    /// Lanes that read the parameter. The worker of the first lane owns it, and the workers of the
    /// other lanes have copies of its values.
    lanes: Vec<usize>,
}

/// The host's record of the gradient sums and parameters that workers own.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// True if workers add up gradients until the update, and false if the host does.
    sums: bool,
    parameters: Vec<Owned>,
    atoms: u32,
    nodes: Vec<Vec<(u8, u32)>>,
    /// Nodes of the summation tree whose sums each replica of the pipeline computes.
    tops: Vec<Vec<Node>>,
    lanes: Lanes,
    /// Maximum number of rounds (optimiser steps) in flight.
    rounds: u32,
    /// Snapshot of the parameters if workers own them. `None` if parameters live on the host.
    log: Option<Log>,
    /// Minimum number of updates between two snapshots.
    every: u32,
    /// True if a round reads the values from before the newest update, as in the schedule `2bw`.
    delayed: bool,
    /// For each lane, the number of additional workers that store and update replicas of the
    /// parameters owned by the lane's worker.
    replicas: Vec<u32>,
    /// Version of the weights that all workers had at the end of the last round. `None` if
    /// parameters have no replicas.
    noted: Option<Version>,
    /// For each worker, true if it was connected when lanes were last assigned.
    there: Vec<bool>,
    /// Worker that runs each lane. If several workers share the lane, it is the one that adds up
    /// the gradient sums.
    homes: Vec<Location>,
    /// Rule that selects the workers that run the lanes of a failed worker.
    takeover: Takeover,
    /// Worker whose sums have the gradients of each finished backward step, if parameters live on
    /// the host and peers share the lanes of failed workers.
    summed: BTreeMap<Step, Location>,
    /// A worker that has connected since lanes were last assigned. `None` if there is none.
    joined: Option<Location>,
    /// Number of times that the run was rolled back.
    returns: u64,
    /// Intervals that have no rows in a round, so that their gradients are 0.
    empty: RefCell<BTreeSet<(Round, u32)>>,
    /// True if the host has written values to the snapshot, for instance initial ones, that workers
    /// have not received yet.
    given: Cell<bool>,
    /// Random choice of the audited rounds, in which the host repeats tasks and compares the
    /// answers. `None` if the run is not audited.
    audited: Option<Draw>,
}

/// The lanes that read each parameter, and the lanes that compute its gradients.
#[derive(Debug, Default)]
pub(crate) struct OwningLanes {
    /// For each parameter, the lanes that read it, in ascending order.
    pub readers: Vec<Vec<usize>>,
    /// For each use of a parameter, the stage of a lane that computes its gradient. `None` if no
    /// lane does.
    pub makers: Vec<Option<Maker>>,
}

/// Stage of a lane that computes a gradient.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Maker {
    pub lane: usize,
    pub stage: StageId,
}

/// Arguments of [`Owners::new`].
pub(crate) struct Wanted<'a> {
    pub program: &'a Program,
    pub lanes: OwningLanes,
    pub optimiser: &'a Optimiser,
    /// Lanes of all replicas of the pipeline.
    pub all_lanes: Lanes,
    /// Maximum number of rounds (optimiser steps) in flight.
    pub rounds: u32,
    pub every: u32,
    /// True if a round reads the values from before the newest update, as in the schedule `2bw`.
    pub delayed: bool,
    /// For each lane, the number of additional workers that store and update replicas of the
    /// parameters owned by the lane's worker.
    pub replicas: Vec<u32>,
    /// Rule that selects the workers that run the lanes of a failed worker.
    pub takeover: Takeover,
    /// Folder of the snapshot file. `None` if parameters live on the host.
    pub folder: Option<&'a Path>,
}

/// Creates an error about the state that workers own.
fn failed(reason: impl std::fmt::Display) -> Error {
    Error::Workers(format!("a request about the weights that they own failed: {reason}; start the run again"))
}

impl Owners {
    /// Creates the record for the program and settings in `wanted`. `atoms` is the number of leaves
    /// of the summation tree. `nodes` are the tree nodes of each interval, and `tops` those of each
    /// pipeline replica.
    pub(crate) fn new(
        wanted: Wanted<'_>,
        (atoms, nodes, tops): (u32, &[Vec<Node>], Vec<Vec<Node>>),
    ) -> Result<Self> {
        let Wanted { program, lanes, optimiser, all_lanes, rounds, every, .. } = wanted;
        let Wanted { delayed, replicas, takeover, folder, .. } = wanted;
        let OwningLanes { readers, makers } = lanes;
        let parameter = |((_, of), lanes): ((u32, Parameter), Vec<usize>)| {
            let makers = of.uses().iter().map(|&number| makers.get(number as usize).copied().flatten());
            Owned { makers: makers.collect(), of, lanes }
        };
        let all = weights::parameters(program, optimiser).zip(readers);
        let parameters: Vec<Owned> = all.map(parameter).collect();
        let lengths = parameters.iter().map(Owned::length).collect();
        let matrices = 1 + optimiser.algorithm.moments() + usize::from(delayed);
        let log = folder.map(|folder| Log::new(folder, lengths, matrices)).transpose()?;
        let nodes = nodes.iter().map(|nodes| instruction::pairs(nodes)).collect();
        let own = Self {
            parameters,
            atoms,
            nodes,
            tops,
            lanes: all_lanes,
            rounds,
            log,
            every,
            delayed,
            replicas,
            takeover,
            ..Self::default()
        };
        Ok(Self { sums: true, ..own })
    }

    /// Returns true if workers own the parameters, and false if these live on the host.
    pub(crate) fn have_parameters(&self) -> bool {
        self.log.is_some()
    }

    /// Returns true if workers add up the gradients of `round` until the update. They do not in
    /// audited rounds.
    pub(crate) fn have_sums(&self, round: Round) -> bool {
        self.sums && !self.audit(round)
    }

    /// Sets the random choice of the audited rounds. In these rounds each answer contains its
    /// gradients, because the host cannot check sums of several tasks.
    pub(crate) fn audit_by(&mut self, draw: Option<Draw>) {
        self.audited = draw;
    }

    /// Returns true if `round` is audited, which means that the host repeats tasks and compares the
    /// answers.
    pub(crate) fn audit(&self, round: Round) -> bool {
        self.audited.as_ref().is_some_and(|draw| draw.takes_round(round))
    }

    /// Returns the snapshot. Fails if parameters live on the host.
    fn log_file(&self) -> Result<&Log> {
        self.log.as_ref().ok_or_else(|| Error::Internal("parameters on the host have no snapshot".to_owned()))
    }

    /// Makes the next snapshot, which is complete, the current one. Its values are of `version`.
    fn turn_log(&mut self, version: u64) {
        self.log.iter_mut().for_each(|log| log.turn(version));
    }

    /// Returns a reference to the values of a parameter at a version. A task on a worker reads the
    /// values that the worker has cached under this reference.
    pub(crate) fn kept(&self, parameter: ParameterId, version: Version) -> Result<CachedRows> {
        let one = self.parameters.get(parameter.index());
        let one = one.ok_or_else(|| Error::Internal(format!("there is no parameter {parameter}")))?;
        let key = TensorKey::Weight { parameter, version };
        Ok(CachedRows { key, rows: one.shape().0, extents: one.of.extents().to_vec(), to: Vec::new() })
    }

    /// Returns the version of the weights in the snapshot. Returns 0 if workers own no parameters.
    pub(crate) fn logged(&self) -> Version {
        Version(self.log.as_ref().map_or(0, Log::version))
    }

    /// Records that a round is over and that all workers have `version`. Returns true if parameters
    /// have replicas.
    pub(crate) fn note(&mut self, version: Version) -> bool {
        self.noted = Some(version).filter(|_| self.replicates());
        self.replicates()
    }

    /// Returns true if several workers store and update the same parameter.
    fn replicates(&self) -> bool {
        self.tops.len() > 1 || self.replicas.iter().any(|&count| count > 0)
    }

    /// Returns true if the snapshot or the replicas have the values of `version`, so that a joining
    /// worker can get them.
    pub(crate) fn has(&self, version: Version) -> bool {
        self.have_parameters() && (self.logged() == version || self.noted == Some(version))
    }

    /// Returns the number of times that the run was rolled back.
    pub(crate) fn returns(&self) -> u64 {
        self.returns
    }

    /// Writes the initial values of a parameter to the next snapshot, and zeros for its optimiser
    /// moments.
    pub(crate) fn put_first(&self, parameter: usize, values: &[f32]) -> Result<()> {
        self.put(parameter, 0, values)?;
        let zeros = vec![0.0; values.len()];
        (1..self.log_file()?.matrices()).try_for_each(|moment| self.put(parameter, moment, &zeros))
    }

    /// Writes a matrix of a parameter to the next snapshot. Matrix 0 has the values, and further
    /// matrices have the optimiser moments.
    pub(crate) fn put(&self, parameter: usize, matrix: usize, values: &[f32]) -> Result<()> {
        self.given.set(true);
        self.log_file()?.put(parameter, matrix, values)
    }

    /// Returns the number of matrices per parameter, which are the values and the optimiser
    /// moments.
    pub(crate) fn matrices(&self) -> usize {
        self.log.as_ref().map_or(0, Log::matrices) - usize::from(self.delayed)
    }

    /// Returns the index of the matrix with the values from before the newest update. Returns
    /// `None` if the snapshot has no such matrix.
    pub(crate) fn before(&self) -> Option<usize> {
        (self.delayed && self.logged().0 > 0).then(|| self.matrices())
    }

    /// Makes the snapshot that the host has written the current one, with values of `version`.
    /// Returns true if the host has written one. It must then be sent to the workers.
    pub(crate) fn give(&mut self, version: Version) -> bool {
        let given = self.given.get();
        if given {
            self.turn_log(version.0);
        }
        given
    }

    /// Returns the row-major values of a parameter from the snapshot.
    pub(crate) fn values(&self, parameter: usize) -> Result<Vec<f32>> {
        self.log_file()?.get(parameter, 0)
    }

    /// Records that the worker at `at` has joined. Does nothing if it was connected when lanes were
    /// last assigned.
    pub(crate) fn joins(&mut self, at: Location) {
        if !self.counts_on(at) {
            self.joined = Some(at);
        }
    }

    /// Returns a worker that has joined since lanes were last assigned. Returns `None` if there is
    /// none.
    pub(crate) fn waits(&self) -> Option<Location> {
        self.joined
    }

    /// Counts a rollback, and forgets the intervals without rows.
    pub(crate) fn returned(&mut self) {
        self.returns += 1;
        self.empty.borrow_mut().clear();
    }

    /// Records that an interval has no rows in `round`, so that its gradients are 0.
    pub(crate) fn note_empty(&self, round: Round, interval: IntervalId) {
        self.empty.borrow_mut().insert((round, interval.0));
    }

    /// Returns true if the worker at `at` was connected when lanes were last assigned.
    pub(crate) fn counts_on(&self, at: Location) -> bool {
        self.there.get(at.index()) == Some(&true)
    }

    /// Checks that the same workers are connected as when lanes were last assigned. `there` has a
    /// flag for each worker.
    ///
    /// # Errors
    /// Returns [`Error::Gone`] with the first worker that has connected or failed since then.
    pub(crate) fn check(&self, there: &[bool]) -> Result<()> {
        if !self.have_parameters() || self.there == there {
            return Ok(());
        }
        let differs = |(at, now): &(Location, &bool)| self.there.get(at.index()) != Some(now);
        let first = Location::workers().zip(there).find(differs);
        Err(Error::Gone { at: first.map_or(Location::worker(0), |(at, _)| at) })
    }

    /// Records the worker of each lane, as the engine has assigned them, and the worker that has
    /// the gradients of each step. Does nothing if workers own the parameters, because the host
    /// then assigns lanes itself.
    pub(crate) fn at(&mut self, homes: Vec<Location>, summed: impl Iterator<Item = (Step, Location)>) {
        if !self.have_parameters() {
            self.homes = homes;
            self.summed = summed.filter(|_| self.takeover == Takeover::Peers).collect();
        }
    }

    /// Returns the worker of each lane. If several workers share the lane, it is the one that adds
    /// up the gradient sums. `there` has a flag for each worker. The engine uses the same rule.
    fn assigned(&self, there: &[bool]) -> Vec<Location> {
        let first = |lane: usize| self.takeover.homes(&self.lanes, there, lane).first().copied();
        // The cast is lossless, because the number of workers is limited.
        (0..there.len()).map(|lane| Location::worker(first(lane).unwrap_or(lane) as u32)).collect()
    }

    /// Returns the intervals of a replica of the pipeline.
    fn run(&self, replica: usize) -> std::ops::Range<u32> {
        // The casts are lossless, because the numbers of replicas and of intervals are limited.
        self.lanes.run(replica as u32, self.nodes.len() as u32)
    }

    /// Returns the gradients that the lane with the number of a worker computes. Returns `None` if
    /// a worker adds up the gradients of all its lanes alike.
    fn own_lane(&self, at: Location) -> Option<OwnLane> {
        let depth = (self.lanes.depth() as usize).max(1);
        let (run, lane) = (self.run(at.index() / depth), at.index() % depth);
        let made = self.parameters.iter().flat_map(Owned::makers).filter(|(_, maker)| maker.lane == lane);
        let uses = made.map(|(number, _)| number).collect();
        let own = OwnLane { intervals: (run.start, run.end), uses };
        (self.takeover == Takeover::Peers).then_some(own)
    }

    /// Returns the encoded instruction that makes the worker at `at` remove all sums and start new
    /// ones.
    fn begin(&self, at: Location) -> Result<Vec<u8>> {
        let tops = instruction::pairs(&self.tops.concat());
        let (atoms, nodes, delayed, rounds) = (self.atoms, self.nodes.clone(), self.delayed, self.rounds);
        let begin = Instruction::Begin { atoms, nodes, tops, delayed, rounds, own: self.own_lane(at) };
        instruction::write(&begin, &[]).map_err(failed)
    }

    /// Instructs the worker at `at` to start new sums, if workers add up gradients and parameters
    /// live on the host.
    ///
    /// # Errors
    /// Returns [`Error::Gone`] if the worker has failed.
    pub(crate) fn begin_sums<M: Executor + ?Sized>(
        &self,
        asking: &mut Asking<'_, M>,
        at: Location,
    ) -> Result<()> {
        if !self.sums || self.have_parameters() {
            return Ok(());
        }
        ask(asking, vec![(at, self.begin(at)?)], true).map(drop)
    }

    /// Returns the record of the parameter with the number `number`.
    fn parameter(&self, number: u32) -> Result<&Owned> {
        self.parameters.get(number as usize).ok_or_else(|| failed(format!("there is no parameter {number}")))
    }

    /// Returns the worker that runs a lane for an interval, if workers own the parameters. The
    /// interval determines the replica of the pipeline. The engine uses the same rule.
    pub(crate) fn location_of(&self, lane: u16, interval: IntervalId) -> Result<Location> {
        // The cast is lossless, because the number of intervals is limited.
        let replica = self.lanes.replica(interval.0, self.nodes.len() as u32) as usize;
        let number = replica * self.lanes.depth() as usize + usize::from(lane);
        let homes = self.takeover.homes(&self.lanes, &self.there, number);
        let index = interval.0.saturating_sub(self.run(replica).start);
        let home = Takeover::home(&self.lanes, &homes, number, index as usize);
        // The cast is lossless, because the number of workers is limited.
        let home = home.map(|home| Location::worker(home as u32));
        home.ok_or_else(|| failed(format!("no worker runs lane {lane}")))
    }

    /// Returns the worker that runs a lane in the given replica of the pipeline. If several workers
    /// share the lane, it is the one that adds up the gradient sums.
    fn home(&self, lane: usize, replica: usize) -> Result<Location> {
        let home = self.homes.get(replica * self.lanes.depth() as usize + lane).copied();
        home.ok_or_else(|| failed(format!("no worker runs lane {lane}")))
    }

    /// Returns the workers that store and update a parameter. The first one is the owner, which
    /// runs the first lane that reads the parameter. The workers of this lane in other replicas of
    /// the pipeline follow, and then the workers with additional replicas, which are the nearest
    /// ones before the owner.
    fn holders(&self, one: &Owned) -> Result<Vec<Location>> {
        let (lane, count) = (one.lanes.first().copied().unwrap_or(0), self.there.len());
        let of_replicas = (0..self.tops.len()).map(|replica| self.home(lane, replica));
        let mut holders = of_replicas.collect::<Result<Vec<Location>>>()?;
        let owner = holders.first().map_or(0, |owner| owner.index());
        let before = (1..count).map(|by| (owner + count - by) % count);
        let most = self.replicas.get(lane).copied().unwrap_or(0);
        // The cast is lossless, because the number of workers is limited.
        holders.extend(
            before.filter(|&at| self.there[at]).take(most as usize).map(|at| Location::worker(at as u32)),
        );
        let mut known = BTreeSet::new();
        holders.retain(|at| known.insert(*at));
        Ok(holders)
    }

    /// Returns the workers that read a parameter without updating it. `holders` are those that
    /// update it.
    fn copies(&self, one: &Owned, holders: &[Location]) -> Result<BTreeSet<Location>> {
        let lanes = |replica| one.lanes.iter().map(move |&lane| self.home(lane, replica));
        let mut copies = (0..self.tops.len()).flat_map(lanes).collect::<Result<BTreeSet<Location>>>()?;
        copies.retain(|at| !holders.contains(at));
        Ok(copies)
    }

    /// Returns the worker that owns a parameter.
    fn owner(&self, one: &Owned) -> Result<Location> {
        self.holders(one)?.first().copied().ok_or_else(|| failed("no worker owns the parameter"))
    }

    /// Returns true if a snapshot is due, because there were enough updates since the last one.
    pub(crate) fn is_due(&self, version: Version) -> bool {
        self.have_parameters() && version.0.saturating_sub(self.logged().0) >= u64::from(self.every)
    }

    /// Takes a snapshot of `version`. The matrices are requested from workers one at a time, and
    /// written to the file.
    pub(crate) fn log<M: Executor + ?Sized>(
        &mut self,
        asking: &mut Asking<'_, M>,
        version: Version,
    ) -> Result<()> {
        for (parameter, one) in (0u32..).zip(&self.parameters) {
            let owner = self.owner(one)?;
            let mut get = |(version, matrix): (u64, usize), at: usize| {
                let wanted = matrix_key(parameter, version, matrix);
                let values =
                    instruction::values(&take(asking, owner, wanted, one.shape())?).map_err(failed)?;
                self.log_file()?.put(parameter as usize, at, &values)
            };
            (0..self.matrices()).try_for_each(|matrix| get((version.0, matrix), matrix))?;
            if self.delayed && version.0 > 0 {
                get((version.0 - 1, 0), self.matrices())?;
            }
        }
        self.turn_log(version.0);
        Ok(())
    }

    /// Returns the entries of a model file, whose values are read from the snapshot. `named` has
    /// the name and extents of each parameter.
    pub(crate) fn entries<'a>(&'a self, named: &'a [(String, Vec<usize>)]) -> Vec<Entry<'a>> {
        let entry = |(at, (name, shape)): (usize, &'a (String, Vec<usize>))| {
            Entry::new(&name[..], shape, self.pieces_of(at, Some(0)))
        };
        named.iter().enumerate().map(entry).collect()
    }

    /// Returns a matrix of a parameter as values that are read from the snapshot in pieces. If
    /// `matrix` is `None`, the values are zeros.
    pub(crate) fn pieces_of(&self, parameter: usize, matrix: Option<usize>) -> Values<'_> {
        let matrix = matrix.unwrap_or(self.log.as_ref().map_or(0, Log::matrices));
        Values::Pieces(self, matrix * self.parameters.len() + parameter)
    }

    /// Returns the error for a snapshot file that cannot be read.
    pub(crate) fn unread(&self, source: std::io::Error) -> Error {
        log::failed(self.log.as_ref().map_or(Path::new(""), Log::folder), source)
    }
}

impl Owned {
    /// Returns the number of rows and columns of the parameter.
    fn shape(&self) -> (usize, usize) {
        self.of.shape()
    }

    /// Returns the number of values of the parameter.
    fn length(&self) -> usize {
        self.shape().0 * self.shape().1
    }

    /// Returns an iterator over the uses of the parameter. An item is the number of the use and the
    /// lane that computes its gradient.
    fn made(&self) -> impl Iterator<Item = (u32, Option<usize>)> {
        let lanes = self.makers.iter().map(|maker| maker.map(|maker| maker.lane));
        self.of.uses().iter().copied().zip(lanes)
    }

    /// Returns an iterator over the uses of the parameter whose gradients lanes compute. An item is
    /// the number of the use and the stage that computes its gradient.
    fn makers(&self) -> impl Iterator<Item = (u32, Maker)> {
        let all = self.of.uses().iter().copied().zip(&self.makers);
        all.filter_map(|(number, maker)| Some((number, (*maker)?)))
    }

    /// Returns the instruction [`Instruction::Own`], with which one matrix of the parameter is sent
    /// to a worker.
    fn own(&self, number: u32, version: u64, matrix: usize) -> Instruction {
        let (extents, uses, decay) = (self.of.extents().to_vec(), self.of.uses().to_vec(), self.of.decay());
        Instruction::Own { key: matrix_key(number, version, matrix), extents, uses, decay }
    }
}

/// Converts a number to the id of a parameter or of a use. A program has at most 2^16 of them.
fn id(number: u32) -> ParameterId {
    ParameterId(number as u16)
}

/// Returns the key of a matrix of a parameter at `version`. Matrix 0 has the values, and further
/// matrices have the optimiser moments.
fn matrix_key(number: u32, version: u64, matrix: usize) -> TensorKey {
    TensorKey::of_matrix(id(number), Version(version), matrix)
}

impl Pieces for Owners {
    /// Reads a matrix of the snapshot in pieces. `tensor` first numbers the values of all
    /// parameters, then each optimiser moment of all parameters, and then matrices of zeros.
    fn pieces(
        &self,
        tensor: usize,
        take: &mut dyn FnMut(&[f32]) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let count = self.parameters.len().max(1);
        let (matrix, parameter) = (tensor / count, tensor % count);
        if let Some(log) = self.log.as_ref().filter(|log| matrix < log.matrices()) {
            return log.pieces((parameter, matrix), take);
        }
        let one = self.parameters.get(parameter);
        let length = one.map_or(0, Owned::length);
        let zeros = [0.0; 1024];
        (0..length).step_by(zeros.len()).try_for_each(|at| take(&zeros[..zeros.len().min(length - at)]))
    }
}

/// Answer of a worker to an instruction.
struct Answered {
    at: Location,
    reply: Reply,
    /// The encoded reply, which may contain a matrix.
    frame: Vec<u8>,
}

/// Completions that arrived while the host waited for answers to instructions. The pass (run of the
/// engine) in progress processes them later.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    pub completions: Vec<Completion>,
    /// Number of instructions sent so far, by which answers are numbered.
    asked: u32,
}

/// Executor through which the host sends instructions, and storage for other completions that
/// arrive meanwhile.
pub(crate) struct Asking<'a, M: ?Sized> {
    pub machine: &'a mut M,
    pub aside: &'a mut Aside,
}

/// Sends instructions to workers, and waits for all answers. Returns the answers in the order of
/// the instructions.
///
/// # Errors
/// Returns [`Error::Gone`] if a worker has failed, sends a malformed answer, or reports a failure.
fn ask<M: Executor + ?Sized>(
    asking: &mut Asking<'_, M>,
    instructions: Vec<(Location, Vec<u8>)>,
    begins: bool,
) -> Result<Vec<Answered>> {
    let workers: Vec<Location> = instructions.iter().map(|(at, _)| *at).collect();
    let first = asking.aside.asked;
    for (at, frame) in instructions {
        let (round, stage, weights) = (Round(0), StageId(u16::MAX), Version(0));
        let task =
            Task { round, stage, interval: IntervalId(asking.aside.asked), attempt: Attempt(0), weights };
        asking.aside.asked = asking.aside.asked.wrapping_add(1);
        let work = Work::Instruction(exec::Instruction { frame: frame.into(), begins });
        let affinity = Affinity::On(at);
        asking.machine.submit(Job { pass: NO_PASS, task, work, deadline: None, affinity });
    }
    let mut frames: Vec<Option<Vec<u8>>> = vec![None; workers.len()];
    let mut done = Vec::new();
    while frames.iter().any(Option::is_none) {
        asking.machine.drain(&mut done, Some(LOOK));
        let mut gone = None;
        for completion in done.drain(..) {
            match completion {
                Completion::Ended { pass: NO_PASS, key, result, .. } => {
                    let at = key.interval.0.wrapping_sub(first) as usize;
                    // Answers to instructions of an earlier call, which failed, are ignored.
                    let Some((frame, worker)) = frames.get_mut(at).zip(workers.get(at)) else { continue };
                    match result {
                        Ok(eciton_exec::Answered::Frame(bytes)) => *frame = Some(bytes.into()),
                        _ => gone = gone.or(Some(*worker)),
                    }
                }
                other => {
                    if let Completion::WorkerFailed { at } | Completion::Forgot { at } = other {
                        let mut open = workers.iter().zip(&frames);
                        gone = gone.or(open.find(|(of, frame)| **of == at && frame.is_none()).map(|_| at));
                    }
                    asking.aside.completions.push(other);
                }
            }
        }
        if let Some(at) = gone {
            return Err(Error::Gone { at });
        }
    }
    let mut answers = Vec::with_capacity(workers.len());
    for (at, frame) in workers.into_iter().zip(frames.into_iter().flatten()) {
        let parsed = Frame::parse(&frame).map_err(|error| error.to_string());
        match parsed.and_then(|parsed| instruction::meta(&parsed)) {
            Ok(Reply::Failed { reason }) => return Err(exclude(asking, at, reason)),
            Ok(reply) => answers.push(Answered { at, reply, frame }),
            Err(reason) => return Err(exclude(asking, at, reason)),
        }
    }
    Ok(answers)
}

/// Excludes a worker because of a wrong answer. Returns [`Error::Gone`], with which the run rolls
/// back and continues without this worker.
fn exclude<M: Executor + ?Sized>(
    asking: &mut Asking<'_, M>,
    at: Location,
    reason: impl std::fmt::Display,
) -> Error {
    let reason = format!("the worker sent a wrong answer to a request about its parameters: {reason}");
    asking.machine.cancel(Cancel::Worker { at, reason: &reason });
    Error::Gone { at }
}

/// Sends instructions to workers. A worker that does not answer [`Reply::Done`] is excluded.
fn tell<M: Executor + ?Sized>(
    asking: &mut Asking<'_, M>,
    instructions: Vec<(Location, Vec<u8>)>,
) -> Result<()> {
    for Answered { at, reply, .. } in ask(asking, instructions, false)? {
        if reply != Reply::Done {
            return Err(exclude(asking, at, format!("{reply:?}")));
        }
    }
    Ok(())
}

/// Requests a matrix from a worker. The worker is excluded if the matrix does not have the shape
/// `shape` (rows, columns).
fn take<M: Executor + ?Sized>(
    asking: &mut Asking<'_, M>,
    at: Location,
    key: TensorKey,
    shape: (usize, usize),
) -> Result<Matrix> {
    let instruction = instruction::write(&Instruction::Give { key }, &[]).map_err(failed)?;
    let answers = ask(asking, vec![(at, instruction)], false)?;
    let answer = answers.first().ok_or_else(|| failed("the worker sent no answer"))?;
    match given(answer, shape) {
        Ok(matrix) => Ok(matrix),
        Err(reason) => Err(exclude(asking, at, reason)),
    }
}

/// Returns the matrix in an answer. Returns a description of the problem if there is no matrix of
/// this shape.
fn given(answer: &Answered, shape: (usize, usize)) -> std::result::Result<Matrix, String> {
    let [matrix] = <[Matrix; 1]>::try_from(all_given(answer, shape)?)
        .map_err(|matrices| format!("expected 1 matrix, found {}", matrices.len()))?;
    Ok(matrix)
}

/// Returns all matrices in an answer. Returns a description of the problem if a matrix does not
/// have this shape.
fn all_given(answer: &Answered, shape: (usize, usize)) -> std::result::Result<Vec<Matrix>, String> {
    if answer.reply != Reply::Done {
        return Err(format!("{:?}", answer.reply));
    }
    let frame = Frame::parse(&answer.frame).map_err(|error| error.to_string())?;
    let matrices = instruction::matrices(&frame)?;
    let all = matrices.iter().map(|matrix| (matrix.rows(), matrix.columns()));
    match all.into_iter().find(|found| *found != shape) {
        None => Ok(matrices),
        Some((rows, columns)) => {
            Err(format!("found {rows} x {columns} values, expected {} x {}", shape.0, shape.1))
        }
    }
}

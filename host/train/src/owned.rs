//! State that workers of lanes own: sums of gradients, and parameters if these live there.
//!
//! A worker adds up the gradients of its lane until the update, so that one sum of each use leaves
//! it in an update. The sum goes to the location where the parameter lives: the host, or the worker
//! of the first lane that reads it. In the second case the host has no values but a snapshot:
//! values and moments of all parameters after one update, in a file.
//!
//! Recovery: a run continues from the newest version of the parameters that is available on the
//! host, on workers or in the snapshot. If parameters live on the host, the engine recomputes the
//! rows and sums of a failed worker. If they live on workers, rows go from worker to worker, so no
//! row of a round in flight is left. The round is then repeated from that version. Connected
//! workers take over the lanes, and those with values of another version get new ones. A round is a
//! pure function of the weights, so the bits are those of a run without failures.
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
//!                              <──────────────────   matrix: into the log
//! ```

mod instruction;
mod ledger;
mod log;
mod restore;
mod updating;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use eciton_exec::{self as exec, Affinity, Cancel, Completion, Draw, Executor, Job, Work};
use eciton_kernel::Kept;
use eciton_program::Program;
use eciton_recipe::{Lanes, Optimiser};
use eciton_runs::run_folder::tensor::{Entry, Pieces, Values};
use eciton_tensor::Matrix;
use eciton_tensor::frame::Frame;
use eciton_types::{
    Attempt, IntervalId, Location, Node, ParameterId, Round, StageId, Task, TensorKey, Version,
};

use self::instruction::{Instruction, Reply};
pub(crate) use self::ledger::Ledger;
use self::log::Log;
pub(crate) use self::updating::{COLLECTED_BYTES, Collected};
use crate::error::{Error, Result};
use crate::weights::{self, Parameter};

/// Pass number of instructions, which belong to no pass.
const NO_PASS: u32 = u32::MAX;
/// Wait for completions at a time while answers are awaited.
const LOOK: Duration = Duration::from_millis(200);

/// A parameter of a worker.
#[derive(Debug)]
struct Owned {
    /// The parameter, without values here.
    of: Parameter,
    /// Lane that makes the gradient of each use, if any does.
    makers: Vec<Option<usize>>,
    /// Lanes that read the parameter. The worker of the first one owns it, and those of others have
    /// copies.
    lanes: Vec<usize>,
}

/// Host side of the sums and parameters that workers own.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// True if workers have the sums of gradients until the update.
    sums: bool,
    parameters: Vec<Owned>,
    atoms: u32,
    nodes: Vec<Vec<(u8, u32)>>,
    /// Nodes of the tree that each replica of the pipeline sums.
    tops: Vec<Vec<Node>>,
    lanes: Lanes,
    /// Maximum number of rounds in flight.
    rounds: u32,
    /// Snapshot of parameters that live on workers. If `None`, they live on the host.
    log: Option<Log>,
    /// Number of updates between two snapshots.
    every: u32,
    /// True if a round reads the values before the newest (`2bw`).
    delayed: bool,
    /// Number of replicas of a parameter, by the lane of its owner.
    replicas: Vec<u32>,
    /// Update of all workers at the end of the last round, if there are replicas.
    noted: Option<Version>,
    /// True for each worker that was connected when lanes were assigned, by worker.
    there: Vec<bool>,
    /// Workers, by lane.
    homes: Vec<Location>,
    /// Worker that has connected since lanes were assigned.
    joined: Option<Location>,
    /// Number of rollbacks of the run to a snapshot.
    returns: u64,
    /// Rounds, with those of their intervals that have no row. The gradients of these are zero.
    empty: RefCell<BTreeSet<(Round, u32)>>,
    /// True if the snapshot's values came from the host, so that no worker has them, at any update.
    given: Cell<bool>,
    /// Choice of the rounds whose answers are compared with the host's.
    audited: Option<Draw>,
}

/// Lanes that read parameters or compute their gradients.
#[derive(Debug, Default)]
pub(crate) struct OwningLanes {
    /// Lanes that read a parameter, ascending, by parameter.
    pub readers: Vec<Vec<usize>>,
    /// Lane that computes the gradient of a use, by use.
    pub makers: Vec<Option<usize>>,
}

/// Settings of a run that its owners need.
pub(crate) struct Wanted<'a> {
    pub program: &'a Program,
    pub lanes: OwningLanes,
    pub optimiser: &'a Optimiser,
    /// Lanes of all replicas.
    pub all_lanes: Lanes,
    /// Maximum number of rounds in flight.
    pub rounds: u32,
    pub every: u32,
    /// True if a round reads the values before the newest (`2bw`).
    pub delayed: bool,
    /// Number of workers that have replicas of the parameters of a lane's worker, by lane.
    pub replicas: Vec<u32>,
    /// Folder of the snapshot. If `None`, parameters live on the host.
    pub folder: Option<&'a Path>,
}

fn failed(reason: impl std::fmt::Display) -> Error {
    Error::Workers(format!("what they own: {reason}; start the run again"))
}

impl Owners {
    /// Creates the owners of a program on lanes. `atoms` is the number of leaves of the gradient
    /// tree. `nodes` are the nodes of each interval, and `tops` those that each replica of the
    /// pipeline sums.
    pub(crate) fn new(
        wanted: Wanted<'_>,
        (atoms, nodes, tops): (u32, &[Vec<Node>], Vec<Vec<Node>>),
    ) -> Result<Self> {
        let Wanted { program, lanes, optimiser, all_lanes, rounds, every, delayed, replicas, folder } =
            wanted;
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
            ..Self::default()
        };
        Ok(Self { sums: true, ..own })
    }

    /// Returns true if parameters live on workers.
    pub(crate) fn have_parameters(&self) -> bool {
        self.log.is_some()
    }

    /// Returns true if workers have the gradient sums of a round until the update.
    pub(crate) fn have_sums(&self, round: Round) -> bool {
        self.sums && !self.audit(round)
    }

    /// Audits the rounds that `draw` takes: their answers are compared with the host's. Their sums
    /// go to the host with each answer, because sums that a worker adds up could not be compared.
    pub(crate) fn audit_by(&mut self, draw: Option<Draw>) {
        self.audited = draw;
    }

    /// Returns true if the answers of a round are compared with the host's.
    pub(crate) fn audit(&self, round: Round) -> bool {
        self.audited.as_ref().is_some_and(|draw| draw.takes_round(round))
    }

    fn log_file(&self) -> Result<&Log> {
        self.log
            .as_ref()
            .ok_or_else(|| Error::Internal("parameters that live on the host have no log".to_owned()))
    }

    /// Makes the next snapshot, which is complete, the snapshot of a version.
    fn turn_log(&mut self, version: u64) {
        self.log.iter_mut().for_each(|log| log.turn(version));
    }

    /// Returns a version of a parameter in the form that tasks read.
    pub(crate) fn kept(&self, parameter: ParameterId, version: Version) -> Result<Kept> {
        let one = self.parameters.get(parameter.index());
        let one = one.ok_or_else(|| Error::Internal(format!("parameter {parameter}")))?;
        let key = TensorKey::Weight { parameter, version };
        Ok(Kept { key, rows: one.shape().0, extents: one.of.extents().to_vec(), to: Vec::new() })
    }

    /// Returns the update of the snapshot.
    pub(crate) fn logged(&self) -> Version {
        Version(self.log.as_ref().map_or(0, Log::version))
    }

    /// Records that a round is over and all workers are at an update. Returns true if there are
    /// replicas.
    pub(crate) fn note(&mut self, version: Version) -> bool {
        self.noted = Some(version).filter(|_| self.replicates());
        self.replicates()
    }

    /// Returns true if any parameter has a replica.
    fn replicates(&self) -> bool {
        self.tops.len() > 1 || self.replicas.iter().any(|&count| count > 0)
    }

    /// Returns true if the snapshot or replicas have an update, so that workers that join can get
    /// its values.
    pub(crate) fn has(&self, version: Version) -> bool {
        self.have_parameters() && (self.logged() == version || self.noted == Some(version))
    }

    /// Returns the number of rollbacks to a snapshot.
    pub(crate) fn returns(&self) -> u64 {
        self.returns
    }

    /// Writes a parameter of the next snapshot: its values, with zeros for the other matrices.
    pub(crate) fn put_first(&self, parameter: usize, values: &[f32]) -> Result<()> {
        self.put(parameter, 0, values)?;
        let zeros = vec![0.0; values.len()];
        (1..self.log_file()?.matrices()).try_for_each(|moment| self.put(parameter, moment, &zeros))
    }

    /// Writes a matrix of the next snapshot: values, then moments.
    pub(crate) fn put(&self, parameter: usize, matrix: usize, values: &[f32]) -> Result<()> {
        self.given.set(true);
        self.log_file()?.put(parameter, matrix, values)
    }

    /// Returns the number of matrices of a parameter: values and moments.
    pub(crate) fn matrices(&self) -> usize {
        self.log.as_ref().map_or(0, Log::matrices) - usize::from(self.delayed)
    }

    /// Returns the index of the snapshot's matrix with the values before the newest, if the
    /// snapshot has them.
    pub(crate) fn before(&self) -> Option<usize> {
        (self.delayed && self.logged().0 > 0).then(|| self.matrices())
    }

    /// Completes the snapshot that the host wrote, if it did, as that of an update. Returns true if
    /// workers have yet to get it.
    pub(crate) fn give(&mut self, version: Version) -> bool {
        let given = self.given.get();
        if given {
            self.turn_log(version.0);
        }
        given
    }

    /// Returns the values of a parameter in the snapshot.
    pub(crate) fn values(&self, parameter: usize) -> Result<Vec<f32>> {
        self.log_file()?.get(parameter, 0)
    }

    /// Records that a worker has joined, unless it was connected when lanes were assigned.
    pub(crate) fn joins(&mut self, at: Location) {
        if !self.counts_on(at) {
            self.joined = Some(at);
        }
    }

    /// Returns a worker that has joined since lanes were assigned.
    pub(crate) fn waits(&self) -> Option<Location> {
        self.joined
    }

    /// Counts a rollback to the snapshot.
    pub(crate) fn returned(&mut self) {
        self.returns += 1;
        self.empty.borrow_mut().clear();
    }

    /// Records that an interval of the round has no row.
    pub(crate) fn note_empty(&self, round: Round, interval: IntervalId) {
        self.empty.borrow_mut().insert((round, interval.0));
    }

    /// Returns true if a worker was connected when lanes were assigned.
    pub(crate) fn counts_on(&self, at: Location) -> bool {
        self.there.get(at.index()) == Some(&true)
    }

    /// Checks that the connected workers are those that lanes were assigned to.
    ///
    /// # Errors
    /// [`Error::Gone`] for the first worker that differs.
    pub(crate) fn check(&self, there: &[bool]) -> Result<()> {
        if !self.have_parameters() || self.there == there {
            return Ok(());
        }
        let differs = |(at, now): &(Location, &bool)| self.there.get(at.index()) != Some(now);
        let first = Location::workers().zip(there).find(differs);
        Err(Error::Gone { at: first.map_or(Location::worker(0), |(at, _)| at) })
    }

    /// Records the worker of each lane, if the engine decides on them.
    pub(crate) fn at(&mut self, homes: Vec<Location>) {
        if !self.have_parameters() {
            self.homes = homes;
        }
    }

    /// Returns the request with which a worker begins and removes all sums.
    fn begin(&self) -> Result<Vec<u8>> {
        let tops = instruction::pairs(&self.tops.concat());
        let (atoms, nodes, delayed, rounds) = (self.atoms, self.nodes.clone(), self.delayed, self.rounds);
        let begin = Instruction::Begin { atoms, nodes, tops, delayed, rounds };
        instruction::write(&begin, &[]).map_err(failed)
    }

    /// Instructs a worker to begin, if it has sums and the parameters live on the host.
    ///
    /// # Errors
    /// [`Error::Gone`] if the worker has failed.
    pub(crate) fn begin_sums<M: Executor + ?Sized>(
        &self,
        asking: &mut Asking<'_, M>,
        at: Location,
    ) -> Result<()> {
        if !self.sums || self.have_parameters() {
            return Ok(());
        }
        ask(asking, vec![(at, self.begin()?)], true).map(drop)
    }

    fn parameter(&self, number: u32) -> Result<&Owned> {
        self.parameters.get(number as usize).ok_or_else(|| failed(format!("parameter {number}")))
    }

    /// Returns the worker of a program's lane, for an interval.
    pub(crate) fn location_of(&self, lane: u16, interval: IntervalId) -> Result<Location> {
        // At most as many as there may be intervals.
        let replica = self.lanes.replica(interval.0, self.nodes.len() as u32);
        self.home(lane.into(), replica as usize)
    }

    /// Returns the worker of a lane of a replica of the pipeline.
    fn home(&self, lane: usize, replica: usize) -> Result<Location> {
        let home = self.homes.get(replica * self.lanes.depth() as usize + lane).copied();
        home.ok_or_else(|| failed(format!("lane {lane} is nowhere")))
    }

    /// Returns the workers that have values and moments of a parameter, and update it. The first is
    /// its owner: that of the first lane that reads it. Then come those of the lane in other
    /// replicas of the pipeline, and the nearest workers before the owner that have replicas.
    fn holders(&self, one: &Owned) -> Result<Vec<Location>> {
        let (lane, count) = (one.lanes.first().copied().unwrap_or(0), self.there.len());
        let of_replicas = (0..self.tops.len()).map(|replica| self.home(lane, replica));
        let mut holders = of_replicas.collect::<Result<Vec<Location>>>()?;
        let owner = holders.first().map_or(0, |owner| owner.index());
        let before = (1..count).map(|by| (owner + count - by) % count);
        let most = self.replicas.get(lane).copied().unwrap_or(0);
        // At most as many as there may be workers.
        holders.extend(
            before.filter(|&at| self.there[at]).take(most as usize).map(|at| Location::worker(at as u32)),
        );
        let mut known = BTreeSet::new();
        holders.retain(|at| known.insert(*at));
        Ok(holders)
    }

    /// Returns the workers of lanes that read a parameter and have values alone.
    fn copies(&self, one: &Owned, holders: &[Location]) -> Result<BTreeSet<Location>> {
        let lanes = |replica| one.lanes.iter().map(move |&lane| self.home(lane, replica));
        let mut copies = (0..self.tops.len()).flat_map(lanes).collect::<Result<BTreeSet<Location>>>()?;
        copies.retain(|at| !holders.contains(at));
        Ok(copies)
    }

    /// Returns the worker that owns a parameter.
    fn owner(&self, one: &Owned) -> Result<Location> {
        self.holders(one)?.first().copied().ok_or_else(|| failed("a parameter that is nowhere"))
    }

    /// Returns true if a snapshot of a version is due.
    pub(crate) fn is_due(&self, version: Version) -> bool {
        self.have_parameters() && version.0.saturating_sub(self.logged().0) >= u64::from(self.every)
    }

    /// Takes a snapshot of a version, one matrix at a time.
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

    /// Returns the entries of a model file, read from the snapshot.
    pub(crate) fn entries<'a>(&'a self, named: &'a [(String, Vec<usize>)]) -> Vec<Entry<'a>> {
        let entry = |(at, (name, shape)): (usize, &'a (String, Vec<usize>))| {
            Entry::new(&name[..], shape, self.pieces_of(at, Some(0)))
        };
        named.iter().enumerate().map(entry).collect()
    }

    /// Returns a matrix of the snapshot, or zeros if `matrix` is `None`.
    pub(crate) fn pieces_of(&self, parameter: usize, matrix: Option<usize>) -> Values<'_> {
        let matrix = matrix.unwrap_or(self.log.as_ref().map_or(0, Log::matrices));
        Values::Pieces(self, matrix * self.parameters.len() + parameter)
    }

    /// Returns the error of a snapshot that cannot be read.
    pub(crate) fn unread(&self, source: std::io::Error) -> Error {
        log::failed(self.log.as_ref().map_or(Path::new(""), Log::folder), source)
    }
}

impl Owned {
    /// Returns (rows, columns).
    fn shape(&self) -> (usize, usize) {
        self.of.shape()
    }

    /// Returns the number of values.
    fn length(&self) -> usize {
        self.shape().0 * self.shape().1
    }

    /// Returns the numbers of its uses, with the lanes that compute their gradients.
    fn made(&self) -> impl Iterator<Item = (u32, Option<usize>)> {
        self.of.uses().iter().copied().zip(self.makers.iter().copied())
    }

    /// Returns the instruction that accompanies one of the parameter's matrices.
    fn own(&self, number: u32, version: u64, matrix: usize) -> Instruction {
        let (extents, uses, decay) = (self.of.extents().to_vec(), self.of.uses().to_vec(), self.of.decay());
        Instruction::Own { key: matrix_key(number, version, matrix), extents, uses, decay }
    }
}

/// Returns the id of a parameter or of a use, of which a program has at most 2^16.
fn id(number: u32) -> ParameterId {
    ParameterId(number as u16)
}

/// Returns the key of a matrix of a parameter. Matrix 0 is its values, further ones are its
/// moments.
fn matrix_key(number: u32, version: u64, matrix: usize) -> TensorKey {
    TensorKey::of_matrix(id(number), Version(version), matrix)
}

impl Pieces for Owners {
    /// Reads a matrix of the snapshot. `tensor` counts the values of all parameters first, then
    /// further matrices, then zeros.
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

/// Returns the worker of each lane: its own, or the nearest connected one before it, as the engine
/// does.
fn homes(there: &[bool]) -> Vec<Location> {
    let count = there.len();
    let home = |lane: usize| (0..count).map(|by| (lane + count - by) % count).find(|&at| there[at]);
    // At most as many as there may be workers.
    (0..count).map(|lane| Location::worker(home(lane).unwrap_or(lane) as u32)).collect()
}

/// Answer of a worker to an instruction.
struct Answered {
    at: Location,
    reply: Reply,
    /// Frame of the reply, which may have a matrix.
    frame: Vec<u8>,
}

/// Completions that arrived while answers to instructions were awaited, for the pass in progress.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    pub completions: Vec<Completion>,
    /// Number of instructions so far.
    asked: u32,
}

/// An executor, and the other completions that it reports while answers to instructions are
/// awaited.
pub(crate) struct Asking<'a, M: ?Sized> {
    pub machine: &'a mut M,
    pub aside: &'a mut Aside,
}

/// Sends workers instructions and waits for their answers. Returns the answers in order.
///
/// # Errors
/// [`Error::Gone`] for a worker that has failed, whose answer is not a reply, or which reports a
/// failure.
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
                    // Answers of an earlier call that failed are ignored.
                    let Some((frame, worker)) = frames.get_mut(at).zip(workers.get(at)) else { continue };
                    match result {
                        Ok(eciton_exec::Answered::Frame(bytes)) => *frame = Some(bytes.into()),
                        _ => gone = gone.or(Some(*worker)),
                    }
                }
                other => {
                    if let Completion::Lost { at } | Completion::Forgot { at } = other {
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

/// Excludes a worker whose answer is not an answer to its instruction. The run resumes without it.
fn exclude<M: Executor + ?Sized>(
    asking: &mut Asking<'_, M>,
    at: Location,
    reason: impl std::fmt::Display,
) -> Error {
    let reason = format!("wrong answer to a request about its parameters: {reason}");
    asking.machine.cancel(Cancel::Worker { at, reason: &reason });
    Error::Gone { at }
}

/// Sends workers instructions whose only answer is [`Reply::Done`].
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

/// Requests a matrix of `shape` (rows, columns) from a worker.
fn take<M: Executor + ?Sized>(
    asking: &mut Asking<'_, M>,
    at: Location,
    key: TensorKey,
    shape: (usize, usize),
) -> Result<Matrix> {
    let instruction = instruction::write(&Instruction::Give { key }, &[]).map_err(failed)?;
    let answers = ask(asking, vec![(at, instruction)], false)?;
    let answer = answers.first().ok_or_else(|| failed("no answer"))?;
    match given(answer, shape) {
        Ok(matrix) => Ok(matrix),
        Err(reason) => Err(exclude(asking, at, reason)),
    }
}

/// Returns the matrix of an answer, which must have the given shape.
fn given(answer: &Answered, shape: (usize, usize)) -> std::result::Result<Matrix, String> {
    if answer.reply != Reply::Done {
        return Err(format!("{:?}", answer.reply));
    }
    let frame = Frame::parse(&answer.frame).map_err(|error| error.to_string())?;
    let [matrix] = <[Matrix; 1]>::try_from(instruction::matrices(&frame)?)
        .map_err(|matrices| format!("{} matrices, not 1", matrices.len()))?;
    let found = (matrix.rows(), matrix.columns());
    match found == shape {
        true => Ok(matrix),
        false => Err(format!("{} x {} values, not {} x {}", found.0, found.1, shape.0, shape.1)),
    }
}

//! Weights that workers own: each worker has the parameters of its lanes, their moments and their gradients,
//! and updates them. The host has none of them, but a log: all values and moments after one update, in a file.
//!
//! After a loss all goes back to the log's entry. Places that are there take the lanes over, owners of another
//! update than the entry's get its values, and the rounds since are done once more. A round is a pure
//! function of the weights, so the bits are those of a run without losses.
//!
//! ```text
//! host                                             worker
//!   Begin {tree, parameters}   ──────────────────>   lets go of sums, and of what is not its own
//!                              <──────────────────   Owned {parameter, update}
//!   Own {parameter} + values, moments ───────────>
//!   tasks that name own/vV.pN  ──────────────────>   reads values, adds up gradients
//!   Norm, Update               ──────────────────>   values of update V + 1
//!   Give {parameter}           ──────────────────>
//!                              <──────────────────   values, moments: into the log
//! ```

mod errand;
mod ledger;
mod log;
mod summing;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use eciton_exec::Executor;
use eciton_exec::workers::OWNED;
use eciton_kernel::Kept;
use eciton_plan::{Algorithm, IntervalId, Node, Optimiser, Program, Version};
use eciton_tensor::Matrix;
use eciton_tensor::frame::Frame;

use self::errand::{Errand, Reply};
pub(crate) use self::ledger::Ledger;
use self::log::Log;
use crate::error::{Error, Result};
use crate::run_folder::model::{Entry, Pieces};
use crate::weights::Refused;

/// A parameter of a worker.
#[derive(Debug)]
struct Parameter {
    rows: usize,
    columns: usize,
    /// Extents of one row.
    extents: Vec<u32>,
    /// Its uses, its own first: numbers, and lanes that make their gradients, if any does.
    uses: Vec<(u32, Option<usize>)>,
    decay: f32,
    frozen: bool,
    /// Lanes that read it; the first one's worker owns it, others have copies.
    lanes: Vec<usize>,
}

/// The host's side of what workers own.
#[derive(Debug)]
pub(crate) struct Owners {
    parameters: Vec<Parameter>,
    atoms: u32,
    nodes: Vec<Vec<(u8, u32)>>,
    log: Log,
    /// Updates between two entries of the log.
    every: u32,
    /// Whether a worker was there when lanes were given out, by place; places, by lane.
    there: Vec<bool>,
    places: Vec<u32>,
    /// The place of a worker that has come since.
    joined: Option<u32>,
    /// Times that the run has gone back to the log's entry.
    returns: u64,
    /// Intervals of the round that have no row, whose gradients are zero.
    empty: RefCell<BTreeSet<u32>>,
}

/// Lanes that have to do with parameters.
#[derive(Debug, Default)]
pub(crate) struct OwningLanes {
    /// Lanes that read a parameter, ascending, by parameter.
    pub readers: Vec<Vec<usize>>,
    /// The lane that makes the gradient of a use, by use.
    pub makers: Vec<Option<usize>>,
}

/// A run, as its owners see it.
pub(crate) struct Wanted<'a> {
    pub program: &'a Program,
    pub lanes: OwningLanes,
    pub optimiser: &'a Optimiser,
    pub every: u32,
    /// The folder of the log.
    pub folder: &'a Path,
}

fn failed(reason: impl std::fmt::Display) -> Error {
    Error::Workers(format!("what they own: {reason}; start the run again"))
}

impl Owners {
    /// Owners of a program on lanes. `sums`: leaves of the tree of gradients, and by interval their nodes.
    pub(crate) fn new(wanted: Wanted<'_>, (atoms, nodes): (u32, &[Vec<Node>])) -> Result<Self> {
        let Wanted { program, lanes, optimiser, every, folder } = wanted;
        let OwningLanes { readers, makers } = lanes;
        let parameter = |(at, (parameter, lanes)): (usize, (&eciton_plan::Parameter, Vec<usize>))| {
            let maker = |number: usize| makers.get(number).copied().flatten();
            let (rows, columns) = crate::weights::extent(&parameter.shape);
            let further = (program.parameters.len()..).zip(&program.uses);
            let further = further.filter(|(_, of)| of.index() == at).map(|(number, _)| number);
            Parameter {
                rows,
                columns,
                extents: parameter.shape.get(1..).unwrap_or_default().to_vec(),
                // A program has at most 2^16 of them.
                uses: std::iter::once(at)
                    .chain(further)
                    .map(|number| (number as u32, maker(number)))
                    .collect(),
                decay: optimiser.weight_decay.of(parameter.layer) as f32,
                frozen: optimiser.freezes(parameter.layer),
                lanes,
            }
        };
        let all = program.parameters.iter().zip(readers).enumerate();
        let parameters: Vec<Parameter> = all.map(parameter).collect();
        let lengths = parameters.iter().map(|parameter| parameter.rows * parameter.columns).collect();
        let log = Log::new(folder, lengths, 1 + moments(optimiser))?;
        let (there, places) = (Vec::new(), Vec::new());
        let nodes = errand::pairs(nodes);
        Ok(Self {
            parameters,
            atoms,
            nodes,
            log,
            every,
            there,
            places,
            joined: None,
            returns: 0,
            empty: RefCell::default(),
        })
    }

    /// The name of a parameter's version in tasks.
    pub(crate) fn kept(&self, parameter: usize, version: Version) -> Result<Kept> {
        let one = self.parameters.get(parameter);
        let one = one.ok_or_else(|| Error::Internal(format!("parameter {parameter}")))?;
        let name = format!("{OWNED}v{}.p{parameter}", version.0);
        Ok(Kept { name, rows: one.rows, extents: one.extents.clone(), to: Vec::new() })
    }

    /// The name of a use's sum.
    pub(crate) fn sum(number: usize) -> String {
        format!("s{number}")
    }

    /// The update that the log's entry is of.
    pub(crate) fn logged(&self) -> Version {
        Version(self.log.version())
    }

    /// Times that the run has gone back to it.
    pub(crate) fn returns(&self) -> u64 {
        self.returns
    }

    /// Writes a parameter of the log's next entry: its values, without moments.
    pub(crate) fn put(&self, parameter: usize, values: &[f32]) -> Result<()> {
        self.log.put(parameter, 0, values)?;
        let zeros = vec![0.0; values.len()];
        (1..self.matrices()).try_for_each(|moment| self.log.put(parameter, moment, &zeros))
    }

    fn matrices(&self) -> usize {
        self.log.matrices()
    }

    /// The entry that was written is of an update.
    pub(crate) fn turn(&mut self, version: Version) {
        self.log.turn(version.0);
    }

    /// Values of a parameter, of the log's entry.
    pub(crate) fn values(&self, parameter: usize) -> Result<Vec<f32>> {
        self.log.get(parameter, 0)
    }

    /// Hears that a worker has come; whether lanes were given out without it.
    pub(crate) fn joins(&mut self, place: u32) {
        if !self.counts_on(place) {
            self.joined = Some(place);
        }
    }

    /// The place of a worker that has come since lanes were given out.
    pub(crate) fn waits(&self) -> Option<u32> {
        self.joined
    }

    /// Counts a return to the log's entry.
    pub(crate) fn returned(&mut self) {
        self.returns += 1;
        self.empty.borrow_mut().clear();
    }

    /// Hears that an interval of the round has no row.
    pub(crate) fn note_empty(&self, interval: IntervalId) {
        self.empty.borrow_mut().insert(interval.0);
    }

    /// Tells workers of intervals without a row.
    fn fill<M: Executor + ?Sized>(&self, machine: &mut M) -> Result<()> {
        let intervals: Vec<u32> = std::mem::take(&mut *self.empty.borrow_mut()).into_iter().collect();
        if intervals.is_empty() {
            return Ok(());
        }
        let mut made: Vec<Vec<u32>> = vec![Vec::new(); self.there.len()];
        for (number, lane) in self.parameters.iter().flat_map(|one| &one.uses) {
            let Some(place) = lane.map(|lane| self.place(lane)).transpose()? else { continue };
            made.get_mut(place as usize).into_iter().for_each(|of| of.push(*number));
        }
        let fill = |(place, numbers): (u32, Vec<u32>)| {
            let fill = Errand::Fill { intervals: intervals.clone(), numbers };
            Ok((place, errand::write(&fill, &[]).map_err(failed)?))
        };
        let made = (0u32..).zip(made).filter(|(_, numbers)| !numbers.is_empty());
        tell(machine, made.map(fill).collect::<Result<_>>()?)
    }

    /// Whether lanes were given out while a worker was at a place.
    pub(crate) fn counts_on(&self, place: u32) -> bool {
        self.there.get(place as usize) == Some(&true)
    }

    /// Whether the workers are those that lanes were given out to.
    pub(crate) fn are(&self, there: &[bool]) -> bool {
        self.there == there
    }

    /// The first place at which it is otherwise.
    pub(crate) fn gone(&self, there: &[bool]) -> Error {
        let place = (0u32..).zip(there).find(|(at, now)| self.there.get(*at as usize) != Some(now));
        Error::Gone { place: place.map_or(0, |(at, _)| at) }
    }

    /// Gives lanes out to the places that are there, and the entry's values to those that own others.
    pub(crate) fn restore<M: Executor + ?Sized>(&mut self, machine: &mut M, there: Vec<bool>) -> Result<()> {
        self.places = places(&there);
        (self.there, self.joined) = (there, None);
        // By place, parameters with the matrices that it has of them.
        let mut wanted: Vec<Vec<(u32, usize)>> = vec![Vec::new(); self.there.len()];
        for (number, one) in (0u32..).zip(&self.parameters) {
            let (owner, copies) = self.homes(one)?;
            let copies = copies.into_iter().map(|place| (place, 1));
            for (place, matrices) in std::iter::once((owner, self.matrices())).chain(copies) {
                wanted.get_mut(place as usize).into_iter().for_each(|of| of.push((number, matrices)));
            }
        }
        let homes: Vec<u32> =
            (0u32..).zip(&self.there).filter(|(_, there)| **there).map(|(at, _)| at).collect();
        let begin = |&place: &u32| {
            let parameters = wanted.get(place as usize).into_iter().flatten().map(|(number, _)| *number);
            let parameters = parameters.collect();
            let begin = Errand::Begin { atoms: self.atoms, nodes: self.nodes.clone(), parameters };
            Ok((place, errand::write(&begin, &[]).map_err(failed)?))
        };
        let errands = homes.iter().map(begin).collect::<Result<Vec<_>>>()?;
        let answers = ask(machine, errands, true)?;
        let version = self.log.version();
        for (place, answer) in homes.iter().zip(&answers) {
            let Reply::Owned { parameters } = reply(answer)? else {
                return Err(failed("an answer that is none of what it owns"));
            };
            let of = wanted.get_mut(*place as usize);
            let has = |(number, matrices): &(u32, usize)| {
                parameters.iter().any(|&(of, at, count)| (of, at) == (*number, version) && count >= *matrices)
            };
            of.into_iter().for_each(|of| of.retain(|one| !has(one)));
        }
        // One matrix at a time: the host has room for no more.
        for (place, of) in (0u32..).zip(wanted) {
            for (number, matrices) in of {
                for matrix in 0..matrices {
                    tell(machine, vec![(place, self.own((number, matrix), version)?)])?;
                }
            }
        }
        Ok(())
    }

    /// The errand that gives a matrix of the log's entry away.
    fn own(&self, (number, matrix): (u32, usize), version: u64) -> Result<Vec<u8>> {
        let at = number as usize;
        let Some(one) = self.parameters.get(at) else { return Err(failed(format!("parameter {number}"))) };
        let given = errand::matrix((one.rows, one.columns), &self.log.get(at, matrix)?).map_err(failed)?;
        errand::write(&one.own(number, version, matrix), &[given]).map_err(failed)
    }

    /// The place of a program's lane.
    pub(crate) fn place_of(&self, lane: u16) -> Result<u32> {
        self.place(lane.into())
    }

    /// The place of a lane.
    fn place(&self, lane: usize) -> Result<u32> {
        let place = self.places.get(lane).copied();
        place.ok_or_else(|| failed(format!("lane {lane} is nowhere")))
    }

    /// The place that owns a parameter, and others that have copies.
    fn homes(&self, one: &Parameter) -> Result<(u32, Vec<u32>)> {
        let owner = self.place(one.lanes.first().copied().unwrap_or(0))?;
        let places = one.lanes.iter().map(|&lane| self.place(lane)).collect::<Result<BTreeSet<_>>>()?;
        Ok((owner, places.into_iter().filter(|place| *place != owner).collect()))
    }

    /// Parameters that a place owns, by place.
    fn owned(&self) -> Result<Vec<Vec<u32>>> {
        let mut owned: Vec<Vec<u32>> = vec![Vec::new(); self.there.len()];
        for (number, one) in (0u32..).zip(&self.parameters) {
            owned.get_mut(self.homes(one)?.0 as usize).into_iter().for_each(|of| of.push(number));
        }
        Ok(owned)
    }

    /// Brings gradients of weights that lanes have in common to the place that owns these.
    fn bring<M: Executor + ?Sized>(&self, machine: &mut M) -> Result<()> {
        for one in self.parameters.iter().filter(|one| !one.frozen && one.uses.len() > 1) {
            let owner = self.homes(one)?.0;
            for (number, lane) in &one.uses {
                let Some(from) = lane.map(|lane| self.place(lane)).transpose()? else { continue };
                if from == owner {
                    continue;
                }
                let given = take(machine, from, &Errand::Sum { number: *number })?;
                let add = errand::write(&Errand::Add { number: *number }, &[given]).map_err(failed)?;
                tell(machine, vec![(owner, add)])?;
            }
        }
        Ok(())
    }

    /// Gives those that have copies of a parameter its values of a version.
    fn copy<M: Executor + ?Sized>(&self, machine: &mut M, version: Version) -> Result<()> {
        let version = version.0;
        for (number, one) in (0u32..).zip(&self.parameters) {
            let (owner, copies) = self.homes(one)?;
            if copies.is_empty() {
                continue;
            }
            let give = Errand::Give { parameter: number, version, matrix: 0 };
            let given = take(machine, owner, &give)?;
            let own = errand::write(&one.own(number, version, 0), &[given]).map_err(failed)?;
            tell(machine, copies.into_iter().map(|place| (place, own.clone())).collect())?;
        }
        Ok(())
    }

    /// Updates all parameters to a version; the norm of their gradients, where it is asked for. Gradients that are not
    /// finite are refused, and the run with them: other parameters may have been updated.
    pub(crate) fn update<M: Executor + ?Sized>(
        &self,
        machine: &mut M,
        optimiser: &Optimiser,
        rate: f64,
        version: Version,
    ) -> Result<std::result::Result<Option<f64>, Refused>> {
        self.fill(machine)?;
        self.bring(machine)?;
        let norm = optimiser.clip_norm.map(|_| self.norm(machine)).transpose()?;
        if let Some(norm) = norm.filter(|norm| !norm.is_finite()) {
            return Ok(Err(Refused::Norm(norm)));
        }
        let factor = crate::weights::clip_factor(optimiser, norm);
        let most = optimiser.clip_value.map(|most| most as f32);
        let algorithm = optimiser.algorithm;
        let decay = |number: u32| {
            let one = self.parameters.get(number as usize).filter(|one| !one.frozen);
            (number, one.map(|one| one.decay))
        };
        let update = |(place, numbers): (u32, Vec<u32>)| {
            let parameters = numbers.into_iter().map(decay).collect();
            let update = Errand::Update { version: version.0, algorithm, rate, factor, most, parameters };
            Ok((place, errand::write(&update, &[]).map_err(failed)?))
        };
        let owned = (0u32..).zip(self.owned()?).filter(|(_, numbers)| !numbers.is_empty());
        for answer in ask(machine, owned.map(update).collect::<Result<_>>()?, false)? {
            match reply(&answer)? {
                Reply::Done => {}
                Reply::Refused { parameter } => return Ok(Err(Refused::Gradient(parameter as usize))),
                other => return Err(failed(format!("{other:?} in place of an update"))),
            }
        }
        self.copy(machine, version)?;
        Ok(Ok(norm))
    }

    /// The norm of all gradients: a sum that goes from worker to worker, in the order of parameters.
    fn norm<M: Executor + ?Sized>(&self, machine: &mut M) -> Result<f64> {
        let trained = (0u32..).zip(&self.parameters).filter(|(_, one)| !one.frozen);
        let mut runs: Vec<(u32, Vec<u32>)> = Vec::new();
        for (number, one) in trained {
            let place = self.homes(one)?.0;
            match runs.last_mut() {
                Some((last, numbers)) if *last == place => numbers.push(number),
                _ => runs.push((place, vec![number])),
            }
        }
        let mut sum = 0.0;
        for (place, parameters) in runs {
            let errand = errand::write(&Errand::Norm { sum, parameters }, &[]).map_err(failed)?;
            let answers = ask(machine, vec![(place, errand)], false)?;
            match answers.first().map(|answer| reply(answer)).transpose()? {
                Some(Reply::Norm { sum: found }) => sum = found,
                other => return Err(failed(format!("{other:?} in place of a norm"))),
            }
        }
        Ok(sum.sqrt())
    }

    /// Whether the log is to have an entry of a version.
    pub(crate) fn is_due(&self, version: Version) -> bool {
        version.0.saturating_sub(self.log.version()) >= u64::from(self.every)
    }

    /// Writes an entry of a version: one matrix at a time.
    pub(crate) fn log<M: Executor + ?Sized>(&mut self, machine: &mut M, version: Version) -> Result<()> {
        for (place, of) in (0u32..).zip(self.owned()?) {
            for parameter in of {
                for matrix in 0..self.matrices() {
                    let give = Errand::Give { parameter, version: version.0, matrix };
                    let values = errand::values(&take(machine, place, &give)?).map_err(failed)?;
                    self.log.put(parameter as usize, matrix, &values)?;
                }
            }
        }
        self.log.turn(version.0);
        Ok(())
    }

    /// The entries of a model's file, from the log's entry.
    pub(crate) fn entries<'a>(&'a self, named: &'a [(String, Vec<usize>)]) -> Vec<Entry<'a>> {
        let entry =
            |(at, (name, shape)): (usize, &'a (String, Vec<usize>))| Entry::of_pieces(name, shape, self, at);
        named.iter().enumerate().map(entry).collect()
    }

    /// The folder of the log, to be named in errors.
    pub(crate) fn unread(&self, source: std::io::Error) -> Error {
        log::failed(self.log.folder(), source)
    }
}

impl Parameter {
    /// The errand that goes with one of its matrices.
    fn own(&self, number: u32, version: u64, matrix: usize) -> Errand {
        let uses = self.uses.iter().map(|(number, _)| *number).collect();
        Errand::Own { parameter: number, version, extents: self.extents.clone(), uses, matrix }
    }
}

impl Pieces for Owners {
    /// Values of the log's entry.
    fn pieces(
        &self,
        parameter: usize,
        take: &mut dyn FnMut(&[f32]) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        self.log.pieces((parameter, 0), take)
    }
}

/// Moments that an optimiser has of each value.
pub(crate) fn moments(optimiser: &Optimiser) -> usize {
    match optimiser.algorithm {
        Algorithm::Sgd { .. } => 1,
        Algorithm::Adam { .. } | Algorithm::AdamW { .. } => 2,
    }
}

/// The place of each lane: its own, or the nearest before it that is there, as the engine has it.
fn places(there: &[bool]) -> Vec<u32> {
    let count = there.len();
    let home = |lane: usize| (0..count).map(|by| (lane + count - by) % count).find(|&at| there[at]);
    // At most as many as there may be workers.
    (0..count).map(|lane| home(lane).unwrap_or(lane) as u32).collect()
}

/// Has errands done; their answers, in order.
///
/// # Errors
/// [`Error::Gone`]: a place that is not there.
fn ask<M: Executor + ?Sized>(
    machine: &mut M,
    errands: Vec<(u32, Vec<u8>)>,
    begin: bool,
) -> Result<Vec<Vec<u8>>> {
    machine.errands(errands, begin).map_err(|gone| Error::Gone { place: gone.place })
}

/// Has errands done that have nothing to answer.
fn tell<M: Executor + ?Sized>(machine: &mut M, errands: Vec<(u32, Vec<u8>)>) -> Result<()> {
    ask(machine, errands, false)?.iter().try_for_each(|answer| done(answer))
}

/// Has a place give a matrix.
fn take<M: Executor + ?Sized>(machine: &mut M, place: u32, errand: &Errand) -> Result<Matrix> {
    let errand = errand::write(errand, &[]).map_err(failed)?;
    let answers = ask(machine, vec![(place, errand)], false)?;
    let answer = answers.first().ok_or_else(|| failed("no answer"))?;
    done(answer)?;
    let frame = Frame::parse(answer).map_err(failed)?;
    let given = errand::matrices(&frame).map_err(failed)?;
    given.into_iter().next().ok_or_else(|| failed("an answer without a matrix"))
}

fn reply(answer: &[u8]) -> Result<Reply> {
    let frame = Frame::parse(answer).map_err(failed)?;
    match errand::meta(&frame).map_err(failed)? {
        Reply::Failed { reason } => Err(failed(reason)),
        reply => Ok(reply),
    }
}

fn done(answer: &[u8]) -> Result<()> {
    match reply(answer)? {
        Reply::Done => Ok(()),
        other => Err(failed(format!("{other:?}"))),
    }
}

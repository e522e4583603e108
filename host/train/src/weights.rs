//! The weight store: parameters by version, gradients of the rounds in flight, and optimiser steps. The
//! [`Pipeline`] sets the number of versions.

mod clip;
mod first;
mod gradients;
mod rule;
mod state;
mod summing;

use std::cell::RefCell;

use eciton_plan::{
    Combine, IntervalId, Node, Optimiser, Parameter, ParameterId, Pipeline, Program, Round, Tree, Version,
    WeightVersions,
};
use eciton_tensor::{Buffer, Matrix};

use crate::data::Interval;
use crate::error::{Error, Result, at};
use crate::owned::{Owners, Wanted};
use clip::Clip;
pub(crate) use clip::factor as clip_factor;
use gradients::{Gradients, use_number};
pub(crate) use rule::Rule;
pub(crate) use state::WeightState;
pub(crate) use summing::GradientSums;

/// One parameter with its optimiser's state.
#[derive(Debug)]
struct Weight {
    /// By version, in a ring.
    values: Vec<Buffer>,
    extents: Vec<u32>,
    first: Vec<f32>,
    second: Vec<f32>,
    decay: f32,
    /// Whether steps leave values and moments as they are.
    frozen: bool,
    /// Numbers of its uses, the parameter's own first.
    uses: Vec<u32>,
}

impl Weight {
    /// Columns of its values.
    fn columns(&self) -> usize {
        self.values.first().map_or(0, Buffer::columns)
    }
}

/// The reason why a step was not taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Refused {
    /// The norm of all gradients, which clipping needs, is not finite.
    Norm(f64),
    /// Values of the gradient of this parameter are not finite.
    Gradient(usize),
}

/// Values that an optimiser's rule moves at a time: with their moments and gradients they stay in the first cache.
const STEP_VALUES: usize = 2048;

/// Whether all values are. Without a branch, so that it takes vector instructions.
pub(crate) fn is_finite(values: &[f32]) -> bool {
    values.iter().fold(true, |all, value| all & value.is_finite())
}

/// Partial sums of a loss in one round: for each interval, one buffer for each node.
type Partials = Vec<Vec<Buffer>>;

/// All parameters.
#[derive(Debug)]
pub(crate) struct Weights {
    all: Vec<Weight>,
    /// The parameter of each further use ([`Program::uses`]).
    further: Vec<usize>,
    /// Steps of a round reserve buffers while the weights are read.
    gradients: RefCell<Gradients>,
    combine: Combine,
    steps: u32,
    newest: Version,
    /// By place in the ring: which version is there, and which generation that is.
    held: Vec<Option<(Version, u64)>>,
    /// Whether a round reads the version before that of the round before it (`2bw`).
    delayed: bool,
    /// Grows with every change of the values, over seeds and runs of a session.
    generation: u64,
    /// Working memory of the sum of a loss.
    scratch: Vec<f32>,
    /// Of each parameter the whole gradient, where it is clipped.
    whole: Vec<Vec<f32>>,
    /// Of each loss of the program its sums, by round in a ring.
    losses: Vec<Vec<Partials>>,
    /// The owners, where workers have all of it but the losses.
    owners: Option<Box<Owners>>,
}

/// (rows, columns) of a parameter's buffer: a vector has its values in rows.
pub(crate) fn extent(shape: &[u32]) -> (usize, usize) {
    let rows = shape.first().map_or(1, |&r| r as usize);
    (rows, shape.iter().skip(1).map(|&e| e as usize).product())
}

fn partials(rounds: u32, sums: &Sums) -> Result<Vec<Partials>> {
    let part = |_| Buffer::zeroed(1, 1).map_err(at("losses"));
    let all = |_| sums.nodes.iter().map(|nodes| nodes.iter().map(part).collect()).collect();
    (0..rounds).map(all).collect()
}

/// The partial sums that a round has, and how they are put together.
#[derive(Debug)]
pub(crate) struct Sums {
    /// Of each interval.
    nodes: Vec<Vec<Node>>,
    tree: Tree,
}

impl Sums {
    /// Nodes of each interval.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.nodes.iter().map(|nodes| nodes.len() as u64)
    }

    /// Returns how many buffers of each use of a parameter a round holds at most, and how many more of the
    /// use with the most values. `steps` is the maximum number of steps in flight. If `None`, all
    /// intervals are in flight at once.
    pub(crate) fn buffers(&self, steps: Option<u64>) -> [u64; 2] {
        let parts: u64 = self.counts().sum();
        if parts <= 1 {
            return [parts, 0];
        }
        let levels = u64::from(self.tree.root().level);
        match steps {
            // A step that is late makes others wait for their turn.
            Some(steps) => {
                let nodes = self.counts().max().unwrap_or(0);
                let waiting = (steps.saturating_sub(1) * nodes).min(parts - 1);
                [levels + waiting, (steps * nodes).min(parts)]
            }
            None => [levels + parts, 0],
        }
    }

    /// Of the intervals that all rows are cut into.
    pub(crate) fn of_intervals(intervals: &[Interval], tree: Tree) -> Self {
        Self { nodes: intervals.iter().map(|interval| interval.nodes.clone()).collect(), tree }
    }

    /// Of the parts of a batch, in the tree over the batch's atoms.
    pub(crate) fn of_runs((nodes, tree): (Vec<Vec<Node>>, Tree)) -> Self {
        Self { nodes, tree }
    }

    /// One of each part of a batch.
    pub(crate) fn of_parts(parts: u32) -> Self {
        Self { nodes: (0..parts).map(|part| vec![Node::atom(part)]).collect(), tree: Tree::new(parts) }
    }
}

/// One of a ring of versions.
fn version(values: &[Buffer], place: usize) -> Result<&Buffer> {
    values.get(place).ok_or_else(|| Error::Internal("there is no version of the weights".to_owned()))
}

/// A round's partial sums.
fn of(partials: &[Partials], round: Round) -> &[Vec<Buffer>] {
    partials.get(round.index() % partials.len().max(1)).map_or(&[], |partials| partials)
}

impl Weights {
    /// Buffers for a program's parameters, without values yet.
    pub(crate) fn new(
        program: &Program,
        optimiser: &Optimiser,
        pipeline: &Pipeline,
        sums: &Sums,
    ) -> Result<Self> {
        let (versions, rounds) = (pipeline.weight_versions(), pipeline.gradient_versions());
        let nodes: Vec<Node> = sums.nodes.iter().flatten().copied().collect();
        let combine = Combine::new(sums.tree, &nodes, sums.tree.root())?;
        let further: Vec<usize> = program.uses.iter().map(|id| id.index()).collect();
        let count = program.parameters.len();
        let weight = |(number, p): (usize, &Parameter)| -> Result<Weight> {
            let (rows, columns) = extent(&p.shape);
            Ok(Weight {
                values: (0..versions)
                    .map(|_| Buffer::zeroed(rows, columns).map_err(at("parameters")))
                    .collect::<Result<_>>()?,
                extents: p.shape.get(1..).unwrap_or_default().to_vec(),
                first: Vec::new(),
                second: Vec::new(),
                decay: optimiser.weight_decay.of(p.layer) as f32,
                frozen: optimiser.freezes(p.layer),
                uses: std::iter::once(number)
                    .chain((count..).zip(&further).filter(|(_, of)| **of == number).map(|(number, _)| number))
                    .map(use_number)
                    .collect(),
            })
        };
        let all = program.parameters.iter().enumerate().map(weight).collect::<Result<_>>()?;
        let uses = program.uses.iter().filter_map(|&id| program.parameter(id));
        let shapes = program.parameters.iter().chain(uses).map(|p| extent(&p.shape)).collect();
        let gradients = RefCell::new(Gradients::new(sums, shapes)?);
        let losses = program.losses.iter().map(|_| partials(rounds, sums)).collect::<Result<_>>()?;
        Ok(Self {
            owners: None,
            all,
            further,
            gradients,
            combine,
            steps: 0,
            newest: Version(0),
            held: vec![None; versions as usize],
            delayed: pipeline.weights() == WeightVersions::TwoBuffered,
            generation: 0,
            scratch: Vec::new(),
            whole: Vec::new(),
            losses,
        })
    }

    /// Weights that workers own: none has buffers here.
    pub(crate) fn owned(wanted: Wanted<'_>, pipeline: &Pipeline, sums: &Sums) -> Result<Self> {
        let (program, rounds) = (wanted.program, pipeline.gradient_versions());
        let nodes: Vec<Node> = sums.nodes.iter().flatten().copied().collect();
        let losses = program.losses.iter().map(|_| partials(rounds, sums)).collect::<Result<_>>()?;
        Ok(Self {
            all: Vec::new(),
            further: Vec::new(),
            gradients: RefCell::new(Gradients::new(sums, Vec::new())?),
            combine: Combine::new(sums.tree, &nodes, sums.tree.root())?,
            steps: 0,
            newest: Version(0),
            held: vec![None; pipeline.weight_versions() as usize],
            delayed: wanted.delayed,
            generation: 0,
            scratch: Vec::new(),
            whole: Vec::new(),
            losses,
            owners: Some(Box::new(Owners::new(wanted, (sums.tree.atoms(), &sums.nodes))?)),
        })
    }

    /// The owners; `None`: workers own nothing.
    pub(crate) fn owners(&self) -> Option<&Owners> {
        self.owners.as_deref()
    }

    /// The same, to change it.
    pub(crate) fn owners_mut(&mut self) -> Option<&mut Owners> {
        self.owners.as_deref_mut()
    }

    /// Workers have the values of a version, and where rounds read them those before it.
    pub(crate) fn returned_to(&mut self, version: Version) {
        self.begin(version);
        self.steps = u32::try_from(version.0).unwrap_or(u32::MAX);
        let before = version.0.checked_sub(1).map(Version).filter(|_| self.delayed);
        before.into_iter().for_each(|before| self.hold(before));
    }

    /// Workers have updated their parameters.
    pub(crate) fn stepped(&mut self) {
        self.steps += 1;
        self.newest = Version(self.newest.0 + 1);
        self.hold(self.newest);
    }

    /// A version is there, with values of its own.
    fn hold(&mut self, version: Version) {
        self.generation += 1;
        let place = self.place(version);
        if let Some(held) = self.held.get_mut(place) {
            *held = Some((version, self.generation));
        }
    }

    /// Steps taken.
    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// The newest version.
    pub(crate) fn newest(&self) -> Version {
        self.newest
    }

    /// Where a version lies in the ring.
    fn place(&self, version: Version) -> usize {
        // As many as a u32 tells.
        (version.0 % self.held.len().max(1) as u64) as usize
    }

    /// Where a version lies that must be there, and its generation.
    fn find(&self, version: Version) -> Result<(usize, u64)> {
        let place = self.place(version);
        match self.held.get(place).copied().flatten() {
            Some((tag, generation)) if tag == version => Ok((place, generation)),
            found => Err(Error::Internal(format!(
                "weights of version {version} are wanted, their place holds {:?}",
                found.map(|(tag, _)| tag.0)
            ))),
        }
    }

    /// Removes all gradients, so that their rounds can be computed again.
    pub(crate) fn forget_gradients(&mut self) {
        self.gradients.get_mut().clear();
    }

    /// Makes `version` the newest and the only one, and removes gradients of earlier ones.
    fn begin(&mut self, version: Version) {
        self.forget_gradients();
        self.newest = version;
        self.held.fill(None);
        self.hold(version);
    }

    /// First values for a seed (`Initialiser`; numbers of purpose 1, round 0).
    pub(crate) fn initialise(&mut self, program: &Program, seed: u64) -> Result<()> {
        self.steps = 0;
        self.begin(Version(0));
        let place = self.place(self.newest);
        if let Some(owners) = &mut self.owners {
            for (at, p) in program.parameters.iter().enumerate() {
                let (rows, columns) = extent(&p.shape);
                let mut values = Vec::with_capacity(rows * columns);
                // Row by row.
                first::draw(p, seed, (rows, columns), |_, _, value| values.push(value));
                owners.put_first(at, &values)?;
            }
            return Ok(());
        }
        for (weight, p) in self.all.iter_mut().zip(&program.parameters) {
            let (rows, columns) = extent(&p.shape);
            let mut lease = version(&weight.values, place)?.write(0..rows).map_err(at("parameters"))?;
            let mut view = lease.view_mut();
            first::draw(p, seed, (rows, columns), |row, column, value| {
                if let Some(place) = view.row_mut(row).get_mut(column) {
                    *place = value;
                }
            });
            let len = view.data_mut().len();
            drop(lease);
            weight.first = vec![0.0; len];
            weight.second = vec![0.0; len];
        }
        Ok(())
    }

    /// Takes values instead of drawing them.
    pub(crate) fn set(&mut self, parameter: usize, values: &[f32]) -> Result<()> {
        self.begin(self.newest);
        if let Some(owners) = &self.owners {
            return owners.put_first(parameter, values);
        }
        self.write(parameter, self.place(self.newest), values)
    }

    /// Writes a parameter's values at a place of the ring.
    fn write(&self, parameter: usize, place: usize, values: &[f32]) -> Result<()> {
        let Some(weight) = self.all.get(parameter) else {
            return Err(Error::Internal(format!("parameter {parameter} does not exist")));
        };
        let buffer = version(&weight.values, place)?;
        let (rows, columns) = (buffer.rows(), buffer.columns());
        if values.len() != rows * columns {
            return Err(Error::Internal(format!("{} values for parameter {parameter}", values.len())));
        }
        let mut lease = buffer.write(0..rows).map_err(at("parameters"))?;
        let mut view = lease.view_mut();
        for (r, row) in values.chunks_exact(columns.max(1)).enumerate() {
            view.row_mut(r).copy_from_slice(row);
        }
        Ok(())
    }

    /// Which values a version has: another number means other values.
    pub(crate) fn generation(&self, version: Version) -> Result<u64> {
        self.find(version).map(|(_, generation)| generation)
    }

    /// The parameter of a number, also of a further use.
    fn owner(&self, id: usize) -> usize {
        let further = id.checked_sub(self.all.len()).and_then(|at| self.further.get(at));
        further.copied().unwrap_or(id)
    }

    /// A parameter as tasks read it that are to read this version.
    pub(crate) fn matrix(&self, parameter: usize, wanted: Version) -> Result<Matrix> {
        let parameter = self.owner(parameter);
        let weight =
            self.all.get(parameter).ok_or_else(|| Error::Internal(format!("parameter {parameter}")))?;
        let buffer = version(&weight.values, self.find(wanted)?.0)?;
        let lease = buffer.read(0..buffer.rows()).map_err(at("parameters"))?;
        Matrix::from(lease).with_extents(&weight.extents).map_err(at("parameters"))
    }

    /// A parameter's newest values, row-major without padding.
    pub(crate) fn values(&self, parameter: usize) -> Result<Vec<f32>> {
        if let Some(owners) = &self.owners {
            return owners.values(parameter);
        }
        let weight =
            self.all.get(parameter).ok_or_else(|| Error::Internal(format!("parameter {parameter}")))?;
        version(&weight.values, self.place(self.newest))?.to_vec().map_err(at("parameters"))
    }

    /// All values, parameter by parameter.
    pub(crate) fn all_values(&self) -> Result<Vec<Vec<f32>>> {
        (0..self.all.len()).map(|parameter| self.values(parameter)).collect()
    }

    /// Returns the buffers that a step writes the gradient of a use into. There are none if workers own
    /// the parameters.
    pub(crate) fn gradient(&self, number: usize, round: Round, interval: IntervalId) -> Result<Vec<Buffer>> {
        self.gradients.borrow_mut().targets(number, round, interval)
    }

    /// Adds the gradients of a committed step to the sums of their uses.
    pub(crate) fn commit(
        &self,
        numbers: &[ParameterId],
        (round, interval): (Round, IntervalId),
    ) -> Result<()> {
        let mut gradients = self.gradients.borrow_mut();
        numbers.iter().try_for_each(|number| gradients.commit(number.index(), round, interval))
    }

    /// Where an interval's share of one of the program's losses goes.
    pub(crate) fn loss_parts(&self, loss: usize, round: Round, interval: IntervalId) -> Vec<Buffer> {
        let partials = self.losses.get(loss).and_then(|all| of(all, round).get(interval.index()));
        partials.cloned().unwrap_or_default()
    }

    /// A round's loss of all intervals: the sum of the program's losses, in their order.
    pub(crate) fn loss(&mut self, round: Round) -> Result<f64> {
        let scratch = &mut self.scratch;
        scratch.resize(scratch.len().max(self.combine.scratch_len(1)), 0.0);
        let mut sum = 0.0;
        for partials in &self.losses {
            let mut parts = Vec::new();
            for buffer in of(partials, round).iter().flatten() {
                parts.extend(buffer.to_vec().map_err(at("loss"))?);
            }
            sum += f64::from(self.combine.sum(&parts, 1, scratch)?[0]);
        }
        Ok(sum)
    }

    /// Takes one step from the newest version to the next with the sums of a round's gradients, at the
    /// round's learning rate. Returns the gradients' norm where clipping needs it: as it
    /// was, before it was clipped. A gradient that is not finite is refused, with what was the newest version before,
    /// unless the next one lies in its place and parameters before that gradient's have been changed.
    pub(crate) fn step(
        &mut self,
        optimiser: &Optimiser,
        lr: f64,
        round: Round,
    ) -> Result<std::result::Result<Option<f64>, Refused>> {
        let clip = Clip::of(optimiser);
        let mut norm = None;
        let gradients = self.gradients.get_mut();
        gradients.updated(round);
        if let Some(clip) = &clip {
            self.whole.resize_with(self.all.len(), Vec::new);
            for (weight, whole) in self.all.iter().zip(&mut self.whole) {
                whole.clear();
                if !weight.frozen {
                    gradients.whole(round, &weight.uses, |gradient| whole.extend_from_slice(gradient))?;
                }
            }
            let columns = self.all.iter().map(Weight::columns);
            norm = clip.apply(&mut self.whole, columns);
            if let Some(norm) = norm.filter(|norm| !norm.is_finite()) {
                return Ok(Err(Refused::Norm(norm)));
            }
        }
        self.steps += 1;
        let (old, before) = (self.newest, self.find(self.newest)?.0);
        self.newest = Version(self.newest.0 + 1);
        self.hold(self.newest);
        let to = self.place(self.newest);
        let gradients = self.gradients.get_mut();
        let rule = Rule::new(optimiser, lr, self.steps);
        for (place, weight) in self.all.iter_mut().enumerate() {
            let buffer = version(&weight.values, to)?;
            let mut lease = buffer.write(0..buffer.rows()).map_err(at("parameters"))?;
            let mut view = lease.view_mut();
            let (values, first, second) = (view.data_mut(), &mut weight.first, &mut weight.second);
            if before != to {
                let before = version(&weight.values, before)?;
                let before = before.read(0..before.rows()).map_err(at("parameters"))?;
                values.copy_from_slice(before.view().data());
            }
            if weight.frozen {
                continue;
            }
            let (decay, mut refused) = (weight.decay, false);
            // A block after another: what was looked at is in the first cache when it is used.
            let mut step = |gradient: &[f32]| {
                let blocks = values.chunks_mut(STEP_VALUES).zip(gradient.chunks(STEP_VALUES));
                let moments = first.chunks_mut(STEP_VALUES).zip(second.chunks_mut(STEP_VALUES));
                for ((values, gradient), (first, second)) in blocks.zip(moments) {
                    refused = refused || !is_finite(gradient);
                    if refused {
                        return;
                    }
                    rule.step(decay, values, gradient, first, second);
                }
            };
            match self.whole.get(place).filter(|_| clip.is_some()) {
                Some(whole) => step(whole),
                None => gradients.whole(round, &weight.uses, step)?,
            }
            if refused {
                if before != to {
                    self.newest = old;
                }
                return Ok(Err(Refused::Gradient(place)));
            }
        }
        Ok(Ok(norm))
    }

    /// The gradient of a parameter in the round of the newest version, row-major without padding; for tests.
    pub(crate) fn gradient_values(&self, parameter: usize) -> Result<Vec<f32>> {
        let round = Round(u32::try_from(self.newest.0).unwrap_or(u32::MAX));
        let Some(weight) = self.all.get(parameter) else { return Ok(Vec::new()) };
        self.gradients
            .borrow()
            .whole(round, &weight.uses, |gradient| state::packed(weight.columns(), gradient))
    }
}

//! The weight store: parameters by version, gradients of the rounds in flight, and optimiser steps.
//! The [`Pipeline`] sets the number of versions.

mod first;
mod from_program;
mod gradients;
mod parameters;
mod rule;
mod state;
mod summing;
mod sums;

use std::cell::RefCell;
use std::collections::BTreeMap;

use eciton_program::Program;
use eciton_recipe::{Algorithm, Lanes, Optimiser, Pipeline, WeightVersions};
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{Combine, IntervalId, Node, ParameterId, Round, Version};

use crate::error::{Error, Result, at};
use crate::owned::{Collected, Owners};
pub(crate) use from_program::{extent, parameters};
use gradients::Gradients;
pub(crate) use parameters::{Parameter, Parameters, Refused, Step, clip_factor};
use parameters::{packed, use_number};
pub(crate) use state::WeightState;
pub(crate) use summing::GradientSums;
pub(crate) use sums::Sums;

/// Partial sums of a loss in one round: for each interval, one buffer for each node.
type Partials = Vec<Vec<Buffer>>;

/// All parameters, with the gradients of the rounds in flight.
#[derive(Debug)]
pub(crate) struct Weights {
    /// Parameters whose values are on the host.
    parameters: Parameters,
    /// Parameter of each further use ([`Program::uses`]).
    further: Vec<ParameterId>,
    algorithm: Algorithm,
    /// Gradients of rounds that the host adds up. A cell, because steps of a round reserve buffers
    /// while the weights are read.
    gradients: RefCell<Gradients>,
    /// Gradients of rounds that workers add up, by replica of the pipeline.
    collected: RefCell<Gradients>,
    combine: Combine,
    newest: Version,
    /// Versions whose values are available, with the generation of each. Their maximum number is
    /// `versions`.
    held: BTreeMap<Version, u64>,
    versions: usize,
    /// True if a round reads the version before that of the round before it (`2bw`).
    delayed: bool,
    /// Counter that grows with every change of the values, over seeds and runs of a session.
    generation: u64,
    /// Scratch memory for the sum of a loss.
    scratch: Vec<f32>,
    /// Partial sums of each loss of the program, by round in a ring.
    losses: Vec<Vec<Partials>>,
    /// Sums and parameters that workers own.
    owners: Owners,
}

fn partials(rounds: u32, sums: &Sums) -> Result<Vec<Partials>> {
    let part = |_| Buffer::zeroed(1, 1).map_err(at("losses"));
    let all = |_| sums.nodes.iter().map(|nodes| nodes.iter().map(part).collect()).collect();
    (0..rounds).map(all).collect()
}

fn internal(reason: String) -> Error {
    Error::Internal(format!("weights: {reason}"))
}

/// Returns the partial sums of a round.
fn of(partials: &[Partials], round: Round) -> &[Vec<Buffer>] {
    partials.get(round.index() % partials.len().max(1)).map_or(&[], |partials| partials)
}

impl Weights {
    /// Creates the parameters of a program, without values. Parameters that `owners` have are not
    /// on the host.
    pub(crate) fn new(
        program: &Program,
        optimiser: &Optimiser,
        pipeline: &Pipeline,
        (sums, lanes): (&Sums, &Lanes),
        owners: Owners,
    ) -> Result<Self> {
        let (versions, rounds) = (pipeline.weight_versions() as usize, pipeline.gradient_versions());
        let nodes: Vec<Node> = sums.nodes.iter().flatten().copied().collect();
        let losses = program.losses.iter().map(|_| partials(rounds, sums)).collect::<Result<_>>()?;
        let uses = program.uses.iter().filter_map(|&id| program.parameter(id));
        let shapes = program.parameters.iter().chain(uses).map(|p| extent(&p.shape));
        let collected = Gradients::new(&sums.of_replicas(lanes), Vec::new())?;
        let mut here = Parameters::new(versions);
        if !owners.have_parameters() {
            parameters(program, optimiser).for_each(|(number, parameter)| here.insert(number, parameter));
        }
        Ok(Self {
            parameters: here,
            further: program.uses.clone(),
            algorithm: optimiser.algorithm,
            gradients: RefCell::new(Gradients::new(sums, shapes.collect())?),
            collected: RefCell::new(collected),
            combine: Combine::new(sums.tree, &nodes, sums.tree.root())?,
            newest: Version(0),
            held: BTreeMap::new(),
            versions,
            delayed: pipeline.weights() == WeightVersions::TwoBuffered,
            generation: 0,
            scratch: Vec::new(),
            losses,
            owners,
        })
    }

    /// Returns the sums and parameters that workers own.
    pub(crate) fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Returns the owners for changes.
    pub(crate) fn owners_mut(&mut self) -> &mut Owners {
        &mut self.owners
    }

    /// Returns the owners if parameters live on workers.
    pub(crate) fn owning_workers(&self) -> Option<&Owners> {
        Some(&self.owners).filter(|owners| owners.have_parameters())
    }

    /// Returns the owners for changes if parameters live on workers.
    pub(crate) fn owning_workers_mut(&mut self) -> Option<&mut Owners> {
        Some(&mut self.owners).filter(|owners| owners.have_parameters())
    }

    /// Adds the sums of a round that workers have computed to those of the host.
    pub(crate) fn add(&mut self, round: Round, collected: Vec<Collected>) -> Result<()> {
        let gradients = self.collected.get_mut();
        for ((number, replica), parts) in collected {
            gradients.add((round.0, number), use_number(replica), parts)?;
        }
        Ok(())
    }

    /// Records that workers have the values of a version, and those before it if rounds read them.
    pub(crate) fn returned_to(&mut self, version: Version) -> Result<()> {
        self.begin(version)?;
        let before = version.0.checked_sub(1).map(Version).filter(|_| self.delayed);
        before.into_iter().for_each(|before| self.hold(before));
        Ok(())
    }

    /// Records that all parameters have been updated, on the host or by workers.
    pub(crate) fn stepped(&mut self) {
        self.newest = Version(self.newest.0 + 1);
        self.hold(self.newest);
    }

    /// Records a version with values of its own. The oldest version is dropped if there are too
    /// many.
    fn hold(&mut self, version: Version) {
        self.generation += 1;
        self.held.insert(version, self.generation);
        if self.held.len() > self.versions {
            self.held.pop_first();
        }
    }

    /// Returns the number of steps taken. A step is a version.
    pub(crate) fn steps(&self) -> u32 {
        u32::try_from(self.newest.0).unwrap_or(u32::MAX)
    }

    /// Returns the newest version.
    pub(crate) fn newest(&self) -> Version {
        self.newest
    }

    /// Frees the buffers that gradients of later steps would reuse.
    pub(crate) fn free_buffers(&mut self) {
        self.gradients.get_mut().free_buffers();
        self.collected.get_mut().free_buffers();
    }

    /// Removes all gradients, so that their rounds can be computed again.
    pub(crate) fn forget_gradients(&mut self) {
        self.gradients.get_mut().clear();
        self.collected.get_mut().clear();
    }

    /// Makes `version` the newest and the only one, with the values of the newest before, and
    /// removes gradients of earlier ones.
    fn begin(&mut self, version: Version) -> Result<()> {
        self.forget_gradients();
        self.newest = version;
        self.held.clear();
        self.hold(version);
        for parameter in self.parameters.iter_mut() {
            parameter.begin(version.0).map_err(internal)?;
        }
        Ok(())
    }

    /// Sets the initial values for a seed (`Initialiser`; random numbers of purpose 1, round 0).
    pub(crate) fn initialise(&mut self, program: &Program, seed: u64) -> Result<()> {
        self.begin(Version(0))?;
        if self.owners.have_parameters() {
            for (at, p) in program.parameters.iter().enumerate() {
                let (rows, columns) = extent(&p.shape);
                let mut values = Vec::with_capacity(rows * columns);
                // Row by row.
                first::draw(p, seed, (rows, columns), |_, _, value| values.push(value));
                self.owners.put_first(at, &values)?;
            }
            return Ok(());
        }
        for (parameter, p) in self.parameters.iter_mut().zip(&program.parameters) {
            let (rows, columns) = extent(&p.shape);
            let buffer = parameter.begin(0).map_err(internal)?;
            let mut lease = buffer.write(0..rows).map_err(at("parameters"))?;
            let mut view = lease.view_mut();
            first::draw(p, seed, (rows, columns), |row, column, value| {
                if let Some(place) = view.row_mut(row).get_mut(column) {
                    *place = value;
                }
            });
            drop(lease);
            parameter.clear_moments(self.algorithm).map_err(internal)?;
        }
        Ok(())
    }

    /// Sets the values of a parameter instead of drawing them.
    pub(crate) fn set(&mut self, parameter: usize, values: &[f32]) -> Result<()> {
        self.begin(self.newest)?;
        if self.owners.have_parameters() {
            return self.owners.put_first(parameter, values);
        }
        let newest = self.newest.0;
        let parameter = self.parameters.get_mut(use_number(parameter)).map_err(internal)?;
        write(parameter.begin(newest).map_err(internal)?, values)
    }

    /// Returns the generation of a version. Another number means other values.
    pub(crate) fn generation(&self, version: Version) -> Result<u64> {
        self.held.get(&version).copied().ok_or_else(|| {
            let held: Vec<u64> = self.held.keys().map(|version| version.0).collect();
            Error::Internal(format!("weights of version {version} are wanted, versions {held:?} are there"))
        })
    }

    /// Returns the parameter of a number, which may be that of a further use.
    fn parameter(&self, id: usize) -> Result<&Parameter> {
        let further = id.checked_sub(self.parameters.len()).and_then(|at| self.further.get(at));
        self.parameters.get(use_number(further.map_or(id, |id| id.index()))).map_err(internal)
    }

    /// Returns a parameter in the form that tasks read, at the version `wanted`.
    pub(crate) fn matrix(&self, parameter: usize, wanted: Version) -> Result<Matrix> {
        self.generation(wanted)?;
        self.parameter(parameter)?.matrix(wanted.0).map_err(internal)
    }

    /// Returns the newest values of a parameter, row-major without padding.
    pub(crate) fn values(&self, parameter: usize) -> Result<Vec<f32>> {
        if self.owners.have_parameters() {
            return self.owners.values(parameter);
        }
        self.values_of(parameter, self.newest)
    }

    /// Returns the values of a parameter at a version, row-major without padding.
    fn values_of(&self, parameter: usize, version: Version) -> Result<Vec<f32>> {
        let parameter = self.parameters.get(use_number(parameter)).map_err(internal)?;
        let values = parameter.values(version.0);
        let values = values.ok_or_else(|| internal(format!("no values of version {}", version.0)))?;
        values.to_vec().map_err(at("parameters"))
    }

    /// Returns the newest values of all parameters, in order.
    pub(crate) fn all_values(&self) -> Result<Vec<Vec<f32>>> {
        self.all_values_of(self.newest)
    }

    /// Returns the values of all parameters at a version, in order.
    fn all_values_of(&self, version: Version) -> Result<Vec<Vec<f32>>> {
        (0..self.parameters.len()).map(|parameter| self.values_of(parameter, version)).collect()
    }

    /// Returns the gradients of a round.
    fn gradients_of(&self, round: Round) -> &RefCell<Gradients> {
        if self.owners.have_sums(round) { &self.collected } else { &self.gradients }
    }

    /// Returns the buffers that a step writes the gradient of a use into. There are none if workers
    /// own the parameters.
    pub(crate) fn gradient(&self, number: usize, round: Round, interval: IntervalId) -> Result<Vec<Buffer>> {
        self.gradients_of(round).borrow_mut().targets(number, round, interval)
    }

    /// Adds the gradients of a committed step to the sums of their uses.
    pub(crate) fn commit(
        &self,
        numbers: &[ParameterId],
        (round, interval): (Round, IntervalId),
    ) -> Result<()> {
        let mut gradients = self.gradients_of(round).borrow_mut();
        numbers.iter().try_for_each(|number| gradients.commit(number.index(), round, interval))
    }

    /// Returns the buffers that an interval's share of one of the program's losses is written to.
    pub(crate) fn loss_parts(&self, loss: usize, round: Round, interval: IntervalId) -> Vec<Buffer> {
        let partials = self.losses.get(loss).and_then(|all| of(all, round).get(interval.index()));
        partials.cloned().unwrap_or_default()
    }

    /// Returns the loss of a round over all intervals: the sum of the program's losses, in their
    /// order.
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

    /// Takes one optimizer step from the newest version to the next with the gradient sums of a
    /// round, at the learning rate `lr`. Returns the gradient norm before clipping, if clipping
    /// needs it. A gradient that is not finite is refused, and the newest version stays. If the
    /// pipeline has one version, the parameters before that gradient's have been changed.
    pub(crate) fn step(
        &mut self,
        optimiser: &Optimiser,
        lr: f64,
        round: Round,
    ) -> Result<std::result::Result<Option<f64>, Refused>> {
        let gradients = match self.owners.have_sums(round) {
            true => self.collected.get_mut(),
            false => self.gradients.get_mut(),
        };
        gradients.updated(round);
        let sums = gradients.sums();
        let trained = self.parameters.iter().filter(|(_, parameter)| !parameter.is_frozen());
        let trained: Vec<u32> = trained.map(|(number, _)| number).collect();
        let square = optimiser.clip_norm.map(|_| self.parameters.squares(sums, round.0, &trained, 0.0));
        let norm = square.transpose().map_err(internal)?.map(f64::sqrt);
        if let Some(norm) = norm.filter(|norm| !norm.is_finite()) {
            return Ok(Err(Refused::Norm(norm)));
        }
        let clip = (clip_factor(optimiser, norm), optimiser.clip_value.map(|most| most as f32));
        let step = Step::new((optimiser.algorithm, lr), self.newest.0 + 1, clip).map_err(internal)?;
        let numbers: Vec<u32> = self.parameters.iter().map(|(number, _)| number).collect();
        for number in numbers {
            if !self.parameters.update(sums, round.0, number, &step).map_err(internal)? {
                // Other parameters have been updated.
                self.begin(self.newest)?;
                return Ok(Err(Refused::Gradient(number as usize)));
            }
        }
        Ok(Ok(norm))
    }

    /// Returns the gradient of a parameter in the round of the newest version, row-major without
    /// padding. For tests.
    pub(crate) fn gradient_values(&self, parameter: usize) -> Result<Vec<f32>> {
        let round = self.steps();
        let gradients = self.gradients_of(Round(round)).borrow();
        let Ok(parameter) = self.parameters.get(use_number(parameter)) else { return Ok(Vec::new()) };
        let columns = parameter.shape().1;
        let packed = |gradient: &[f32]| packed(columns, gradient);
        gradients.sums().whole(round, parameter.uses(), packed).map_err(internal)
    }
}

/// Writes values into a buffer, row-major without padding.
fn write(buffer: &Buffer, values: &[f32]) -> Result<()> {
    let (rows, columns) = (buffer.rows(), buffer.columns());
    if values.len() != rows * columns {
        return Err(internal(format!("{} values for {rows} x {columns}", values.len())));
    }
    let mut lease = buffer.write(0..rows).map_err(at("parameters"))?;
    let mut view = lease.view_mut();
    for (r, row) in values.chunks_exact(columns.max(1)).enumerate() {
        view.row_mut(r).copy_from_slice(row);
    }
    Ok(())
}

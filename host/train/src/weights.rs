//! The weights on the host, which is the process that drives a run. They consist of parameters by
//! version, gradients of the rounds in flight, and optimiser moments.
//!
//! A round is one optimiser step over all micro-batches. [`Pipeline`] determines how many versions
//! are stored.

mod first;
mod from_program;
mod frozen;
mod gradients;
mod parameters;
mod rule;
mod shared;
mod state;
mod summing;
mod sums;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use eciton_program::Program;
use eciton_recipe::{Algorithm, Optimiser, Pipeline, WeightVersions};
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{Combine, IntervalId, Node, ParameterId, Round, Version};

use crate::error::{Error, Result, at};
use crate::owned::{Collected, Owners};
pub(crate) use from_program::{extent, parameters};
pub(crate) use frozen::Frozen;
use frozen::Gate;
use gradients::Gradients;
pub(crate) use parameters::{Parameter, Parameters, Refused, Step, clip_factor};
use parameters::{packed, use_number};
pub(crate) use state::WeightState;
pub(crate) use summing::GradientSums;
pub(crate) use sums::Sums;

/// Partial sums of a loss in one round. For each interval, there is one buffer per node of the
/// summation tree.
type Partials = Vec<Vec<Buffer>>;

/// All parameters of a program, with the gradients of the rounds in flight.
#[derive(Debug)]
pub(crate) struct Weights {
    /// Parameters whose values are on the host. Empty if workers own the parameters.
    parameters: Parameters,
    /// Parameter that each further use reads. A parameter that several layers share has further
    /// uses ([`Program::uses`]).
    further: Vec<ParameterId>,
    algorithm: Algorithm,
    /// Gradients that the host adds up. In a cell, because buffers are reserved for steps while
    /// other steps read the weights.
    gradients: RefCell<Gradients>,
    /// Gradient sums of rounds in which workers add up the gradients, by replica of the pipeline.
    collected: RefCell<Gradients>,
    combine: Combine,
    newest: Version,
    /// Versions of the weights whose values are available, at most `versions` of them. The value is
    /// a generation number, which changes when the values of the version change.
    held: BTreeMap<Version, u64>,
    versions: usize,
    /// True if a round reads the weights from before the newest update, as in the schedule `2bw`.
    delayed: bool,
    /// Newest generation number. It grows with every change of the weights, over all trainings of a
    /// session.
    generation: u64,
    /// Temporary memory for adding up the partial sums of a loss.
    scratch: Vec<f32>,
    /// Partial sums of each loss of the program. The second index is the round, modulo the number
    /// of rounds in flight.
    losses: Vec<Vec<Partials>>,
    /// Record of the gradient sums and parameters that workers own.
    owners: Owners,
    /// Gate of the checkpoint that is being written. `None` if there is none.
    gate: Option<Arc<Gate>>,
    /// Index of this host in a run on several hosts, whose sums are collected for each update.
    /// `None` in a run on one host.
    host: Option<u32>,
    /// Losses that other hosts have shared, by round.
    losses_of_hosts: BTreeMap<u32, Vec<shared::Losses>>,
}

/// Creates the buffers for the partial sums of one loss. `rounds` is the number of rounds in
/// flight.
fn partials(rounds: u32, sums: &Sums) -> Result<Vec<Partials>> {
    let part = |_| Buffer::zeroed(1, 1).map_err(at("losses"));
    let all = |_| sums.nodes.iter().map(|nodes| nodes.iter().map(part).collect()).collect();
    (0..rounds).map(all).collect()
}

fn internal(reason: String) -> Error {
    Error::Internal(format!("weights: {reason}"))
}

/// Returns the partial sums of a loss in a round, from the ring of all rounds in flight.
fn partials_in_round(partials: &[Partials], round: Round) -> &[Vec<Buffer>] {
    partials.get(round.index() % partials.len().max(1)).map_or(&[], |partials| partials)
}

impl Weights {
    /// Creates the weights of a program, without values. If workers own the parameters, none are
    /// stored on the host. `runs` are the intervals of each pipeline replica or of each host, and
    /// `host` is the index of this host among several.
    pub(crate) fn new(
        program: &Program,
        optimiser: &Optimiser,
        pipeline: &Pipeline,
        (sums, runs): (&Sums, &[Range<u32>]),
        (owners, host): (Owners, Option<u32>),
    ) -> Result<Self> {
        let (versions, rounds) = (pipeline.weight_versions() as usize, pipeline.gradient_versions());
        let nodes: Vec<Node> = sums.nodes.iter().flatten().copied().collect();
        let losses = program.losses.iter().map(|_| partials(rounds, sums)).collect::<Result<_>>()?;
        let uses = program.uses.iter().filter_map(|&id| program.parameter(id));
        let shapes = program.parameters.iter().chain(uses).map(|p| extent(&p.shape));
        let root = [sums.tree.root()];
        let collected = Gradients::new(&sums.joined(runs), Vec::new(), &root)?;
        let tops: Vec<Node> = match host {
            Some(_) => sums.tops(runs).concat(),
            None => root.to_vec(),
        };
        let mut here = Parameters::new(versions);
        if !owners.have_parameters() {
            parameters(program, optimiser).for_each(|(number, parameter)| here.insert(number, parameter));
        }
        Ok(Self {
            parameters: here,
            further: program.uses.clone(),
            algorithm: optimiser.algorithm,
            gradients: RefCell::new(Gradients::new(sums, shapes.collect(), &tops)?),
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
            gate: None,
            host,
            losses_of_hosts: BTreeMap::new(),
        })
    }

    /// Returns the record of what workers own.
    pub(crate) fn owners(&self) -> &Owners {
        &self.owners
    }

    /// Returns a mutable reference to the record of what workers own.
    pub(crate) fn owners_mut(&mut self) -> &mut Owners {
        &mut self.owners
    }

    /// Returns the record of what workers own if they own the parameters. Otherwise returns `None`.
    pub(crate) fn owning_workers(&self) -> Option<&Owners> {
        Some(&self.owners).filter(|owners| owners.have_parameters())
    }

    /// Returns a mutable reference to the record of what workers own if they own the parameters.
    /// Otherwise returns `None`.
    pub(crate) fn owning_workers_mut(&mut self) -> Option<&mut Owners> {
        Some(&mut self.owners).filter(|owners| owners.have_parameters())
    }

    /// Adds gradient sums that were collected from workers to the gradients of `round`.
    pub(crate) fn add(&mut self, round: Round, collected: Vec<Collected>) -> Result<()> {
        let gradients = self.collected.get_mut();
        for ((number, replica), parts) in collected {
            gradients.add((round.0, number), use_number(replica), parts)?;
        }
        Ok(())
    }

    /// Makes `version` the newest one, after workers that own the weights were rolled back to it.
    /// The version before it is also available if rounds read it.
    pub(crate) fn returned_to(&mut self, version: Version) -> Result<()> {
        self.begin(version)?;
        let before = version.0.checked_sub(1).map(Version).filter(|_| self.delayed);
        before.into_iter().for_each(|before| self.hold(before));
        Ok(())
    }

    /// Records an optimiser step, in which the host or the workers have updated all parameters.
    pub(crate) fn stepped(&mut self) {
        self.newest = Version(self.newest.0 + 1);
        self.hold(self.newest);
    }

    /// Records that the values of `version` are available. If there are too many versions, the
    /// oldest one is no longer available.
    fn hold(&mut self, version: Version) {
        self.generation += 1;
        self.held.insert(version, self.generation);
        if self.held.len() > self.versions {
            self.held.pop_first();
        }
    }

    /// Returns the number of optimiser steps so far, which is also the number of the newest
    /// version.
    pub(crate) fn steps(&self) -> u32 {
        u32::try_from(self.newest.0).unwrap_or(u32::MAX)
    }

    /// Returns the newest version of the weights.
    pub(crate) fn newest(&self) -> Version {
        self.newest
    }

    /// Frees the buffers that are stored for the gradients of later steps.
    pub(crate) fn free_buffers(&mut self) {
        self.gradients.get_mut().free_buffers();
        self.collected.get_mut().free_buffers();
    }

    /// Removes all gradients, so that the rounds in flight can be computed again.
    pub(crate) fn forget_gradients(&mut self) {
        self.gradients.get_mut().clear();
        self.collected.get_mut().clear();
        self.losses_of_hosts.clear();
    }

    /// Makes `version` the only available version. It gets the newest values so far. All gradients
    /// are removed.
    fn begin(&mut self, version: Version) -> Result<()> {
        self.thaw();
        self.forget_gradients();
        self.newest = version;
        self.held.clear();
        self.hold(version);
        for parameter in self.parameters.iter_mut() {
            parameter.begin(version.0).map_err(internal)?;
        }
        Ok(())
    }

    /// Sets all parameters to their initial values for `seed`, which the `Initialiser` of each
    /// parameter defines. The keys of the random numbers have purpose 1 and round 0.
    pub(crate) fn initialise(&mut self, program: &Program, seed: u64) -> Result<()> {
        self.begin(Version(0))?;
        if self.owners.have_parameters() {
            for (at, p) in program.parameters.iter().enumerate() {
                let (rows, columns) = extent(&p.shape);
                let mut values = Vec::with_capacity(rows * columns);
                // The values are drawn row by row.
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

    /// Replaces the values of a parameter, for instance by those of a weight file.
    pub(crate) fn set(&mut self, parameter: usize, values: &[f32]) -> Result<()> {
        self.begin(self.newest)?;
        if self.owners.have_parameters() {
            return self.owners.put_first(parameter, values);
        }
        let newest = self.newest.0;
        let parameter = self.parameters.get_mut(use_number(parameter)).map_err(internal)?;
        write(parameter.begin(newest).map_err(internal)?, values)
    }

    /// Returns the generation number of a version, which changes whenever the values of the version
    /// change. Fails if the version is not available.
    pub(crate) fn generation(&self, version: Version) -> Result<u64> {
        self.held.get(&version).copied().ok_or_else(|| {
            let held: Vec<u64> = self.held.keys().map(|version| version.0).collect();
            Error::Internal(format!("there are no weights of version {version}, only of {held:?}"))
        })
    }

    /// Returns the parameter that the use `id` reads. Numbers below the number of parameters are
    /// the parameters themselves, and further numbers are additional uses.
    fn parameter(&self, id: usize) -> Result<&Parameter> {
        let further = id.checked_sub(self.parameters.len()).and_then(|at| self.further.get(at));
        self.parameters.get(use_number(further.map_or(id, |id| id.index()))).map_err(internal)
    }

    /// Returns the values of a parameter at version `wanted`, as the matrix that tasks read.
    pub(crate) fn matrix(&self, parameter: usize, wanted: Version) -> Result<Matrix> {
        self.generation(wanted)?;
        self.parameter(parameter)?.matrix(wanted.0).map_err(internal)
    }

    /// Returns the newest values of a parameter, row-major and without padding.
    pub(crate) fn values(&self, parameter: usize) -> Result<Vec<f32>> {
        if self.owners.have_parameters() {
            return self.owners.values(parameter);
        }
        self.values_of(parameter, self.newest)
    }

    /// Returns the values of a parameter at `version`, row-major and without padding.
    pub(crate) fn values_of(&self, parameter: usize, version: Version) -> Result<Vec<f32>> {
        let parameter = self.parameters.get(use_number(parameter)).map_err(internal)?;
        let values = parameter.values(version.0);
        let values = values.ok_or_else(|| internal(format!("no values of version {}", version.0)))?;
        values.to_vec().map_err(at("parameters"))
    }

    /// Returns the newest values of all parameters, in the order of the program.
    pub(crate) fn all_values(&self) -> Result<Vec<Vec<f32>>> {
        self.all_values_of(self.newest)
    }

    /// Returns the values of all parameters at `version`, in the order of the program.
    fn all_values_of(&self, version: Version) -> Result<Vec<Vec<f32>>> {
        (0..self.parameters.len()).map(|parameter| self.values_of(parameter, version)).collect()
    }

    /// Returns the gradients of `round`. They are those that workers add up, or those that the host
    /// adds up.
    fn gradients_of(&self, round: Round) -> &RefCell<Gradients> {
        if self.owners.have_sums(round) { &self.collected } else { &self.gradients }
    }

    /// Returns the buffers that a step writes the gradient of the use `number` to. There are none
    /// if workers add up the gradients.
    pub(crate) fn gradient(&self, number: usize, round: Round, interval: IntervalId) -> Result<Vec<Buffer>> {
        self.gradients_of(round).borrow_mut().targets(number, round, interval)
    }

    /// Adds the gradients that a step has written to the sums of its round. Called when the engine
    /// has committed the step.
    pub(crate) fn commit(
        &self,
        numbers: &[ParameterId],
        (round, interval): (Round, IntervalId),
    ) -> Result<()> {
        let mut gradients = self.gradients_of(round).borrow_mut();
        numbers.iter().try_for_each(|number| gradients.commit(number.index(), round, interval))
    }

    /// Returns the buffers that an interval writes its partial sums of a loss to. `loss` is the
    /// index of the loss in the program.
    pub(crate) fn loss_parts(&self, loss: usize, round: Round, interval: IntervalId) -> Vec<Buffer> {
        let partials =
            self.losses.get(loss).and_then(|all| partials_in_round(all, round).get(interval.index()));
        partials.cloned().unwrap_or_default()
    }

    /// Returns the loss of `round` over all intervals. If the program has several losses, it is
    /// their sum.
    pub(crate) fn loss(&mut self, round: Round) -> Result<f64> {
        self.take_losses_of_hosts(round)?;
        let scratch = &mut self.scratch;
        scratch.resize(scratch.len().max(self.combine.scratch_len(1)), 0.0);
        let mut sum = 0.0;
        for partials in &self.losses {
            let mut parts = Vec::new();
            for buffer in partials_in_round(partials, round).iter().flatten() {
                parts.extend(buffer.to_vec().map_err(at("loss"))?);
            }
            sum += f64::from(self.combine.sum(&parts, 1, scratch)?[0]);
        }
        Ok(sum)
    }

    /// Takes an optimiser step with the gradient sums of `round` and the learning rate `lr`.
    /// Returns the gradient norm before clipping if `clip_norm` is set or if `measures` is true. If
    /// a gradient is not
    /// finite, returns a refusal, and the newest version remains. If only one version is stored,
    /// some parameters may be updated already.
    pub(crate) fn step(
        &mut self,
        (optimiser, lr, measures): (&Optimiser, f64, bool),
        (round, learns): (Round, bool),
        statistics: &BTreeMap<usize, Vec<f32>>,
    ) -> Result<std::result::Result<Option<f64>, Refused>> {
        let gradients = match self.owners.have_sums(round) || self.host.is_some() {
            true => {
                self.gradients.get_mut().updated(round);
                self.collected.get_mut()
            }
            false => self.gradients.get_mut(),
        };
        gradients.updated(round);
        let sums = gradients.sums();
        let trained = self.parameters.iter().filter(|(_, parameter)| !parameter.is_frozen());
        let trained: Vec<u32> = trained.map(|(number, _)| number).collect();
        let measures = measures || optimiser.clip_norm.is_some();
        let square = measures.then(|| self.parameters.squares(sums, round.0, &trained, 0.0));
        let norm = square.transpose().map_err(internal)?.map(f64::sqrt);
        if let Some(norm) = norm.filter(|norm| !norm.is_finite()) {
            return Ok(Err(Refused::Norm(norm)));
        }
        let clip = (clip_factor(optimiser, norm), optimiser.clip_value.map(|most| most as f32));
        let step = Step::new((optimiser.algorithm, lr), self.newest.0 + 1, clip).map_err(internal)?;
        let numbers: Vec<u32> = self.parameters.iter().map(|(number, _)| number).collect();
        let sums = Some(sums).filter(|_| learns);
        let gate = self.gate.take();
        let pass = |index| gate.iter().for_each(|gate| gate.wait(index));
        let refused = self.parameters.update(sums, round.0, &numbers, &step, &pass).map_err(internal)?;
        if let Some(number) = refused {
            self.begin(self.newest)?;
            return Ok(Err(Refused::Gradient(number as usize)));
        }
        for (&number, new) in statistics {
            let parameter = self.parameters.get(use_number(number)).map_err(internal)?;
            let missing = || internal(format!("parameter {number} has no values"));
            write(parameter.values(step.to()).ok_or_else(missing)?, new)?;
        }
        Ok(Ok(norm))
    }

    /// Returns the gradient of a parameter in the latest round, row-major and without padding. Used
    /// in tests.
    pub(crate) fn gradient_values(&self, parameter: usize) -> Result<Vec<f32>> {
        let round = self.steps();
        let gradients = match self.host {
            Some(_) => self.collected.borrow(),
            None => self.gradients_of(Round(round)).borrow(),
        };
        let Ok(parameter) = self.parameters.get(use_number(parameter)) else { return Ok(Vec::new()) };
        let columns = parameter.shape().1;
        let packed = |gradient: &[f32]| packed(columns, gradient);
        gradients.sums().whole(round, parameter.uses(), packed).map_err(internal)
    }
}

/// Writes row-major values without padding to a buffer whose rows are padded.
fn write(buffer: &Buffer, values: &[f32]) -> Result<()> {
    let (rows, columns) = (buffer.rows(), buffer.columns());
    if values.len() != rows * columns {
        return Err(internal(format!("found {} values, expected {rows} x {columns}", values.len())));
    }
    let mut lease = buffer.write(0..rows).map_err(at("parameters"))?;
    let mut view = lease.view_mut();
    for (r, row) in values.chunks_exact(columns.max(1)).enumerate() {
        view.row_mut(r).copy_from_slice(row);
    }
    Ok(())
}

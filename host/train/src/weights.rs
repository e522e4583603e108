//! The parameters of a run: first values, gradients put together in a fixed order, optimiser steps.

use eciton_plan::{Algorithm, Combine, Initialiser, Optimiser, Parameter, Program, Tree};
use eciton_tensor::ops::adam::{self, Adam};
use eciton_tensor::random::{Key, Purpose, bits32, uniform};
use eciton_tensor::{Buffer, Matrix};

use crate::data::Interval;
use crate::error::{Error, Result, at};

/// One parameter with its optimiser's state and its gradient's partial sums.
#[derive(Debug)]
struct Weight {
    values: Buffer,
    extents: Vec<u32>,
    first: Vec<f32>,
    second: Vec<f32>,
    decay: f32,
    /// For each interval, one buffer a part of its grid.
    partials: Vec<Vec<Buffer>>,
}

/// All parameters.
#[derive(Debug)]
pub(crate) struct Weights {
    all: Vec<Weight>,
    combine: Combine,
    steps: u32,
    /// Grows with every change of the values, over seeds and runs of a session.
    generation: u64,
    gathered: Vec<f32>,
    scratch: Vec<f32>,
    /// The loss: partial sums of each interval.
    loss: Vec<Vec<Buffer>>,
}

/// (rows, columns) of a parameter's buffer: a vector has its values in rows.
fn extent(shape: &[u32]) -> (usize, usize) {
    let rows = shape.first().map_or(1, |&r| r as usize);
    (rows, shape.iter().skip(1).map(|&e| e as usize).product())
}

fn partials(intervals: &[Interval], (rows, columns): (usize, usize)) -> Result<Vec<Vec<Buffer>>> {
    let part = |_| Buffer::zeroed(rows, columns).map_err(at("gradients"));
    intervals.iter().map(|i| i.nodes.iter().map(part).collect()).collect()
}

impl Weights {
    /// Buffers for a program's parameters, without values yet.
    pub(crate) fn new(
        program: &Program,
        optimiser: &Optimiser,
        intervals: &[Interval],
        tree: Tree,
    ) -> Result<Self> {
        let nodes: Vec<_> = intervals.iter().flat_map(|i| i.nodes.iter().copied()).collect();
        let combine = Combine::new(tree, &nodes, tree.root())?;
        let weight = |p: &Parameter| -> Result<Weight> {
            let (rows, columns) = extent(&p.shape);
            Ok(Weight {
                values: Buffer::zeroed(rows, columns).map_err(at("parameters"))?,
                extents: p.shape.get(1..).unwrap_or_default().to_vec(),
                first: Vec::new(),
                second: Vec::new(),
                decay: optimiser.weight_decay.of(p.layer) as f32,
                partials: partials(intervals, (rows, columns))?,
            })
        };
        let all = program.parameters.iter().map(weight).collect::<Result<_>>()?;
        let loss = partials(intervals, (1, 1))?;
        Ok(Self { all, combine, steps: 0, generation: 0, gathered: Vec::new(), scratch: Vec::new(), loss })
    }

    /// First values for a seed (`Initialiser`; numbers of purpose 1, epoch 0).
    pub(crate) fn initialise(&mut self, program: &Program, seed: u64) -> Result<()> {
        self.steps = 0;
        self.generation += 1;
        for (weight, p) in self.all.iter_mut().zip(&program.parameters) {
            let (rows, columns) = extent(&p.shape);
            let layer = program.operations.get(p.owner.index()).map_or(0, |o| u32::from(o.layer.0));
            let key = Key::new(seed, Purpose::Initialiser, 0, layer, p.position);
            let mut lease = weight.values.write(0..rows).map_err(at("parameters"))?;
            let mut view = lease.view_mut();
            for r in 0..rows {
                let row_key = key.row(r as u64);
                for (c, value) in view.row_mut(r).iter_mut().enumerate() {
                    let symmetric = |bound: f32| (2.0 * uniform(bits32(row_key, c as u32)) - 1.0) * bound;
                    *value = match p.initialiser {
                        Initialiser::Zeros => 0.0,
                        Initialiser::Constant(v) => v,
                        Initialiser::GlorotUniform => {
                            symmetric((6.0 / (rows + columns) as f64).sqrt() as f32)
                        }
                        Initialiser::Uniform(bound) => symmetric(bound),
                    };
                }
            }
            let len = view.data_mut().len();
            drop(lease);
            weight.first = vec![0.0; len];
            weight.second = vec![0.0; len];
        }
        Ok(())
    }

    /// Takes values instead of drawing them.
    pub(crate) fn set(&mut self, parameter: usize, values: &[f32]) -> Result<()> {
        self.generation += 1;
        let Some(weight) = self.all.get_mut(parameter) else {
            return Err(Error::Internal(format!("parameter {parameter} does not exist")));
        };
        let (rows, columns) = (weight.values.rows(), weight.values.columns());
        if values.len() != rows * columns {
            return Err(Error::Internal(format!("{} values for parameter {parameter}", values.len())));
        }
        let mut lease = weight.values.write(0..rows).map_err(at("parameters"))?;
        let mut view = lease.view_mut();
        for (r, row) in values.chunks_exact(columns.max(1)).enumerate() {
            view.row_mut(r).copy_from_slice(row);
        }
        Ok(())
    }

    /// Which values these are: another number means other values.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// A parameter as tasks read it.
    pub(crate) fn matrix(&self, parameter: usize) -> Result<Matrix> {
        let weight =
            self.all.get(parameter).ok_or_else(|| Error::Internal(format!("parameter {parameter}")))?;
        let lease = weight.values.read(0..weight.values.rows()).map_err(at("parameters"))?;
        Matrix::from(lease).with_extents(&weight.extents).map_err(at("parameters"))
    }

    /// A parameter's values, row-major without padding.
    pub(crate) fn values(&self, parameter: usize) -> Result<Vec<f32>> {
        let weight =
            self.all.get(parameter).ok_or_else(|| Error::Internal(format!("parameter {parameter}")))?;
        weight.values.to_vec().map_err(at("parameters"))
    }

    /// Where an interval's share of a parameter's gradient goes.
    pub(crate) fn gradient(&self, parameter: usize, interval: usize) -> Vec<Buffer> {
        self.all.get(parameter).and_then(|w| w.partials.get(interval)).cloned().unwrap_or_default()
    }

    /// Where an interval's share of the loss goes.
    pub(crate) fn loss_parts(&self, interval: usize) -> Vec<Buffer> {
        self.loss.get(interval).cloned().unwrap_or_default()
    }

    /// The loss of all intervals.
    pub(crate) fn loss(&mut self) -> Result<f64> {
        let mut parts = Vec::new();
        for buffer in self.loss.iter().flatten() {
            parts.extend(buffer.to_vec().map_err(at("loss"))?);
        }
        self.scratch.resize(self.scratch.len().max(self.combine.scratch_len(1)), 0.0);
        Ok(f64::from(self.combine.sum(&parts, 1, &mut self.scratch)?[0]))
    }

    /// Puts the gradients of all intervals together and takes one step.
    pub(crate) fn step(&mut self, optimiser: &Optimiser) -> Result<()> {
        self.steps += 1;
        self.generation += 1;
        let rule = Rule::new(optimiser, self.steps);
        for weight in &mut self.all {
            let (rows, parts) = (weight.values.rows(), weight.partials.iter().map(Vec::len).sum::<usize>());
            let mut lease = weight.values.write(0..rows).map_err(at("parameters"))?;
            let mut view = lease.view_mut();
            let values = view.data_mut();
            let (first, second, decay) = (&mut weight.first, &mut weight.second, weight.decay);
            if parts == 1 {
                for buffer in weight.partials.iter().flatten() {
                    let lease = buffer.read(0..rows).map_err(at("gradients"))?;
                    rule.step(decay, values, lease.view().data(), first, second);
                }
                continue;
            }
            self.gathered.clear();
            for buffer in weight.partials.iter().flatten() {
                let lease = buffer.read(0..rows).map_err(at("gradients"))?;
                self.gathered.extend_from_slice(lease.view().data());
            }
            let width = values.len();
            self.scratch.resize(self.scratch.len().max(self.combine.scratch_len(width)), 0.0);
            let gradient = self.combine.sum(&self.gathered, width, &mut self.scratch)?;
            rule.step(decay, values, gradient, first, second);
        }
        Ok(())
    }

    /// The gradient of a parameter after an epoch's tasks, row-major without padding; for tests.
    #[cfg(any(test, feature = "inspect"))]
    pub(crate) fn gradient_values(&self, parameter: usize) -> Result<Vec<f32>> {
        let Some(weight) = self.all.get(parameter) else { return Ok(Vec::new()) };
        let mut parts = Vec::new();
        for buffer in weight.partials.iter().flatten() {
            parts.extend(buffer.to_vec().map_err(at("gradients"))?);
        }
        let width = weight.values.rows() * weight.values.columns();
        let mut scratch = vec![0.0; self.combine.scratch_len(width)];
        Ok(self.combine.sum(&parts, width, &mut scratch)?.to_vec())
    }
}

/// An optimiser at one step.
enum Rule {
    Sgd { lr: f32, momentum: f32, nesterov: bool },
    Adam { constants: Adam, decoupled: bool, lr: f64 },
}

impl Rule {
    fn new(optimiser: &Optimiser, step: u32) -> Self {
        match optimiser.algorithm {
            Algorithm::Sgd { momentum, nesterov } => {
                Self::Sgd { lr: optimiser.lr as f32, momentum: momentum as f32, nesterov }
            }
            Algorithm::Adam { beta1, beta2, epsilon } | Algorithm::AdamW { beta1, beta2, epsilon } => {
                let power = |beta: f64| beta.powi(i32::try_from(step).unwrap_or(i32::MAX));
                let constants = Adam {
                    step_size: (optimiser.lr / (1.0 - power(beta1))) as f32,
                    bias2_sqrt: (1.0 - power(beta2)).sqrt() as f32,
                    beta1: beta1 as f32,
                    beta2: beta2 as f32,
                    epsilon: epsilon as f32,
                    decay: 0.0,
                    shrink: 1.0,
                };
                let decoupled = matches!(optimiser.algorithm, Algorithm::AdamW { .. });
                Self::Adam { constants, decoupled, lr: optimiser.lr }
            }
        }
    }

    fn step(&self, decay: f32, values: &mut [f32], gradient: &[f32], first: &mut [f32], second: &mut [f32]) {
        match *self {
            Self::Sgd { lr, momentum, nesterov } => {
                adam::sgd(lr, momentum, nesterov, decay, values, gradient, first)
            }
            Self::Adam { constants, decoupled, lr } => {
                let constants = if decoupled {
                    Adam { shrink: (1.0 - lr * f64::from(decay)) as f32, ..constants }
                } else {
                    Adam { decay, ..constants }
                };
                adam::adam(constants, values, gradient, first, second);
            }
        }
    }
}

//! Weights and moments that a checkpoint is written from while the training continues.
//!
//! The checkpoint reads the buffers of the training, so that it needs no copy of them. The optimiser
//! step of a parameter waits until the checkpoint has that parameter.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use eciton_runs::run_folder::tensor::Pieces;
use eciton_tensor::Buffer;

use super::{Parameter, Weights, internal};
use crate::error::Result;

/// Gate that the parameters pass in order, once the checkpoint has them.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Number of parameters that have passed.
    passed: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    /// Waits until the parameter with the index `parameter` has passed.
    pub(super) fn wait(&self, parameter: usize) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        while *passed <= parameter {
            passed = self.changed.wait(passed).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the first `count` parameters pass.
    fn let_pass(&self, count: usize) {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        *passed = count.max(*passed);
        self.changed.notify_all();
    }
}

/// The weights and moments of a training at the end of a step. All parameters pass the gate when
/// this value is dropped.
#[derive(Debug)]
pub(crate) struct Frozen {
    /// Matrices of each parameter: the values, the two moments, and the values before the last step
    /// if the next round reads them. A moment that the algorithm lacks is `None`, which stands for
    /// zeros.
    matrices: Vec<Vec<Option<Buffer>>>,
    gate: Arc<Gate>,
}

impl Frozen {
    /// Returns the number of matrices per parameter.
    pub(crate) fn kinds(&self) -> usize {
        self.matrices.first().map_or(0, Vec::len)
    }

    /// Lets the optimiser steps of the first `count` parameters continue.
    pub(crate) fn let_pass(&self, count: usize) {
        self.gate.let_pass(count);
    }
}

#[cfg(test)]
impl Frozen {
    /// Returns the frozen form of a state. `parameters` has the name and the extents of each
    /// parameter.
    pub(crate) fn for_test(state: &super::WeightState, parameters: &[(String, Vec<usize>)]) -> Self {
        let matrix = |values: &[f32], shape: &[usize]| {
            let columns = shape.get(1..).map_or(1, |rest| rest.iter().product());
            Some(Buffer::from_rows(values.len() / columns, columns, values).unwrap())
        };
        let of = |(at, (_, shape)): (usize, &(String, Vec<usize>))| {
            let kinds = [Some(&state.values), Some(&state.first), Some(&state.second), state.before.as_ref()];
            kinds.into_iter().flatten().map(|all| matrix(&all[at], shape)).collect()
        };
        Self { matrices: parameters.iter().enumerate().map(of).collect(), gate: Arc::default() }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.gate.let_pass(usize::MAX);
    }
}

impl Pieces for Frozen {
    /// Reads matrix `tensor % kinds` of parameter `tensor / kinds`, row by row.
    fn pieces(&self, tensor: usize, take: &mut dyn FnMut(&[f32]) -> io::Result<()>) -> io::Result<()> {
        let kinds = self.kinds().max(1);
        let of = self.matrices.get(tensor / kinds).map_or(&[][..], Vec::as_slice);
        let shape =
            of.first().and_then(Option::as_ref).map_or((0, 0), |first| (first.rows(), first.columns()));
        match of.get(tensor % kinds).and_then(Option::as_ref) {
            Some(matrix) => {
                let rows = matrix.read(0..matrix.rows()).map_err(io::Error::other)?;
                let view = rows.view();
                (0..view.rows()).try_for_each(|row| take(view.row(row)))
            }
            None => {
                let zeros = vec![0.0; shape.1];
                (0..shape.0).try_for_each(|_| take(&zeros))
            }
        }
    }
}

impl Weights {
    /// Returns the weights and moments after the last step for a checkpoint. Until they are dropped,
    /// optimiser steps wait.
    pub(crate) fn freeze(&mut self) -> Result<Frozen> {
        self.thaw();
        let before = self.before().map(|version| version.0);
        let of = |parameter: &Parameter| {
            let values = parameter.values(self.newest.0).cloned();
            let values = values.ok_or_else(|| internal(format!("no values of version {}", self.newest.0)))?;
            let moments = parameter.moments();
            let mut all = vec![Some(values), moments.first().cloned(), moments.get(1).cloned()];
            all.extend(before.map(|before| parameter.values(before).cloned()));
            Ok(all)
        };
        let matrices = self.parameters.iter().map(|(_, parameter)| of(parameter)).collect::<Result<_>>()?;
        let gate = Arc::new(Gate::default());
        self.gate = Some(gate.clone());
        Ok(Frozen { matrices, gate })
    }

    /// Waits until the checkpoint that is being written has all parameters.
    pub(super) fn thaw(&mut self) {
        if let Some(gate) = self.gate.take() {
            gate.wait(self.parameters.len().saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn parameters_wait_until_they_have_passed() {
        let gate = Arc::new(Gate::default());
        let buffer = |value: f32| Some(Buffer::from_rows(2, 3, &[value; 6]).unwrap());
        let matrices = vec![vec![buffer(1.0), None, buffer(3.0)], vec![buffer(4.0), buffer(5.0), None]];
        let frozen = Frozen { matrices, gate: gate.clone() };
        let seen = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let steps = || {
                for parameter in 0..2 {
                    gate.wait(parameter);
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            };
            let stepping = scope.spawn(steps);
            let mut values = Vec::new();
            for tensor in 0..6 {
                assert!(seen.load(Ordering::SeqCst) <= tensor / 3, "a step did not wait");
                frozen
                    .pieces(tensor, &mut |piece| {
                        values.extend_from_slice(piece);
                        Ok(())
                    })
                    .unwrap();
                frozen.let_pass((tensor + 1) / 3);
            }
            let first: Vec<f32> = values.chunks(6).map(|chunk| chunk[0]).collect();
            assert_eq!((first, values.len()), (vec![1.0, 0.0, 3.0, 4.0, 5.0, 0.0], 36));
            stepping.join().unwrap();
        });
        let unused = Frozen { matrices: Vec::new(), gate: Arc::new(Gate::default()) };
        let gate = unused.gate.clone();
        drop(unused);
        gate.wait(1000);
    }
}

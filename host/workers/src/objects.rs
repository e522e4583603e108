//! Objects: tensors that several tasks read and that workers cache. The frames of tasks refer to
//! objects by key.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use eciton_exec::framed::Framing;
use eciton_exec::{Order, SharedInput};
use eciton_kernel::Error;
use eciton_kernel::wire::{Encoding, Expected, Object, Source, encode, encode_matrices};
use eciton_types::{TensorKey, Version, Via};

/// Minimum size of a matrix that is sent as an object of its own, in bytes. A smaller matrix is
/// part of each task frame.
pub const OBJECT_BYTES: usize = 4 << 10;

/// The frame of a task, with the keys of the objects that the task reads.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) frame: Bytes,
    /// Objects that the task reads.
    pub(super) keys: Vec<TensorKey>,
    /// Keys of the objects that no later task reads, so that workers may delete them.
    pub(super) frees: Vec<TensorKey>,
    /// Shapes of the matrices and sums that the answer must contain.
    pub(super) expected: Expected,
}

/// Encoded objects of a run, by key.
#[derive(Debug)]
pub(super) struct Objects {
    known: BTreeMap<TensorKey, Bytes>,
    /// Keys of the objects with weights, by generation.
    weights: BTreeMap<u64, BTreeSet<TensorKey>>,
    generations: u64,
    /// Keys of the rows that several steps of a lane (a share of the pipeline) read, by round.
    rows: BTreeMap<u32, BTreeSet<TensorKey>>,
}

/// Number of rounds (optimizer steps) that may be in flight at the same time.
const ROUNDS: u32 = 2;

/// Keys of the objects that a task reads, collected while its frame is written.
#[derive(Default)]
struct Names(Vec<TensorKey>);

impl Names {
    /// Returns a reference to the object `key`, and adds the key to the list if it is new.
    fn add(&mut self, key: TensorKey) -> Source {
        let at = self.0.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.0.push(key);
            self.0.len() - 1
        });
        // Not larger than the number of matrices of a task.
        Source { object: Some(at as u32), part: 0 }
    }
}

impl Objects {
    /// Creates an empty table for tasks that read up to `weight_versions` generations of weights at
    /// the same time.
    pub(super) fn new(weight_versions: u32) -> Self {
        let generations = weight_versions.max(1).into();
        Self { known: BTreeMap::new(), weights: BTreeMap::new(), generations, rows: BTreeMap::new() }
    }

    /// Returns the encoded object `key`, or `None` if there is no such object.
    pub(super) fn get(&self, key: &TensorKey) -> Option<Bytes> {
        self.known.get(key).cloned()
    }

    /// Removes the weights that no task will read once generation `newest` exists. Returns their
    /// keys.
    pub(super) fn forget_before(&mut self, newest: u64) -> Vec<TensorKey> {
        let oldest = (newest + 1).saturating_sub(self.generations);
        let left = self.weights.split_off(&oldest);
        let gone: Vec<TensorKey> =
            std::mem::replace(&mut self.weights, left).into_values().flatten().collect();
        gone.iter().for_each(|key| drop(self.known.remove(key)));
        gone
    }

    /// Removes the rows of rounds that have ended by the time `round` is in flight. Returns their
    /// keys.
    pub(super) fn forget_rounds(&mut self, round: u32) -> Vec<TensorKey> {
        let left = self.rows.split_off(&(round + 1).saturating_sub(ROUNDS));
        let gone: Vec<TensorKey> = std::mem::replace(&mut self.rows, left).into_values().flatten().collect();
        gone.iter().for_each(|key| drop(self.known.remove(key)));
        gone
    }

    /// Removes the rows of all rounds. Returns their keys.
    pub(super) fn forget_rows(&mut self) -> Vec<TensorKey> {
        self.forget_rounds(u32::MAX)
    }

    /// Removes the objects `keys`, which no later task reads.
    pub(super) fn free(&mut self, keys: &[TensorKey]) {
        for key in keys {
            self.known.remove(key);
            for known in self.rows.values_mut() {
                known.remove(key);
            }
        }
    }

    /// Adds the weights `key` of a generation unless they are in the table. `write` encodes them.
    /// Returns `key`.
    fn weights(
        &mut self,
        generation: u64,
        key: TensorKey,
        write: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<TensorKey, Error> {
        if let Entry::Vacant(entry) = self.known.entry(key) {
            entry.insert(write()?.into());
            self.weights.entry(generation).or_default().insert(key);
        }
        Ok(key)
    }

    /// Writes the frame of `order`. Adds the objects that the task reads to the table.
    pub(super) fn write(&mut self, run: &str, framing: &Framing, order: &Order) -> Result<Written, Error> {
        let (work, key) = (&order.work, order.task.key());
        let mut names = Names::default();
        let (mut elsewhere, mut frees) = (Vec::new(), Vec::new());
        let generation = work.generation;
        for &(at, parameter) in &work.call.parameters {
            let Some(matrix) = work.call.matrix(at as usize) else { continue };
            if matrix.rows() * matrix.columns() * 4 < OBJECT_BYTES {
                continue;
            }
            let weight = TensorKey::Weight { parameter, version: Version(generation) };
            let weight = self.weights(generation, weight, || encode_matrices([matrix], Encoding::F32))?;
            elsewhere.push((at as usize, names.add(weight)));
        }
        for &SharedInput { at, slot, lane, last } in &work.shared {
            let Some(matrix) = work.call.matrix(at) else { continue };
            let (pass, round, interval) = (order.pass, key.round, key.interval);
            let rows = match lane {
                None => TensorKey::Inputs { slot, interval },
                Some(lane) => TensorKey::Rows { pass, slot, round, interval, via: Via::Host(lane) },
            };
            if let Entry::Vacant(entry) = self.known.entry(rows) {
                entry.insert(encode_matrices([matrix], framing.rows)?.into());
                if lane.is_some() {
                    self.rows.entry(round.0).or_default().insert(rows);
                }
            }
            frees.extend(last.then_some(rows));
            elsewhere.push((at, names.add(rows)));
        }
        let keys = names.0.clone();
        let (rows, limits) = (framing.rows, &framing.limits);
        let objects = names.0.into_iter().map(Object::from).collect();
        let frame = encode(run, key, &work.call, rows, limits, objects, &elsewhere)?;
        Ok(Written { frame: frame.into(), keys, frees, expected: Expected::new(&work.call) })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn weights_are_kept_as_long_as_tasks_read_them() {
        let mut objects = Objects::new(2);
        let key = |generation| TensorKey::Weight {
            parameter: eciton_types::ParameterId(0),
            version: Version(generation),
        };
        for generation in 1..=4 {
            objects.weights(generation, key(generation), || Ok(vec![1])).unwrap();
            let never = || Err(Error::Wire { place: String::new(), reason: String::new() });
            objects.weights(generation, key(generation), never).unwrap();
        }
        assert_eq!(objects.forget_before(2), Vec::new());
        assert_eq!(objects.forget_before(3), [key(1)]);
        assert_eq!(objects.get(&key(1)), None);
        assert!(objects.get(&key(2)).is_some());
    }
}

//! Objects that several tasks read and workers keep, and frames that name them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use eciton_kernel::wire::{
    Constants, Expected, Source, encode, encode_input, encode_matrix, encode_parameters, encode_rows,
};
use eciton_kernel::{AnyCall, Error, Given};

use crate::framed::Framing;
use crate::{Order, SharedInput};

/// Smaller matrices travel along.
pub const OBJECT_BYTES: usize = 4 << 10;

/// A task written down.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) frame: Bytes,
    /// Objects that it names.
    pub(super) keys: Vec<String>,
    /// Those that no task names after it.
    pub(super) frees: Vec<String>,
    /// Parts that the answer must have.
    pub(super) expected: Expected,
}

/// Objects of a run, by key.
#[derive(Debug)]
pub(super) struct Objects {
    known: BTreeMap<String, Bytes>,
    /// Keys of weights by generation.
    weights: BTreeMap<u64, BTreeSet<String>>,
    generations: u64,
    /// Keys of rows that several steps of a lane read, by round.
    rows: BTreeMap<u32, BTreeSet<String>>,
}

/// Rounds that may be under way at once.
const ROUNDS: u32 = 2;

/// A task's names of objects, while it is written.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn add(&mut self, key: String) -> Source {
        let at = self.0.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.0.push(key);
            self.0.len() - 1
        });
        // At most as many as a task has matrices.
        Source { object: Some(at as u32), part: 0 }
    }
}

impl Objects {
    /// None yet. Tasks read so many generations of weights at once.
    pub(super) fn new(weight_versions: u32) -> Self {
        let generations = weight_versions.max(1).into();
        Self { known: BTreeMap::new(), weights: BTreeMap::new(), generations, rows: BTreeMap::new() }
    }

    pub(super) fn get(&self, key: &str) -> Option<Bytes> {
        self.known.get(key).cloned()
    }

    /// Adds an object that stays.
    pub(super) fn put(&mut self, key: String, bytes: Bytes) {
        self.known.insert(key, bytes);
    }

    /// Forgets weights that no task will read again; their keys.
    pub(super) fn forget_before(&mut self, newest: u64) -> Vec<String> {
        let oldest = (newest + 1).saturating_sub(self.generations);
        let left = self.weights.split_off(&oldest);
        let gone: Vec<String> = std::mem::replace(&mut self.weights, left).into_values().flatten().collect();
        gone.iter().for_each(|key| drop(self.known.remove(key)));
        gone
    }

    /// Forgets rows of rounds that are over, if any are left; their keys.
    pub(super) fn forget_rounds(&mut self, round: u32) -> Vec<String> {
        let left = self.rows.split_off(&(round + 1).saturating_sub(ROUNDS));
        let gone: Vec<String> = std::mem::replace(&mut self.rows, left).into_values().flatten().collect();
        gone.iter().for_each(|key| drop(self.known.remove(key)));
        gone
    }

    /// Forgets rows of all rounds; their keys.
    pub(super) fn forget_rows(&mut self) -> Vec<String> {
        self.forget_rounds(u32::MAX)
    }

    /// Forgets rows that no task names again.
    pub(super) fn free(&mut self, keys: &[String]) {
        for key in keys {
            self.known.remove(key);
            for known in self.rows.values_mut() {
                known.remove(key);
            }
        }
    }

    fn weights(
        &mut self,
        generation: u64,
        key: String,
        write: impl FnOnce() -> Result<Vec<u8>, Error>,
    ) -> Result<String, Error> {
        if !self.known.contains_key(&key) {
            self.known.insert(key.clone(), write()?.into());
            self.weights.entry(generation).or_default().insert(key.clone());
        }
        Ok(key)
    }

    /// Writes an order's frame, and objects that are new.
    pub(super) fn write(&mut self, run: &str, framing: &Framing, order: &Order) -> Result<Written, Error> {
        let (work, key) = (&order.work, order.task.key());
        let mut names = Names::default();
        let (mut inputs, mut given, mut parameters) = (Vec::new(), Vec::new(), None);
        let mut frees = Vec::new();
        let generation = work.generation;
        match &work.call {
            AnyCall::Rows(call) => {
                for &SharedInput { at, slot, .. } in &work.shared {
                    let name = format!("rows/s{}.i{}", slot.0, key.interval.0);
                    if !self.known.contains_key(&name) {
                        let bytes = encode_input(call, at, framing.rows)?;
                        self.known.insert(name.clone(), bytes.into());
                    }
                    inputs.push((at, names.add(name)));
                }
                let size: usize = call.parameters.iter().map(|p| p.rows() * p.columns() * 4).sum();
                if size >= OBJECT_BYTES {
                    let name = format!("weights/g{generation}.o{}", work.operation.0);
                    let name = self.weights(generation, name, || encode_parameters(call))?;
                    parameters = names.add(name).object;
                }
            }
            AnyCall::Span(span) => {
                for &(at, id) in &span.parameters {
                    let at = at as usize;
                    let Some(Given::Here(matrix)) = span.given.get(at) else { continue };
                    if matrix.rows() * matrix.columns() * 4 < OBJECT_BYTES {
                        continue;
                    }
                    let name = format!("weights/g{generation}.p{}", id.0);
                    let name = self.weights(generation, name, || encode_matrix(matrix))?;
                    given.push((at, names.add(name)));
                }
                for &SharedInput { at, slot, lane, last } in &work.shared {
                    let Some(Given::Here(matrix)) = span.given.get(at) else { continue };
                    let (round, interval) = (key.round.0, key.interval.0);
                    let (pass, lane) = (order.pass, lane.unwrap_or_default());
                    let name = format!("rows/p{pass}.r{round}.i{interval}.s{}.l{lane}", slot.0);
                    if !self.known.contains_key(&name) {
                        self.known.insert(name.clone(), encode_rows(matrix, framing.rows)?.into());
                        self.rows.entry(round).or_default().insert(name.clone());
                    }
                    frees.extend(last.then(|| name.clone()));
                    given.push((at, names.add(name)));
                }
            }
            AnyCall::Edges(_) => {}
        }
        let constants = Constants { inputs: &inputs, parameters, given: &given };
        let keys = names.0.clone();
        let (rows, limits) = (framing.rows, &framing.limits);
        let frame = encode(run, key, &work.layer, &work.call, rows, limits, names.0, &constants)?;
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
        objects.put("kernel/1".to_owned(), Bytes::new());
        for generation in 1..=4 {
            let key = format!("weights/g{generation}.p0");
            let again = key.clone();
            objects.weights(generation, key, || Ok(vec![1])).unwrap();
            let never = || Err(Error::Wire { place: String::new(), reason: String::new() });
            objects.weights(generation, again, never).unwrap();
        }
        assert_eq!(objects.forget_before(2), Vec::<String>::new());
        assert_eq!(objects.forget_before(3), ["weights/g1.p0"]);
        assert_eq!(objects.get("weights/g1.p0"), None);
        assert!(objects.get("weights/g2.p0").is_some() && objects.get("kernel/1").is_some());
    }
}

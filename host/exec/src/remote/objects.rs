//! Objects that a run writes to the object store, and the frames that refer to them.

use eciton_kernel::wire::{Encoding, Expected, Source, encode, encode_matrices};
use eciton_kernel::{Error, Operand};
use eciton_recipe::Transport;
use eciton_transport::Key;
use eciton_types::Version;

use super::attempt::{Attempt, Wire};
use super::constants::{Constant, ConstantObjects, OBJECT_BYTES};
use super::spent::Spent;
use crate::job::{Order, SharedInput};

/// Table of the objects that a run has in the object store.
#[derive(Debug)]
pub(super) struct Objects {
    constants: ConstantObjects,
    pub(super) spent: Spent,
}

impl Objects {
    /// Creates an empty table for tasks that read up to `weight_versions` generations of weights at
    /// the same time.
    pub(super) fn new(weight_versions: u32) -> Self {
        Self { constants: ConstantObjects::new(weight_versions), spent: Spent::default() }
    }

    /// Writes the frame of `order` and prepares the upload of its new constants. The attempt then
    /// counts as in flight. Also returns the keys of objects that no task will read again.
    pub(super) fn attempt<I>(&mut self, wire: &Wire<I>, order: &Order) -> Result<(Attempt, Vec<Key>), Error> {
        let attempt = self.write(wire, order)?;
        let (pass, key, stored) = (order.pass, order.task.key(), wire.store.is_some());
        let keys = [wire.keys.task(pass, &key), wire.keys.answer(pass, &key.step())];
        let keys = keys.into_iter().flatten().filter(|_| stored);
        let mut gone = self.spent.begin((pass, key.round.0), keys);
        gone.extend(self.constants.forget_before(order.work.generation));
        Ok((attempt, gone))
    }

    /// Writes the frame of `order`, and prepares uploads for the constants that it reads.
    fn write<I>(&mut self, wire: &Wire<I>, order: &Order) -> Result<Attempt, Error> {
        let (settings, work) = (&wire.settings, &order.work);
        let key = order.task.key();
        let names_of = &wire.keys;
        let (mut names, mut uploads) = (Vec::new(), Vec::new());
        let mut elsewhere: Vec<(usize, Source)> = Vec::new();
        // Inputs of edge kernels and of fused steps travel inside the request.
        if let (Some(_), Some((_, step))) = (&wire.store, work.call.only_vertex()) {
            for &SharedInput { at, slot, .. } in &work.shared {
                let constant = Constant::Features(slot, key.interval);
                let name = || names_of.features(&format!("s{:03}/i{:05}", slot.0, key.interval.0));
                let write = || encode_matrices(work.call.matrix(at), settings.rows);
                if let Some(upload) = self.constants.get(constant, name, write)? {
                    elsewhere.push((at, Source { object: Some(names.len() as u32), part: 0 }));
                    names.push(upload.key.to_string().into());
                    uploads.push(upload);
                }
            }
            let parameters = || step.parameters.iter().filter_map(Operand::given);
            let all = || parameters().filter_map(|at| work.call.matrix(at));
            let size: usize = all().map(|p| p.rows() * p.columns() * 4).sum();
            // If only one task reads the weights, its request carries them.
            let shared_by = if settings.transport == Transport::S3 { 2 } else { settings.intervals };
            if size as u64 >= OBJECT_BYTES && shared_by > 1 {
                let (operation, generation) = (work.operation, work.generation);
                let constant = Constant::Weights { operation, generation };
                let name = || names_of.weights(Version(generation), operation);
                let write = || encode_matrices(all(), Encoding::F32);
                if let Some(upload) = self.constants.get(constant, name, write)? {
                    let object = Some(names.len() as u32);
                    elsewhere.extend(parameters().zip(0..).map(|(at, part)| (at, Source { object, part })));
                    names.push(upload.key.to_string().into());
                    uploads.push(upload);
                }
            }
        }
        let (rows, limits) = (settings.rows, &settings.limits);
        let frame = encode(&settings.run, key, &work.call, rows, limits, names, &elsewhere)?;
        let expected = Expected::new(&work.call);
        Ok(Attempt {
            pass: order.pass,
            key,
            deadline: order.deadline,
            frame: frame.into(),
            expected,
            uploads,
        })
    }
}

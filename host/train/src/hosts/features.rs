//! Exchange of features between hosts that have read only their own rows.
//!
//! Features that are summed over neighbours before the training are those of other hosts, too. Each
//! host sends another one the features of its rows with an edge to or from rows of that host. Both
//! know these rows from their own lists, in ascending order.

use std::ops::Range;

use eciton_exec::{Completion, Executor};
use eciton_graph::adjacency::Adjacency;
use eciton_tensor::{Buffer, Matrix};
use eciton_types::Exchanged;

use super::link::Link;
use crate::data::Inputs;
use crate::error::{Error, Result, at};

/// Maximum size of the rows in a message, in bytes, unless one row is larger.
const MESSAGE_BYTES: usize = 4 << 20;
/// Number that the messages have in place of that of a pass.
const BEFORE_ALL: u32 = 0;

/// Returns the stored rows of `own` with an edge to or from a row of `others`.
pub(super) fn shared(inputs: &Inputs, own: Range<usize>, others: &Range<usize>) -> Vec<usize> {
    let graph = &inputs.dataset.graph;
    let names = |lists: &Adjacency, row: usize| {
        let list = lists.neighbours_of(row as u32);
        let first = list.partition_point(|&of| (of as usize) < others.start);
        list.get(first).is_some_and(|&of| (of as usize) < others.end)
    };
    own.filter(|&row| names(graph.incoming(), row) || graph.transpose().is_some_and(|to| names(to, row)))
        .collect()
}

impl Link {
    /// Returns the features of all stored rows, those of other hosts included. `inputs` has the
    /// features of the rows of this host.
    ///
    /// # Errors
    /// Returns [`Error::HostFailed`] if a host fails, and [`Error::Hosts`] if it sends other rows than
    /// expected. Returns [`Error::Tensor`] if the rows do not fit into memory.
    pub(crate) fn features<M: Executor + ?Sized>(&self, inputs: &Inputs, machine: &mut M) -> Result<Matrix> {
        let internal = || Error::Internal("features of rows are exchanged without hosts".to_owned());
        let Matrix::Dense(dense) = &inputs.features else { return Err(internal()) };
        let own = inputs.own_rows().ok_or_else(internal)?;
        let rows_of = |host: u32| {
            let run = self.cut.of(host);
            let of = |interval: u32| inputs.intervals.get(interval as usize).map(|of| of.rows.clone());
            let first = of(run.start).map_or(0, |rows| rows.start);
            first..of(run.end.saturating_sub(1)).map_or(first, |rows| rows.end)
        };
        let columns = inputs.features.columns();
        let held = dense.hold(None).map_err(at("features"))?;
        let view = held.view();
        for host in self.others() {
            let rows = shared(inputs, own.clone(), &rows_of(host));
            let mut first = 0;
            for piece in rows.chunks((MESSAGE_BYTES / (4 * columns)).max(1)) {
                let mut body = Vec::with_capacity(piece.len() * columns * 4);
                for row in piece {
                    body.extend(view.row(row - own.start).iter().flat_map(|value| value.to_le_bytes()));
                }
                self.send(host, (BEFORE_ALL, Exchanged::Features { first }), body.into());
                first += piece.len() as u32;
            }
        }
        let all = Buffer::zeroed(inputs.shape.rows as usize, columns).map_err(at("features"))?;
        let mut lease = all.write(0..all.rows()).map_err(at("features"))?;
        let mut to = lease.view_mut();
        (0..own.len()).for_each(|row| to.row_mut(own.start + row).copy_from_slice(view.row(row)));
        let mut missing = all.rows() - own.len();
        let mut done = Vec::new();
        let _waits = self.waits();
        while missing > 0 {
            machine.drain(&mut done, None);
            for completion in done.drain(..) {
                match completion {
                    Completion::Received { from, message } => {
                        let first = match message.content {
                            Exchanged::Features { first } => first,
                            Exchanged::Failed { host } => {
                                let reason = String::from_utf8_lossy(&message.body).into_owned();
                                return Err(Error::HostFailed { host, reason, is_told: true });
                            }
                            content => {
                                // A host with other data or settings may send no features.
                                if content == Exchanged::Facts {
                                    self.agrees_so_far(from, &message.body)?;
                                }
                                self.keep(Completion::Received { from, message });
                                continue;
                            }
                        };
                        self.count(from, &message.body);
                        let rows = rows_of(from);
                        let (count, rest) =
                            (message.body.len() / (4 * columns), message.body.len() % (4 * columns));
                        let begin = rows.start + first as usize;
                        if rest > 0 || begin + count > rows.end || count > missing {
                            return Err(Error::Hosts(format!(
                                "host {from} has sent features of {count} rows, but not those of its rows that \
                                 host {} reads",
                                self.hosts.me
                            )));
                        }
                        for (row, values) in (begin..).zip(message.body.chunks_exact(4 * columns)) {
                            for (to, value) in to.row_mut(row).iter_mut().zip(values.chunks_exact(4)) {
                                *to = f32::from_le_bytes([value[0], value[1], value[2], value[3]]);
                            }
                        }
                        missing -= count;
                    }
                    Completion::HostFailed { host, reason, is_told } => {
                        return Err(Error::HostFailed { host, reason, is_told });
                    }
                    _ => {}
                }
            }
        }
        drop(lease);
        Ok(Matrix::from(all.read(0..all.rows()).map_err(at("features"))?))
    }
}

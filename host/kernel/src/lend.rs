//! Transfer of a task's matrices to the handle table of a kernel, and of the results back to the
//! host.

use eciton_tensor::half::WriteHalf;
use eciton_tensor::{Matrix, WriteRows};
use wasmtime::component::Resource;

use crate::bindings::exports::eciton::kernel::vertex as wv;
use crate::call::{Target, Targets, VertexCall};
use crate::error::{Error, Result};
use crate::outs::{Laid, Place};
use crate::state::{Finished, Given, IdsHandle, MatrixHandle, OutHandle, OutView, State};

/// Arguments of a vertex kernel for one task, as resource handles that the guest receives.
pub(crate) struct Args {
    pub task: wv::Task,
    pub inputs: Vec<Resource<MatrixHandle>>,
    pub parameters: Vec<Resource<MatrixHandle>>,
    pub forward_outputs: Vec<Resource<MatrixHandle>>,
    pub kept: Vec<Resource<MatrixHandle>>,
    pub gradients: Vec<Resource<MatrixHandle>>,
    pub rows_out: Vec<Option<Resource<OutHandle>>>,
    pub sums_out: Vec<Resource<OutHandle>>,
    pub labelled: Option<(wv::Targets, Resource<IdsHandle>, f32)>,
    pub outputs: usize,
}

/// Moves the matrices of a call into the handle table of `state`, and returns their handles.
pub(crate) fn lend(state: &mut State, call: VertexCall) -> std::result::Result<Args, eciton_tensor::Error> {
    state.grid = call.grid;
    state.row_numbers = call.row_numbers;
    (state.seed, state.epoch, state.layer, state.training) =
        (call.seed, call.epoch, call.layer, call.training);
    let mut own = |matrices: Vec<Matrix>| {
        let own = |matrix: Matrix| {
            let matrix = match matrix.is_half() {
                true => {
                    let wide = state.wide(matrix.rows(), matrix.columns())?;
                    matrix.widened(&wide)?
                }
                false => matrix,
            };
            Ok(Resource::new_own(state.matrices.push(matrix)))
        };
        matrices.into_iter().map(own).collect::<std::result::Result<Vec<Resource<MatrixHandle>>, _>>()
    };
    let (inputs, parameters) = (own(call.inputs)?, own(call.parameters)?);
    let (forward_outputs, kept, gradients) = (own(call.outputs)?, own(call.kept)?, own(call.gradients)?);
    let mut out = |target: Target| -> std::result::Result<Resource<OutHandle>, eciton_tensor::Error> {
        let (place, count) = match target {
            Target::Rows { rows, extents } => {
                let count = rows.view().rows();
                (rows_place(rows, count, extents, None), count)
            }
            Target::Half { rows: to, extents } => {
                let count = to.len();
                let rows = state.wide(count, to.columns())?.write(0..count)?;
                (rows_place(rows, count, extents, Some(to)), count)
            }
            Target::Sums { parts, shape } => {
                let leases: std::result::Result<Vec<_>, _> =
                    parts.iter().map(|p| p.write(0..p.rows())).collect();
                (Place::Sums { parts: leases?, shape, written: false }, 1)
            }
        };
        state.places.push(Some(place));
        let view =
            OutView { place: state.places.len() - 1, start: 0, count, whole: true, laid: Laid::AsTheyAre };
        Ok(Resource::new_own(state.outs.push(view)))
    };
    let mut rows_out = Vec::with_capacity(call.rows_out.len());
    for target in call.rows_out {
        rows_out.push(target.map(&mut out).transpose()?);
    }
    let mut sums_out = Vec::with_capacity(call.sums_out.len());
    for target in call.sums_out {
        sums_out.push(out(target)?);
    }
    let mut given = Given::default();
    let labelled = call.labelled.map(|l| {
        given.to_ask = l.row_weights.is_some() && !l.rows.is_empty();
        given.row_weights = l.row_weights;
        let targets = match l.targets {
            Targets::Classes(list) => wv::Targets::Classes(Resource::new_own(state.ids.push(list))),
            Targets::Values(matrix) => wv::Targets::Values(Resource::new_own(state.matrices.push(matrix))),
        };
        (targets, Resource::new_own(state.ids.push(l.rows)), l.weight)
    });
    state.given = Some(given);
    let task = wv::Task {
        training: call.training,
        epoch: call.epoch,
        layer: call.layer,
        rows: state.grid.rows() as u32,
    };
    let outputs = call.output_count;
    state.peak.handles = state.handles() as u64;
    Ok(Args {
        task,
        inputs,
        parameters,
        forward_outputs,
        kept,
        gradients,
        rows_out,
        sums_out,
        labelled,
        outputs,
    })
}

pub(crate) fn rows_place(
    rows: WriteRows,
    count: usize,
    extents: Vec<u32>,
    rounds: Option<WriteHalf>,
) -> Place {
    Place::Rows { rows, count, extents, written: Default::default(), scratch: None, rounds }
}

/// Ends a task after the kernel has returned. Checks that the kernel wrote all results, and removes
/// the task's handles. `lent` is the number of handles that the host itself drops.
///
/// # Errors
/// Returns [`Error::Promise`] if an output was not written completely, or if the kernel kept
/// handles.
pub(crate) fn settle(state: &mut State, name: &str, place: &str, lent: usize) -> Result<Finished> {
    let unwritten = state.places.iter().enumerate().find_map(|(i, p)| match p {
        Some(p) if !matches!(p, Place::Rows { scratch: Some(_), .. }) => p.unwritten().map(|why| (i, why)),
        _ => None,
    });
    if let Some((i, why)) = unwritten {
        return Err(promise(name, place, format!("output {i}: {why}")));
    }
    if state.given.as_ref().is_some_and(|given| given.to_ask) {
        let reason =
            "the rows have different weights, but the kernel did not request them (`given.row-weights`)";
        return Err(promise(name, place, reason.to_owned()));
    }
    for written in &mut state.places {
        if let Some(Place::Rows { rows, rounds: Some(to), .. }) = written {
            let rounded = to.view_mut().round_from(rows.view());
            rounded.map_err(|source| Error::Tensor { place: format!("kernel `{name}`, {place}"), source })?;
        }
    }
    let finished = Finished {
        log: std::mem::take(&mut state.log),
        guest_memory_bytes: state.memory_bytes,
        copied_bytes: state.copied_bytes,
        peak: state.peak,
    };
    let kept = state.handles().saturating_sub(lent);
    state.reset();
    if kept > 0 {
        return Err(promise(
            name,
            place,
            format!("the kernel still holds {kept} handles after the call; drop all handles"),
        ));
    }
    Ok(finished)
}

pub(crate) fn promise(kernel: &str, place: &str, reason: String) -> Error {
    Error::Promise { kernel: kernel.to_owned(), place: place.to_owned(), reason }
}

//! Checks that a requested call matches the signature of its layer.

use eciton_types::signature::{RowsSpec, Signature, TargetKind};

use super::edges::EdgesRef;
use super::steps::{CallRef, WriteRef};
use super::{MatrixRef, TargetsRef, width, wire};
use crate::call::{EdgeKind, Kind};
use crate::error::{Error, Result};

/// Number of the signature's matrices that a function receives.
#[derive(Clone, Copy, PartialEq)]
enum Given {
    All,
    AllOrNone,
    None,
}

pub(super) fn fits(call: &CallRef, s: &Signature) -> Result<()> {
    use Given::{All, AllOrNone, None};
    match (&call.edges, &s.edges) {
        (Some(edges), Some(signature)) => return on_edges(call, edges, s, &signature.passed),
        (Option::None, Option::None) => {}
        _ => {
            let reason = format!("kernel `{}` has the other domain (vertex rows or edges)", call.kernel.name);
            return Err(wire("request", reason));
        }
    }
    let kind = call.kind;
    let needed = |needed| if needed { All } else { AllOrNone };
    let (inputs, outputs, passed) = match kind {
        Kind::Forward | Kind::Loss => (All, None, None),
        Kind::Backward => (needed(s.backward_needs.inputs), needed(s.backward_needs.outputs), All),
    };
    if kind == Kind::Loss && s.loss.is_none() {
        return Err(wire("loss", format!("kernel `{}` has no loss", call.kernel.name)));
    }
    if let Some(labelled) = &call.labelled {
        targets(call, &labelled.targets, s)?;
    }
    rows("inputs", &call.inputs, &s.inputs, inputs)?;
    rows("outputs", &call.outputs, &s.outputs, outputs)?;
    rows("kept", &call.kept, &s.kept, passed)?;
    rows("gradients", &call.gradients, &s.outputs, passed)?;
    parameters(call, s)?;
    let places: Vec<&RowsSpec> = match kind {
        Kind::Forward => s.outputs.iter().chain(&s.kept).collect(),
        Kind::Backward | Kind::Loss => s.inputs.iter().collect(),
    };
    let written = &call.rows_out;
    let alike = |(found, spec): (&Option<WriteRef>, &&RowsSpec)| {
        found.as_ref().is_none_or(|write| width(&write.extents) == spec.width())
    };
    if written.len() != places.len() || !written.iter().zip(&places).all(alike) {
        return Err(differs("rows_out", written, &places));
    }
    if kind == Kind::Forward && call.output_count as usize != s.outputs.len() {
        return Err(differs("output_count", &call.output_count, &s.outputs.len()));
    }
    let mut sums: Vec<Vec<u32>> = Vec::new();
    if kind != Kind::Forward {
        sums.extend(s.parameters.iter().map(|p| p.shape.clone()));
    }
    if kind == Kind::Loss {
        sums.push(vec![1]);
    }
    same("sums_out", &call.sums_out, &sums)
}

/// Checks that the call of an edge kernel has the own rows, the rows at the other ends and the
/// outputs that the signature requires.
fn on_edges(call: &CallRef, edges: &EdgesRef, s: &Signature, passed: &RowsSpec) -> Result<()> {
    let [source, target] = &s.inputs[..] else {
        return Err(wire("request", "the signature of an edge kernel must have two inputs"));
    };
    let (own, other, places): (Vec<_>, _, Vec<_>) = match edges.function {
        EdgeKind::Forward => (vec![target], source, s.outputs.iter().chain(&s.kept).collect()),
        EdgeKind::Targets => {
            let own = [target].into_iter().chain(&s.kept).chain(&s.outputs);
            (own.collect(), source, vec![target, passed])
        }
        EdgeKind::Sources => (vec![source], passed, vec![source]),
    };
    let alike = |extents: &Vec<u32>, spec: &RowsSpec| width(extents) == spec.width();
    let given: Vec<_> = call.inputs.iter().map(|m| &m.extents).collect();
    if given.len() != own.len() || !given.iter().zip(&own).all(|(found, spec)| alike(found, spec)) {
        return Err(differs("inputs", &given, &own));
    }
    if !alike(&edges.other.extents, other) {
        return Err(differs("other", &edges.other.extents, other));
    }
    let known = edges.known.as_ref().map(|known| known.extents.clone());
    let told = call.inputs_extents.get(2).filter(|extents| width(extents) != Some(0)).cloned();
    if known != told {
        return Err(differs("known", &known, &told));
    }
    parameters(call, s)?;
    let written = &call.rows_out;
    let fit = |(found, spec): (&Option<WriteRef>, &&RowsSpec)| match found {
        Some(write) => alike(&write.extents, spec),
        // Only the gradient of the target may be omitted.
        None => edges.function == EdgeKind::Targets && std::ptr::eq(*spec, target),
    };
    if written.len() != places.len() || !written.iter().zip(&places).all(fit) {
        return Err(differs("rows_out", written, &places));
    }
    let sums = match edges.function {
        EdgeKind::Targets => s.parameters.iter().map(|p| p.shape.clone()).collect(),
        _ => Vec::new(),
    };
    same("sums_out", &call.sums_out, &sums)
}

fn parameters(call: &CallRef, s: &Signature) -> Result<()> {
    let shape = |found: &MatrixRef| found.extents.clone();
    let parameters: Vec<_> =
        s.parameters.iter().map(|p| p.shape.get(1..).unwrap_or_default().to_vec()).collect();
    same("extents of parameters", &call.parameters.iter().map(shape).collect(), &parameters)
}

fn targets(call: &CallRef, found: &TargetsRef, s: &Signature) -> Result<()> {
    match (found, s.loss) {
        (TargetsRef::Classes(_), Some(TargetKind::Classes)) => Ok(()),
        (TargetsRef::Values(values), Some(TargetKind::Values)) => {
            let columns = s.outputs.first().map(|scores| scores.extents.clone()).unwrap_or_default();
            same("extents of targets", &vec![values.extents.clone()], &vec![columns])
        }
        _ => {
            let reason = format!(
                "kernel `{}` requires targets of the other kind (classes or values)",
                call.kernel.name
            );
            Err(wire("targets", reason))
        }
    }
}

/// Checks that rows have as many values as the signature requires. How the values are grouped into
/// extents may differ.
fn rows(what: &str, found: &[MatrixRef], specs: &[RowsSpec], given: Given) -> Result<()> {
    let all = found.len() == specs.len()
        && found.iter().zip(specs).all(|(f, s)| width(&f.extents).is_some_and(|w| Some(w) == s.width()));
    let right = match given {
        Given::All => all,
        Given::AllOrNone => all || found.is_empty(),
        Given::None => found.is_empty(),
    };
    if right {
        return Ok(());
    }
    let found: Vec<_> = found.iter().map(|m| &m.extents).collect();
    if given == Given::None {
        return Err(differs(what, &found, &"none"));
    }
    Err(differs(what, &found, &specs.iter().map(|s| &s.extents).collect::<Vec<_>>()))
}

fn same(what: &str, found: &Vec<Vec<u32>>, expected: &Vec<Vec<u32>>) -> Result<()> {
    if found == expected { Ok(()) } else { Err(differs(what, found, expected)) }
}

fn differs(what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug) -> Error {
    let (mut found, mut expected) = (format!("{found:?}"), format!("{expected:?}"));
    // A hostile request may contain a long list.
    for text in [&mut found, &mut expected] {
        text.truncate(text.floor_char_boundary(500));
    }
    wire(
        format!("request, {what}"),
        format!("{found} was found, but the kernel's signature requires {expected}"),
    )
}

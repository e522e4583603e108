//! Whether a request is a call of its layer: counts and extents against the signature.

use eciton_plan::signature::{RowsSpec, Signature, TargetKind};

use super::edges::EdgesRef;
use super::{MatrixRef, Request, TargetsRef, width, wire};
use crate::call::Kind;
use crate::edges::EdgeKind;
use crate::error::{Error, Result};

/// How often a function gets a list of its signature.
#[derive(Clone, Copy, PartialEq)]
enum Given {
    All,
    AllOrNone,
    None,
}

pub(super) fn fits(request: &Request, s: &Signature) -> Result<()> {
    use Given::{All, AllOrNone, None};
    match (&request.edges, &s.edges) {
        (Some(edges), Some(signature)) => return on_edges(request, edges, s, &signature.passed),
        (Option::None, Option::None) => {}
        _ => {
            let reason = format!("kernel `{}` is of the other kind, rows or edges", request.kernel.name);
            return Err(wire("request", reason));
        }
    }
    let kind = request.kind;
    let needed = |needed| if needed { All } else { AllOrNone };
    let (inputs, outputs, passed) = match kind {
        Kind::Forward | Kind::Loss => (All, None, None),
        Kind::Backward => (needed(s.backward_needs.inputs), needed(s.backward_needs.outputs), All),
    };
    if kind == Kind::Loss && s.loss.is_none() {
        return Err(wire("loss", format!("kernel `{}` has none", request.kernel.name)));
    }
    if let Some(labelled) = &request.labelled {
        targets(request, &labelled.targets, s)?;
    }
    rows("inputs", &request.inputs, &s.inputs, inputs)?;
    rows("outputs", &request.outputs, &s.outputs, outputs)?;
    rows("kept", &request.kept, &s.kept, passed)?;
    rows("gradients", &request.gradients, &s.outputs, passed)?;
    parameters(request, s)?;
    let places: Vec<&RowsSpec> = match kind {
        Kind::Forward => s.outputs.iter().chain(&s.kept).collect(),
        Kind::Backward | Kind::Loss => s.inputs.iter().collect(),
    };
    let written = &request.rows_out;
    let alike = |(found, spec): (&Option<Vec<u32>>, &&RowsSpec)| {
        found.as_ref().is_none_or(|extents| width(extents) == spec.width())
    };
    if written.len() != places.len() || !written.iter().zip(&places).all(alike) {
        return Err(differs("rows_out", written, &places));
    }
    if kind == Kind::Forward && request.output_count as usize != s.outputs.len() {
        return Err(differs("output_count", &request.output_count, &s.outputs.len()));
    }
    let mut sums: Vec<Vec<u32>> = Vec::new();
    if kind != Kind::Forward {
        sums.extend(s.parameters.iter().map(|p| p.shape.clone()));
    }
    if kind == Kind::Loss {
        sums.push(vec![1]);
    }
    same("sums_out", &request.sums_out, &sums)
}

/// An edge kernel's call: own rows, rows of other ends, and what it writes.
fn on_edges(request: &Request, edges: &EdgesRef, s: &Signature, passed: &RowsSpec) -> Result<()> {
    let [source, target] = &s.inputs[..] else {
        return Err(wire("request", "an edge kernel's signature has two inputs"));
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
    let given: Vec<_> = request.inputs.iter().map(|m| &m.extents).collect();
    if given.len() != own.len() || !given.iter().zip(&own).all(|(found, spec)| alike(found, spec)) {
        return Err(differs("inputs", &given, &own));
    }
    if !alike(&edges.other.extents, other) {
        return Err(differs("other", &edges.other.extents, other));
    }
    let known = edges.known.as_ref().map(|known| known.extents.clone());
    let told = request.inputs_extents.get(2).filter(|extents| width(extents) != Some(0)).cloned();
    if known != told {
        return Err(differs("known", &known, &told));
    }
    parameters(request, s)?;
    let written = &request.rows_out;
    let fit = |(found, spec): (&Option<Vec<u32>>, &&RowsSpec)| match found {
        Some(extents) => alike(extents, spec),
        // Only a target's own gradient may be unwanted.
        None => edges.function == EdgeKind::Targets && std::ptr::eq(*spec, target),
    };
    if written.len() != places.len() || !written.iter().zip(&places).all(fit) {
        return Err(differs("rows_out", written, &places));
    }
    let sums = match edges.function {
        EdgeKind::Targets => s.parameters.iter().map(|p| p.shape.clone()).collect(),
        _ => Vec::new(),
    };
    same("sums_out", &request.sums_out, &sums)
}

fn parameters(request: &Request, s: &Signature) -> Result<()> {
    let shape = |found: &MatrixRef| found.extents.clone();
    let parameters: Vec<_> =
        s.parameters.iter().map(|p| p.shape.get(1..).unwrap_or_default().to_vec()).collect();
    same("extents of parameters", &request.parameters.iter().map(shape).collect(), &parameters)
}

fn targets(request: &Request, found: &TargetsRef, s: &Signature) -> Result<()> {
    match (found, s.loss) {
        (TargetsRef::Classes(_), Some(TargetKind::Classes)) => Ok(()),
        (TargetsRef::Values(values), Some(TargetKind::Values)) => {
            let columns = s.outputs.first().map(|scores| scores.extents.clone()).unwrap_or_default();
            same("extents of targets", &vec![values.extents.clone()], &vec![columns])
        }
        _ => {
            let reason = format!("kernel `{}` compares with targets of the other kind", request.kernel.name);
            Err(wire("targets", reason))
        }
    }
}

/// Rows of as many values as the signature's; how they are grouped is the reader's.
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
    // A hostile list may be long.
    for text in [&mut found, &mut expected] {
        text.truncate(text.floor_char_boundary(500));
    }
    wire(format!("request, {what}"), format!("{found} was found; the kernel's signature says {expected}"))
}

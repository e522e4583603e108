//! A span's part of a request: several calls, with slots between them that stay where they run.
//!
//! Each call is a request of its own, without objects. Sources of rows that are local name an object
//! past those of the whole request: slot `i` is the object of number `objects + i`.

mod read;
mod write;

use eciton_plan::{Normalisation, ParameterId, TensorKey};
use eciton_tensor::frame::padded_bytes;
use serde::{Deserialize, Serialize};

pub(super) use write::request;

use super::encode::CALL;
use super::request::{REQUEST, bounded, check_extents, check_source};
use super::{MatrixRef, Request, Source, width, wire};
use crate::error::Result;

/// Steps, or slots, or lists of a span.
const MAX_STEPS: usize = 512;

/// Several calls as one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpanRef {
    /// Rows that steps leave for later ones.
    pub slots: Vec<SlotRef>,
    /// What gathers follow.
    pub lists: Vec<ListsRef>,
    /// What is done, in order.
    pub steps: Vec<StepRef>,
    /// Rows of the answer.
    pub outs: Vec<OutRef>,
    /// Rows that stay with the worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<KeepRef>,
    /// Rows that stayed there, and that no later task reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frees: Vec<TensorKey>,
    /// Sums that the worker keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<HoldRef>,
}

/// A sum that the worker keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldRef {
    /// Its index among the sums of all calls, in order.
    pub sum: u32,
    /// The use of a parameter whose gradient it is.
    pub of: ParameterId,
}

/// Rows that stay where a span runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotRef {
    /// Rows.
    pub rows: u32,
    /// Values a row.
    pub columns: u32,
    /// Whether they are rounded to bfloat16.
    pub half: bool,
    /// The first values; none: zeros.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<MatrixRef>,
}

/// What gathers follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListsRef {
    /// Ids: where each list begins, and the end of the last.
    pub offsets: Source,
    /// Ids: the lists, one after the other.
    pub neighbours: Source,
    /// One column: a factor of each vertex.
    pub factors: Option<Source>,
    /// One column: a weight of each edge.
    pub weights: Option<Source>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepRef {
    /// A call of a vertex kernel.
    Kernel(Box<Request>, Vec<Option<u32>>),
    /// A gather.
    Gather(GatherRef),
}

/// A gather from one slot to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatherRef {
    /// `symmetric`, `mean` or `sum`.
    pub normalisation: String,
    /// Whether it is a gather's gradient.
    pub reversed: bool,
    /// Which lists.
    pub lists: u32,
    /// The slot that it reads.
    pub from: u32,
    /// The slot that it writes.
    pub into: u32,
    /// Rows to write.
    pub rows: u32,
}

/// Rows of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutRef {
    /// The slot that they are of.
    pub slot: u32,
    /// How many, from the first one on.
    pub rows: u32,
    /// Extents of one row.
    pub extents: Vec<u32>,
}

/// Rows that stay with the worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepRef {
    /// The slot that they are of.
    pub slot: u32,
    /// How many, from the first one on.
    pub rows: u32,
    /// Extents of one row.
    pub extents: Vec<u32>,
    /// Their address, by which later requests read them.
    pub key: TensorKey,
    /// Places of workers that they are sent to; none: they stay.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<u32>,
}

fn refuse<T>(what: &str, reason: impl Into<String>) -> Result<T> {
    Err(wire(format!("{REQUEST}, span, {what}"), reason))
}

fn small(value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|_| wire(CALL, format!("{value} rows; below 2^32 are allowed")))
}

impl SpanRef {
    /// Its calls of kernels, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Request> {
        self.steps.iter().filter_map(|step| match step {
            StepRef::Kernel(request, _) => Some(&**request),
            StepRef::Gather(_) => None,
        })
    }

    /// Checks everything that needs no bytes of a matrix.
    pub(super) fn check(&self, whole: &Request) -> Result<()> {
        for (what, count) in [
            ("steps", self.steps.len()),
            ("slots", self.slots.len()),
            ("lists", self.lists.len()),
            ("rows_out", self.outs.len()),
            ("rows to keep", self.keeps.len()),
            ("rows to forget", self.frees.len()),
            ("sums to hold", self.holds.len()),
        ] {
            bounded(what, count, MAX_STEPS)?;
        }
        let objects = whole.objects.len();
        if self.calls().next().is_none() || whole.edges.is_some() {
            return refuse("steps", "at least one call of a vertex kernel is needed, and none on edges");
        }
        let mut bytes = Some(0u64);
        let mut add = |rows: u64, columns: u64| {
            bytes = bytes.zip(padded_bytes(rows, columns)).and_then(|(sum, one)| sum.checked_add(one));
        };
        for slot in &self.slots {
            add(slot.rows.into(), slot.columns.into());
            if let Some(from) = &slot.from {
                check_source(objects, "slots", from.source)?;
            }
        }
        for out in &self.outs {
            let columns = check_extents("rows_out", &out.extents)?;
            add(out.rows.into(), columns.into());
            self.fits("rows_out", out.slot, out.rows, Some(columns))?;
        }
        for keep in &self.keeps {
            bounded("places that rows go to", keep.to.len(), MAX_STEPS)?;
            let columns = check_extents("rows to keep", &keep.extents)?;
            add(keep.rows.into(), columns.into());
            self.fits("rows to keep", keep.slot, keep.rows, Some(columns))?;
        }
        let sums: usize = self.calls().map(|call| call.sums_out.len()).sum();
        let mut before = None;
        for HoldRef { sum, .. } in &self.holds {
            if *sum as usize >= sums || before.is_some_and(|before| before >= *sum) {
                return refuse("sums to hold", format!("sum {sum} after {before:?}, of {sums}"));
            }
            before = Some(*sum);
        }
        for lists in &self.lists {
            let columns = [lists.factors, lists.weights].into_iter().flatten();
            for source in columns.chain([lists.offsets, lists.neighbours]) {
                check_source(objects, "lists", source)?;
            }
        }
        for step in &self.steps {
            match step {
                StepRef::Gather(gather) => {
                    if Normalisation::named(&gather.normalisation).is_none() {
                        return refuse("a gather", format!("normalisation `{}`", gather.normalisation));
                    }
                    if gather.lists as usize >= self.lists.len() || gather.from == gather.into {
                        return refuse("a gather", "its lists are not there, or it writes what it reads");
                    }
                    let into = self.slots.get(gather.into as usize).map(|slot| slot.columns);
                    self.fits("a gather", gather.into, gather.rows, None)?;
                    self.fits("a gather", gather.from, 0, into)?;
                }
                StepRef::Kernel(call, writes) => {
                    call.check_among(objects + self.slots.len())?;
                    if call.span.is_some() || call.edges.is_some() || !call.objects.is_empty() {
                        return refuse("a call", "spans, edges or objects of its own");
                    }
                    for shape in &call.sums_out {
                        let (rows, rest) = shape.split_first().unwrap_or((&0, &[]));
                        add(call.grid.len() as u64 * u64::from(*rows), u64::from(width(rest).unwrap_or(0)));
                    }
                    if writes.len() != call.rows_out.len() {
                        return refuse("a call", "another number of slots than of rows to write");
                    }
                    let rows = u32::try_from(call.rows()).unwrap_or(u32::MAX);
                    for (slot, extents) in writes.iter().zip(&call.rows_out) {
                        match (slot, extents) {
                            (None, None) => {}
                            (Some(slot), Some(extents)) => {
                                self.fits("a call", *slot, rows, width(extents))?
                            }
                            _ => return refuse("a call", "rows without a slot, or a slot without rows"),
                        }
                    }
                }
            }
        }
        let allowed = whole.limits.matrix_bytes;
        match bytes {
            Some(asked) if asked <= allowed => Ok(()),
            asked => {
                let asked = asked.map_or("more than 2^64".to_owned(), |b| b.to_string());
                refuse("slots", format!("limit matrix-bytes: {asked} bytes to write, {allowed} allowed"))
            }
        }
    }

    /// Whether a slot has so many rows, of so many values.
    fn fits(&self, what: &str, slot: u32, rows: u32, columns: Option<u32>) -> Result<()> {
        match self.slots.get(slot as usize) {
            Some(spec) if rows <= spec.rows && columns.is_none_or(|columns| columns == spec.columns) => {
                Ok(())
            }
            found => refuse(what, format!("{rows} rows of {columns:?} values in slot {slot}: {found:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::VERSION;
    use super::*;
    use serde_json::{Value, json};

    /// A forward of one matrix from slot 0 to slot 1, and a gather from there to slot 2, which leaves.
    fn request() -> Value {
        let limits = json!({
            "guest_memory_bytes": 1 << 20, "task_time_ms": 1000, "matrix_bytes": 1 << 16, "handles": 9,
            "call_bytes": 1 << 20, "call_work": 1 << 20, "arrival_ms": 1000, "log_bytes": 99
        });
        let one = |span: Value, rows: u32, inputs: Value, outs: Value| {
            let mut made = json!({
                "version": VERSION, "run": "r",
                "key": { "round": 1, "stage": 0, "interval": 0, "attempt": 0 },
                "kernel": { "name": "k", "digest": "0".repeat(64) }, "inputs_extents": [[4]],
                "attributes": [], "kind": "forward", "seed": 0, "epoch": 0, "layer": 0, "training": false,
                "grid": [{ "level": 0, "ends": [rows], "closes": [0] }], "row_numbers": { "from": 0 },
                "inputs": inputs, "outputs": [], "kept": [], "parameters": [], "gradients": [],
                "output_count": 1, "rows_out": outs, "sums_out": [], "labelled": null, "objects": [],
                "limits": limits, "encoding": "f32"
            });
            if !span.is_null() {
                made["span"] = span;
                made["output_count"] = json!(0);
            }
            made
        };
        let input = json!([{ "source": { "object": 0, "part": 0 }, "extents": [4], "encoding": null }]);
        let call = one(Value::Null, 5, input, json!([[4]]));
        let slot = json!({ "rows": 5, "columns": 4, "half": false });
        let lists = json!({
            "offsets": { "object": null, "part": 0 }, "neighbours": { "object": null, "part": 1 },
            "factors": null, "weights": null
        });
        let gather =
            json!({ "normalisation": "sum", "reversed": false, "lists": 0, "from": 1, "into": 2, "rows": 5 });
        let kept = json!({
            "rows": { "pass": 0, "slot": 1, "round": 1, "interval": 0, "via": "stay" }
        });
        let span = json!({
            "slots": [slot, slot, slot], "lists": [lists], "outs": [{ "slot": 2, "rows": 5, "extents": [4] }],
            "keeps": [{ "slot": 1, "rows": 5, "extents": [4], "key": kept }], "frees": [kept], "holds": [],
            "steps": [{ "kernel": [call, [1]] }, { "gather": gather }]
        });
        one(span, 0, json!([]), json!([]))
    }

    fn checked(request: &Value) -> std::result::Result<Request, String> {
        Request::parse(&serde_json::to_vec(request).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_span_that_contradicts_itself_is_refused() {
        let whole = checked(&request()).unwrap();
        assert_eq!(whole.calls().count(), 1);
        for (place, value, words) in [
            ("/span/steps/0/kernel/1/0", json!(3), "slot 3"),
            ("/span/steps/0/kernel/1/0", json!(null), "without a slot"),
            ("/span/steps/0/kernel/0/inputs/0/source/object", json!(3), "object 3"),
            ("/span/steps/0/kernel/0/grid/0/ends/0", json!(6), "6 rows"),
            ("/span/steps/0/kernel/0/objects", json!(["runs/r/weights/1"]), "objects of its own"),
            ("/span/steps/0/kernel/0/span", request()["span"].clone(), "of its own"),
            ("/span/steps/1/gather/lists", json!(1), "lists are not there"),
            ("/span/steps/1/gather/into", json!(1), "writes what it reads"),
            ("/span/steps/1/gather/rows", json!(6), "6 rows"),
            ("/span/steps/1/gather/normalisation", json!("median"), "median"),
            ("/span/slots/2/columns", json!(5), "slot 2"),
            ("/span/slots/0/rows", json!(1 << 20), "matrix-bytes"),
            ("/span/outs/0/rows", json!(6), "6 rows"),
            ("/span/keeps/0/slot", json!(3), "slot 3"),
            ("/span/keeps/0/rows", json!(6), "6 rows"),
            ("/span/keeps/0/extents", json!([5]), "slot 1"),
            ("/span/keeps/0/key", json!("kept/1"), "kept/1"),
            ("/span/frees/0/rows/via", json!("sea"), "sea"),
            ("/span/holds", json!([{ "sum": 0, "of": 1 }]), "sum 0 after None, of 0"),
            ("/span/lists/0/offsets/object", json!(0), "object 0"),
            ("/span/steps", json!([]), "at least one call"),
        ] {
            let mut wrong = request();
            match wrong.pointer_mut(place) {
                Some(found) => *found = value,
                // The call has no span of its own.
                None => wrong["span"]["steps"][0]["kernel"][0]["span"] = value,
            }
            let error = checked(&wrong).unwrap_err();
            assert!(error.contains(words), "{place}: {error}");
        }
    }
}

//! Steps of a request, and the slots through which they pass rows.

use std::sync::Arc;

use eciton_tensor::frame::padded_bytes;
use eciton_tensor::grid::MAX_LEVEL;
use eciton_tensor::{Atom, Grid, Part};
use eciton_types::signature::Attribute;
use eciton_types::{Location, Normalisation, ParameterId, TensorKey};
use serde::{Deserialize, Serialize};

use super::edges::EdgesRef;
use super::encoder::CALL;
use super::fit::fits;
use super::request::{REQUEST, bounded, check_extents, check_source};
use super::{
    GridPart, KernelRef, LabelledRef, MAX_ATOMS, MAX_ATTRIBUTES, MAX_MATRICES, MAX_NAME_BYTES, MAX_OBJECTS,
    MatrixRef, Numbers, Object, Request, Source, TargetsRef, check_version, text, width, wire,
};
use crate::call::Kind;
use crate::error::Result;
use crate::runtime::{Kernel, Layer};

/// Maximum number of steps in a request. It also limits the slots and the adjacency lists.
const MAX_STEPS: usize = 512;

/// Step of a request, which calls a kernel or gathers rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepRef {
    /// A call of a kernel's function.
    Kernel(Box<CallRef>),
    /// A sum of rows over adjacency lists.
    Gather(GatherRef),
}

/// Call of one function of a kernel, with references to all its arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRef {
    /// Kernel that is called.
    pub kernel: KernelRef,
    /// Extents of one row of each input. The layer is opened with these extents.
    pub inputs_extents: Vec<Vec<u32>>,
    /// Attributes of the layer, including those with default values.
    #[serde(with = "text::attributes")]
    pub attributes: Vec<Attribute>,
    /// Function of the kernel that is called.
    #[serde(with = "text::kind")]
    pub kind: Kind,
    /// Random seed of the run, from which dropout masks are derived.
    pub seed: u64,
    /// Index of the training round, counted from 0
    /// ([`VertexCall::epoch`](crate::VertexCall::epoch)).
    pub epoch: u32,
    /// Index of the layer in the model, counted from 0
    /// ([`VertexCall::layer`](crate::VertexCall::layer)).
    pub layer: u32,
    /// True in training, when dropout applies. False in evaluation.
    pub training: bool,
    /// Parts of the grid, which fixes the order of sums over rows.
    pub grid: Vec<GridPart>,
    /// Global vertex ids of the rows.
    pub row_numbers: Numbers,
    /// Inputs of the layer. For an edge kernel, these are the rows that have the edge lists.
    pub inputs: Vec<MatrixRef>,
    /// Outputs of `forward`, which `backward` reads.
    pub outputs: Vec<MatrixRef>,
    /// Stashed rows, which `forward` saved and `backward` reads.
    pub kept: Vec<MatrixRef>,
    /// Parameters of the layer, in the order of the signature.
    pub parameters: Vec<MatrixRef>,
    /// Gradients of the layer's outputs, which `backward` reads.
    pub gradients: Vec<MatrixRef>,
    /// Number of outputs among the destinations of `forward`. The remaining entries of `rows_out`
    /// are stashed rows.
    pub output_count: u32,
    /// Destination of each matrix of rows that the function writes, or `None` if it is not needed.
    pub rows_out: Vec<Option<WriteRef>>,
    /// Shapes of the sums over rows that the function computes, for instance `[64, 16]`.
    pub sums_out: Vec<Vec<u32>>,
    /// Target values and loss weights for the function `loss`. `None` for the other functions.
    pub labelled: Option<LabelledRef>,
    /// Edge lists for an edge kernel. `None` for a vertex kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<EdgesRef>,
}

/// Destination of rows that a step writes. The step fills a slot from its first row on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRef {
    /// Index of the slot in [`Request::slots`].
    pub slot: u32,
    /// Extents of one row as the step writes it.
    pub extents: Vec<u32>,
}

/// Gradient sum that the worker stores instead of returning it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldRef {
    /// Index of the sum among the sums of all steps, in order.
    pub sum: u32,
    /// Parameter of which the sum is the gradient.
    pub of: ParameterId,
}

/// Slot of a request, which is a buffer for rows on the worker that executes the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotRef {
    /// Number of rows of the slot.
    pub rows: u32,
    /// Number of values per row of the slot.
    pub columns: u32,
    /// True if the values are rounded to bfloat16.
    pub half: bool,
    /// Initial values of the rows. If `None`, the rows are zero until a step writes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<MatrixRef>,
}

/// Adjacency lists that gather steps sum over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListsRef {
    /// Location of the offsets, which give the start of each list in `neighbours`. The last offset
    /// is the number of edges.
    pub offsets: Source,
    /// Location of the neighbours, which are all adjacency lists one after the other.
    pub neighbours: Source,
    /// Location of the normalisation factor of each vertex, as f32 bits. `None` if the sum needs
    /// none.
    pub factors: Option<Source>,
    /// Location of the weight of each edge, as f32 bits. `None` if edges have no weights.
    pub weights: Option<Source>,
}

/// Step that sums the rows of one slot over adjacency lists, and writes the sums to another slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatherRef {
    /// Name of the normalisation, which is `symmetric`, `mean` or `sum`.
    pub normalisation: String,
    /// True if the step computes the gradient of a gather, which follows the edges in reverse.
    pub reversed: bool,
    /// Index of the adjacency lists in [`Request::lists`].
    pub lists: u32,
    /// Index of the slot from which rows are gathered.
    pub from: u32,
    /// Index of the slot to which the sums are written.
    pub into: u32,
    /// Number of rows that the gather computes.
    pub rows: u32,
}

/// Rows of a slot that the answer contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutRef {
    /// Index of the slot that contains the rows.
    pub slot: u32,
    /// Number of rows, counted from the start of the slot.
    pub rows: u32,
    /// Extents of one row as the answer contains it.
    pub extents: Vec<u32>,
}

/// Rows of a slot that the worker stores after the call, or sends to other workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepRef {
    /// Slot and shape of the rows.
    pub rows: OutRef,
    /// Key under which later requests read the rows.
    pub key: TensorKey,
    /// Workers to which the rows are sent. If the list is empty, this worker stores them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<Location>,
}

pub(super) fn refuse<T>(what: &str, reason: impl Into<String>) -> Result<T> {
    Err(wire(format!("{REQUEST}, {what}"), reason))
}

pub(super) fn small(value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|_| wire(CALL, format!("{value} rows exceed the maximum of 2^32 - 1")))
}

impl CallRef {
    /// Opens the layer of the call on `kernel`, and checks that the call [fits](CallRef::fits) it.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) if the kernel is a different one or the call
    /// does not match it. Otherwise returns the errors of [`Kernel::open`].
    pub fn open(&self, kernel: &Arc<Kernel>) -> Result<Arc<Layer>> {
        if self.kernel.digest_bytes()? != *kernel.digest() {
            let found = KernelRef::new(kernel);
            let reason = format!("kernel `{}` is {}, not {}", found.name, found.digest, self.kernel.digest);
            return Err(wire(REQUEST, reason));
        }
        let layer = kernel.open(&self.inputs_extents, &self.attributes)?;
        self.fits(&layer)?;
        Ok(layer)
    }

    /// Checks that the call has the matrices that the layer's signature requires. A worker that has
    /// the layer in its cache calls this function before it runs the call.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) with the list that does not match, as found and
    /// as required.
    pub fn fits(&self, layer: &Layer) -> Result<()> {
        fits(self, layer.signature())
    }

    /// Returns the number of rows of the interval, which is the contiguous range of vertices that
    /// the call processes.
    pub fn rows(&self) -> u64 {
        self.grid.last().and_then(|p| p.ends.last()).copied().map_or(0, u64::from)
    }

    /// Checks everything that does not depend on the values of matrices. Locations must refer to
    /// the frame or to one of `objects` objects.
    fn check(&self, objects: usize) -> Result<()> {
        self.kernel.digest_bytes()?;
        bounded("bytes of the kernel's name", self.kernel.name.len(), MAX_NAME_BYTES)?;
        bounded("attributes", self.attributes.len(), MAX_ATTRIBUTES)?;
        bounded("inputs of the layer", self.inputs_extents.len(), MAX_MATRICES)?;
        for extents in &self.inputs_extents {
            check_extents("inputs_extents", extents)?;
        }
        for (what, matrices) in [
            ("inputs", &self.inputs),
            ("outputs", &self.outputs),
            ("kept", &self.kept),
            ("parameters", &self.parameters),
            ("gradients", &self.gradients),
        ] {
            bounded(what, matrices.len(), MAX_MATRICES)?;
            for matrix in matrices {
                check_extents(what, &matrix.extents)?;
                check_source(objects, what, matrix.source)?;
            }
        }
        if let Numbers::List(source) = self.row_numbers {
            check_source(objects, "row_numbers", source)?;
        }
        if let Some(labelled) = &self.labelled {
            match &labelled.targets {
                TargetsRef::Classes(source) => check_source(objects, "targets", *source)?,
                TargetsRef::Values(matrix) => {
                    check_extents("targets", &matrix.extents)?;
                    check_source(objects, "targets", matrix.source)?;
                }
            }
            check_source(objects, "labelled rows", labelled.rows)?;
            if let Some(weights) = &labelled.row_weights {
                if width(&weights.extents) != Some(1) {
                    let reason =
                        format!("a row has the extents {:?}, but must have one weight", weights.extents);
                    return refuse("row weights", reason);
                }
                check_source(objects, "row weights", weights.source)?;
            }
        }
        if let Some(edges) = &self.edges {
            edges.check(self)?;
            for source in edges.sources() {
                check_source(objects, "edges", source)?;
            }
            for matrix in [&edges.other].into_iter().chain(&edges.known) {
                check_extents("edges", &matrix.extents)?;
            }
        }
        self.grid()?;
        self.check_places()
    }

    /// Checks that the destinations of rows and sums are those of the function.
    fn check_places(&self) -> Result<()> {
        let refuse = |reason: &str| refuse(self.kind.name(), reason);
        bounded("rows_out", self.rows_out.len(), MAX_MATRICES)?;
        bounded("sums_out", self.sums_out.len(), MAX_MATRICES)?;
        if self.output_count as usize > MAX_MATRICES {
            return refuse("the call has too many outputs");
        }
        match self.kind {
            Kind::Forward => {
                if self.output_count as usize > self.rows_out.len() {
                    return refuse("the call has more outputs than output buffers");
                }
                if self.rows_out.iter().any(Option::is_none) || !self.sums_out.is_empty() {
                    return refuse("the call must write all outputs, and no sums");
                }
            }
            Kind::Backward => {}
            Kind::Loss => {
                if self.sums_out.last().is_none_or(|shape| *shape != [1]) {
                    return refuse("the last sum must be the loss, with the shape [1]");
                }
            }
        }
        if (self.kind == Kind::Loss) != self.labelled.is_some() {
            return refuse("`loss` requires targets, and no other function accepts them");
        }
        Ok(())
    }

    /// Decodes the grid, and checks it.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) if a part has no atoms, if atoms are not
    /// ascending, or if a tree level does not exist.
    pub fn grid(&self) -> Result<Grid> {
        let refuse = |part: usize, reason: String| wire(format!("{REQUEST}, grid part {part}"), reason);
        let atoms: usize = self.grid.iter().map(|p| p.ends.len()).sum();
        bounded("atoms", atoms, MAX_ATOMS)?;
        if self.grid.is_empty() {
            return Err(refuse(0, "the grid has no parts".to_owned()));
        }
        let (mut parts, mut next) = (Vec::with_capacity(self.grid.len()), 0);
        for (i, part) in self.grid.iter().enumerate() {
            if part.ends.is_empty() || part.ends.len() != part.closes.len() {
                let reason = format!(
                    "it has {} atoms and {} ends of levels, but the two numbers must be equal and above 0",
                    part.ends.len(),
                    part.closes.len()
                );
                return Err(refuse(i, reason));
            }
            if usize::from(part.level) > MAX_LEVEL {
                return Err(refuse(
                    i,
                    format!("it has the tree level {}, but the maximum is {MAX_LEVEL}", part.level),
                ));
            }
            let mut atoms = Vec::with_capacity(part.ends.len());
            for (&end, &closes) in part.ends.iter().zip(&part.closes) {
                if end < next || closes > part.level.saturating_sub(1) {
                    let reason =
                        format!("an atom ends at row {end} after row {next}, and closes {closes} levels");
                    return Err(refuse(i, reason));
                }
                atoms.push(Atom { rows: next..end, closes });
                next = end;
            }
            parts.push(Part { level: part.level, atoms });
        }
        Ok(Grid::new(parts))
    }
}

/// Total size of the slots and sums that a request writes, in bytes. `None` after an overflow.
struct Bytes(Option<u64>);

impl Bytes {
    fn add(&mut self, count: usize, rows: u32, columns: u32) {
        let one = padded_bytes(rows.into(), columns.into()).and_then(|one| one.checked_mul(count as u64));
        self.0 = self.0.zip(one).and_then(|(sum, one)| sum.checked_add(one));
    }

    fn check(self, allowed: u64) -> Result<()> {
        match self.0 {
            Some(asked) if asked <= allowed => Ok(()),
            asked => {
                let asked = asked.map_or("more than 2^64".to_owned(), |b| b.to_string());
                let reason = format!("limit matrix-bytes: {asked} bytes to write, {allowed} allowed");
                Err(wire(REQUEST, reason))
            }
        }
    }
}

impl Request {
    /// Checks everything that does not depend on the values of matrices.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) with the first defect.
    pub fn check(&self) -> Result<()> {
        check_version(REQUEST, self.version)?;
        let named = self.objects.iter().filter_map(Object::named);
        for (what, name) in [("run", &self.run)].into_iter().chain(named) {
            bounded(&format!("bytes of the {what}'s name"), name.len(), MAX_NAME_BYTES)?;
        }
        bounded("objects", self.objects.len(), MAX_OBJECTS)?;
        for (what, count) in [
            ("steps", self.steps.len()),
            ("slots", self.slots.len()),
            ("lists", self.lists.len()),
            ("rows of the answer", self.outs.len()),
            ("rows to cache", self.keeps.len()),
            ("rows to remove", self.frees.len()),
            ("sums to hold", self.holds.len()),
        ] {
            bounded(what, count, MAX_STEPS)?;
        }
        if self.calls().next().is_none() {
            return refuse("steps", "a request must have at least one kernel call");
        }
        let mut bytes = Bytes(Some(0));
        for slot in &self.slots {
            bytes.add(1, slot.rows, slot.columns);
            if let Some(from) = &slot.from {
                check_source(self.objects.len(), "slots", from.source)?;
            }
        }
        // The first time its rows leave, a slot uses the memory of the destination.
        let mut leave = vec![false; self.slots.len()];
        for (what, out) in self.leaving() {
            let columns = check_extents(what, &out.extents)?;
            self.fits_slot(what, out.slot, out.rows, Some(columns))?;
            let (at, spec) = (out.slot as usize, self.slots.get(out.slot as usize));
            let whole = spec.is_some_and(|spec| !spec.half && spec.from.is_none() && spec.rows == out.rows);
            if !whole || std::mem::replace(&mut leave[at], true) {
                bytes.add(1, out.rows, columns);
            }
        }
        for keep in &self.keeps {
            bounded("destinations of rows", keep.to.len(), MAX_STEPS)?;
        }
        self.check_lists()?;
        for step in &self.steps {
            match step {
                StepRef::Gather(gather) => self.check_gather(gather)?,
                StepRef::Kernel(call) => self.check_call(call, &mut bytes)?,
            }
        }
        let sums: usize = self.calls().map(|call| call.sums_out.len()).sum();
        let mut before = None;
        for HoldRef { sum, .. } in &self.holds {
            if *sum as usize >= sums || before.is_some_and(|before| before >= *sum) {
                return refuse(
                    "sums to hold",
                    format!("sum {sum} follows {before:?}, but sums must ascend and be below {sums}"),
                );
            }
            before = Some(*sum);
        }
        bytes.check(self.limits.matrix_bytes)
    }

    /// Returns the rows that leave their slots, in the order of the worker's output buffers.
    fn leaving(&self) -> impl Iterator<Item = (&'static str, &OutRef)> {
        let outs = self.outs.iter().map(|out| ("rows of the answer", out));
        outs.chain(self.keeps.iter().map(|keep| ("rows to cache", &keep.rows)))
    }

    fn check_lists(&self) -> Result<()> {
        for lists in &self.lists {
            let columns = [lists.factors, lists.weights].into_iter().flatten();
            for source in columns.chain([lists.offsets, lists.neighbours]) {
                check_source(self.objects.len(), "lists", source)?;
            }
        }
        Ok(())
    }

    fn check_gather(&self, gather: &GatherRef) -> Result<()> {
        if Normalisation::named(&gather.normalisation).is_none() {
            return refuse("a gather", format!("the normalisation `{}` is unknown", gather.normalisation));
        }
        if gather.lists as usize >= self.lists.len() || gather.from == gather.into {
            return refuse("a gather", "its lists do not exist, or it writes the slot that it reads");
        }
        let into = self.slots.get(gather.into as usize).map(|slot| slot.columns);
        self.fits_slot("a gather", gather.into, gather.rows, None)?;
        self.fits_slot("a gather", gather.from, 0, into)
    }

    fn check_call(&self, call: &CallRef, bytes: &mut Bytes) -> Result<()> {
        call.check(self.objects.len() + self.slots.len())?;
        for shape in &call.sums_out {
            let Some((&rows, rest)) = shape.split_first() else {
                return refuse("sums_out", "a shape has no extents");
            };
            bytes.add(call.grid.len(), rows, check_extents("sums_out", rest)?);
        }
        let rows = u32::try_from(call.rows()).unwrap_or(u32::MAX);
        for write in call.rows_out.iter().flatten() {
            let columns = check_extents("rows_out", &write.extents)?;
            self.fits_slot("rows_out", write.slot, rows, Some(columns))?;
        }
        Ok(())
    }

    /// Checks that the slot at index `slot` exists, has at least `rows` rows, and has `columns`
    /// values per row.
    fn fits_slot(&self, what: &str, slot: u32, rows: u32, columns: Option<u32>) -> Result<()> {
        match self.slots.get(slot as usize) {
            Some(spec) if rows <= spec.rows && columns.is_none_or(|columns| columns == spec.columns) => {
                Ok(())
            }
            found => {
                refuse(what, format!("{rows} rows of {columns:?} values do not fit slot {slot}: {found:?}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::VERSION;
    use super::*;
    use serde_json::{Value, json};

    /// Returns a request for tests. A `forward` call reads slot 0 and writes slot 1. A gather reads
    /// slot 1 and writes slot 2, which the answer returns.
    fn request() -> Value {
        let limits = json!({
            "guest_memory_bytes": 1 << 20, "task_time_ms": 1000, "matrix_bytes": 1 << 10, "handles": 9,
            "call_bytes": 1 << 20, "call_work": 1 << 20, "arrival_ms": 1000, "log_bytes": 99
        });
        let call = json!({
            "kernel": { "name": "k", "digest": "0".repeat(64) }, "inputs_extents": [[4]],
            "attributes": [], "kind": "forward", "seed": 0, "epoch": 0, "layer": 0, "training": false,
            "grid": [{ "level": 0, "ends": [5], "closes": [0] }], "row_numbers": { "from": 0 },
            "inputs": [{ "source": { "object": 0, "part": 0 }, "extents": [4], "encoding": null }],
            "outputs": [], "kept": [], "parameters": [], "gradients": [], "output_count": 1,
            "rows_out": [{ "slot": 1, "extents": [4] }], "sums_out": [], "labelled": null
        });
        let slot = json!({ "rows": 5, "columns": 4, "half": false });
        let lists = json!({
            "offsets": { "object": null, "part": 0 }, "neighbours": { "object": null, "part": 1 },
            "factors": null, "weights": null
        });
        let gather =
            json!({ "normalisation": "sum", "reversed": false, "lists": 0, "from": 1, "into": 2, "rows": 5 });
        let key = json!({ "rows": { "pass": 0, "slot": 1, "round": 1, "interval": 0, "via": "stay" } });
        let leaves = |slot: u32| json!({ "slot": slot, "rows": 5, "extents": [4] });
        json!({
            "version": VERSION, "run": "r", "key": { "round": 1, "stage": 0, "interval": 0, "attempt": 0 },
            "limits": limits, "encoding": "f32", "objects": [], "slots": [slot, slot, slot],
            "lists": [lists], "steps": [{ "kernel": call }, { "gather": gather }],
            "outs": [leaves(2)], "keeps": [{ "rows": leaves(1), "key": key }], "frees": [key], "holds": []
        })
    }

    fn checked(request: &Value) -> std::result::Result<Request, String> {
        Request::parse(&serde_json::to_vec(request).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn steps_that_contradict_their_slots_are_refused() {
        let whole = checked(&request()).unwrap();
        assert_eq!(whole.calls().count(), 1);
        for (place, value, words) in [
            ("/steps/0/kernel/rows_out/0/slot", json!(3), "slot 3"),
            ("/steps/0/kernel/inputs/0/source/object", json!(3), "object 3"),
            ("/steps/0/kernel/grid/0/ends/0", json!(6), "6 rows"),
            ("/steps/1/gather/lists", json!(1), "its lists do not exist"),
            ("/steps/1/gather/into", json!(1), "writes the slot that it reads"),
            ("/steps/1/gather/rows", json!(6), "6 rows"),
            ("/steps/1/gather/normalisation", json!("median"), "median"),
            ("/slots/2/columns", json!(5), "slot 2"),
            ("/slots/0/rows", json!(1 << 20), "matrix-bytes"),
            ("/outs/0/rows", json!(6), "6 rows"),
            ("/keeps/0/rows/slot", json!(3), "slot 3"),
            ("/keeps/0/rows/rows", json!(6), "6 rows"),
            ("/keeps/0/rows/extents", json!([5]), "slot 1"),
            ("/keeps/0/key", json!("kept/1"), "kept/1"),
            ("/frees/0/rows/via", json!("sea"), "sea"),
            ("/holds", json!([{ "sum": 0, "of": 1 }]), "sum 0 follows None"),
            ("/lists/0/offsets/object", json!(0), "object 0"),
            ("/steps", json!([]), "at least one kernel call"),
        ] {
            let mut wrong = request();
            *wrong.pointer_mut(place).unwrap() = value;
            let error = checked(&wrong).unwrap_err();
            assert!(error.contains(words), "{place}: {error}");
        }
    }

    /// Checks that a slot needs no extra memory for its destination, unless its rows have a second
    /// destination or another number of rows.
    #[test]
    fn bytes_to_write_are_those_of_slots_and_of_copies() {
        let of_rows = |rows| padded_bytes(rows, 4).unwrap();
        let asked = |change: &dyn Fn(&mut Value)| {
            let mut request = request();
            request["limits"]["matrix_bytes"] = json!(1);
            change(&mut request);
            let error = checked(&request).unwrap_err();
            let words: Vec<&str> = error.split_whitespace().collect();
            words.iter().rev().find_map(|word| word.parse::<u64>().ok().filter(|bytes| *bytes > 1)).unwrap()
        };
        let slots = asked(&|_| {});
        assert_eq!(slots, 3 * of_rows(5));
        assert_eq!(asked(&|request| request["keeps"][0]["rows"]["slot"] = json!(2)), slots + of_rows(5));
        assert_eq!(asked(&|request| request["outs"][0]["rows"] = json!(3)), slots + of_rows(3));
        assert_eq!(asked(&|request| request["slots"][2]["half"] = json!(true)), slots + of_rows(5));
    }
}

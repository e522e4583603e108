//! A request: everything about a call but its matrices' values.

use std::sync::Arc;
use std::time::Duration;

use eciton_plan::signature::Attribute;
use eciton_plan::{TaskKey, TensorKey};
use eciton_tensor::frame::{Encoding, padded_bytes};
use eciton_tensor::grid::MAX_LEVEL;
use eciton_tensor::{Atom, Grid, Part};
use serde::{Deserialize, Serialize};

use super::edges::EdgesRef;
use super::fit::fits;
use super::span::SpanRef;
use super::{
    MAX_ATOMS, MAX_ATTRIBUTES, MAX_MATRICES, MAX_NAME_BYTES, MAX_OBJECTS, STREAM_BYTES, Source,
    check_version, parse_meta, text, width, wire,
};
use crate::call::Kind;
use crate::error::Result;
use crate::limits::Limits;
use crate::runtime::{Kernel, Layer};

pub(super) const REQUEST: &str = "request";

/// A kernel by name and content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRef {
    /// For errors.
    pub name: String,
    /// SHA-256 of its component, 64 hexadecimal digits.
    pub digest: String,
}

impl KernelRef {
    /// What names this kernel.
    pub fn new(kernel: &Kernel) -> Self {
        let digest = kernel.digest().iter().map(|b| format!("{b:02x}")).collect();
        Self { name: kernel.name().to_owned(), digest }
    }

    /// The digest's bytes.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) unless it is 64 lower-case hexadecimal digits.
    pub fn digest_bytes(&self) -> Result<[u8; 32]> {
        let refuse = || wire(REQUEST, "a kernel's digest is 64 hexadecimal digits, lower case");
        let nibble = |c: u8| match c {
            b'0'..=b'9' => Some(c - b'0'),
            b'a'..=b'f' => Some(c - b'a' + 10),
            _ => None,
        };
        let (pairs, []) = self.digest.as_bytes().as_chunks::<2>() else { return Err(refuse()) };
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect();
        bytes.and_then(|b| b.try_into().ok()).ok_or_else(refuse)
    }
}

/// A tensor, or several, outside of the frame of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Object {
    /// Name in an object store.
    Stored(String),
    /// Address of a tensor that the worker has.
    Held(TensorKey),
}

impl Object {
    fn named(&self) -> Option<(&'static str, &String)> {
        match self {
            Self::Stored(name) => Some(("object", name)),
            Self::Held(_) => None,
        }
    }

    /// The name in an object store.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) if it is with a worker.
    pub fn stored(&self) -> Result<&str> {
        match self {
            Self::Stored(name) => Ok(name),
            Self::Held(key) => Err(wire(REQUEST, format!("{key} is no object of a store"))),
        }
    }

    /// The address, if it is with a worker.
    #[must_use]
    pub const fn held(&self) -> Option<TensorKey> {
        match self {
            Self::Stored(_) => None,
            Self::Held(key) => Some(*key),
        }
    }
}

impl From<String> for Object {
    fn from(name: String) -> Self {
        Self::Stored(name)
    }
}

impl From<TensorKey> for Object {
    fn from(key: TensorKey) -> Self {
        Self::Held(key)
    }
}

/// A matrix: where it lies, and what a row of it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixRef {
    /// Where.
    pub source: Source,
    /// Extents of one row; of a parameter all but the first.
    pub extents: Vec<u32>,
    /// How it was written, for dense rows; none: sparse. A hint: the part itself decides.
    pub encoding: Option<Encoding>,
}

/// One part of a grid. Its first atom begins where the last part ends, the first part's at row 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridPart {
    /// Levels between the node and its atoms.
    pub level: u8,
    /// The row after each atom's last.
    pub ends: Vec<u32>,
    /// How many levels end with each atom.
    pub closes: Vec<u8>,
}

/// Global ids of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numbers {
    /// Consecutive from here.
    From(u64),
    /// A list of ids: each number's low and high half.
    List(Source),
}

/// What rows are compared with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetsRef {
    /// Ids: a class a row.
    Classes(Source),
    /// NaN where unknown.
    Values(MatrixRef),
}

/// What is known of the rows, for `loss`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelledRef {
    /// Of every row.
    pub targets: TargetsRef,
    /// Ids: the local rows that count, ascending.
    pub rows: Source,
    /// What each of them, or each of its known values, contributes.
    #[serde(with = "text::float", rename = "weight_bits")]
    pub weight: f32,
    /// What each row counts beside it: one column; none: each 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_weights: Option<MatrixRef>,
}

/// [`Limits`] as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireLimits {
    /// [`Limits::guest_memory_bytes`]
    pub guest_memory_bytes: u64,
    /// [`Limits::task_time`]
    pub task_time_ms: u64,
    /// [`Limits::matrix_bytes`]
    pub matrix_bytes: u64,
    /// [`Limits::handles`]
    pub handles: u32,
    /// [`Limits::call_bytes`]
    pub call_bytes: u64,
    /// [`Limits::call_work`]
    pub call_work: u64,
    /// [`Limits::arrival`]
    pub arrival_ms: u64,
    /// [`Limits::log_bytes`]
    pub log_bytes: u64,
}

impl From<&Limits> for WireLimits {
    fn from(limits: &Limits) -> Self {
        // Up, so that a limit under a millisecond does not become none at all.
        let ms = |d: Duration| u64::try_from(d.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self {
            guest_memory_bytes: limits.guest_memory_bytes,
            task_time_ms: ms(limits.task_time),
            matrix_bytes: limits.matrix_bytes,
            handles: limits.handles,
            call_bytes: limits.call_bytes,
            call_work: limits.call_work,
            arrival_ms: ms(limits.arrival),
            log_bytes: limits.log_bytes,
        }
    }
}

impl From<&WireLimits> for Limits {
    fn from(limits: &WireLimits) -> Self {
        Self {
            guest_memory_bytes: limits.guest_memory_bytes,
            task_time: Duration::from_millis(limits.task_time_ms),
            matrix_bytes: limits.matrix_bytes,
            handles: limits.handles,
            call_bytes: limits.call_bytes,
            call_work: limits.call_work,
            arrival: Duration::from_millis(limits.arrival_ms),
            log_bytes: limits.log_bytes,
        }
    }
}

/// One call, without the values of its matrices.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// [`VERSION`](super::VERSION)
    pub version: u32,
    /// The run, for keys and errors.
    pub run: String,
    /// What the answer is filed under.
    pub key: TaskKey,
    /// The kernel.
    pub kernel: KernelRef,
    /// What its layer is opened with: extents of one row of each input.
    pub inputs_extents: Vec<Vec<u32>>,
    /// And its attributes, defaults filled in.
    #[serde(with = "text::attributes")]
    pub attributes: Vec<Attribute>,
    /// Which function of the layer.
    #[serde(with = "text::kind")]
    pub kind: Kind,
    /// The run's seed.
    pub seed: u64,
    /// [`Call::epoch`](crate::Call::epoch)
    pub epoch: u32,
    /// [`Call::layer`](crate::Call::layer)
    pub layer: u32,
    /// Whether dropout applies.
    pub training: bool,
    /// The parts in which sums over rows are delivered.
    pub grid: Vec<GridPart>,
    /// Global ids of the rows.
    pub row_numbers: Numbers,
    /// Forward inputs.
    pub inputs: Vec<MatrixRef>,
    /// Forward outputs, in backward.
    pub outputs: Vec<MatrixRef>,
    /// What forward kept, in backward.
    pub kept: Vec<MatrixRef>,
    /// Parameters.
    pub parameters: Vec<MatrixRef>,
    /// Gradients of the outputs, in backward.
    pub gradients: Vec<MatrixRef>,
    /// How many of `rows_out` are outputs, in forward.
    pub output_count: u32,
    /// Extents of one row of each place to write, where it is wanted.
    pub rows_out: Vec<Option<Vec<u32>>>,
    /// Shapes of the sums to write, rows first.
    pub sums_out: Vec<Vec<u32>>,
    /// For `loss`.
    pub labelled: Option<LabelledRef>,
    /// Of a call on edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<EdgesRef>,
    /// Of several calls as one task: what is said of the call itself holds for none of them then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Box<SpanRef>>,
    /// Tensors outside of the frame, by their number in [`Source::object`].
    pub objects: Vec<Object>,
    /// Bounds on the task.
    pub limits: WireLimits,
    /// How rows travel back; sums are always f32.
    pub encoding: Encoding,
}

impl Request {
    /// Reads and checks a request from its frame's meta.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) for what is no request, contradicts itself or is past a limit.
    pub fn parse(meta: &[u8]) -> Result<Self> {
        let request: Self = parse_meta(REQUEST, meta)?;
        request.check()?;
        Ok(request)
    }

    /// Cuts the limits down to what the machine at hand allows.
    pub fn restrict(&mut self, ceiling: &Limits) {
        let (own, most) = (&mut self.limits, WireLimits::from(ceiling));
        own.guest_memory_bytes = own.guest_memory_bytes.min(most.guest_memory_bytes);
        own.task_time_ms = own.task_time_ms.min(most.task_time_ms);
        own.matrix_bytes = own.matrix_bytes.min(most.matrix_bytes);
        own.handles = own.handles.min(most.handles);
        own.call_bytes = own.call_bytes.min(most.call_bytes);
        own.call_work = own.call_work.min(most.call_work);
        own.arrival_ms = own.arrival_ms.min(most.arrival_ms);
        own.log_bytes = own.log_bytes.min(most.log_bytes);
    }

    /// Opens its layer, which it [fits](Request::fits).
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) if it is another kernel or the request does not fit, else as
    /// [`Kernel::open`].
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

    /// Whether it calls `layer` with what its signature says; a worker that has kept the layer asks
    /// this before it runs the call.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire): the list that does not fit, and both sides.
    pub fn fits(&self, layer: &Layer) -> Result<()> {
        fits(self, layer.signature())
    }

    /// The calls that it makes, in order: itself, or those of its span.
    pub fn calls(&self) -> impl Iterator<Item = &Self> {
        let span = self.span.as_deref();
        span.into_iter().flat_map(SpanRef::calls).chain(span.is_none().then_some(self))
    }

    /// The matrix whose rows are worth streaming: the first of [`Request::streamables`].
    pub fn streamable(&self) -> Option<Source> {
        self.streamables().next()
    }

    /// Dense inputs and gradients of more than [`STREAM_BYTES`], in a frame or an object. A worker
    /// that has kept an object may take the next one.
    pub fn streamables(&self) -> impl Iterator<Item = Source> {
        // An edge kernel's rows are brought to edges in any order.
        let rows = if self.edges.is_some() || self.span.is_some() { 0 } else { self.rows() };
        let large = move |m: &&MatrixRef| {
            let (Some(encoding), Some(columns)) = (m.encoding, width(&m.extents)) else { return false };
            rows.saturating_mul(encoding.row_bytes(columns as usize) as u64) > STREAM_BYTES
        };
        self.inputs.iter().chain(&self.gradients).filter(large).map(|m| m.source)
    }

    /// Rows of the interval.
    pub fn rows(&self) -> u64 {
        self.grid.last().and_then(|p| p.ends.last()).copied().map_or(0, u64::from)
    }

    /// Checks everything that needs no bytes of a matrix.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire).
    pub fn check(&self) -> Result<()> {
        self.check_among(self.objects.len())?;
        self.span.as_ref().map_or(Ok(()), |span| span.check(self))
    }

    /// The same of one call, whose sources lie in the frame or in so many objects.
    pub(super) fn check_among(&self, objects: usize) -> Result<()> {
        check_version(REQUEST, self.version)?;
        self.kernel.digest_bytes()?;
        let names = [("run", &self.run), ("kernel", &self.kernel.name)];
        for (what, name) in names.into_iter().chain(self.objects.iter().filter_map(Object::named)) {
            bounded(&format!("bytes of the {what}'s name"), name.len(), MAX_NAME_BYTES)?;
        }
        bounded("objects", self.objects.len(), MAX_OBJECTS)?;
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
                    let reason = format!("extents {:?} of a row; each row has one", weights.extents);
                    return Err(wire(format!("{REQUEST}, row weights"), reason));
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

    /// What is written: counts that fit the function, bytes within the limit.
    fn check_places(&self) -> Result<()> {
        let refuse = |reason: &str| Err(wire(format!("{REQUEST}, {}", self.kind.name()), reason));
        bounded("rows_out", self.rows_out.len(), MAX_MATRICES)?;
        bounded("sums_out", self.sums_out.len(), MAX_MATRICES)?;
        if self.output_count as usize > MAX_MATRICES {
            return refuse("more outputs than a call may have");
        }
        match self.kind {
            Kind::Forward => {
                if self.output_count as usize > self.rows_out.len() {
                    return refuse("more outputs than places to write");
                }
                if self.rows_out.iter().any(Option::is_none) || !self.sums_out.is_empty() {
                    return refuse("it writes all outputs, and no sums");
                }
            }
            Kind::Backward => {}
            Kind::Loss => {
                if self.sums_out.last().is_none_or(|shape| *shape != [1]) {
                    return refuse("the last sum is the loss, of shape [1]");
                }
            }
        }
        if (self.kind == Kind::Loss) != self.labelled.is_some() {
            return refuse("targets belong to `loss`, and only to it");
        }
        let mut bytes = Some(0u64);
        let mut add = |count: u64, rows: u64, columns: u64| {
            let one = padded_bytes(rows, columns).and_then(|b| b.checked_mul(count));
            bytes = bytes.zip(one).and_then(|(sum, one)| sum.checked_add(one));
        };
        for extents in self.rows_out.iter().flatten() {
            add(1, self.rows(), u64::from(check_extents("rows_out", extents)?));
        }
        for shape in &self.sums_out {
            let Some((&rows, rest)) = shape.split_first() else {
                return Err(wire(format!("{REQUEST}, sums_out"), "a shape without extents"));
            };
            add(self.grid.len() as u64, u64::from(rows), u64::from(check_extents("sums_out", rest)?));
        }
        let allowed = self.limits.matrix_bytes;
        match bytes {
            Some(asked) if asked <= allowed => Ok(()),
            asked => {
                let asked = asked.map_or("more than 2^64".to_owned(), |b| b.to_string());
                let reason = format!("limit matrix-bytes: {asked} bytes to write, {allowed} allowed");
                Err(wire(REQUEST, reason))
            }
        }
    }

    /// The grid, checked.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) for parts without atoms, atoms that go backwards, levels that do not exist.
    pub fn grid(&self) -> Result<Grid> {
        let refuse = |part: usize, reason: String| wire(format!("{REQUEST}, grid part {part}"), reason);
        let atoms: usize = self.grid.iter().map(|p| p.ends.len()).sum();
        bounded("atoms", atoms, MAX_ATOMS)?;
        if self.grid.is_empty() {
            return Err(refuse(0, "there is none".to_owned()));
        }
        let (mut parts, mut next) = (Vec::with_capacity(self.grid.len()), 0);
        for (i, part) in self.grid.iter().enumerate() {
            if part.ends.is_empty() || part.ends.len() != part.closes.len() {
                let reason = format!("{} atoms, {} ends of levels", part.ends.len(), part.closes.len());
                return Err(refuse(i, reason));
            }
            if usize::from(part.level) > MAX_LEVEL {
                return Err(refuse(i, format!("level {}; up to {MAX_LEVEL} there are", part.level)));
            }
            let mut atoms = Vec::with_capacity(part.ends.len());
            for (&end, &closes) in part.ends.iter().zip(&part.closes) {
                if end < next || closes > part.level.saturating_sub(1) {
                    let reason = format!("an atom to row {end} after row {next}, {closes} levels ending");
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

/// A grid as its parts.
pub(super) fn grid_parts(grid: &Grid) -> Result<Vec<GridPart>> {
    if !grid.is_consecutive() {
        return Err(wire(REQUEST, "a grid's atoms must follow each other from row 0"));
    }
    let part = |p: &Part| GridPart {
        level: p.level,
        ends: p.atoms.iter().map(|a| a.rows.end).collect(),
        closes: p.atoms.iter().map(|a| a.closes).collect(),
    };
    Ok(grid.parts().iter().map(part).collect())
}

/// Whether a source is among so many objects, or in the frame.
pub(super) fn check_source(objects: usize, what: &str, source: Source) -> Result<()> {
    if source.object.is_some_and(|o| o as usize >= objects) {
        let reason = format!("{source} of {objects} objects");
        return Err(wire(format!("{REQUEST}, {what}"), reason));
    }
    Ok(())
}

pub(super) fn bounded(what: &str, found: usize, allowed: usize) -> Result<()> {
    if found > allowed {
        return Err(wire(REQUEST, format!("{found} {what}; {allowed} are allowed")));
    }
    Ok(())
}

/// Extents of one row: at most three, below 2^32 values.
pub(super) fn check_extents(what: &str, extents: &[u32]) -> Result<u32> {
    let columns = width(extents).filter(|_| extents.len() <= 3);
    columns.ok_or_else(|| {
        let reason = format!("extents {extents:?} of a row; up to three, below 2^32 values, are allowed");
        wire(format!("{REQUEST}, {what}"), reason)
    })
}

//! Random calls of the built-in kernels, which tests can create repeatedly.

use std::path::Path;
use std::sync::Arc;

use eciton_kernel::cache::Cache;
use eciton_kernel::wire::{
    Answer, AnswerMeta, Decoded, Encoding, Object, Request, Source, encode, encode_failure,
};
use eciton_kernel::{
    Call, Error, Finished, Instances, Kernel, Kind, Labelled, Layer, Limits, RowNumbers, Runtime, Settings,
    Target, Targets, VertexCall,
};
use eciton_tensor::frame::Frame;
use eciton_tensor::{Atom, Buffer, Grid, Matrix, Part, SparseRows};
use eciton_types::{Attempt, Attribute, IntervalId, Round, StageId, TargetKind, TaskKey, Value};

pub(crate) const LINEAR: &[u8] = include_bytes!("../../../../guest-kernels/prebuilt/linear.wasm");
pub(crate) const LOSS: &[u8] = include_bytes!("../../../../guest-kernels/prebuilt/head.wasm");

pub(crate) const KEY: TaskKey =
    TaskKey { round: Round(7), stage: StageId(2), interval: IntervalId(3), attempt: Attempt(1) };

/// Random number generator SplitMix64.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub(crate) fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0).collect()
    }

    /// Returns a random grid over `rows` rows, with parts of up to three levels.
    pub(crate) fn grid(&mut self, rows: u32) -> Grid {
        let (mut parts, mut start) = (Vec::new(), 0);
        while start < rows || parts.is_empty() {
            let level = self.below(3) as u8;
            let mut atoms = Vec::new();
            for _ in 0..=usize::from(level) * self.below(4) {
                let end = (start + 1 + self.below(rows.max(1) as usize) as u32).min(rows);
                let closes = self.below(usize::from(level.max(1))) as u8;
                atoms.push(Atom { rows: start..end, closes });
                start = end;
            }
            parts.push(Part { level, atoms });
        }
        Grid::new(parts)
    }
}

pub(crate) fn seed(default: u64) -> u64 {
    std::env::var("ECITON_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

pub(crate) fn load(name: &str, component: &[u8]) -> Arc<Kernel> {
    // Each test may be a process, so compiled code is shared on disk.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-tests");
    let cache = Cache::open(&folder.join("code"), &folder.join("key")).unwrap();
    let settings = Settings { cache: Some(cache), ..Settings::default() };
    Runtime::new(settings).unwrap().load(name, component).unwrap()
}

/// Matrix with its number of rows and columns, row-major.
#[derive(Debug, Clone)]
pub(crate) struct Rows {
    pub(crate) rows: usize,
    pub(crate) extents: Vec<u32>,
    pub(crate) values: Vec<f32>,
    pub(crate) sparse: bool,
}

impl Rows {
    fn new(numbers: &mut Numbers, rows: usize, extents: &[u32]) -> Self {
        let columns: usize = extents.iter().map(|&e| e as usize).product();
        let values = numbers.values(rows * columns);
        Self { rows, extents: extents.to_vec(), values, sparse: false }
    }

    pub(crate) fn matrix(&self) -> Matrix {
        let columns: usize = self.extents.iter().map(|&e| e as usize).product();
        if !self.sparse {
            let buffer = Buffer::from_rows(self.rows, columns, &self.values).unwrap();
            return Matrix::from(buffer.read(0..self.rows).unwrap()).with_extents(&self.extents).unwrap();
        }
        let (mut offsets, mut indices, mut values) = (vec![0], vec![], vec![]);
        for row in self.values.chunks(columns) {
            for (c, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                indices.push(c as u32);
                values.push(v);
            }
            offsets.push(values.len() as u64);
        }
        // The offsets are those of a range of rows in a larger matrix, like intervals of features.
        offsets.insert(0, 0);
        let all = SparseRows::new(columns as u32, offsets, indices, values).unwrap();
        Matrix::from(Arc::new(all)).slice_rows(1, self.rows).unwrap()
    }

    /// Returns the rows with dense values rounded to bfloat16.
    fn rounded(&self) -> Self {
        let round = |v: &f32| if self.sparse { *v } else { bf16(*v) };
        Self { values: self.values.iter().map(round).collect(), ..self.clone() }
    }
}

/// Rounds a finite value to the nearest bfloat16, ties to even. The implementation is independent
/// of the codec.
pub(crate) fn bf16(value: f32) -> f32 {
    let low = f32::from_bits(value.to_bits() & 0xffff_0000);
    let high = f32::from_bits((value.to_bits() & 0xffff_0000).wrapping_add(0x1_0000));
    let (below, above) = ((value - low).abs(), (high - value).abs());
    let even = low.to_bits() & 0x1_0000 == 0;
    if below < above || below == above && even { low } else { high }
}

/// Random call with all its matrices.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) layer: Arc<Layer>,
    pub(crate) kind: Kind,
    seed: u64,
    grid: Arc<Grid>,
    numbers: RowNumbers,
    pub(crate) inputs: Vec<Rows>,
    outputs: Vec<Rows>,
    kept: Vec<Rows>,
    pub(crate) parameters: Vec<Rows>,
    gradients: Vec<Rows>,
    labelled: Labelled,
    /// True if the gradients of the inputs are requested.
    wanted: bool,
}

/// Buffers that a call writes to.
pub(crate) struct Written {
    rows: Vec<Option<Buffer>>,
    sums: Vec<Vec<Buffer>>,
}

impl Written {
    pub(crate) fn bits(&self) -> Bits {
        let bits = |b: &Buffer| b.to_vec().unwrap().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        Bits {
            rows: self.rows.iter().flatten().map(bits).collect(),
            sums: self.sums.iter().flatten().map(bits).collect(),
        }
    }
}

#[derive(Debug, PartialEq, Clone)]
pub(crate) struct Bits {
    pub(crate) rows: Vec<Vec<u32>>,
    pub(crate) sums: Vec<Vec<u32>>,
}

/// Value of all buffers before a call writes them.
pub(crate) const UNTOUCHED: f32 = 77.0;

impl Case {
    pub(crate) fn linear(
        numbers: &mut Numbers,
        kernel: &Arc<Kernel>,
        kind: Kind,
        rows: u32,
        wide: u32,
    ) -> Self {
        let sparse = numbers.below(3) == 0;
        let text = |v: &str| Value::Text(v.to_owned());
        let activations = ["identity", "relu", "elu", "tanh"];
        let mut activation = |most| text(activations[numbers.below(most)]);
        let attributes = [
            ("activation", activation(4)),
            // Sparse rows support no bias, and only activations with f(0) = 0.
            ("input-activation", activation(4)),
            ("out-features", Value::Integer(1 + numbers.below(wide as usize) as i64)),
            ("bias", Value::Flag(numbers.below(2) == 0)),
            ("input-bias", Value::Flag(!sparse && numbers.below(2) == 0)),
            ("dropout", Value::Number([0.5, 0.0, 0.1][numbers.below(3)])),
        ];
        let columns = 1 + numbers.below(wide as usize) as u32;
        let given: Vec<_> = attributes.iter().map(|(n, v)| Attribute::new(n, v.clone())).collect();
        let layer = kernel.open(&[vec![columns]], &given).unwrap();
        let mut case = Self::random(numbers, layer, kind, rows);
        if sparse {
            case.wanted = false;
            case.inputs[0].sparse = true;
            case.inputs[0].values.iter_mut().for_each(|v| *v = if numbers.below(4) > 0 { 0.0 } else { *v });
        }
        case
    }

    pub(crate) fn loss(
        numbers: &mut Numbers,
        kernel: &Arc<Kernel>,
        kind: Kind,
        rows: u32,
        wide: u32,
        of: &str,
    ) -> Self {
        let bias = Attribute::new("bias", Value::Flag(numbers.below(2) == 0));
        let of = Attribute::new("of", Value::Text(of.to_owned()));
        let classes = 1 + numbers.below(wide as usize) as u32;
        let layer = kernel.open(&[vec![classes]], &[bias, of]).unwrap();
        Self::random(numbers, layer, kind, rows)
    }

    fn random(numbers: &mut Numbers, layer: Arc<Layer>, kind: Kind, rows: u32) -> Self {
        let s = layer.signature().clone();
        let count = rows as usize;
        let mut all = |specs: &[eciton_types::RowsSpec]| -> Vec<Rows> {
            specs.iter().map(|s| Rows::new(numbers, count, &s.extents)).collect()
        };
        let (inputs, outputs, kept, gradients) =
            (all(&s.inputs), all(&s.outputs), all(&s.kept), all(&s.outputs));
        let parameter =
            |p: &eciton_types::ParameterSpec| Rows::new(numbers, p.shape[0] as usize, &p.shape[1..]);
        let parameters = s.parameters.iter().map(parameter).collect();
        let first = numbers.next() >> 8;
        let listed: Arc<[u64]> = (0..rows).map(|_| numbers.next()).collect();
        let columns = s.outputs[0].extents[0];
        let targets = match s.loss {
            Some(TargetKind::Values) => Targets::Values(Rows::new(numbers, count, &[columns]).matrix()),
            _ => Targets::Classes((0..rows).map(|_| numbers.below(columns as usize) as u32).collect()),
        };
        let mut case = Self {
            kind,
            seed: numbers.next(),
            grid: Arc::new(numbers.grid(rows)),
            numbers: if numbers.below(2) == 0 { RowNumbers::From(first) } else { RowNumbers::List(listed) },
            labelled: Labelled {
                targets,
                rows: (0..rows).filter(|_| numbers.below(3) > 0).collect(),
                weight: 1.0 / (3 + numbers.below(1000)) as f32,
                row_weights: None,
            },
            inputs,
            outputs,
            kept,
            parameters,
            gradients,
            wanted: numbers.below(4) > 0,
            layer,
        };
        // Half of the cases get row weights, from a separate draw.
        if case.layer.kernel().weighs_rows() && case.seed.is_multiple_of(2) {
            case = case.weighed();
        }
        case
    }

    /// Returns the case with different weights of its rows.
    pub(crate) fn weighed(mut self) -> Self {
        let rows = Rows::new(&mut Numbers(self.seed), self.grid.rows(), &[1]);
        self.labelled.row_weights = Some(rows.matrix());
        self
    }

    /// Returns the case with dense values rounded to bfloat16.
    pub(crate) fn rounded(&self) -> Self {
        let all = |rows: &[Rows]| rows.iter().map(Rows::rounded).collect();
        Self {
            inputs: all(&self.inputs),
            outputs: all(&self.outputs),
            kept: all(&self.kept),
            gradients: all(&self.gradients),
            ..self.clone()
        }
    }

    /// Returns the call and the buffers that it writes to.
    pub(crate) fn call(&self) -> (VertexCall, Written) {
        let s = self.layer.signature();
        let rows = self.grid.rows();
        let width = |extents: &[u32]| extents.iter().map(|&e| e as usize).product::<usize>();
        let filled = |rows: usize, columns: usize| {
            Buffer::from_rows(rows, columns, &vec![UNTOUCHED; rows * columns]).unwrap()
        };
        let specs: Vec<_> = match self.kind {
            Kind::Forward => s.outputs.iter().chain(&s.kept).collect(),
            _ => s.inputs.iter().collect(),
        };
        let wanted = self.kind == Kind::Forward || self.wanted;
        let buffer = |s: &&eciton_types::RowsSpec| wanted.then(|| filled(rows, width(&s.extents)));
        let row_buffers: Vec<Option<Buffer>> = specs.iter().map(buffer).collect();
        let mut shapes: Vec<Vec<u32>> = Vec::new();
        if self.kind != Kind::Forward {
            shapes.extend(s.parameters.iter().map(|p| p.shape.clone()));
        }
        if self.kind == Kind::Loss {
            shapes.push(vec![1]);
        }
        let sums: Vec<Vec<Buffer>> = shapes
            .iter()
            .map(|s| self.grid.parts().iter().map(|_| filled(s[0] as usize, width(&s[1..]))).collect())
            .collect();
        let target = |(b, s): (&Option<Buffer>, &&eciton_types::RowsSpec)| {
            b.as_ref().map(|b| Target::Rows { rows: b.write(0..rows).unwrap(), extents: s.extents.clone() })
        };
        let backward = self.kind == Kind::Backward;
        let matrices = |all: &[Rows], if_: bool| -> Vec<Matrix> {
            all.iter().filter(|_| if_).map(Rows::matrix).collect()
        };
        let call = VertexCall {
            kind: self.kind,
            seed: self.seed,
            epoch: 3,
            layer: 1,
            training: true,
            grid: self.grid.clone(),
            row_numbers: self.numbers.clone(),
            inputs: matrices(&self.inputs, !backward || s.backward_needs.inputs),
            outputs: matrices(&self.outputs, backward && s.backward_needs.outputs),
            kept: matrices(&self.kept, backward),
            parameters: matrices(&self.parameters, true),
            gradients: matrices(&self.gradients, backward),
            output_count: s.outputs.len(),
            rows_out: row_buffers.iter().zip(&specs).map(target).collect(),
            sums_out: sums
                .iter()
                .zip(&shapes)
                .map(|(p, s)| Target::Sums { parts: p.clone(), shape: s.clone() })
                .collect(),
            labelled: (self.kind == Kind::Loss).then(|| self.labelled.clone()),
        };
        (call, Written { rows: row_buffers, sums })
    }

    /// Encodes the call as a request.
    pub(crate) fn frame(
        &self,
        encoding: Encoding,
        objects: Vec<Object>,
        elsewhere: &[(usize, Source)],
    ) -> Vec<u8> {
        let (call, limits) = (Call::vertex(&self.layer, self.call().0), Limits::default());
        encode("run-1", KEY, &call, encoding, &limits, objects, elsewhere).unwrap()
    }

    /// Runs the call in this process.
    pub(crate) fn direct(&self, instances: &mut Instances) -> Bits {
        let (call, written) = self.call();
        instances.run(Call::vertex(&self.layer, call)).unwrap();
        written.bits()
    }

    /// Copies an answer into the targets of the call.
    pub(crate) fn take(&self, answer: Vec<u8>) -> (Result<Finished, Error>, Bits) {
        let (call, written) = self.call();
        let rows_out = call.rows_out.into_iter().flatten().collect();
        let result = Answer::parse(answer).and_then(|a| a.into_targets(rows_out, call.sums_out));
        (result, written.bits())
    }
}

/// Processes a request as a worker does.
pub(crate) fn work(
    kernel: &Arc<Kernel>,
    instances: &mut Instances,
    bytes: &[u8],
    objects: &[Vec<u8>],
) -> Vec<u8> {
    let frame = Frame::parse(bytes).unwrap();
    let request = Request::parse(&frame.header().meta).unwrap();
    perform(kernel, instances, request, &frame, objects)
}

/// Decodes a tensor of the request's frame or of an object.
pub(crate) fn find(source: &Source, own: &Frame<'_>, objects: &[Vec<u8>]) -> Result<Decoded, Error> {
    let refuse = |e: eciton_tensor::Error| Error::Wire { place: source.to_string(), reason: e.to_string() };
    match source.object {
        None => own.part(source.part).map_err(refuse),
        Some(object) => {
            let bytes = objects.get(object as usize).map_or(&[][..], Vec::as_slice);
            Frame::parse(bytes).and_then(|f| f.part(source.part)).map_err(refuse)
        }
    }
}

pub(crate) fn perform(
    kernel: &Arc<Kernel>,
    instances: &mut Instances,
    request: Request,
    frame: &Frame<'_>,
    objects: &[Vec<u8>],
) -> Vec<u8> {
    let (key, encoding) = (request.key, request.encoding);
    let mut made = None;
    let layers: Result<Vec<_>, _> = request.calls().map(|call| call.open(kernel)).collect();
    let result = layers.and_then(|layers| {
        let (call, places) = request.into_call(&layers, &mut |s| find(s, frame, objects))?;
        let finished = instances.run(call);
        made = Some(places);
        finished
    });
    let meta = AnswerMeta::new(key, &result);
    match made {
        Some(places) => places.encode(&meta, encoding).unwrap(),
        None => encode_failure(&meta).unwrap(),
    }
}

//! Tests of calls of edge kernels as requests. They give the same bits as direct runs, and
//! inconsistent requests are refused.

use std::ops::Range;
use std::sync::Arc;

use eciton_kernel::wire::{Answer, Encoding, Request, encode};
use eciton_kernel::{
    Call, EdgeCall, EdgeKind, EdgeLists, Error, Instances, Kernel, Layer, Limits, OtherRows, Target,
};
use eciton_tensor::frame::{Frame, Header};
use eciton_tensor::{Buffer, Grid, Matrix};
use eciton_types::{Attribute, RowsSpec, Value as Setting};
use serde_json::{Value, json};

use crate::case::{KEY, Numbers, UNTOUCHED, find, load, perform, seed, work};
use crate::mutations::mutate;

const GATV2: &[u8] = include_bytes!("../../../../guest-kernels/prebuilt/gatv2.wasm");
const KINDS: [EdgeKind; 3] = [EdgeKind::Forward, EdgeKind::Targets, EdgeKind::Sources];

/// Edge lists of some rows of a larger graph. Vertex ids and row numbers have different orders.
#[derive(Debug, Clone)]
struct Listed {
    lists: Vec<Vec<u32>>,
    first: u32,
    with_self: bool,
    features: usize,
}

impl EdgeLists for Listed {
    fn others(&self, own: usize) -> &[u32] {
        &self.lists[own]
    }

    fn itself(&self, own: usize) -> Option<u32> {
        self.with_self.then_some(self.first + own as u32)
    }

    fn own_vertex(&self, own: usize) -> u32 {
        self.vertex(self.first + own as u32)
    }

    fn vertex(&self, row: u32) -> u32 {
        // A permutation of the residues modulo 1009.
        row * 17 % 1009
    }

    fn features(&self) -> usize {
        self.features
    }

    fn features_of(&self, own: usize, place: usize, into: &mut [f32]) {
        for (k, value) in into.iter_mut().enumerate() {
            *value = ((own * 31 + place * 7 + k) % 13) as f32 / 13.0 - 0.5;
        }
    }
}

#[derive(Debug)]
struct Edges {
    layer: Arc<Layer>,
    kind: EdgeKind,
    lists: Arc<Listed>,
    grid: Arc<Grid>,
    rows: usize,
    /// Rows at the other ends, in several ranges.
    other: Vec<(Range<usize>, Buffer)>,
    own: Vec<Matrix>,
    parameters: Vec<Matrix>,
    wants_target: bool,
}

fn matrix(numbers: &mut Numbers, rows: usize, extents: &[u32]) -> Matrix {
    let columns: usize = extents.iter().map(|&e| e as usize).product();
    let buffer = Buffer::from_rows(rows, columns, &numbers.values(rows * columns)).unwrap();
    Matrix::from(buffer.read(0..rows).unwrap()).with_extents(extents).unwrap()
}

impl Edges {
    fn new(numbers: &mut Numbers, kernel: &Arc<Kernel>, kind: EdgeKind, most: usize) -> Self {
        let (heads, features) = (1 + numbers.below(3) as u32, 1 + numbers.below(9) as u32);
        let known = numbers.below(2) * (1 + numbers.below(3));
        let set = |name: &str, value| Attribute { name: name.to_owned(), value };
        let attributes = [
            set("heads", Setting::Integer(heads.into())),
            set("features", Setting::Integer(features.into())),
            set("average", Setting::Flag(numbers.below(2) == 1)),
            set("negative-slope", Setting::Number(0.2)),
            set("dropout", Setting::Number([0.0, 0.3][numbers.below(2)])),
        ];
        let row = vec![heads * features];
        let mut inputs = vec![row.clone(), row];
        inputs.extend((known > 0).then(|| vec![known as u32]));
        let layer = kernel.open(&inputs, &attributes).unwrap();
        let (all, rows) = (1 + numbers.below(most), numbers.below(most));
        let (all, first) = (all + rows, numbers.below(all));
        let lists: Vec<Vec<u32>> =
            (0..rows).map(|_| (0..numbers.below(8)).map(|_| numbers.below(all) as u32).collect()).collect();
        let lists = Listed { lists, first: first as u32, with_self: numbers.below(2) == 1, features: known };
        let s = layer.signature().clone();
        let passed = s.edges.as_ref().unwrap().passed.clone();
        let (other, own): (&RowsSpec, Vec<&RowsSpec>) = match kind {
            EdgeKind::Forward => (&s.inputs[0], vec![&s.inputs[1]]),
            EdgeKind::Targets => {
                (&s.inputs[0], [&s.inputs[1]].into_iter().chain(&s.kept).chain(&s.outputs).collect())
            }
            EdgeKind::Sources => (&passed, vec![&s.inputs[0]]),
        };
        let cut = numbers.below(all);
        let mut piece = |rows: Range<usize>| {
            let columns = other.width().unwrap() as usize;
            (
                rows.clone(),
                Buffer::from_rows(rows.len(), columns, &numbers.values(rows.len() * columns)).unwrap(),
            )
        };
        let other = [0..cut, cut..all].into_iter().filter(|rows| !rows.is_empty()).map(&mut piece).collect();
        let own = own.iter().map(|spec| matrix(numbers, rows, &spec.extents)).collect();
        let parameters =
            s.parameters.iter().map(|p| matrix(numbers, p.shape[0] as usize, &p.shape[1..])).collect();
        let grid = Arc::new(numbers.grid(rows as u32));
        let wants_target = numbers.below(2) == 1;
        Self { layer, kind, lists: Arc::new(lists), grid, rows, other, own, parameters, wants_target }
    }

    fn call(&self) -> (EdgeCall, Vec<Buffer>) {
        let s = self.layer.signature();
        let mut written = Vec::new();
        let mut rows_out = |spec: &RowsSpec, wanted: bool| {
            let columns = spec.width().unwrap() as usize;
            wanted.then(|| {
                let untouched = vec![UNTOUCHED; self.rows * columns];
                let buffer = Buffer::from_rows(self.rows, columns, &untouched).unwrap();
                let rows = buffer.write(0..self.rows).unwrap();
                written.push(buffer);
                Target::Rows { rows, extents: spec.extents.clone() }
            })
        };
        let rows_out: Vec<_> = match self.kind {
            EdgeKind::Forward => s.outputs.iter().chain(&s.kept).map(|spec| rows_out(spec, true)).collect(),
            EdgeKind::Targets => vec![
                rows_out(&s.inputs[1], self.wants_target),
                rows_out(&s.edges.as_ref().unwrap().passed, true),
            ],
            EdgeKind::Sources => vec![rows_out(&s.inputs[0], true)],
        };
        let mut sums_out = Vec::new();
        for p in s.parameters.iter().filter(|_| self.kind == EdgeKind::Targets) {
            let (rows, columns) = (p.shape[0] as usize, p.shape[1..].iter().product::<u32>() as usize);
            let part = || Buffer::from_rows(rows, columns, &vec![UNTOUCHED; rows * columns]).unwrap();
            let parts: Vec<_> = self.grid.parts().iter().map(|_| part()).collect();
            written.extend(parts.iter().cloned());
            sums_out.push(Target::Sums { parts, shape: p.shape.clone() });
        }
        let other: OtherRows =
            self.other.iter().map(|(at, rows)| (at.clone(), rows.read(0..at.len()).unwrap())).collect();
        let call = EdgeCall {
            kind: self.kind,
            seed: 11,
            epoch: 3,
            layer: 1,
            training: true,
            grid: self.grid.clone(),
            lists: self.lists.clone(),
            other,
            own: self.own.clone(),
            parameters: self.parameters.clone(),
            rows_out,
            sums_out,
        };
        (call, written)
    }

    fn frame(&self) -> Vec<u8> {
        let (call, limits) = (Call::edges(&self.layer, self.call().0), Limits::default());
        encode("run-1", KEY, &call, Encoding::Bf16, &limits, Vec::new(), &[]).unwrap()
    }

    fn take(&self, answer: Vec<u8>) -> (Result<(), Error>, Vec<Vec<u32>>) {
        let (call, written) = self.call();
        let rows_out = call.rows_out.into_iter().flatten().collect();
        let result = Answer::parse(answer).and_then(|a| a.into_targets(rows_out, call.sums_out));
        (result.map(drop), bits(&written))
    }
}

fn bits(written: &[Buffer]) -> Vec<Vec<u32>> {
    written.iter().map(|b| b.to_vec().unwrap().iter().map(|v| v.to_bits()).collect()).collect()
}

#[test]
fn calls_on_edges_through_frames_give_the_same_bits() {
    let kernel = load("gatv2", GATV2);
    let seed = seed(900);
    println!("seed {seed}");
    for i in 0..90 {
        let edges = Edges::new(&mut Numbers(seed + i), &kernel, KINDS[i as usize % 3], 60);
        let (call, written) = edges.call();
        Instances::new(false).run(Call::edges(&edges.layer, call)).unwrap();
        let wanted = bits(&written);
        let answer = work(&kernel, &mut Instances::new(false), &edges.frame(), &[]);
        let (result, found) = edges.take(answer);
        result.unwrap();
        assert_eq!(found, wanted, "case {}, {:?}", seed + i, edges.kind);
    }
}

/// Checks that only rows with an edge are sent, each once.
#[test]
fn rows_that_no_edge_names_stay_at_home() {
    let kernel = load("gatv2", GATV2);
    let mut edges = Edges::new(&mut Numbers(3), &kernel, EdgeKind::Forward, 400);
    let mut lists = (*edges.lists).clone();
    lists.with_self = false;
    lists.lists.iter_mut().for_each(|list| list.retain(|&other| other % 10 == 1));
    let mut named: Vec<u32> = lists.lists.iter().flatten().copied().collect();
    named.sort_unstable();
    named.dedup();
    edges.lists = Arc::new(lists);
    let bytes = edges.frame();
    let header = Header::parse(&bytes).unwrap();
    let request = Request::parse(&header.meta).unwrap();
    let edges = request.calls().next().unwrap().edges.clone();
    let part = edges.unwrap().other.source.part;
    assert_eq!(header.part(part).unwrap().rows, named.len() as u64);
    assert!(named.len() > 5);
}

#[test]
fn lists_that_contradict_themselves_are_refused() {
    let kernel = load("gatv2", GATV2);
    let edges = Edges::new(&mut Numbers(77), &kernel, EdgeKind::Targets, 40);
    let bytes = edges.frame();
    let good: Value = serde_json::from_slice(&Header::parse(&bytes).unwrap().meta).unwrap();
    let admit = |json: &Value| {
        let frame = Frame::parse(&bytes).unwrap();
        let request = Request::parse(&serde_json::to_vec(json).unwrap())?;
        let layers = [request.calls().next().unwrap().open(&kernel)?];
        request.into_call(&layers, &mut |s| find(s, &frame, &[])).map(drop)
    };
    admit(&good).unwrap();
    let first = "/steps/0/kernel";
    let of = |name: &str| good.pointer(&format!("{first}/edges/{name}")).unwrap().clone();
    let changes: [(&str, Value, &str); 12] = [
        ("/edges/function", json!("backward"), "backward-targets"),
        ("/edges/function", json!("forward"), "must be of the kind `forward`"),
        ("/edges/function", json!("backward-sources"), "inputs"),
        ("/edges", json!(null), "has the other domain"),
        ("/edges/offsets", of("others"), "offsets for"),
        ("/edges/others", of("offsets"), "edges"),
        ("/edges/vertices", of("others"), "vertices for"),
        ("/edges/others", json!({"object": null, "part": 0}), "is a matrix, not a list"),
        ("/edges/other/source", of("others"), "is a list, not a matrix"),
        ("/edges/other/extents", json!([7777]), "other"),
        (
            "/gradients",
            json!([good.pointer("/steps/0/kernel/inputs/0").unwrap()]),
            "own rows, parameters and lists only",
        ),
        ("/limits/matrix_bytes", json!(3000), "limit matrix-bytes"),
    ];
    for (at, value, text) in changes {
        let mut json = good.clone();
        let place = if at.starts_with("/limits") { at.to_owned() } else { format!("{first}{at}") };
        *json.pointer_mut(&place).unwrap() = value;
        let error = admit(&json).expect_err(at).to_string();
        assert!(error.contains(text), "{at}: {error}");
    }
}

#[test]
fn mutated_calls_on_edges_are_refused_or_taken() {
    let kernel = load("gatv2", GATV2);
    let seed = seed(7_000);
    let ceiling = Limits { matrix_bytes: 8 << 20, call_work: 1 << 28, ..Limits::default() };
    let mut outcomes = [0u32; 3];
    for i in 0..60 {
        let numbers = &mut Numbers(seed + i);
        let edges = Edges::new(numbers, &kernel, KINDS[i as usize % 3], 30);
        let bytes = edges.frame();
        let frame = Frame::parse(&bytes).unwrap();
        let good: Value = serde_json::from_slice(&frame.header().meta).unwrap();
        for _ in 0..40 {
            let mut json = good.clone();
            match numbers.below(2) {
                0 => mutate(numbers, &mut json["steps"][0]["kernel"]["edges"]),
                _ => mutate(numbers, &mut json),
            }
            let Ok(mut request) = Request::parse(&serde_json::to_vec(&json).unwrap()) else {
                outcomes[0] += 1;
                continue;
            };
            request.restrict(&ceiling);
            let answer = perform(&kernel, &mut Instances::new(false), request, &frame, &[]);
            let (result, found) = edges.take(answer);
            outcomes[1 + usize::from(result.is_ok())] += 1;
            let nothing = found.iter().flatten().all(|b| *b == UNTOUCHED.to_bits());
            assert!(result.is_ok() || nothing, "case {}: a refused answer wrote something", seed + i);
        }
    }
    println!("seed {seed}: {outcomes:?} refused, failed, answered");
    assert!(outcomes.iter().all(|&count| count > 0), "the fuzz reaches all ends: {outcomes:?}");
}

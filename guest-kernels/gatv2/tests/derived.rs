//! The equations of `gatv2` as a forward pass alone: derived gradients are right, and those written by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_gatv2::Gatv2;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, Work};
use eciton_sdk::{Attributes, check};

const SEED: u64 = 20_261_122;

struct Gatv2Forward {
    /// For its attributes and extents; its own equations are not used.
    by_hand: Gatv2,
    heads: u32,
    features: u32,
    average: bool,
    negative_slope: f32,
    dropout: f32,
}

impl ForwardEdgeKernel for Gatv2Forward {
    fn attributes() -> Vec<AttributeSpec> {
        Gatv2::attributes()
    }

    fn open(source: &[u32], target: &[u32], known: u32, attributes: &Attributes) -> Result<Self> {
        Ok(Self {
            by_hand: Gatv2::open(source, target, known, attributes)?,
            heads: attributes.size("heads")?,
            features: attributes.size("features")?,
            average: attributes.flag("average")?,
            negative_slope: attributes.number("negative-slope")? as f32,
            dropout: attributes.probability("dropout")?,
        })
    }

    fn signature(&self) -> EdgeSignature {
        self.by_hand.signature()
    }

    fn forward<R: Real>(
        &self,
        task: &EdgeTask<'_>,
        source: &Matrix,
        target: &Matrix,
        parameters: &[&Matrix],
        output: &Out,
    ) -> Result<()> {
        let (heads, features) = (self.heads, self.features);
        let (by_head, by_score) = ([task.edges, heads, features], [task.edges, heads]);
        let target = task.to_edges(target)?;
        let mut sum = scratch(&source.shape(), |into| linalg::axpby(1.0, source, 1.0, &target, into))?;
        if let Some(x) = task.features {
            let known =
                scratch(&sum.shape(), |into| linalg::matmul(x, false, parameters[1], false, false, into))?;
            sum = scratch(&sum.shape(), |into| linalg::axpby(1.0, &sum, 1.0, &known, into))?;
        }
        let leaky = Activation::LeakyRelu(self.negative_slope);
        let by = Prologue { bias: None, activation: leaky, dropout: None };
        let leaky = scratch(&by_head, |into| linalg::apply(&sum.reshape(&by_head)?, &by, into))?;
        let scores = scratch(&by_score, |into| linalg::inner(&leaky, parameters[0], into))?;
        let state =
            scratch(&[task.rows, 2 * heads], |into| linalg::softmax_segments(&scores, task.offsets, into))?;
        let state = task.to_edges(&state)?;
        let alpha = scratch(&by_score, |into| linalg::softmax_values(&scores, &state, into))?;
        let dropout = Some(Dropout { probability: self.dropout, stream: 0 });
        let by = Prologue { bias: None, activation: Activation::Identity, dropout };
        let d = scratch(&by_score, |into| linalg::apply(&alpha, &by, into))?;
        let source = source.reshape(&by_head)?;
        if !self.average {
            let messages = scratch(&by_head, |into| linalg::scale(&source, &d, into))?;
            return task.sum(&messages.reshape(&[task.edges, heads * features])?, output);
        }
        let d = d.reshape(&[task.edges, 1, heads])?;
        let shape = [task.edges, 1, features];
        let sums = scratch(&shape, |into| linalg::batched_matmul(&d, false, &source, false, false, into))?;
        let sums = sums.reshape(&[task.edges, features])?;
        let sums = scratch(&[task.rows, features], |into| task.sum(&sums, into))?;
        linalg::axpby(1.0 / heads as f32, &sums, 0.0, &sums, output)
    }
}

fn attributes(heads: i64, features: i64, average: bool, dropout: f64) -> [(&'static str, Value); 5] {
    [
        ("heads", Value::Integer(heads)),
        ("features", Value::Integer(features)),
        ("average", Value::Flag(average)),
        ("negative-slope", Value::Number(0.25)),
        ("dropout", Value::Number(dropout)),
    ]
}

#[test]
fn derived_gradients_are_those_of_differences() {
    for (heads, features) in [(1, 4), (3, 2)] {
        for (average, dropout) in [(false, 0.0), (false, 0.4), (true, 0.4)] {
            for (rows, known) in [(0, 2), (1, 1), (2, 0), (5, 0), (5, 3)] {
                let attributes = attributes(heads, features, average, dropout);
                let row = [(heads * features) as u32];
                let report = check::edge_gradients::<DerivedEdges<Gatv2Forward>>(
                    &row,
                    &row,
                    known,
                    &attributes,
                    rows,
                    SEED,
                )
                .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows, {attributes:?}: {e}"));
                assert!(report.worst < 1e-6, "seed {SEED}, {rows} rows, {attributes:?}: {report:?}");
            }
        }
    }
}

/// Numbers between -1 and 1.
fn numbers(count: u32, salt: u32) -> Vec<f64> {
    let bits = |at: u32| {
        (at.wrapping_mul(2_654_435_761).wrapping_mul(salt | 1) ^ (at << 7)).wrapping_mul(747_796_405) >> 8
    };
    (0..count).map(|at| f64::from(bits(at + 1)) / f64::from(1u32 << 23) - 1.0).collect()
}

/// Edges, source to target, of vertices from 0 up.
struct Graph {
    vertices: usize,
    edges: Vec<(usize, usize)>,
}

impl Graph {
    /// Into 0 from 0 and 1, into 1 from 0, 1 and 2, into 2 none.
    fn small() -> Self {
        Self { vertices: 3, edges: vec![(0, 0), (1, 0), (0, 1), (1, 1), (2, 1)] }
    }

    /// Each vertex has edges from so many.
    fn regular(vertices: usize, degree: usize) -> Self {
        let edges = (0..vertices).flat_map(|to| (1..=degree).map(move |d| ((to + d) % vertices, to)));
        Self { vertices, edges: edges.collect() }
    }

    /// Its edges by the end that `own` gives, and the bounds and the owner of each end's.
    fn by(&self, own: impl Fn(&(usize, usize)) -> usize) -> (Vec<(usize, usize)>, Vec<u32>, Vec<u32>) {
        let mut edges = self.edges.clone();
        edges.sort_by_key(&own);
        let bound = |end: usize| edges.iter().filter(|edge| own(edge) < end).count() as u32;
        let offsets = (0..=self.vertices).map(bound).collect();
        let owners = edges.iter().map(|edge| own(edge) as u32).collect();
        (edges, offsets, owners)
    }
}

/// What a kernel gives, and what its three functions cost.
struct Ran {
    /// y, and the gradients of targets, of a and of sources.
    values: [Vec<f64>; 4],
    work: [Work; 3],
}

/// What was done since `before`.
fn since(before: Work, host: &Reference) -> Work {
    let now = host.work();
    Work { operations: now.operations - before.operations, values: now.values - before.values }
}

fn run<K: EdgeKernel>(
    graph: &Graph,
    width: u32,
    attributes: [(&'static str, Value); 5],
    outputs: u32,
) -> Ran {
    let all = Attributes::new(attributes.map(|(n, v)| (n.to_owned(), v)).into());
    let kernel = K::open(&[width], &[width], 0, &all).unwrap();
    let (rows, edges) = (graph.vertices as u32, graph.edges.len() as u32);
    let (z, t, a) = (numbers(rows * width, 3), numbers(rows * width, 5), numbers(width, 7));
    let up = numbers(rows * outputs, 9);
    let by_edge = |of: &[f64], at: Vec<usize>, width: usize| -> Vec<f64> {
        at.iter().flat_map(|&row| &of[row * width..(row + 1) * width]).copied().collect()
    };
    let context = Context { seed: 1, training: true, ..Context::default() };
    let signature = kernel.signature();

    let (into, offsets, owners) = graph.by(|edge| edge.1);
    let ids: Vec<u64> =
        into.iter().map(|(source, target)| ((*target as u64) << 32) + *source as u64).collect();
    let host = Reference::with_row_ids(context, &ids);
    let source = host
        .matrix(&[edges, width], &by_edge(&z, into.iter().map(|e| e.0).collect(), width as usize))
        .unwrap();
    let (target, a_matrix) = (host.matrix(&[rows, width], &t).unwrap(), host.matrix(&[width], &a).unwrap());
    let (offsets, owners) = (host.ids(&offsets).unwrap(), host.ids(&owners).unwrap());
    let task = EdgeTask {
        training: true,
        epoch: 0,
        layer: 0,
        rows,
        edges,
        offsets: &offsets,
        owners: &owners,
        features: None,
    };
    let y = host.output(&[rows, outputs]).unwrap();
    let kept: Vec<Out> =
        signature.kept.iter().map(|k| host.output(&[&[rows], &k.extents[..]].concat()).unwrap()).collect();
    let kept_refs: Vec<&Out> = kept.iter().collect();
    let io = EdgeForward {
        source: &source,
        target: &target,
        parameters: &[&a_matrix],
        output: &y,
        kept: &kept_refs,
    };
    host.run(|| kernel.forward::<f64>(&task, io)).unwrap();
    let forward = host.work();
    let kept: Vec<Matrix> = kept.iter().map(|k| host.readable(k).unwrap()).collect();
    let (dt, da) = (host.output(&[rows, width]).unwrap(), host.gradient(&[width]).unwrap());
    let passes = signature.passed.extents[0];
    let passed = host.output(&[rows, passes]).unwrap();
    let io = BackwardTargets {
        source: &source,
        target: &target,
        kept: &kept.iter().collect::<Vec<_>>(),
        parameters: &[&a_matrix],
        gradient: &host.matrix(&[rows, outputs], &up).unwrap(),
        target_gradient: Some(&dt),
        parameter_gradients: &[&da],
        passed: &passed,
    };
    host.run(|| kernel.backward_targets::<f64>(&task, io)).unwrap();
    let targets = since(forward, &host);
    let passed = host.values(&passed).unwrap();

    let (out, offsets, owners) = graph.by(|edge| edge.0);
    let ids: Vec<u64> =
        out.iter().map(|(source, target)| ((*target as u64) << 32) + *source as u64).collect();
    let back = Reference::with_row_ids(context, &ids);
    let own = back.matrix(&[rows, width], &z).unwrap();
    let passed = by_edge(&passed, out.iter().map(|e| e.1).collect(), passes as usize);
    let passed = back.matrix(&[edges, passes], &passed).unwrap();
    let a_matrix = back.matrix(&[width], &a).unwrap();
    let (offsets, owners) = (back.ids(&offsets).unwrap(), back.ids(&owners).unwrap());
    let task = EdgeTask { offsets: &offsets, owners: &owners, ..task };
    let dz = back.output(&[rows, width]).unwrap();
    let io =
        BackwardSources { source: &own, passed: &passed, parameters: &[&a_matrix], source_gradient: &dz };
    let before = back.handles();
    back.run(|| kernel.backward_sources::<f64>(&task, io)).unwrap();
    assert_eq!(back.handles(), before, "every handle is given back");
    let values = [host.values(&y), host.values(&dt), host.values(&da), back.values(&dz)];
    Ran { values: values.map(Result::unwrap), work: [forward, targets, back.work()] }
}

#[test]
fn derived_gradients_are_those_written_by_hand() {
    for (average, dropout, outputs) in [(false, 0.0, 6), (false, 0.4, 6), (true, 0.4, 2)] {
        let attributes = || attributes(3, 2, average, dropout);
        let by_hand = run::<Gatv2>(&Graph::small(), 6, attributes(), outputs).values;
        let derived = run::<DerivedEdges<Gatv2Forward>>(&Graph::small(), 6, attributes(), outputs).values;
        for (name, (hand, derived)) in ["y", "dt", "da", "dz"].iter().zip(by_hand.iter().zip(&derived)) {
            assert_eq!(hand.len(), derived.len());
            assert!(hand.iter().any(|v| v.abs() > 1e-3), "{name} is not zero: {hand:?}");
            let apart = hand.iter().zip(derived).map(|(h, d)| (h - d).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-10, "{name}: {hand:?} by hand, {derived:?} derived");
        }
    }
}

/// What stands between derived gradients and those written by hand is work, not time, which another machine would
/// measure otherwise.
#[test]
fn derived_gradients_cost_what_those_written_by_hand_do() {
    let graph = Graph::regular(30, 25);
    let attributes = || attributes(8, 8, false, 0.0);
    let by_hand = run::<Gatv2>(&graph, 64, attributes(), 64).work;
    let derived = run::<DerivedEdges<Gatv2Forward>>(&graph, 64, attributes(), 64).work;
    // forward has a copy for a dropout of nothing; targets compute the softmax's state again, which by hand is kept.
    for (name, (hand, derived), more) in [
        ("forward", (by_hand[0], derived[0]), 0),
        ("backward-targets", (by_hand[1], derived[1]), 1),
        ("backward-sources", (by_hand[2], derived[2]), 0),
    ] {
        assert!(
            derived.operations <= hand.operations + more,
            "{name}: {hand:?} by hand, {derived:?} derived"
        );
        let allowed = hand.values + hand.values / 50;
        assert!(derived.values <= allowed, "{name}: {hand:?} by hand, {derived:?} derived");
    }
}

#[test]
fn what_is_passed_is_as_wide_as_by_hand() {
    let all = Attributes::new(attributes(3, 2, false, 0.4).map(|(n, v)| (n.to_owned(), v)).into());
    let derived = DerivedEdges::<Gatv2Forward>::open(&[6], &[6], 0, &all).unwrap().signature();
    assert_eq!(derived.passed.extents, Gatv2::open(&[6], &[6], 0, &all).unwrap().signature().passed.extents);
    assert!(derived.kept.is_empty());
}

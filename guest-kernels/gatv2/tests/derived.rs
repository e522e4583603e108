//! The equations of `gatv2` as a forward pass alone: derived gradients are right, and those written by hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use eciton_gatv2::Gatv2;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference};
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

/// Of a graph of three vertices: y, and the gradients of targets, of a and of sources.
fn run<K: EdgeKernel>(attributes: [(&'static str, Value); 5], outputs: u32) -> [Vec<f64>; 4] {
    // Edges source to target: into 0 from 0 and 1, into 1 from 0, 1 and 2, into 2 none.
    let (into, out) = ([(0, 0), (1, 0), (0, 1), (1, 1), (2, 1)], [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1)]);
    let all = Attributes::new(attributes.map(|(n, v)| (n.to_owned(), v)).into());
    let kernel = K::open(&[6], &[6], 0, &all).unwrap();
    let (z, t, a) = (numbers(18, 3), numbers(18, 5), numbers(6, 7));
    let up = numbers(3 * outputs, 9);
    let rows = |of: &[f64], at: Vec<usize>, width: usize| -> Vec<f64> {
        at.iter().flat_map(|&row| &of[row * width..(row + 1) * width]).copied().collect()
    };
    let context = Context { seed: 1, training: true, ..Context::default() };
    let signature = kernel.signature();

    let ids: Vec<u64> =
        into.iter().map(|(source, target)| ((*target as u64) << 32) + *source as u64).collect();
    let host = Reference::with_row_ids(context, &ids);
    let source = host.matrix(&[5, 6], &rows(&z, into.iter().map(|e| e.0).collect(), 6)).unwrap();
    let (target, a_matrix) = (host.matrix(&[3, 6], &t).unwrap(), host.matrix(&[6], &a).unwrap());
    let (offsets, owners) = (host.ids(&[0, 2, 5, 5]).unwrap(), host.ids(&[0, 0, 1, 1, 1]).unwrap());
    let task = EdgeTask {
        training: true,
        epoch: 0,
        layer: 0,
        rows: 3,
        edges: 5,
        offsets: &offsets,
        owners: &owners,
        features: None,
    };
    let y = host.output(&[3, outputs]).unwrap();
    let kept: Vec<Out> =
        signature.kept.iter().map(|k| host.output(&[&[3], &k.extents[..]].concat()).unwrap()).collect();
    let kept_refs: Vec<&Out> = kept.iter().collect();
    let io = EdgeForward {
        source: &source,
        target: &target,
        parameters: &[&a_matrix],
        output: &y,
        kept: &kept_refs,
    };
    host.run(|| kernel.forward::<f64>(&task, io)).unwrap();
    let kept: Vec<Matrix> = kept.iter().map(|k| host.readable(k).unwrap()).collect();
    let (dt, da) = (host.output(&[3, 6]).unwrap(), host.gradient(&[6]).unwrap());
    let width = signature.passed.extents[0];
    let passed = host.output(&[3, width]).unwrap();
    let io = BackwardTargets {
        source: &source,
        target: &target,
        kept: &kept.iter().collect::<Vec<_>>(),
        parameters: &[&a_matrix],
        gradient: &host.matrix(&[3, outputs], &up).unwrap(),
        target_gradient: Some(&dt),
        parameter_gradients: &[&da],
        passed: &passed,
    };
    host.run(|| kernel.backward_targets::<f64>(&task, io)).unwrap();
    let passed = host.values(&passed).unwrap();

    let ids: Vec<u64> =
        out.iter().map(|(source, target)| ((*target as u64) << 32) + *source as u64).collect();
    let back = Reference::with_row_ids(context, &ids);
    let own = back.matrix(&[3, 6], &z).unwrap();
    let by_edge = rows(&passed, out.iter().map(|e| e.1).collect(), width as usize);
    let by_edge = back.matrix(&[5, width], &by_edge).unwrap();
    let a_matrix = back.matrix(&[6], &a).unwrap();
    let (offsets, owners) = (back.ids(&[0, 2, 4, 5]).unwrap(), back.ids(&[0, 0, 1, 1, 2]).unwrap());
    let task = EdgeTask { offsets: &offsets, owners: &owners, ..task };
    let dz = back.output(&[3, 6]).unwrap();
    let io =
        BackwardSources { source: &own, passed: &by_edge, parameters: &[&a_matrix], source_gradient: &dz };
    let before = back.handles();
    back.run(|| kernel.backward_sources::<f64>(&task, io)).unwrap();
    assert_eq!(back.handles(), before, "every handle is given back");
    [host.values(&y), host.values(&dt), host.values(&da), back.values(&dz)].map(|values| values.unwrap())
}

#[test]
fn derived_gradients_are_those_written_by_hand() {
    for (average, dropout, outputs) in [(false, 0.0, 6), (false, 0.4, 6), (true, 0.4, 2)] {
        let attributes = || attributes(3, 2, average, dropout);
        let by_hand = run::<Gatv2>(attributes(), outputs);
        let derived = run::<DerivedEdges<Gatv2Forward>>(attributes(), outputs);
        for (name, (hand, derived)) in ["y", "dt", "da", "dz"].iter().zip(by_hand.iter().zip(&derived)) {
            assert_eq!(hand.len(), derived.len());
            assert!(hand.iter().any(|v| v.abs() > 1e-3), "{name} is not zero: {hand:?}");
            let apart = hand.iter().zip(derived).map(|(h, d)| (h - d).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-10, "{name}: {hand:?} by hand, {derived:?} derived");
        }
    }
}

#[test]
fn what_is_passed_is_as_wide_as_by_hand() {
    let all = Attributes::new(attributes(3, 2, false, 0.4).map(|(n, v)| (n.to_owned(), v)).into());
    let derived = DerivedEdges::<Gatv2Forward>::open(&[6], &[6], 0, &all).unwrap().signature();
    assert_eq!(derived.passed.extents, Gatv2::open(&[6], &[6], 0, &all).unwrap().signature().passed.extents);
    assert!(derived.kept.is_empty());
}

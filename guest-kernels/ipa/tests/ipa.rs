//! `ipa` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use eciton_ipa::Ipa;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, random};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_125;

type Given = Vec<(&'static str, Value)>;

/// Attributes besides their defaults: `entries`, `hidden`, `tokens`, and others.
fn attributes(entries: i64, hidden: i64, tokens: i64, others: &[(&'static str, Value)]) -> Given {
    let all = [("entries", entries), ("hidden", hidden), ("tokens", tokens)];
    all.map(|(name, value)| (name, Value::Integer(value))).into_iter().chain(others.iter().cloned()).collect()
}

fn open(inputs: &[Vec<u32>], given: &Given) -> Result<Ipa> {
    let filled = Ipa::attributes().into_iter().map(|spec| {
        let value = given.iter().find(|(name, _)| *name == spec.name).map(|(_, value)| value.clone());
        (spec.name.to_owned(), value.or(spec.default).unwrap())
    });
    Ipa::open(inputs, &Attributes::new(filled.collect()))
}

fn off(name: &'static str) -> (&'static str, Value) {
    (name, Value::Flag(false))
}

fn set(name: &'static str, value: &str) -> (&'static str, Value) {
    (name, Value::Text(value.to_owned()))
}

/// All that attributes can choose.
fn variants() -> Vec<Vec<(&'static str, Value)>> {
    vec![
        vec![],
        vec![off("decisions")],
        vec![off("pointer")],
        vec![off("normalise")],
        vec![off("decisions"), off("pointer")],
        vec![off("pointer"), off("normalise")],
        vec![set("execute", "gru")],
        vec![set("order", "lines")],
        vec![set("execute", "gru"), set("order", "lines")],
    ]
}

/// Rows of random numbers are programs as wild as any: every node branches to anywhere.
#[test]
fn gradients() {
    for others in variants() {
        for (rows, nodes, entries, hidden, tokens) in [
            (0, 3, 3, 2, 1),
            (1, 1, 1, 1, 1),
            (3, 4, 4, 2, 2),
            (5, 6, 5, 3, 1),
            (4, 3, 3, 1, 3),
            (70, 2, 2, 1, 1),
        ] {
            let inputs = [vec![nodes * (tokens + 4)]];
            let given = attributes(entries, hidden, tokens.into(), &others);
            let report = check::gradients::<Ipa>(&inputs, &given, rows, SEED)
                .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows of {nodes} nodes, {given:?}: {e}"));
            assert!(report.worst < 1e-6, "seed {SEED}, {rows} rows of {nodes} nodes, {given:?}: {report:?}");
        }
    }
}

/// A program's node: tokens, successors, and what stands behind them in every node.
struct Row {
    nodes: Vec<(Vec<usize>, usize, usize)>,
    exit: usize,
    steps: usize,
}

impl Row {
    fn values(&self) -> Vec<f64> {
        let node = |(tokens, yes, no): &(Vec<usize>, usize, usize)| {
            let beside = [*yes, *no, self.exit, self.steps];
            tokens.iter().copied().chain(beside).map(|v| v as f64).collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(node).collect()
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// x W, with W [x.len(), columns].
fn times(x: &[f64], w: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).map(|j| x.iter().enumerate().map(|(i, x)| x * w[i * columns + j]).sum()).collect()
}

/// The network as the paper writes it: all nodes in every step.
struct Slow<'a> {
    h: usize,
    parameters: &'a [Vec<f64>],
    decisions: bool,
    pointer: bool,
    normalise: bool,
}

impl Slow<'_> {
    /// c and h after a line's tokens.
    fn line(&self, tokens: &[usize], mut c: Vec<f64>, mut s: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
        let (h, p) = (self.h, self.parameters);
        for &token in tokens {
            let (x, u) = (times(&p[0][token * h..][..h], &p[1], 4 * h), times(&s, &p[3], 4 * h));
            let z: Vec<f64> = (0..4 * h).map(|k| x[k] + u[k] + p[2][k]).collect();
            for k in 0..h {
                c[k] = sigmoid(z[h + k]) * c[k] + sigmoid(z[k]) * z[3 * h + k].tanh();
                s[k] = sigmoid(z[2 * h + k]) * c[k].tanh();
            }
        }
        (c, s)
    }

    fn pointer(&self, row: &Row) -> Vec<f64> {
        let (h, count) = (self.h, row.nodes.len());
        let mut states = vec![vec![0.0; 2 * h]; count];
        let mut mass = vec![0.0; count];
        mass[0] = 1.0;
        for _ in 0..row.steps {
            let mut ran = states.clone();
            let mut b = vec![[1.0; 2]; count];
            for (n, (tokens, ..)) in row.nodes.iter().enumerate() {
                if n != row.exit {
                    let (c, s) = self.line(tokens, states[n][..h].to_vec(), states[n][h..].to_vec());
                    ran[n] = [c, s].concat();
                }
                if self.decisions {
                    let z = times(&ran[n], &self.parameters[4], 2);
                    let [yes, no] = [0, 1].map(|k| (z[k] + self.parameters[5][k]).exp());
                    b[n] = [yes / (yes + no), no / (yes + no)];
                }
            }
            let (mut next, mut sums) = (vec![0.0; count], vec![vec![0.0; 2 * h]; count]);
            for (n, &(_, yes, no)) in row.nodes.iter().enumerate() {
                let of = if self.pointer { mass[n] } else { 1.0 };
                let ways = if n == row.exit { [n; 2] } else { [yes, no] };
                for (m, b) in ways.into_iter().zip(b[n]) {
                    next[m] += b * of;
                    sums[m].iter_mut().zip(&ran[n]).for_each(|(sum, a)| *sum += b * of * a);
                }
            }
            for (state, (sum, p)) in states.iter_mut().zip(sums.into_iter().zip(&next)) {
                let by = if self.normalise { p + f64::from(1e-7f32) } else { 1.0 };
                *state = sum.into_iter().map(|v| v / by).collect();
            }
            mass = next;
        }
        states.swap_remove(row.exit)
    }

    fn gated(&self, row: &Row) -> Vec<f64> {
        let (h, p) = (self.h, self.parameters);
        let count = row.exit + 1;
        let next = |n: usize| if n == row.exit { [n; 2] } else { [row.nodes[n].1, row.nodes[n].2] };
        let mut degree = vec![2.0; count];
        (0..count).flat_map(next).for_each(|m| degree[m] += 1.0);
        let line = |n: usize| self.line(&row.nodes[n].0, vec![0.0; h], vec![0.0; h]).1;
        let mut states: Vec<Vec<f64>> = (0..count).map(line).collect();
        for _ in 0..row.steps {
            let mut s = vec![vec![0.0; 4 * h]; count];
            for n in 0..count {
                for (k, m) in next(n).into_iter().enumerate() {
                    for j in 0..h {
                        s[m][k * h + j] += states[n][j];
                        s[n][(2 + k) * h + j] += states[m][j];
                    }
                }
            }
            let after = |n: usize| {
                let scaled: Vec<f64> = s[n].iter().map(|v| v / f64::sqrt(degree[n])).collect();
                let m = times(&scaled, &p[4], h);
                let (x, u) = (times(&m, &p[5], 3 * h), times(&states[n], &p[7], 3 * h));
                let x: Vec<f64> = x.iter().zip(&p[6]).map(|(x, b)| x + b).collect();
                let new = |k: usize| {
                    let [r, z] = [k, h + k].map(|at| sigmoid(x[at] + u[at]));
                    (1.0 - z) * (x[2 * h + k] + r * u[2 * h + k]).tanh() + z * states[n][k]
                };
                (0..h).map(new).collect()
            };
            states = (0..count).map(after).collect();
        }
        states.swap_remove(row.exit)
    }
}

/// v0 = ..; while ..: { if ..: break }; .., without and with a branch, and of no steps.
fn programs() -> Vec<Row> {
    let node = |tokens: [usize; 2], yes, no| (tokens.to_vec(), yes, no);
    let straight = [node([1, 2], 1, 1), node([3, 0], 2, 2), node([2, 4], 3, 3)];
    let looped = [node([1, 2], 1, 1), node([4, 4], 2, 4), node([3, 1], 4, 1), node([0, 0], 3, 3)];
    let pad = |mut nodes: Vec<_>, exit, steps| {
        (nodes.len()..6).for_each(|at| nodes.push(node([0, 0], at, at)));
        Row { nodes, exit, steps }
    };
    vec![
        pad(straight.to_vec(), 3, 4),
        pad(looped.to_vec(), 4, 0),
        pad(looped.to_vec(), 4, 6),
        pad(vec![node([1, 2], 1, 1), node([4, 4], 2, 3), node([3, 1], 3, 1)], 3, 7),
        pad(
            vec![
                node([1, 2], 1, 1),
                node([4, 4], 2, 5),
                node([3, 1], 3, 4),
                node([2, 2], 5, 5),
                node([0, 3], 1, 1),
            ],
            5,
            5,
        ),
    ]
}

#[test]
fn forward_is_the_formula() {
    for others in variants() {
        // More programs than are worked on at once.
        let rows: Vec<Row> = (0..20).flat_map(|_| programs()).collect();
        let n = rows.len() as u32;
        let context = Context { rows: n, ..Context::default() };
        let host = Reference::new(context);
        let (nodes, h, entries) = (6u32, 3u32, 5);
        let given = attributes(entries, h.into(), 2, &others);
        let kernel = open(&[vec![nodes * 6]], &given).unwrap();
        let signature = kernel.signature();
        let parameters: Vec<Vec<f64>> = (0..)
            .zip(&signature.parameters)
            .map(|(at, spec)| {
                let key = random::key(SEED, 9, 0, 0, at);
                let size: u32 = spec.shape.iter().product();
                (0..u64::from(size)).map(|i| random::uniform(random::bits32(key, i, 0)) * 2.0 - 1.0).collect()
            })
            .collect();
        let values: Vec<f64> = rows.iter().flat_map(Row::values).collect();
        let x = host.matrix(&[n, nodes * 6], &values).unwrap();
        let held: Vec<Matrix> = signature
            .parameters
            .iter()
            .zip(&parameters)
            .map(|(spec, values)| host.matrix(&spec.shape, values).unwrap())
            .collect();
        let width = signature.outputs[0].extents[0];
        let y = host.output(&[n, width]).unwrap();
        let held: Vec<&Matrix> = held.iter().collect();
        let io = Forward { inputs: &[&x], parameters: &held, outputs: &[&y], kept: &[] };
        host.run(|| kernel.forward::<f64>(&context.task(), io)).unwrap();
        let found = host.values(&y).unwrap();
        let is_off = |name: &str| others.iter().any(|(n, v)| *n == name && *v == Value::Flag(false));
        let is = |text: &str| others.iter().any(|(_, v)| *v == Value::Text(text.to_owned()));
        let slow = Slow {
            h: h as usize,
            parameters: &parameters,
            decisions: !is_off("decisions"),
            pointer: !is_off("pointer"),
            normalise: !is_off("normalise"),
        };
        for (at, mut row) in rows.into_iter().enumerate() {
            if is("lines") {
                row.steps = row.exit;
                (0..row.exit).for_each(|n| (row.nodes[n].1, row.nodes[n].2) = (n + 1, n + 1));
            }
            let expected = if is("gru") { slow.gated(&row) } else { slow.pointer(&row) };
            let found = &found[at * width as usize..][..width as usize];
            for (found, expected) in found.iter().zip(&expected) {
                // Masses that are scaled where nothing is decided move what 1e-7 adds.
                let most = if is_off("decisions") { 1e-6 } else { 1e-9 };
                assert!((found - expected).abs() < most, "{others:?}, row {at}: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let usual = attributes(5, 3, 2, &[]);
    assert!(open(&[vec![36]], &usual).is_ok());
    for inputs in [vec![], vec![vec![36]; 2], vec![vec![35]], vec![vec![6, 6]], vec![vec![0]]] {
        assert!(matches!(open(&inputs, &usual), Err(Error::Argument(_))), "{inputs:?}");
    }
    for others in
        [vec![set("execute", "gpu")], vec![set("order", "rows")], vec![set("execute", "gru"), off("pointer")]]
    {
        assert!(matches!(open(&[vec![36]], &attributes(5, 3, 2, &others)), Err(Error::Argument(_))));
    }
    assert!(open(&[vec![36]], &attributes((1 << 24) + 1, 3, 2, &[])).is_err());
    assert!(open(&[vec![36]], &attributes(5, 1 << 15, 2, &[])).is_err());
}

#[test]
fn rows_that_are_no_programs_are_refused() {
    let usual = attributes(5, 3, 2, &[]);
    for (at, value, part) in [
        (1, 5.0, "a token of row 0, node 0 is 5; whole numbers from 0 to 4"),
        (6, 0.5, "a token of row 0, node 1 is 0;"),
        (8, 6.0, "the successor if true of row 0, node 1 is 6"),
        (3, -1.0, "the successor if false of row 0, node 0 is -1"),
        (4, f64::NAN, "the exit of row 0, node 0 is no number"),
        (5, 5000.0, "the number of steps of row 0, node 0 is 5000; whole numbers from 0 to 4096"),
    ] {
        let host = Reference::new(Context { rows: 1, ..Context::default() });
        let kernel = open(&[vec![36]], &usual).unwrap();
        let mut values = programs().swap_remove(0).values();
        values[at] = value;
        let (x, y) = (host.matrix(&[1, 36], &values).unwrap(), host.output(&[1, 6]).unwrap());
        let zeros: Vec<Matrix> = kernel
            .signature()
            .parameters
            .iter()
            .map(|p| host.matrix(&p.shape, &vec![0.0; p.shape.iter().product::<u32>() as usize]).unwrap())
            .collect();
        let zeros: Vec<&Matrix> = zeros.iter().collect();
        let io = Forward { inputs: &[&x], parameters: &zeros, outputs: &[&y], kept: &[] };
        let error = host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

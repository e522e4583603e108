//! `spiking` against its formula, and its gradients against central differences in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, random};
use eciton_sdk::{Attributes, Kernel, check};
use eciton_spiking::Spiking;

const SEED: u64 = 20_261_125;

type Given = Vec<(&'static str, Value)>;

fn whole(pairs: &[(&'static str, i64)]) -> Given {
    pairs.iter().map(|&(name, value)| (name, Value::Integer(value))).collect()
}

fn set(name: &'static str, value: &str) -> (&'static str, Value) {
    (name, Value::Text(value.to_owned()))
}

fn number(name: &'static str, value: f64) -> (&'static str, Value) {
    (name, Value::Number(value))
}

fn open(inputs: &[Vec<u32>], given: &Given) -> Result<Spiking> {
    let filled = Spiking::attributes().into_iter().map(|spec| {
        let value = given.iter().find(|(name, _)| *name == spec.name).map(|(_, value)| value.clone());
        (spec.name.to_owned(), value.or(spec.default).unwrap())
    });
    Spiking::open(inputs, &Attributes::new(filled.collect()))
}

/// All that attributes can choose. Small thresholds, because inputs are small.
fn variants() -> Vec<Given> {
    let mut all = Vec::new();
    for reset in ["subtract", "zero"] {
        for surrogate in ["atan", "fast-sigmoid", "straight-through"] {
            for output in ["count", "rate", "steps"] {
                let texts = [set("reset", reset), set("surrogate", surrogate), set("output", output)];
                all.push([&texts[..], &[number("threshold", 0.3), number("slope", 1.5)]].concat());
            }
        }
    }
    all.push(vec![number("threshold", 0.2), number("beta", 0.5)]);
    all
}

/// Of the smooth form, whose derivative `backward` is: what the surrogates derive passes, and resets are steps.
#[test]
fn gradients() {
    for others in variants() {
        for (rows, columns, hidden, classes, population, steps) in [
            (0, 2, 2, 2, 1, 2),
            (1, 1, 1, 1, 1, 1),
            (3, 4, 5, 2, 1, 6),
            (4, 2, 3, 2, 3, 4),
            (2, 3, 4, 3, 2, 1),
        ] {
            let sizes =
                [("hidden", hidden), ("classes", classes), ("population", population), ("steps", steps)];
            let mut given = [whole(&sizes), others.clone()].concat();
            given.push(("smooth", Value::Flag(true)));
            let report = check::gradients::<Spiking>(&[vec![columns]], &given, rows, SEED)
                .unwrap_or_else(|e| panic!("seed {SEED}, {rows} rows, {given:?}: {e}"));
            assert!(report.worst < 1e-6, "seed {SEED}, {rows} rows, {given:?}: {report:?}");
        }
    }
}

/// The network as the paper writes it: neuron by neuron, step by step.
struct Slow {
    hidden: usize,
    classes: usize,
    population: usize,
    steps: usize,
    threshold: f64,
    beta: f64,
    to_zero: bool,
    parameters: Vec<Vec<f64>>,
}

/// What a row gives, and what its gradients need: U of each layer by step.
struct Ran {
    spikes: Vec<Vec<f64>>,
    first: Vec<Vec<f64>>,
    second: Vec<Vec<f64>>,
}

fn times(x: &[f64], w: &[f64], bias: &[f64]) -> Vec<f64> {
    let columns = bias.len();
    (0..columns).map(|j| bias[j] + (0..x.len()).map(|i| x[i] * w[i * columns + j]).sum::<f64>()).collect()
}

impl Slow {
    fn spike(&self, u: f64) -> f64 {
        f64::from(u8::from(u > self.threshold))
    }

    fn next(&self, u: &[f64], current: &[f64]) -> Vec<f64> {
        let one = |(&u, &i): (&f64, &f64)| match self.to_zero {
            true => self.beta * (1.0 - self.spike(u)) * u + i,
            false => self.beta * u + i - self.threshold * self.spike(u),
        };
        u.iter().zip(current).map(one).collect()
    }

    fn run(&self, x: &[f64]) -> Ran {
        let p = &self.parameters;
        let current = times(x, &p[0], &p[1]);
        let mut u = vec![0.0; self.hidden];
        let mut v = vec![0.0; self.classes * self.population];
        let mut ran = Ran { spikes: vec![], first: vec![], second: vec![] };
        for _ in 0..self.steps {
            u = self.next(&u, &current);
            let spikes: Vec<f64> = u.iter().map(|&u| self.spike(u)).collect();
            v = self.next(&v, &times(&spikes, &p[2], &p[3]));
            ran.spikes.push(v.iter().map(|&v| self.spike(v)).collect());
            ran.first.push(u.clone());
            ran.second.push(v.clone());
        }
        ran
    }

    fn count(&self, spikes: &[f64]) -> Vec<f64> {
        (0..self.classes).map(|c| spikes[c * self.population..][..self.population].iter().sum()).collect()
    }

    /// dL/dI of the second layer by step, then of the first, of a row, where L = sum of g y, y the counts of all steps.
    fn back(&self, ran: &Ran, g: &[f64], slope: &dyn Fn(f64) -> f64) -> (Vec<Vec<f64>>, Vec<f64>) {
        let keep = |u: f64| if self.to_zero { self.beta * (1.0 - self.spike(u)) } else { self.beta };
        let outgoing = self.classes * self.population;
        let (mut later_u, mut later_v) = (vec![0.0; self.hidden], vec![0.0; outgoing]);
        let (mut by_step, mut sums) = (vec![vec![]; self.steps], vec![0.0; self.hidden]);
        for t in (0..self.steps).rev() {
            let (u, v) = (&ran.first[t], &ran.second[t]);
            for j in 0..outgoing {
                let d = g[j / self.population] * slope(v[j] - self.threshold);
                later_v[j] = d + keep(v[j]) * later_v[j];
            }
            for i in 0..self.hidden {
                let ds: f64 = (0..outgoing).map(|j| later_v[j] * self.parameters[2][i * outgoing + j]).sum();
                later_u[i] = ds * slope(u[i] - self.threshold) + keep(u[i]) * later_u[i];
                sums[i] += later_u[i];
            }
            by_step[t] = later_v.clone();
        }
        (by_step, sums)
    }
}

fn values(count: usize, stream: u32, by: f64) -> Vec<f64> {
    let key = random::key(SEED, 9, 0, 0, stream);
    // Numbers that f32 has exactly.
    let one = |i| (random::uniform(random::bits32(key, i, 0)) * 2.0 - 1.0) * by;
    (0..count as u64).map(|i| f64::from(one(i) as f32)).collect()
}

/// Rows that are not all worked on at once, of neurons that fire now and then.
fn network(to_zero: bool, population: usize, steps: usize) -> (Slow, Vec<f64>, usize) {
    let (columns, hidden, classes) = (5, 40, 3);
    let outgoing = classes * population;
    let sizes = [columns * hidden, hidden, hidden * outgoing, outgoing];
    let parameters = (0..).zip(sizes).map(|(at, size)| values(size, at, if at < 2 { 0.7 } else { 0.3 }));
    let parameters = parameters.collect();
    let (threshold, beta) = (1.0, f64::from(0.9f32));
    let slow = Slow { hidden, classes, population, steps, threshold, beta, to_zero, parameters };
    let rows = 200;
    (slow, values(rows * columns, 7, 2.0), rows)
}

fn given(slow: &Slow, others: &[(&'static str, Value)]) -> Given {
    let sizes = [
        ("hidden", slow.hidden as i64),
        ("classes", slow.classes as i64),
        ("population", slow.population as i64),
        ("steps", slow.steps as i64),
    ];
    [whole(&sizes), vec![set("reset", if slow.to_zero { "zero" } else { "subtract" })], others.to_vec()]
        .concat()
}

struct Held {
    x: Matrix,
    parameters: Vec<Matrix>,
}

fn held(host: &Reference, slow: &Slow, x: &[f64], rows: usize, kernel: &Spiking) -> Held {
    let x = host.matrix(&[rows as u32, (x.len() / rows) as u32], x).unwrap();
    let specs = kernel.signature().parameters;
    let all = specs.iter().zip(&slow.parameters);
    Held { x, parameters: all.map(|(spec, values)| host.matrix(&spec.shape, values).unwrap()).collect() }
}

#[test]
fn forward_is_the_formula() {
    for (to_zero, population, steps) in [(false, 1, 25), (true, 1, 25), (false, 4, 5), (true, 2, 1)] {
        let (slow, x, rows) = network(to_zero, population, steps);
        let columns = x.len() / rows;
        let mut fired = 0.0;
        for output in ["count", "rate", "steps"] {
            let context = Context { rows: rows as u32, ..Context::default() };
            let host = Reference::new(context);
            let kernel = open(&[vec![columns as u32]], &given(&slow, &[set("output", output)])).unwrap();
            let held = held(&host, &slow, &x, rows, &kernel);
            let width = kernel.signature().outputs[0].extents[0] as usize;
            let y = host.output(&[rows as u32, width as u32]).unwrap();
            let parameters: Vec<&Matrix> = held.parameters.iter().collect();
            let io = Forward { inputs: &[&held.x], parameters: &parameters, outputs: &[&y], kept: &[] };
            host.run(|| kernel.forward::<f64>(&context.task(), io)).unwrap();
            let found = host.values(&y).unwrap();
            for (at, x) in x.chunks(columns).enumerate() {
                let by_step: Vec<Vec<f64>> = slow.run(x).spikes.iter().map(|s| slow.count(s)).collect();
                let sum = |c: usize| by_step.iter().map(|s| s[c]).sum::<f64>();
                let expected: Vec<f64> = match output {
                    "steps" => by_step.concat(),
                    "rate" => (0..slow.classes).map(|c| sum(c) / (steps * population) as f64).collect(),
                    _ => (0..slow.classes).map(sum).collect(),
                };
                fired += (0..slow.classes).map(sum).sum::<f64>();
                let found = &found[at * width..][..width];
                let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
                assert!(
                    found.iter().zip(&expected).all(close),
                    "{output}, row {at}: {found:?}, not {expected:?}"
                );
            }
        }
        let share = fired / (3 * rows * slow.classes * population * steps) as f64;
        assert!((0.02..0.98).contains(&share), "{share} of what could fire does");
    }
}

/// Of spikes, not of their smooth form: the surrogates as they are written, and no gradient through a reset.
#[test]
fn backward_is_the_formula() {
    let atan = |u: f64| 1.0 / (1.0 + (std::f64::consts::PI * u).powi(2));
    let sigmoid = |u: f64| 1.0 / (1.0 + 25.0 * u.abs()).powi(2);
    let straight = |_: f64| 1.0;
    let surrogates: [(&str, &dyn Fn(f64) -> f64); 3] =
        [("atan", &atan), ("fast-sigmoid", &sigmoid), ("straight-through", &straight)];
    for (to_zero, population, steps) in [(false, 1, 25), (true, 3, 6)] {
        for (name, slope) in surrogates {
            let (slow, x, rows) = network(to_zero, population, steps);
            let (columns, n) = (x.len() / rows, rows as u32);
            let context = Context { rows: n, ..Context::default() };
            let host = Reference::new(context);
            let kernel = open(&[vec![columns as u32]], &given(&slow, &[set("surrogate", name)])).unwrap();
            let held = held(&host, &slow, &x, rows, &kernel);
            let signature = kernel.signature();
            let kept: Vec<Out> = signature
                .kept
                .iter()
                .map(|k| host.output(&[&[n], &k.extents[..]].concat()).unwrap())
                .collect();
            let y = host.output(&[n, slow.classes as u32]).unwrap();
            let parameters: Vec<&Matrix> = held.parameters.iter().collect();
            let outs: Vec<&Out> = kept.iter().collect();
            let io = Forward { inputs: &[&held.x], parameters: &parameters, outputs: &[&y], kept: &outs };
            host.run(|| kernel.forward::<f64>(&context.task(), io)).unwrap();
            let kept: Vec<Matrix> = signature
                .kept
                .iter()
                .zip(&kept)
                .map(|(spec, out)| {
                    host.matrix(&[&[n], &spec.extents[..]].concat(), &host.values(out).unwrap()).unwrap()
                })
                .collect();
            let g = values(rows * slow.classes, 11, 1.0);
            let grad = host.matrix(&[n, slow.classes as u32], &g).unwrap();
            let dx = host.output(&[n, columns as u32]).unwrap();
            let sums: Vec<Out> =
                signature.parameters.iter().map(|p| host.gradient(&p.shape).unwrap()).collect();
            let io = Backward {
                inputs: &[&held.x],
                parameters: &parameters,
                outputs: &[],
                kept: &kept.iter().collect::<Vec<_>>(),
                gradients: &[&grad],
                input_gradients: &[Some(&dx)],
                parameter_gradients: &sums.iter().collect::<Vec<_>>(),
            };
            host.run(|| kernel.backward::<f64>(&context.task(), io)).unwrap();
            let outgoing = slow.classes * population;
            let mut expected: Vec<Vec<f64>> = slow.parameters.iter().map(|p| vec![0.0; p.len()]).collect();
            for (x, g) in x.chunks(columns).zip(g.chunks(slow.classes)) {
                let ran = slow.run(x);
                let (by_step, first) = slow.back(&ran, g, slope);
                for (d, u) in by_step.iter().zip(&ran.first) {
                    for j in 0..outgoing {
                        expected[3][j] += d[j];
                        (0..slow.hidden)
                            .for_each(|i| expected[2][i * outgoing + j] += slow.spike(u[i]) * d[j]);
                    }
                }
                for i in 0..slow.hidden {
                    expected[1][i] += first[i];
                    (0..columns).for_each(|k| expected[0][k * slow.hidden + i] += x[k] * first[i]);
                }
            }
            for ((spec, out), expected) in signature.parameters.iter().zip(&sums).zip(&expected) {
                let found = host.values(out).unwrap();
                let length = expected.iter().map(|v| v * v).sum::<f64>().sqrt();
                let off = found.iter().zip(expected).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                assert!(length > 0.0 && off < 1e-9 * length, "{name}, {}: {off} of {length}", spec.name);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let sizes = whole(&[("hidden", 4), ("classes", 3)]);
    assert!(open(&[vec![5]], &sizes).is_ok());
    assert!(matches!(open(&[], &sizes), Err(Error::Argument(_))));
    assert!(matches!(open(&[vec![5], vec![5]], &sizes), Err(Error::Argument(_))));
    assert!(matches!(open(&[vec![5, 2]], &sizes), Err(Error::Shape { .. })));
    for other in [
        number("beta", 1.5),
        number("beta", f64::NAN),
        number("threshold", 0.0),
        number("slope", -1.0),
        set("reset", "none"),
        set("surrogate", "sigmoid"),
        set("output", "spikes"),
        ("steps", Value::Integer(1 << 31)),
        ("population", Value::Integer(0)),
    ] {
        let given = [sizes.clone(), vec![other.clone()]].concat();
        assert!(matches!(open(&[vec![5]], &given), Err(Error::Argument(_))), "{other:?}");
    }
}

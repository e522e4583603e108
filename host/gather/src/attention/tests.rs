#![allow(clippy::unwrap_used)]
use super::*;
use crate::adjacency::{Graph, Options};
use crate::random::SplitMix64;
use eciton_tensor::random::{Key, Purpose};

const VERTICES: usize = 40;

/// Returns a graph with an isolated vertex, a vertex with more neighbours than a chunk, parallel
/// edges and self-loops.
fn graph(random: &mut SplitMix64) -> Graph {
    let mut edges: Vec<(u32, u32)> = (1..VERTICES as u32 - 1).map(|u| (u, 0)).collect();
    edges.extend((0..150).map(|_| {
        let mut end = || random.below(VERTICES as u64 - 1) as u32;
        (end(), end())
    }));
    let options = Options { keep_self_loops: true, ..Options::default() };
    Graph::from_edges(VERTICES as u64, edges.iter().copied(), options).unwrap()
}

fn values(random: &mut SplitMix64, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0).collect()
}

/// Computes y of every row by its definition.
fn plain(graph: &Graph, heads: &Heads, drops: Option<Drops<'_>>, input: &[f64]) -> Vec<f64> {
    let (width, values) = (heads.input(), heads.values());
    let row = |u: usize| &input[u * width..(u + 1) * width];
    let mut out = vec![0.0; VERTICES * heads.output()];
    for v in 0..VERTICES {
        let mut list: Vec<usize> = graph.in_neighbours(v as u32).iter().map(|&u| u as usize).collect();
        list.push(v);
        for head in 0..heads.heads {
            let score = |u: usize| {
                let x = row(u)[values + head] + row(v)[values + heads.heads + head];
                if x > 0.0 { x } else { f64::from(heads.slope) * x }
            };
            let sum: f64 = list.iter().map(|&u| score(u).exp()).sum();
            for &u in &list {
                let factor = drops.map_or(1.0, |d| {
                    let number = |row: usize| d.numbers.map_or(row as u32, |numbers| numbers[row]);
                    let key = d.dropout.key.row(u64::from(number(v)));
                    f64::from(d.dropout.factor(key, number(u) * heads.heads as u32 + head as u32))
                });
                let weight = factor * score(u).exp() / sum;
                for feature in 0..heads.features {
                    let z = row(u)[head * heads.features + feature];
                    if heads.average {
                        out[v * heads.features + feature] += weight * z / heads.heads as f64;
                    } else {
                        out[v * values + head * heads.features + feature] += weight * z;
                    }
                }
            }
        }
    }
    out
}

struct Case {
    graph: Graph,
    heads: Heads,
    numbers: Vec<u32>,
    probability: f32,
    input: Vec<f32>,
    gradient: Vec<f32>,
}

impl Case {
    fn new(seed: u64, (heads, features, average): (usize, usize, bool), probability: f32) -> Self {
        println!("seed {seed}, {heads} heads of {features}");
        let mut random = SplitMix64::new(seed);
        let heads = Heads { heads, features, average, slope: 0.2 };
        let graph = graph(&mut random);
        let input = values(&mut random, VERTICES * heads.input());
        let gradient = values(&mut random, VERTICES * heads.output());
        let numbers = (0..VERTICES as u32).map(|row| (row * 7 + 3) % VERTICES as u32).collect();
        Self { graph, heads, numbers, probability, input, gradient }
    }

    fn drops(&self) -> Option<Drops<'_>> {
        let dropout = Dropout::new(Key::new(5, Purpose::Dropout, 1, 2, 3), self.probability)?;
        (self.probability > 0.0).then_some(Drops { dropout, numbers: Some(&self.numbers) })
    }

    /// Computes y, the stored values, the turned rows and the input's gradient, in intervals of
    /// `interval` rows.
    fn run(&self, interval: usize) -> [Vec<f32>; 4] {
        let widths = [self.heads.output(), self.heads.stashed(), self.heads.turned(), self.heads.input()];
        let [mut y, mut kept, mut turned, mut back] = widths.map(|width| vec![0.0; VERTICES * width]);
        let [wide, keeps, turns, inputs] = widths;
        let input = View::new(&self.input, VERTICES, inputs);
        let intervals = (0..VERTICES).step_by(interval).map(|at| at..(at + interval).min(VERTICES));
        let drops = self.drops();
        let forth = Attention { lists: self.graph.incoming(), heads: self.heads, drops };
        for rows in intervals.clone() {
            let count = rows.len();
            let y = &mut y[rows.start * wide..rows.end * wide];
            let kept = &mut kept[rows.start * keeps..rows.end * keeps];
            let (mut out, mut keep) = (ViewMut::new(y, count, wide), ViewMut::new(kept, count, keeps));
            forth.forward(input, rows.clone(), &mut out, Some(&mut keep));
            let gradient = View::new(&self.gradient, VERTICES, wide).slice(rows.start, count);
            let turned = &mut turned[rows.start * turns..rows.end * turns];
            let own = input.slice(rows.start, count);
            let mut into = ViewMut::new(turned, count, turns);
            Attention::turn(&self.heads, (own, out.as_view(), keep.as_view()), gradient, &mut into);
        }
        let back_to = Attention { lists: self.graph.outgoing(), ..forth };
        for rows in intervals {
            let own = input.slice(rows.start, rows.len());
            let to = &mut back[rows.start * inputs..rows.end * inputs];
            let mut to = ViewMut::new(to, rows.len(), inputs);
            back_to.backward(View::new(&turned, VERTICES, turns), own, rows, &mut to);
        }
        [y, kept, turned, back]
    }
}

fn close(found: &[f32], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    for (at, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
        let apart = (f64::from(found) - wanted).abs();
        assert!(apart <= tolerance * wanted.abs().max(1.0), "{at}: {found}, expected {wanted}");
    }
}

const SHAPES: [(usize, usize, bool); 7] = [
    (1, 7, false),
    (8, 8, false),
    (3, 5, false),
    (2, 16, true),
    (4, 3, true),
    (1, 32, false),
    (2, 64, false),
];

#[test]
fn results_and_gradients_are_those_of_the_definition() {
    for (shape, probability) in SHAPES.into_iter().zip([0.0, 0.6, 0.3, 0.0, 0.5, 0.6, 0.0]) {
        let case = Case::new(7, shape, probability);
        let [y, _, _, back] = case.run(VERTICES);
        let mut input: Vec<f64> = case.input.iter().map(|&x| f64::from(x)).collect();
        close(&y, &plain(&case.graph, &case.heads, case.drops(), &input), 1e-5);
        let mut loss = |at: usize, step: f64| {
            let before = input[at];
            input[at] += step;
            let y = plain(&case.graph, &case.heads, case.drops(), &input);
            input[at] = before;
            y.iter().zip(&case.gradient).map(|(y, &g)| y * f64::from(g)).sum::<f64>()
        };
        // No score changes its sign within a step.
        let h = 1e-7;
        let wanted: Vec<f64> =
            (0..case.input.len()).map(|at| (loss(at, h) - loss(at, -h)) / (2.0 * h)).collect();
        close(&back, &wanted, 2e-5);
    }
}

#[test]
fn bits_do_not_depend_on_how_rows_are_cut() {
    for shape in SHAPES {
        let case = Case::new(11, shape, 0.5);
        let whole = case.run(VERTICES);
        for interval in [1, 7, 39] {
            assert_eq!(whole, case.run(interval), "intervals of {interval}");
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_pieces_that_rows_lie_in() {
    let case = Case::new(13, (8, 8, false), 0.0);
    let width = case.heads.input();
    let attention = Attention { lists: case.graph.incoming(), heads: case.heads, drops: None };
    let run = |sources: Sources<'_>| {
        let mut y = vec![0.0; VERTICES * 64];
        attention.forward(sources, 0..VERTICES, &mut ViewMut::new(&mut y, VERTICES, 64), None);
        y
    };
    let (first, second) = case.input.split_at(17 * width);
    let pieces = [
        (0..17, View::new(first, 17, width).into()),
        (17..VERTICES, View::new(second, VERTICES - 17, width).into()),
    ];
    let whole = run(View::new(&case.input, VERTICES, width).into());
    assert_eq!(whole, run(Sources::pieces(VERTICES, &pieces).unwrap()));
}

#[test]
fn large_scores_neither_overflow_nor_vanish() {
    let mut case = Case::new(17, (2, 8, false), 0.0);
    case.input.iter_mut().for_each(|x| *x *= 300.0);
    let [y, kept, turned, back] = case.run(VERTICES);
    let input: Vec<f64> = case.input.iter().map(|&x| f64::from(x)).collect();
    close(&y, &plain(&case.graph, &case.heads, None, &input), 1e-3);
    assert!([kept, turned, back].iter().flatten().all(|value| value.is_finite()));
}

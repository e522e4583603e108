#![allow(clippy::unwrap_used)]
use super::*;
use crate::adjacency::Options;
use crate::links::{Ends, linked};
use crate::random::SplitMix64;
use eciton_tensor::random::{Key, Purpose};

const VERTICES: usize = 90;
const WIDTHS: [usize; 7] = [1, 3, 16, 32, 48, 64, 70];

struct Case {
    graph: Graph,
    negatives: Negatives,
    columns: usize,
    z: Vec<f32>,
}

impl Case {
    /// Creates a graph with a vertex that has more links than two chunks, an isolated vertex, and
    /// self-loops.
    fn new(seed: u64, columns: usize, symmetric: bool) -> Self {
        println!("seed {seed}, {columns} columns");
        let mut random = SplitMix64::new(seed);
        let ends = VERTICES as u64 - 1;
        let mut edges: Vec<Pair> = (1..80).map(|u| (u, 0)).collect();
        edges.extend((0..150).map(|_| (random.below(ends) as u32, random.below(ends) as u32)));
        let options = Options { symmetric, keep_self_loops: true };
        let graph = Graph::from_edges(VERTICES as u64, edges.into_iter(), options).unwrap();
        let negatives =
            Negatives::draw(&graph, 240, Key::new(seed, Purpose::Negatives, 1, 0, 0), Ends::Uniform(None));
        let z = (0..VERTICES * columns).map(|_| random.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0);
        Self { z: z.collect(), graph, negatives, columns }
    }

    fn pairs(&self) -> Pairs<'_> {
        Pairs { graph: &self.graph, negatives: &self.negatives, weight: 0.37 }
    }

    /// Computes gradient and losses in intervals of `interval` rows.
    fn run(&self, sources: Sources<'_>, interval: usize) -> (Vec<f32>, Vec<f32>) {
        // What was there before is written over.
        let (mut gradient, mut losses) = (vec![9.0; self.z.len()], vec![9.0; VERTICES]);
        for start in (0..VERTICES).step_by(interval) {
            let rows = start..(start + interval).min(VERTICES);
            let to = &mut gradient[rows.start * self.columns..rows.end * self.columns];
            let mut to = ViewMut::new(to, rows.len(), self.columns);
            self.pairs().run(sources, rows.clone(), &mut to, &mut losses[rows]);
        }
        (gradient, losses)
    }

    fn view(&self) -> View<'_> {
        View::new(&self.z, VERTICES, self.columns)
    }

    /// Returns all pairs with their labels by definition, each once.
    fn labelled(&self) -> Vec<(usize, usize, f64)> {
        let all = (0..VERTICES).flat_map(|a| (0..a).map(move |b| (a, b)));
        let links = all.filter(|&(a, b)| linked(&self.graph, a as u32, b as u32));
        let mut pairs: Vec<_> = links.map(|(a, b)| (a, b, 1.0)).collect();
        for a in 0..VERTICES {
            let own = self.negatives.partners(a as u32).iter().filter(|&&b| (b as usize) < a);
            pairs.extend(own.map(|&b| (a, b as usize, 0.0)));
        }
        assert_eq!(pairs.iter().filter(|pair| pair.2 == 0.0).count() as u64, self.negatives.pairs());
        pairs
    }
}

fn loss(z: &[f64], columns: usize, &(a, b, label): &(usize, usize, f64)) -> f64 {
    let row = |v: usize| &z[v * columns..(v + 1) * columns];
    let p = 1.0 / (1.0 + (-row(a).iter().zip(row(b)).map(|(a, b)| a * b).sum::<f64>()).exp());
    -(label * p.ln() + (1.0 - label) * (1.0 - p).ln())
}

#[test]
fn losses_and_gradients_are_those_of_the_definition() {
    for (columns, symmetric) in WIDTHS.into_iter().zip([true, false].into_iter().cycle()) {
        let case = Case::new(7, columns, symmetric);
        let (gradient, losses) = case.run(case.view().into(), VERTICES);
        let pairs = case.labelled();
        let weight = f64::from(case.pairs().weight);
        let mut z: Vec<f64> = case.z.iter().map(|&x| f64::from(x)).collect();
        let mut halves = vec![0.0; VERTICES];
        for pair in &pairs {
            let half = 0.5 * weight * loss(&z, columns, pair);
            halves[pair.0] += half;
            halves[pair.1] += half;
        }
        for (found, expected) in losses.iter().zip(&halves) {
            assert!((f64::from(*found) - expected).abs() < 1e-5 * expected.max(1.0), "{found}, {expected}");
        }
        let h = 1e-6;
        for at in 0..z.len() {
            let before = z[at];
            let near = pairs.iter().filter(|pair| pair.0 == at / columns || pair.1 == at / columns);
            let mut of = |step: f64| {
                z[at] = before + step;
                near.clone().map(|pair| loss(&z, columns, pair)).sum::<f64>()
            };
            let expected = weight * (of(h) - of(-h)) / (2.0 * h);
            z[at] = before;
            let found = f64::from(gradient[at]);
            assert!((found - expected).abs() < 2e-5 * expected.abs().max(1.0), "{at}: {found}, {expected}");
        }
    }
}

#[test]
fn bits_do_not_depend_on_how_rows_are_cut() {
    for columns in WIDTHS {
        let case = Case::new(11, columns, columns & 1 == 0);
        let whole = case.run(case.view().into(), VERTICES);
        for interval in [1, 7, 89] {
            assert_eq!(whole, case.run(case.view().into(), interval), "intervals of {interval}");
        }
        let (first, second) = case.z.split_at(17 * columns);
        let pieces = [
            (0..17, View::new(first, 17, columns).into()),
            (17..VERTICES, View::new(second, VERTICES - 17, columns).into()),
        ];
        assert_eq!(
            whole,
            case.run(Sources::pieces(VERTICES, &pieces).unwrap(), 40),
            "{columns} columns in pieces"
        );
    }
}

#[test]
fn large_scores_neither_overflow_nor_vanish() {
    let mut case = Case::new(13, 16, true);
    case.z.iter_mut().for_each(|x| *x *= 300.0);
    let (gradient, losses) = case.run(case.view().into(), VERTICES);
    let z: Vec<f64> = case.z.iter().map(|&x| f64::from(x)).collect();
    let of = |&(a, b, label): &(usize, usize, f64)| {
        let s: f64 = (0..16).map(|k| z[a * 16 + k] * z[b * 16 + k]).sum();
        let x = if label == 1.0 { -s } else { s };
        x.max(0.0) + (-x.abs()).exp().ln_1p()
    };
    let expected = f64::from(case.pairs().weight) * case.labelled().iter().map(of).sum::<f64>();
    let found: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
    assert!((found - expected).abs() < 1e-5 * expected, "{found}, {expected}");
    assert!(gradient.iter().all(|value| value.is_finite()));
}

#[test]
fn what_has_no_pairs_has_no_loss_and_what_is_no_number_stays_none() {
    let mut case = Case::new(17, 3, true);
    case.negatives = Negatives::draw(&case.graph, 0, Key(1), Ends::Uniform(None));
    case.z[0] = f32::NAN;
    let (gradient, losses) = case.run(case.view().into(), VERTICES);
    let lone = VERTICES - 1;
    assert_eq!((losses[lone], &gradient[lone * 3..]), (0.0, &[0.0; 3][..]));
    for (v, loss) in losses.iter().enumerate() {
        assert_eq!(v == 0 || linked(&case.graph, 0, v as u32), loss.is_nan(), "vertex {v}");
    }
}

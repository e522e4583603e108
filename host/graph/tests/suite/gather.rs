//! Every way to gather gives the naive loop's bits: on random graphs with isolated vertices, self loops
//! and parallel edges, on one vertex, on hubs, for widths 1 to 130, any cut into row ranges, source rows in
//! any number of pieces, and every vector level of this processor.
use eciton_gather::{
    EdgeWeights, Gather, NOBODY, Path, Positions, Reduce, Rows, Sources, gather_symmetric, inverse_degrees,
};
use eciton_graph::adjacency::{Adjacency, Repeats};
use eciton_graph::random::SplitMix64;
use eciton_tensor::half::{HalfBuffer, round, widen};
use eciton_tensor::{Buffer, View, ViewMut, numeric_class};

/// Lists of incoming and of outgoing edges, the latter sorted the same way.
struct Both {
    incoming: Adjacency,
    outgoing: Adjacency,
}

fn lists(vertices: usize, mut edges: Vec<(u32, u32)>) -> Adjacency {
    edges.sort_unstable();
    let mut offsets = vec![0u64; vertices + 1];
    edges.iter().for_each(|&(v, _)| offsets[v as usize + 1] += 1);
    (0..vertices).for_each(|v| offsets[v + 1] += offsets[v]);
    let neighbours: Vec<u32> = edges.into_iter().map(|(_, u)| u).collect();
    Adjacency::from_parts_with(offsets, neighbours, Repeats::Allowed).unwrap()
}

impl Both {
    fn new(vertices: usize, edges: &[(u32, u32)]) -> Self {
        Self {
            incoming: lists(vertices, edges.iter().map(|&(u, v)| (v, u)).collect()),
            outgoing: lists(vertices, edges.to_vec()),
        }
    }

    /// Up to 60 vertices; some isolated, some hubs, loops and repeats likely.
    fn random(random: &mut SplitMix64) -> Self {
        let vertices = 1 + random.below(60);
        let busy = 1 + random.below(vertices);
        let count = random.below(12) * random.below(60);
        let mut end = || (random.below(busy).min(random.below(vertices))) as u32;
        let edges: Vec<_> = (0..count).map(|_| (end(), end())).collect();
        Self::new(vertices as usize, &edges)
    }

    fn vertices(&self) -> usize {
        self.incoming.offsets().len() - 1
    }
}

fn values(random: &mut SplitMix64, count: usize) -> Vec<f32> {
    (0..count).map(|_| (random.below(1 << 20) as f32 - 524_288.0) / 131_072.0).collect()
}

/// The factors of a gather, as its definition has them.
#[derive(Clone, Copy, Default)]
struct Factors<'a> {
    source: Option<&'a [f32]>,
    target: Option<&'a [f32]>,
    edges: Option<(&'a [f32], Option<&'a Positions>)>,
    mean: bool,
    own: bool,
    wanted: Option<&'a [bool]>,
}

/// The definition, one value after another. `fused`: a weighted term is added with one rounding.
fn naive(lists: &Adjacency, factors: Factors<'_>, x: &[f32], columns: usize) -> Vec<f32> {
    let fused = !numeric_class().starts_with("portable");
    let mut out = Vec::new();
    for v in 0..lists.offsets().len() - 1 {
        let mut span = lists.offsets()[v] as usize..lists.offsets()[v + 1] as usize;
        if factors.wanted.is_some_and(|wanted| !wanted[v]) {
            span.end = span.start;
        }
        for c in 0..columns {
            let scaled = |u: usize| match factors.source {
                Some(s) => s[u] * x[u * columns + c],
                None => x[u * columns + c],
            };
            let mut sum = 0.0f32;
            for edge in span.clone() {
                let term = scaled(lists.neighbours()[edge] as usize);
                sum = match factors.edges {
                    Some((a, positions)) => {
                        let a = a[positions.map_or(edge, |p| p.get(edge))];
                        if fused { a.mul_add(term, sum) } else { a * term + sum }
                    }
                    None => sum + term,
                };
            }
            if factors.own {
                sum += scaled(v);
            }
            let terms = span.len() + usize::from(factors.own);
            let factor = factors.target.map_or(1.0, |t| t[v]);
            let factor = if factors.mean { factor / terms.max(1) as f32 } else { factor };
            out.push(if factors.mean || factors.target.is_some() { sum * factor } else { sum });
        }
    }
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Gathers all rows in pieces.
fn gathered<'a>(
    gather: &Gather<'_>,
    path: Option<Path>,
    input: impl Into<Sources<'a>>,
    cuts: &[usize],
    out: &Buffer,
) -> Vec<f32> {
    let input = input.into();
    for cut in cuts.windows(2) {
        let mut lease = out.write(cut[0]..cut[1]).unwrap();
        // What was there before must not show.
        lease.view_mut().data_mut().fill(f32::NAN);
        gather.run_by(path, input, cut[0]..cut[1], &mut lease.view_mut());
    }
    out.to_vec().unwrap()
}

fn paths(random: &mut SplitMix64) -> Vec<Option<Path>> {
    let mut size = || 1 + random.below(20) as usize;
    let blocks = [(1, 1), (size(), size()), (size(), size()), (usize::MAX >> 40, usize::MAX >> 40)];
    let mut all = vec![None, Some(Path::Direct { ahead: false }), Some(Path::Direct { ahead: true })];
    all.push(Some(Path::Packed));
    all.extend(blocks.map(|(block_rows, tile_rows)| Some(Path::Blocked { block_rows, tile_rows })));
    all
}

#[test]
fn every_path_gives_the_bits_of_the_naive_loop() {
    let seed = 11;
    println!("seed {seed}");
    let random = &mut SplitMix64::new(seed);
    for columns in (1..=130).chain([257]) {
        let both = Both::random(random);
        let (n, e) = (both.vertices(), both.incoming.neighbours().len());
        let positions = Positions::new(&both.outgoing, &both.incoming).unwrap();
        let (scale, weights) = (values(random, n), values(random, e));
        let x = values(random, n * columns);
        let halves: Vec<f32> = x.iter().map(|&x| widen(round(x))).collect();
        let wide = Buffer::from_rows(n, columns, &x).unwrap();
        let half = HalfBuffer::from_rows(n, columns, &x).unwrap();
        let (wide, half) = (wide.read(0..n).unwrap(), half.read(0..n).unwrap());
        let inverse = inverse_degrees(both.incoming.offsets(), false);
        let mut cuts: Vec<usize> =
            (0..random.below(4)).map(|_| random.below(n as u64 + 1) as usize).collect();
        cuts.extend([0, n]);
        cuts.sort_unstable();
        let sum = Gather::new(&both.incoming, Reduce::Sum);
        let mean = Gather::new(&both.incoming, Reduce::Mean);
        let valued = sum.weighted(EdgeWeights::Values(&weights, None));
        let wanted: Vec<bool> = (0..n).map(|_| random.below(3) > 0).collect();
        let none = Factors::default();
        let symmetric = Factors { source: Some(&scale), target: Some(&scale), own: true, ..none };
        let back = Factors { edges: Some((&weights, Some(&positions))), ..none };
        let cases = [
            ("sum", &both.incoming, sum, none),
            ("mean", &both.incoming, mean, Factors { mean: true, ..none }),
            ("mean with self", &both.incoming, mean.with_self(), Factors { mean: true, own: true, ..none }),
            (
                "symmetric",
                &both.incoming,
                sum.weighted(EdgeWeights::Symmetric(&scale)).with_self(),
                symmetric,
            ),
            (
                "symmetric, back",
                &both.outgoing,
                sum.weighted(EdgeWeights::Symmetric(&scale)).with_self().transpose(
                    &both.outgoing,
                    None,
                    None,
                ),
                symmetric,
            ),
            ("values", &both.incoming, valued, Factors { edges: Some((&weights, None)), ..none }),
            ("values, back", &both.outgoing, valued.transpose(&both.outgoing, Some(&positions), None), back),
            (
                "mean, back",
                &both.outgoing,
                mean.transpose(&both.outgoing, None, Some(&inverse)),
                Factors { source: Some(&inverse), ..none },
            ),
            (
                "some rows",
                &both.incoming,
                sum.weighted(EdgeWeights::Symmetric(&scale)).with_self().of_rows(&wanted),
                Factors { wanted: Some(&wanted), ..symmetric },
            ),
            (
                "some rows of values",
                &both.incoming,
                valued.of_rows(&wanted),
                Factors { edges: Some((&weights, None)), wanted: Some(&wanted), ..none },
            ),
            (
                "some rows of a mean",
                &both.incoming,
                mean.of_rows(&wanted),
                Factors { mean: true, wanted: Some(&wanted), ..none },
            ),
            (
                "values of scaled rows",
                &both.incoming,
                valued.weighted(EdgeWeights::Symmetric(&scale)),
                Factors { source: Some(&scale), target: Some(&scale), edges: Some((&weights, None)), ..none },
            ),
        ];
        let out = Buffer::zeroed(n, columns).unwrap();
        for (name, lists, gather, factors) in cases {
            for (kind, input, x) in
                [("f32", Rows::F32(wide.view()), &x), ("bf16", Rows::Bf16(half.view()), &halves)]
            {
                let expected = naive(lists, factors, x, columns);
                for path in paths(random) {
                    let found = gathered(&gather, path, input, &cuts, &out);
                    let place = format!("{name}, {kind}, width {columns}, {n} vertices, {path:?}, {cuts:?}");
                    assert_eq!(bits(&found), bits(&expected), "{place}");
                }
                // Rows without padding.
                let (mut narrow, mut rounded) =
                    (vec![f32::NAN; n * columns], HalfBuffer::zeroed(n, columns).unwrap());
                let to = &mut ViewMut::new(&mut narrow, n, columns);
                let input = if kind == "f32" { View::new(x, n, columns).into() } else { input };
                gather.run(input, 0..n, to);
                assert_eq!(bits(&narrow), bits(&expected), "{name}, {kind}, width {columns}, no padding");
                half_result(&gather, input, &mut rounded);
                let lease = rounded.read(0..n).unwrap();
                for v in 0..n {
                    let expected: Vec<u16> =
                        expected[v * columns..(v + 1) * columns].iter().map(|&y| round(y)).collect();
                    assert_eq!(lease.view().row(v), expected, "{name}, {kind} to bf16, width {columns}");
                }
            }
        }
    }
}

/// Cuts of `0..n`, ascending, both ends among them: none, a few, or a row each here and there.
fn piece_cuts(random: &mut SplitMix64, n: usize) -> Vec<usize> {
    let mut cuts: Vec<usize> = match random.below(4) {
        0 => (0..n).collect(),
        1 => {
            let from = random.below(n as u64) as usize;
            (from..(from + 3).min(n)).collect()
        }
        count => (0..4 * count).map(|_| random.below(n as u64 + 1) as usize).collect(),
    };
    cuts.extend([0, n]);
    cuts.sort_unstable();
    // What is left of repeats is a piece without rows.
    if random.below(2) == 0 {
        cuts.dedup();
    }
    cuts
}

#[test]
fn rows_in_pieces_give_the_bits_of_rows_in_one() {
    let seed = 17;
    println!("seed {seed}");
    let random = &mut SplitMix64::new(seed);
    for round in 0..24 {
        let columns = [1, 7, 16, 41, 128, 200][round % 6];
        let both = match round / 6 {
            0 => Both::new(1 + random.below(40) as usize, &[]),
            // So many vertices that several share an entry of the lookup, and blocks span pieces.
            1 | 2 => {
                let n = 120 + random.below(200);
                let edges: Vec<_> =
                    (0..4 * n).map(|_| (random.below(n) as u32, random.below(n) as u32)).collect();
                Both::new(n as usize, &edges)
            }
            _ => Both::random(random),
        };
        let (n, e) = (both.vertices(), both.incoming.neighbours().len());
        let positions = Positions::new(&both.outgoing, &both.incoming).unwrap();
        let (scale, weights) = (values(random, n), values(random, e));
        let x = values(random, n * columns);
        let inverse = inverse_degrees(both.incoming.offsets(), true);
        let cuts = piece_cuts(random, n);
        // Each piece from one of three buffers, in which all rows that are not its own are NaN.
        let owned = |buffer: usize| -> Vec<f32> {
            let mut all = vec![f32::NAN; n * columns];
            for cut in cuts.windows(2).skip(buffer).step_by(3) {
                let span = cut[0] * columns..cut[1] * columns;
                all[span.clone()].copy_from_slice(&x[span]);
            }
            all
        };
        let narrow = [0, 1, 2].map(owned);
        let wide = [0, 1, 2].map(|b| Buffer::from_rows(n, columns, &narrow[b]).unwrap());
        let half = [0, 1, 2].map(|b| HalfBuffer::from_rows(n, columns, &narrow[b]).unwrap());
        let spans: Vec<_> = cuts.windows(2).map(|cut| cut[0]..cut[1]).enumerate().collect();
        let wide: Vec<_> = spans.iter().map(|(at, s)| wide[at % 3].read(s.clone()).unwrap()).collect();
        let half: Vec<_> = spans.iter().map(|(at, s)| half[at % 3].read(s.clone()).unwrap()).collect();
        let [mut padded, mut rounded, mut exact] = [Vec::new(), Vec::new(), Vec::new()];
        for (at, span) in spans {
            let here = &narrow[at % 3][span.start * columns..span.end * columns];
            exact.push((span.clone(), View::new(here, span.len(), columns).into()));
            padded.push((span.clone(), wide[at].view().into()));
            rounded.push((span, half[at].view().into()));
        }
        let (whole, halves) =
            (Buffer::from_rows(n, columns, &x).unwrap(), HalfBuffer::from_rows(n, columns, &x).unwrap());
        let (whole, halves) = (whole.read(0..n).unwrap(), halves.read(0..n).unwrap());
        let inputs = [
            ("padded", Sources::pieces(n, &padded).unwrap(), Rows::F32(whole.view())),
            ("without padding", Sources::pieces(n, &exact).unwrap(), Rows::F32(whole.view())),
            ("bf16", Sources::pieces(n, &rounded).unwrap(), Rows::Bf16(halves.view())),
        ];
        let sum = Gather::new(&both.incoming, Reduce::Sum);
        let mean = Gather::new(&both.incoming, Reduce::Mean);
        let valued = sum.weighted(EdgeWeights::Values(&weights, None));
        let cases = [
            ("sum", sum),
            ("sum with self", sum.with_self()),
            ("mean with self", mean.with_self()),
            ("symmetric", sum.weighted(EdgeWeights::Symmetric(&scale)).with_self()),
            ("values", valued.with_self()),
            ("values of scaled rows", valued.weighted(EdgeWeights::Symmetric(&scale))),
            ("values, back", valued.transpose(&both.outgoing, Some(&positions), None)),
            ("mean, back", mean.with_self().transpose(&both.outgoing, None, Some(&inverse))),
        ];
        let middle = random.below(n as u64 + 1) as usize;
        let out = Buffer::zeroed(n, columns).unwrap();
        for (name, gather) in cases {
            for (kind, pieces, one) in inputs {
                let expected = gathered(&gather, Some(Path::Direct { ahead: false }), one, &[0, n], &out);
                assert!(expected.iter().all(|y| y.is_finite()));
                for path in paths(random) {
                    let found = gathered(&gather, path, pieces, &[0, middle, n], &out);
                    let place = format!("{name}, {kind}, width {columns}, {n} vertices, {path:?}, {cuts:?}");
                    assert!(bits(&found) == bits(&expected), "seed {seed}, round {round}: {place}");
                }
            }
        }
        let expected = gathered(&cases[3].1, None, inputs[0].2, &[0, n], &out);
        let mut to = vec![f32::NAN; n * columns];
        let view = &mut ViewMut::new(&mut to, n, columns);
        gather_symmetric(&both.incoming, &scale, inputs[0].1, 0..n, view);
        assert_eq!(bits(&to), bits(&expected));
        // To bf16, which widens tile by tile.
        let mut results = [0, 1].map(|_| HalfBuffer::zeroed(n, columns).unwrap());
        for (to, input) in results.iter_mut().zip([inputs[0].1, inputs[0].2.into()]) {
            cases[3].1.run_half(input, 0..n, &mut to.write(0..n).unwrap().view_mut()).unwrap();
        }
        let [found, expected] = results.each_ref().map(|result| result.read(0..n).unwrap());
        assert!((0..n).all(|v| found.view().row(v) == expected.view().row(v)), "seed {seed}, round {round}");
    }
}

fn half_result(gather: &Gather<'_>, input: Rows<'_>, out: &mut HalfBuffer) {
    let n = out.rows();
    for rows in [0..n / 2, n / 2..n] {
        gather.run_half(input, rows.clone(), &mut out.write(rows).unwrap().view_mut()).unwrap();
    }
}

#[test]
fn transposes_are_adjoint() {
    let seed = 12;
    println!("seed {seed}");
    let random = &mut SplitMix64::new(seed);
    for round in 0..60 {
        let both = Both::random(random);
        let (n, e) = (both.vertices(), both.incoming.neighbours().len());
        let columns = 1 + random.below(20) as usize;
        let positions = Positions::new(&both.outgoing, &both.incoming).unwrap();
        let (scale, weights) = (values(random, n), values(random, e));
        let (x, y) = (values(random, n * columns), values(random, n * columns));
        let own = round % 2 == 0;
        let inverse = inverse_degrees(both.incoming.offsets(), own);
        let plain = |reduce| {
            let gather = Gather::new(&both.incoming, reduce);
            if own { gather.with_self() } else { gather }
        };
        let sum = plain(Reduce::Sum);
        for gather in [
            sum,
            plain(Reduce::Mean),
            sum.weighted(EdgeWeights::Symmetric(&scale)),
            sum.weighted(EdgeWeights::Values(&weights, None)),
            plain(Reduce::Mean).weighted(EdgeWeights::Values(&weights, None)),
            sum.weighted(EdgeWeights::Values(&weights, None)).with_source_scale(&scale),
        ] {
            let back = gather.transpose(&both.outgoing, Some(&positions), Some(&inverse));
            let (mut forward, mut backward) = (vec![0.0; n * columns], vec![0.0; n * columns]);
            gather.run(View::new(&x, n, columns), 0..n, &mut ViewMut::new(&mut forward, n, columns));
            back.run(View::new(&y, n, columns), 0..n, &mut ViewMut::new(&mut backward, n, columns));
            let dot = |a: &[f32], b: &[f32]| -> (f64, f64) {
                let terms = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
                (terms.clone().sum(), terms.map(f64::abs).sum())
            };
            let ((left, size), (right, other)) = (dot(&forward, &y), dot(&x, &backward));
            let error = (left - right).abs() / (1.0 + size.max(other));
            assert!(error < 1e-5, "seed {seed}, round {round}: {left}, transposed {right}");
        }
    }
}

#[test]
fn a_maximum_is_the_first_largest_and_its_gradient_goes_there() {
    let seed = 13;
    println!("seed {seed}");
    let random = &mut SplitMix64::new(seed);
    for round in 0..80 {
        let both = Both::random(random);
        let (n, e) = (both.vertices(), both.incoming.neighbours().len());
        let columns = 1 + random.below(40) as usize;
        let positions = Positions::new(&both.outgoing, &both.incoming).unwrap();
        // Few different values, so that equals are frequent.
        let mut x: Vec<f32> = (0..n * columns).map(|_| random.below(5) as f32 - 2.0).collect();
        if round % 5 == 0 {
            x[0] = f32::NAN;
        }
        let weights: Vec<f32> = (0..e).map(|_| random.below(3) as f32 - 1.0).collect();
        let gradient = values(random, n * columns);
        let mut gather = Gather::new(&both.incoming, Reduce::Max);
        let (own, weighted) = (round % 2 == 0, round % 3 == 0);
        if own {
            gather = gather.with_self();
        }
        if weighted {
            gather = gather.weighted(EdgeWeights::Values(&weights, None));
        }
        let (mut out, mut places) = (vec![9.0; n * columns], vec![7; n * columns]);
        for rows in [0..n / 3, n / 3..n] {
            let span = rows.start * columns..rows.end * columns;
            let to = &mut ViewMut::new(&mut out[span.clone()], rows.len(), columns);
            gather.run_max(View::new(&x, n, columns), rows, to, &mut places[span]);
        }
        let (mut back, mut expected_back) = (vec![9.0; n * columns], vec![0.0f64; n * columns]);
        for rows in [0..n / 2, n / 2..n] {
            let span = rows.start * columns..rows.end * columns;
            let to = &mut ViewMut::new(&mut back[span], rows.len(), columns);
            let gradient = View::new(&gradient, n, columns);
            gather.route((&both.outgoing, &positions), &places, gradient, rows, to);
        }
        for v in 0..n {
            let from = both.incoming.offsets()[v] as usize;
            let list = both.incoming.neighbours_of(v as u32);
            for c in 0..columns {
                let terms: Vec<(usize, f32)> = (list.iter().enumerate())
                    .map(|(at, &u)| (u as usize, if weighted { weights[from + at] } else { 1.0 }))
                    .chain(own.then_some((v, 1.0)))
                    .collect();
                let value = |&(u, a): &(usize, f32)| a * x[u * columns + c];
                let mut best = None;
                for (place, term) in terms.iter().enumerate() {
                    let better = |b: usize| {
                        let (new, old) = (value(term), value(&terms[b]));
                        new > old || new.is_nan() && !old.is_nan()
                    };
                    if best.is_none_or(better) {
                        best = Some(place);
                    }
                }
                let at = v * columns + c;
                assert_eq!(
                    places[at],
                    best.map_or(NOBODY, |b| b as u32),
                    "seed {seed}, round {round}, {v}, {c}"
                );
                let expected = best.map_or(0.0, |b| value(&terms[b]));
                assert!(out[at] == expected || out[at].is_nan() && expected.is_nan());
                if let Some((u, a)) = best.map(|b| terms[b]) {
                    expected_back[u * columns + c] += f64::from(a) * f64::from(gradient[at]);
                }
            }
        }
        for (found, expected) in back.iter().zip(expected_back) {
            assert!((f64::from(*found) - expected).abs() < 1e-3, "seed {seed}, round {round}");
        }
        if e == 0 && !own {
            assert!(places.iter().all(|&p| p == NOBODY) && out.iter().all(|&y| y == 0.0));
        }
    }
}

/// A hub whose list is longer than any class, a batch or a tile, and the rows around it.
#[test]
fn a_hub_with_a_million_neighbours() {
    let n = 1_000_001;
    let hub: Vec<u32> = (0..n as u32).filter(|&u| u != 500_000).collect();
    let mut offsets = vec![0u64; n + 1];
    offsets[500_001..].fill(hub.len() as u64);
    let lists = Adjacency::from_parts(offsets, hub).unwrap();
    let scale = vec![0.5f32; n];
    let gather = Gather::new(&lists, Reduce::Sum).weighted(EdgeWeights::Symmetric(&scale)).with_self();
    for columns in [1, 5] {
        let x: Vec<f32> = (0..n * columns).map(|i| (i % 1001) as f32 / 500.0 - 1.0).collect();
        let factors = Factors { source: Some(&scale), target: Some(&scale), own: true, ..Factors::default() };
        let expected = naive(&lists, factors, &x, columns);
        let input = Buffer::from_rows(n, columns, &x).unwrap();
        let (input, out) = (input.read(0..n).unwrap(), Buffer::zeroed(n, columns).unwrap());
        for path in [
            None,
            Some(Path::Direct { ahead: true }),
            Some(Path::Packed),
            Some(Path::Blocked { block_rows: 4096, tile_rows: 100_000 }),
        ] {
            let found = gathered(&gather, path, input.view(), &[0, 499_990, n], &out);
            assert!(bits(&found) == bits(&expected), "{path:?}, width {columns}");
        }
    }
}

#[test]
fn two_threads_write_their_own_rows_at_the_same_time() {
    let seed = 14;
    println!("seed {seed}");
    let random = &mut SplitMix64::new(seed);
    let edges: Vec<_> = (0..60_000).map(|_| (random.below(900) as u32, random.below(900) as u32)).collect();
    let (n, columns) = (900, 48);
    let both = Both::new(n, &edges);
    let (x, scale) = (values(random, n * columns), values(random, n));
    let factors = Factors { source: Some(&scale), target: Some(&scale), own: true, ..Factors::default() };
    let expected = naive(&both.incoming, factors, &x, columns);
    let input = Buffer::from_rows(n, columns, &x).unwrap();
    let (input, out) = (input.read(0..n).unwrap(), Buffer::zeroed(n, columns).unwrap());
    std::thread::scope(|scope| {
        for rows in [0..411, 411..n] {
            let mut lease = out.write(rows.clone()).unwrap();
            let (lists, scale, input) = (&both.incoming, &scale, &input);
            scope.spawn(move || gather_symmetric(lists, scale, input.view(), rows, &mut lease.view_mut()));
        }
    });
    assert_eq!(bits(&out.to_vec().unwrap()), bits(&expected));
}

/// bf16 rows, f32 sums: the error against f64 is what one rounding of each value (2^-8, of 8 bits) and of each
/// addition (2^-24) can make.
#[test]
fn bf16_stays_within_its_bound() {
    let seed = 15;
    println!("seed {seed}");
    let random = &mut SplitMix64::new(seed);
    for columns in [1, 7, 48] {
        let edges: Vec<_> =
            (0..40_000).map(|_| (random.below(500) as u32, random.below(40) as u32)).collect();
        let (n, both) = (500, Both::new(500, &edges));
        let (x, scale) = (values(random, n * columns), values(random, n));
        let half = HalfBuffer::from_rows(n, columns, &x).unwrap();
        let mut out = vec![0.0; n * columns];
        let gather =
            Gather::new(&both.incoming, Reduce::Sum).weighted(EdgeWeights::Symmetric(&scale)).with_self();
        gather.run(half.read(0..n).unwrap().view(), 0..n, &mut ViewMut::new(&mut out, n, columns));
        let mut rounded = false;
        for v in 0..n {
            let list = both.incoming.neighbours_of(v as u32);
            for c in 0..columns {
                let terms = list
                    .iter()
                    .map(|&u| u as usize)
                    .chain([v])
                    .map(|u| f64::from(scale[v]) * f64::from(scale[u]) * f64::from(x[u * columns + c]));
                let (exact, size): (f64, f64) = terms.fold((0.0, 0.0), |(s, a), t| (s + t, a + t.abs()));
                let bound = size * (2f64.powi(-8) + (list.len() + 3) as f64 * 2f64.powi(-24)) * 1.01;
                let error = (f64::from(out[v * columns + c]) - exact).abs();
                assert!(error <= bound, "seed {seed}: vertex {v}, column {c}: {error:e}, bound {bound:e}");
                rounded |= error > 0.0;
            }
        }
        assert!(rounded, "values of 20 bits cannot all be bf16");
    }
}

/// Where the other process writes.
const OUT: &str = "ECITON_TEST_GATHER_OUT";

/// Sums without edge values, which have the same bits on every level, for each path.
fn results() -> Vec<u32> {
    let random = &mut SplitMix64::new(16);
    let mut all = Vec::new();
    for columns in [1, 3, 8, 16, 41, 64, 100, 130] {
        let both = Both::random(random);
        let n = both.vertices();
        let (x, scale) = (values(random, n * columns), values(random, n));
        let input = Buffer::from_rows(n, columns, &x).unwrap();
        let half = HalfBuffer::from_rows(n, columns, &x).unwrap();
        let (input, half) = (input.read(0..n).unwrap(), half.read(0..n).unwrap());
        let out = Buffer::zeroed(n, columns).unwrap();
        let gather = Gather::new(&both.incoming, Reduce::Mean).weighted(EdgeWeights::Symmetric(&scale));
        for path in paths(random) {
            all.extend(bits(&gathered(&gather, path, input.view(), &[0, n], &out)));
            all.extend(bits(&gathered(&gather, path, half.view(), &[0, n], &out)));
        }
    }
    all
}

#[test]
fn child_writes_its_results() {
    // Does nothing unless the other test asked for it.
    let Ok(path) = std::env::var(OUT) else { return };
    let words = results().into_iter().flat_map(u32::to_le_bytes);
    std::fs::write(path, numeric_class().bytes().chain([b'\n']).chain(words).collect::<Vec<u8>>()).unwrap();
}

/// Runs this module again on a lower level: all tests but `skipped`, which are to pass, and the same bits.
fn gives_the_same_bits(level: &str, class: Option<&str>, skipped: &str) {
    if std::env::var("ECITON_SIMD").is_ok() {
        return;
    }
    let best = results();
    let path = std::env::temp_dir().join(format!("eciton-gather-{}-{level}", std::process::id()));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["gather::", "--skip", skipped]).env("ECITON_SIMD", level).env(OUT, &path);
    let output = child.output().unwrap();
    assert!(output.status.success(), "{level}:\n{}", String::from_utf8_lossy(&output.stdout));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let at = bytes.iter().position(|&b| b == b'\n').unwrap();
    let found = std::str::from_utf8(&bytes[..at]).unwrap();
    assert!(class.is_none_or(|c| c == found), "ECITON_SIMD={level} computed with {found}");
    let words: Vec<u32> =
        bytes[at + 1..].chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
    assert!(words == best, "{level} ({found}) differs from {}", numeric_class());
}

const IN_PIECES: &str = "gather::rows_in_pieces_give_the_bits_of_rows_in_one";

#[test]
fn portable_code_gives_the_same_bits() {
    gives_the_same_bits("portable", Some("portable-1"), IN_PIECES);
}

/// The slowest test of all on its own.
#[test]
fn portable_code_gives_the_same_bits_in_pieces() {
    if std::env::var("ECITON_SIMD").is_ok() {
        return;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", IN_PIECES]).env("ECITON_SIMD", "portable").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn avx2_gives_the_same_bits() {
    gives_the_same_bits("avx2", None, "none");
}

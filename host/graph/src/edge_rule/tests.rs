#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;

use eciton_input::notes;

use super::*;
use crate::random::SplitMix64;

const ALL: [Options; 4] = [
    Options { symmetric: true, keep_self_loops: false },
    Options { symmetric: true, keep_self_loops: true },
    Options { symmetric: false, keep_self_loops: false },
    Options { symmetric: false, keep_self_loops: true },
];

/// Applies the edge rule with maps. Returns rows by (target, source), and counts.
fn naive(
    edges: &[(u32, u32)],
    columns: usize,
    rows: &[f32],
    options: Options,
    zeros: Zeros,
) -> (BTreeMap<(u32, u32), Vec<f32>>, Findings) {
    let mut found = Findings { valued: true, ..Findings::default() };
    let mut sums: BTreeMap<(u32, u32), Vec<f64>> = BTreeMap::new();
    for (k, &(source, target)) in edges.iter().enumerate() {
        if source == target && !options.keep_self_loops {
            continue;
        }
        let row = &rows[k * columns..(k + 1) * columns];
        if let Some(sum) = sums.get_mut(&(source, target)) {
            found.repeats += 1;
            sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        } else {
            sums.insert((source, target), row.iter().map(|&value| f64::from(value)).collect());
        }
    }
    if zeros == Zeros::NoEdges {
        let before = sums.len();
        sums.retain(|_, sum| sum[0] as f32 != 0.0);
        found.zeros += (before - sums.len()) as u64;
    }
    let mut placed = BTreeMap::new();
    for (&(source, target), own) in &sums {
        let other = sums.get(&(target, source)).filter(|_| options.symmetric);
        let row: Vec<f32> = match other {
            None => own.iter().map(|&sum| sum as f32).collect(),
            Some(other) => own.iter().zip(other).map(|(a, b)| ((a + b) / 2.0) as f32).collect(),
        };
        found.unequal += u64::from(source < target && other.is_some_and(|other| other != own));
        if zeros == Zeros::NoEdges && row[0] == 0.0 {
            found.zeros += 1;
            continue;
        }
        placed.insert((target, source), row.clone());
        if options.symmetric {
            placed.insert((source, target), row);
        }
    }
    let zero = |row: &&Vec<f32>| match zeros {
        Zeros::NoEdges => false,
        Zeros::Kept => row.iter().all(|&value| value == 0.0),
        Zeros::KeptWeight(column) => row[column as usize] == 0.0,
    };
    found.kept_zeros = placed.values().filter(zero).count() as u64;
    (placed, found)
}

#[test]
fn the_rule_equals_maps() {
    let seed = 61;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for case in 0..200 {
        let vertices = 1 + random.below(if case % 2 == 0 { 8 } else { 200 });
        let mut edges: Vec<(u32, u32)> = (0..random.below(120))
            .map(|_| (random.below(vertices) as u32, random.below(vertices) as u32))
            .collect();
        if case % 3 == 0 {
            // Without repeats, in any order.
            edges.sort_unstable_by_key(|&(s, t)| (s.min(t), s.max(t)));
            edges.dedup_by_key(|&mut (s, t)| (s.min(t), s.max(t)));
            random.shuffle(&mut edges);
        }
        let columns = 1 + random.below(4) as u32;
        // Small whole numbers, so that sums and means are 0 at times.
        let rows: Vec<f32> = (0..edges.len() * columns as usize)
            .map(|_| match case % 4 {
                0 => random.below(5) as f32 - 2.0,
                _ => random.below(2001) as f32 * 0.01 - 10.0,
            })
            .collect();
        let zeros = match (columns, case % 5) {
            (1, 0..3) => Zeros::NoEdges,
            (_, 3) => Zeros::KeptWeight(columns - 1),
            _ => Zeros::Kept,
        };
        for options in ALL {
            let rule = EdgeRule::new("edges", options).with_zeros(zeros);
            let (graph, placed, found) = rule.valued(vertices, &edges, columns, &rows, 2).unwrap();
            let (expected, counts) = naive(&edges, columns as usize, &rows, options, zeros);
            let keys: Vec<_> = graph.edge_list().map(|(source, target)| (target, source)).collect();
            assert_eq!(keys, expected.keys().copied().collect::<Vec<_>>(), "case {case}, {options:?}");
            assert_eq!(placed.values(), expected.values().flatten().copied().collect::<Vec<_>>());
            assert_eq!(found, counts, "case {case}, {options:?}, {zeros:?}");
            let rebuilt = Graph::from_edges(
                vertices,
                expected.keys().map(|&(target, source)| (source, target)),
                Options { symmetric: false, keep_self_loops: true },
            );
            assert_eq!(graph, rebuilt.unwrap());
            // Values of 64 bits that f32 can hold give the same rows.
            let wide: Vec<f64> = rows.iter().map(|&value| f64::from(value)).collect();
            assert_eq!(rule.valued(vertices, &edges, columns, &wide, 1).unwrap().1, placed);
        }
    }
}

#[test]
fn repeats_are_added_up_and_directions_averaged() {
    let placed = |edges: &[(u32, u32)], rows: &[f32]| {
        let rule = EdgeRule::new("edges", Options::default()).with_zeros(Zeros::NoEdges);
        let (graph, placed, found) = rule.valued(3, edges, 1, rows, 1).unwrap();
        (graph.edges(), placed.values().to_vec(), found)
    };
    assert_eq!(placed(&[(0, 1), (0, 1)], &[1.0, 2.0]).1, [3.0, 3.0]);
    let (_, values, found) = placed(&[(0, 1), (1, 0)], &[1.0, 2.0]);
    assert_eq!((values, found.unequal, found.repeats), (vec![1.5, 1.5], 1, 0));
    // Listing both directions with one value changes nothing, at the end of f32's range too.
    let once = placed(&[(0, 1), (2, 1)], &[0.1, f32::MAX]);
    let both = placed(&[(1, 0), (0, 1), (1, 2), (2, 1)], &[0.1, 0.1, f32::MAX, f32::MAX]);
    assert_eq!(once, both);
    // A sum of 0 is no edge in its direction; the other direction stays.
    assert_eq!(placed(&[(0, 1), (0, 1), (1, 0)], &[1.0, -1.0, 4.0]).1, [4.0, 4.0]);
    assert_eq!(placed(&[(0, 1), (1, 2)], &[0.0, 4.0]).0, 2);
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let graph = Graph::from_edges(4, [(0, 1), (2, 1)].into_iter(), Options::default()).unwrap();
    let text = |edges: &[(u32, u32)], columns: u32, rows: &[f32]| {
        let placed =
            EdgeRule::new("roads.csv", Options::default()).placed(graph.clone(), edges, columns, rows);
        placed.unwrap_err().to_string()
    };
    let beyond = text(&[(0, 1), (0, 1), (2, 1)], 1, &[f32::MAX, f32::MAX, 1.0]);
    assert!(beyond.contains("roads.csv") && beyond.contains("range of f32"), "{beyond}");
    let nan = text(&[(0, 1), (2, 1)], 2, &[0.0, 0.0, 0.0, f32::NAN]);
    assert!(nan.contains("roads.csv, row 1: feature column 1 is NaN"), "{nan}");
}

#[test]
fn names_decide_which_column_is_the_weight() {
    let of = |names: &[&str]| Zeros::by_names(&names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    assert_eq!(of(&["weight"]), Zeros::NoEdges);
    assert_eq!(of(&[" Data "]), Zeros::NoEdges);
    assert_eq!(of(&["km"]), Zeros::Kept);
    assert_eq!(of(&["km", "W"]), Zeros::KeptWeight(1));
    assert_eq!(of(&["km", "lanes"]), Zeros::Kept);
}

#[test]
fn the_report_counts_and_settles_loops() {
    drop(notes::take());
    let options = Options { symmetric: true, keep_self_loops: true };
    let edges = [(0, 1), (0, 1), (1, 0), (1, 1), (2, 1)];
    let (graph, found) = EdgeRule::new("a.txt", options).merged(&(3, &edges[..]), 1).unwrap();
    assert_eq!(found.repeats, 2);
    found.report("a.txt", false);
    let rows = EdgeFeatures::new(1, vec![1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let data = Dataset {
        edge_features: Some(rows),
        ..Dataset::new(
            "a".to_owned(),
            graph,
            crate::features::Features::identity(3),
            crate::labels::Labels::none(3),
            crate::split::Split::default(),
        )
    };
    let kept = settle(data.clone(), SelfLoops::Keep, true).unwrap();
    assert_eq!(kept, data);
    // Into 0 from 1; into 1 from 0, 1 (the loop) and 2; into 2 from 1.
    let dropped = settle(data, SelfLoops::Drop, true).unwrap();
    assert_eq!(dropped.edge_features.unwrap().values(), [1.0, 2.0, 4.0, 5.0]);
    assert_eq!((dropped.graph.edges(), dropped.graph.symmetric()), (4, true));
    let notes: Vec<String> = notes::take().iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "a.txt: 2 entries repeat an edge or list its other direction; they were merged",
            "a: 1 self-loop kept; data.self_loops = \"drop\" drops them",
            "note: a: 1 self-loop dropped; data.self_loops = \"keep\" keeps them",
        ]
    );
}

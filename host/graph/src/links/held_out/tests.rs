#![allow(clippy::unwrap_used)]
use std::collections::BTreeSet;

use super::super::tests::{all_links, complete, random_graph};
use super::*;
use crate::adjacency::Options;
use crate::dataset::{Features, Labels, NO_LABEL, Split};

/// Creates the data set of a graph. `feature` returns the features of an edge.
fn dataset(graph: Graph, with_features: bool) -> Dataset {
    let vertices = graph.vertices();
    let rows: Vec<f32> = graph.edge_list().flat_map(feature).collect();
    Dataset {
        edge_features: with_features.then(|| EdgeFeatures::new(2, rows).unwrap()),
        ..Dataset::new(
            "tiny".to_owned(),
            graph,
            Features::identity(vertices),
            Labels::classes(vec![NO_LABEL; vertices as usize], 2),
            Split::default(),
        )
    }
}

fn feature((source, target): Pair) -> [f32; 2] {
    [source as f32, target as f32]
}

fn shares(validation: f64, test: f64) -> Shares {
    Shares { validation, test, seed: 7, each: 2, draw: Draw::Pairs }
}

/// Chooses the held-out links by definition, from a list of all links.
fn chosen_from(all: &BTreeSet<Pair>, shares: &Shares) -> [Vec<Pair>; 2] {
    let mut needed = [shares.validation, shares.test].map(|share| (share * all.len() as f64).floor() as u64);
    let mut chosen = [vec![], vec![]];
    let mut random = SplitMix64::new(shares.seed);
    for (at, &link) in all.iter().enumerate() {
        let drawn = random.below((all.len() - at) as u64);
        let part = [drawn < needed[0], drawn < needed[0] + needed[1]].into_iter().position(|hit| hit);
        if let Some(part) = part {
            needed[part] -= 1;
            chosen[part].push(link);
        }
    }
    assert_eq!(needed, [0, 0]);
    chosen
}

/// Draws pairs without a link by definition. Returns `None` if no pair was found.
fn others_of(graph: &Graph, links: &[Pair], shares: &Shares, stream: u32) -> Option<Vec<Pair>> {
    let key = Key::new(shares.seed, Purpose::Negatives, u32::MAX, 0, stream);
    let (all, vertices) = (all_links(graph), u64::from(graph.vertices()));
    let free = |&(a, b): &Pair| a != b && !all.contains(&(a.min(b), a.max(b)));
    let mut others = Vec::new();
    for (i, link) in links.iter().enumerate() {
        let first = i as u64 * u64::from(shares.each);
        for n in first..first + u64::from(shares.each) {
            let drawn = |column| ((u64::from(bits32(key.row(n), column)) * vertices) >> 32) as u32;
            let kept = [link.0, link.1][(bits32(key.row(first), 0) & 1) as usize];
            let pair = (0..64).map(|t| match shares.draw {
                Draw::Pairs => (drawn(2 * t), drawn(2 * t + 1)),
                Draw::Ends => (kept, drawn(1 + t)),
            });
            others.push(pair.into_iter().find(free)?);
        }
    }
    Some(others)
}

#[test]
fn what_is_held_out_and_what_is_left_are_the_links() {
    let seed = 31;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let mut done = 0;
    for case in 0..200u32 {
        let (vertices, edges) = (5 + random.below(40), 1 + random.below(150));
        let graph = random_graph(&mut random, vertices, edges, case & 1 == 0, case & 2 == 0);
        let shares = Shares {
            validation: random.below(500) as f64 / 1000.0,
            test: random.below(500) as f64 / 1000.0,
            seed: random.next_u64(),
            each: random.below(4) as u32,
            draw: if case & 4 == 0 { Draw::Pairs } else { Draw::Ends },
        };
        let before = dataset(graph, case & 8 == 0);
        let all = all_links(&before.graph);
        let mut after = before.clone();
        let held = hold_out(&mut after, &shares);
        if all.is_empty() {
            assert!(matches!(held, Err(Error::NoLinks { .. })));
            continue;
        }
        let expected = chosen_from(&all, &shares);
        let others = [0, 1].map(|at| others_of(&before.graph, &expected[at], &shares, at as u32));
        let [Some(first), Some(second)] = others else {
            assert!(matches!(held, Err(Error::NoPair { .. })), "case {case}: {held:?}");
            assert!(after == before);
            continue;
        };
        done += 1;
        let (held, each) = (held.unwrap(), shares.each as usize);
        let [validation, test] = expected;
        let wanted = HeldOut {
            validation: Candidates { links: validation, others: first, each },
            test: Candidates { links: test, others: second, each },
        };
        assert_eq!(held, wanted, "case {case}: {shares:?}");
        after.validate().unwrap();
        let gone: BTreeSet<Pair> = held.validation.links.iter().chain(&held.test.links).copied().collect();
        assert_eq!(gone.len(), held.validation.links.len() + held.test.links.len());
        let stays = |&(s, t): &Pair| !gone.contains(&(s.min(t), s.max(t)));
        let left: Vec<Pair> = before.graph.edge_list().filter(stays).collect();
        assert!(!left.iter().all(|(s, t)| s == t), "no link is left");
        assert!(after.graph.edge_list().eq(left.iter().copied()), "case {case}");
        assert_eq!(after.graph.symmetric(), before.graph.symmetric());
        let mut out: Vec<Pair> = (0..after.graph.vertices())
            .flat_map(|s| after.graph.out_neighbours(s).iter().map(move |&t| (s, t)))
            .map(|(s, t)| (t, s))
            .collect();
        out.sort_unstable();
        let mut edges: Vec<Pair> = left.iter().map(|&(s, t)| (t, s)).collect();
        edges.sort_unstable();
        assert_eq!(out, edges);
        if let Some(rows) = &after.edge_features {
            assert_eq!(rows.values(), left.iter().copied().flat_map(feature).collect::<Vec<_>>());
        }
        // Nothing else has changed.
        let (graph, edge_features) = (before.graph.clone(), before.edge_features.clone());
        assert!(Dataset { graph, edge_features, ..after } == before);
        let mut again = before.clone();
        assert_eq!(hold_out(&mut again, &shares).unwrap(), held);
    }
    assert!(done > 100, "{done} cases held links out");
}

#[test]
fn pairs_do_not_depend_on_the_number_of_threads() {
    let seed = 37;
    println!("seed {seed}");
    let graph = random_graph(&mut SplitMix64::new(seed), 60, 200, false, false);
    let all: Vec<Pair> = all_links(&graph).into_iter().collect();
    for draw in [Draw::Pairs, Draw::Ends] {
        let shares = Shares { each: 3, draw, ..shares(0.5, 0.0) };
        let of = Others { graph: &graph, links: all.len() as u64, shares: &shares, place: "x".to_owned() };
        let one = of.candidates(all.clone(), 0, 1).unwrap();
        for threads in [2, 5, 1000] {
            assert_eq!(of.candidates(all.clone(), 0, threads).unwrap(), one, "{threads} threads");
        }
    }
}

#[test]
fn every_link_is_as_likely_to_be_held_out() {
    let graph = random_graph(&mut SplitMix64::new(41), 12, 40, true, false);
    let all: Vec<Pair> = all_links(&graph).into_iter().collect();
    let mut times = vec![[0u32; 2]; all.len()];
    let seeds = 4000;
    for seed in 0..seeds {
        let links = all.len() as u64;
        for (part, chosen) in choose(&graph, links, [links / 4, links / 2], seed).iter().enumerate() {
            for link in chosen {
                times[all.binary_search(link).unwrap()][part] += 1;
            }
        }
    }
    for part in [0, 1] {
        let share = (all.len() / [4, 2][part]) as f64 / all.len() as f64;
        let (mean, spread) = (share * seeds as f64, (share * (1.0 - share) * seeds as f64).sqrt());
        assert!(times.iter().all(|times| (f64::from(times[part]) - mean).abs() < 5.0 * spread), "{times:?}");
    }
}

#[test]
fn shares_of_nothing_change_nothing() {
    let before = dataset(complete(3), true);
    let mut after = before.clone();
    let held = hold_out(&mut after, &shares(0.0, 0.0)).unwrap();
    let none = Candidates { each: 2, ..Candidates::default() };
    assert_eq!(held, HeldOut { validation: none.clone(), test: none });
    // A third of three links is one, whatever the share's last bits say.
    assert_eq!(
        hold_out(&mut after, &Shares { each: 0, ..shares(0.34, 0.3) }).unwrap().validation.links.len(),
        1
    );
    assert!(after != before);
    // Two vertices and one link: none can be held out.
    let mut two = dataset(complete(2), false);
    assert!(hold_out(&mut two, &shares(0.9, 0.0)).unwrap().validation.links.is_empty());
}

#[test]
fn what_cannot_be_held_out_is_refused() {
    let text = |graph: Graph, shares: Shares| {
        let before = dataset(graph, true);
        let mut after = before.clone();
        let text = hold_out(&mut after, &shares).unwrap_err().to_string();
        assert!(after == before, "{text}");
        text
    };
    let five = || complete(5);
    assert_eq!(
        text(five(), shares(0.2, 0.0)),
        "tiny links, pairs without a link, row 0: 64 draws found no pair of vertices without a link in the \
         graph, which has 10 of 10 possible links; use a graph with fewer links"
    );
    let ends = text(five(), Shares { draw: Draw::Ends, ..shares(0.2, 0.0) });
    assert!(ends.contains("without a link to vertex ") && ends.contains("4 of 4 possible"), "{ends}");
    for wrong in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        let first = text(five(), shares(wrong, 0.0));
        assert!(first.contains(&format!("the validation share is {wrong}")), "{first}");
        assert!(text(five(), shares(0.0, wrong)).contains("the test share is"));
    }
    assert!(text(five(), shares(0.5, 0.5)).contains("share is 1, but must be below 1"));
    let loops = Options { keep_self_loops: true, ..Options::default() };
    let lone = Graph::from_edges(3, [(1, 1)].into_iter(), loops).unwrap();
    assert!(text(lone, shares(0.1, 0.1)).contains("tiny links: no edge joins two different vertices"));
    let many = Shares { each: u32::MAX, ..shares(0.3, 0.0) };
    assert!(text(five(), many).contains("above the limit MAX_OTHERS of 4294967296"));
    let mut other = dataset(five(), false);
    other.edge_features = Some(EdgeFeatures::new(1, vec![0.0; 3]).unwrap());
    assert!(matches!(hold_out(&mut other, &shares(0.1, 0.1)), Err(Error::Mismatch { .. })));
}

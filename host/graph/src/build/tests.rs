#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::collections::BTreeSet;

use super::*;
use crate::edge_rule::{EdgeRule, Findings, Zeros};
use crate::edges::MAX_CHUNK_EDGES;
use crate::error::Error;
use crate::random::SplitMix64;

/// Edge source with a given number of edges per chunk.
pub(crate) struct Cut<'a> {
    pub(crate) vertices: u64,
    pub(crate) edges: &'a [(u32, u32)],
    pub(crate) chunk: usize,
}

impl EdgeSource for Cut<'_> {
    fn vertices(&self) -> u64 {
        self.vertices
    }

    fn chunks(&self) -> u64 {
        self.edges.len().div_ceil(self.chunk) as u64
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()> {
        edges.extend(self.edges.chunks(self.chunk).nth(chunk as usize).unwrap_or(&[]));
        Ok(())
    }
}

/// Returns random edges, among them repeats, self-loops and reverses. Vertices are squared random
/// numbers, so that some are hubs.
pub(crate) fn random_edges(random: &mut SplitMix64, vertices: u64, count: u64) -> Vec<(u32, u32)> {
    let mut edges: Vec<(u32, u32)> = Vec::new();
    for _ in 0..count {
        let v = random.below(vertices);
        let hub = random.below(v + 1) as u32;
        edges.push(match (random.below(8), edges.last()) {
            (0, Some(&last)) => last,
            (1, Some(&(s, t))) => (t, s),
            (2, _) => (hub, hub),
            _ => (hub, random.below(vertices) as u32),
        });
    }
    edges
}

pub(crate) const ALL_OPTIONS: [Options; 4] = [
    Options { symmetric: true, keep_self_loops: false },
    Options { symmetric: true, keep_self_loops: true },
    Options { symmetric: false, keep_self_loops: false },
    Options { symmetric: false, keep_self_loops: true },
];

#[test]
fn equals_a_set_of_pairs_however_it_is_cut() {
    let seed = 21;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for case in 0..60u64 {
        // Up to many times as many vertices as buckets.
        let vertices = 1 + random.below([1, 5, 40, 600, 5000][case as usize % 5]);
        let count = random.below(3000);
        let edges = random_edges(&mut random, vertices, count);
        for options in ALL_OPTIONS {
            let mut expected = BTreeSet::new();
            for &(s, t) in edges.iter().filter(|(s, t)| s != t || options.keep_self_loops) {
                expected.insert((t, s));
                if options.symmetric {
                    expected.insert((s, t));
                }
            }
            let reverse: BTreeSet<_> = expected.iter().map(|&(t, s)| (s, t)).collect();
            let mut first: Option<Graph> = None;
            for (chunk, threads) in [(MAX_CHUNK_EDGES, 1), (7, 3), (100, 2), (1, 8)] {
                let cut = Cut { vertices, edges: &edges, chunk };
                let graph = in_memory(&cut, options, threads).unwrap();
                if let Some(first) = &first {
                    assert_eq!(graph, *first);
                    continue;
                }
                let of = |lists: &crate::adjacency::Adjacency| -> BTreeSet<(u32, u32)> {
                    (0..vertices as u32)
                        .flat_map(|v| lists.neighbours_of(v).iter().map(move |&n| (v, n)))
                        .collect()
                };
                assert_eq!(graph.edges(), expected.len() as u64);
                assert_eq!(of(graph.incoming()), expected, "case {case}");
                assert_eq!(of(graph.outgoing()), reverse, "case {case}");
                assert_eq!(graph.symmetric(), expected == reverse);
                first = Some(graph);
            }
        }
    }
}

#[test]
fn the_first_fault_is_told() {
    let edges = [(0, 1), (1, 2), (2, 9), (0, 1), (8, 0)];
    for threads in [1, 4] {
        let cut = Cut { vertices: 3, edges: &edges, chunk: 2 };
        let text = in_memory(&cut, Options::default(), threads).unwrap_err().to_string();
        assert!(text.contains("edges, chunk 1, row 0: an edge names vertex 9"), "{text}");
    }
    let none = Cut { vertices: 0, edges: &[], chunk: 1 };
    assert!(matches!(in_memory(&none, Options::default(), 1), Err(Error::EmptyGraph { .. })));
    let many = Cut { vertices: u64::from(u32::MAX), edges: &[], chunk: 1 };
    assert!(matches!(in_memory(&many, Options::default(), 1), Err(Error::Limit { .. })));
}

#[test]
fn a_chunk_has_a_limit() {
    let edges = vec![(0, 0); MAX_CHUNK_EDGES + 1];
    let at = Cut { vertices: 1, edges: &edges[1..], chunk: MAX_CHUNK_EDGES };
    assert_eq!(in_memory(&at, Options::default(), 1).unwrap().edges(), 0);
    let over = Cut { vertices: 1, edges: &edges, chunk: MAX_CHUNK_EDGES + 1 };
    assert!(matches!(in_memory(&over, Options::default(), 1), Err(Error::Limit { limit: "chunk", .. })));
}

/// Edge source like [`Cut`], with edge values.
struct Valued<'a> {
    cut: Cut<'a>,
    columns: u32,
    values: &'a [f32],
    weight: bool,
}

impl EdgeSource for Valued<'_> {
    fn vertices(&self) -> u64 {
        self.cut.vertices
    }

    fn chunks(&self) -> u64 {
        self.cut.chunks()
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()> {
        self.cut.read(chunk, edges)
    }

    fn columns(&self) -> u32 {
        self.columns
    }

    fn is_weight(&self) -> bool {
        self.weight
    }

    fn read_with_values(&self, chunk: u64, edges: &mut Vec<(u32, u32)>, values: &mut Vec<f32>) -> Result<()> {
        let own = self.values.chunks(self.cut.chunk * self.columns as usize);
        values.extend(own.skip(chunk as usize).take(1).flatten());
        self.read(chunk, edges)
    }
}

/// Writes the store of an external build in `room` and returns its findings.
fn external_store(
    cut: &dyn EdgeSource,
    options: Options,
    room: &Room,
    path: &std::path::Path,
) -> Result<Findings> {
    let mut writer = Writer::create(path)?;
    let found = external_in(cut, options, room, &mut writer)?;
    finish(writer, cut.vertices())?;
    Ok(found)
}

/// Asserts that two stores have the same files.
fn same_files(a: &std::path::Path, b: &std::path::Path, what: &str) {
    let names = |path: &std::path::Path| {
        let mut names: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(a), names(b), "{what}");
    for name in names(a) {
        let bytes = |path: &std::path::Path| std::fs::read(path.join(&name)).unwrap();
        assert_eq!(bytes(a), bytes(b), "{what}, {name:?}");
    }
}

fn finish(mut writer: Writer, vertices: u64) -> Result<()> {
    writer.features(&crate::features::Features::identity(vertices as u32))?;
    writer.labels(&crate::labels::Labels::none(vertices as u32))?;
    writer.split(&crate::split::Split::default())?;
    writer.finish("edges")
}

/// Returns memory limits so small that buckets are divided again, down to single keys.
fn rooms() -> Vec<Room> {
    let room = |readers, sorters, bucket_words, block_words, buckets_log2| Room {
        readers,
        chunk_edges: 0,
        sorters,
        bucket_words,
        block_words,
        buckets_log2,
    };
    vec![
        Room::new(MIN_MEMORY_BYTES, 2, 0).unwrap(),
        room(1, 1, 1, 1, 1),
        room(3, 2, 5, 3, 2),
        room(2, 4, 40, 7, 3),
        room(1, 3, 300, 1000, 8),
    ]
}

#[test]
fn external_gives_the_same_bytes_in_any_room() {
    let seed = 22;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    for case in 0..15u64 {
        let vertices = 1 + random.below([1, 5, 40, 600, 5000][case as usize % 5]);
        let count = random.below(1500);
        let edges = random_edges(&mut random, vertices, count);
        for options in ALL_OPTIONS {
            let cut = Cut { vertices, edges: &edges, chunk: 1 + random.below(200) as usize };
            let graph = in_memory(&cut, options, 2).unwrap();
            let mut writer = Writer::create(&whole).unwrap();
            writer.graph(&graph).unwrap();
            finish(writer, vertices).unwrap();
            let room = rooms()[random.below(5) as usize];
            let found = external_store(&cut, options, &room, &parts).unwrap();
            assert_eq!(found, EdgeRule::new("edges", options).merged(&cut, 1).unwrap().1);
            same_files(&whole, &parts, &format!("case {case}, {options:?}, {room:?}"));
            assert_eq!(crate::store::open(&parts).unwrap().graph, graph);
            std::fs::remove_dir_all(&whole).unwrap();
            std::fs::remove_dir_all(&parts).unwrap();
        }
    }
}

#[test]
fn external_places_values_as_memory_does_in_any_room() {
    let seed = 23;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    for case in 0..20u64 {
        // One edge alone, again and again, up to many edges seldom twice.
        let vertices = 1 + random.below([1, 2, 40, 600, 5000][case as usize % 5]);
        let count = random.below(900);
        let edges = random_edges(&mut random, vertices, count);
        let columns = 1 + random.below(4) as u32;
        let values: Vec<f32> = (0..edges.len() * columns as usize)
            .map(|_| match random.below(9) {
                0 => -0.0,
                // Sums of these are 0 at times.
                1..4 => random.below(3) as f32 - 1.0,
                _ => random.below(2001) as f32 * 0.01 - 10.0,
            })
            .collect();
        let weight = columns == 1 && case % 2 == 0;
        let zeros = if weight { Zeros::NoEdges } else { Zeros::Kept };
        for options in ALL_OPTIONS {
            let rule = EdgeRule::new("edges", options).with_zeros(zeros);
            let (graph, placed, expected) = rule.valued(vertices, &edges, columns, &values, 2).unwrap();
            let mut writer = Writer::create(&whole).unwrap();
            writer.graph(&graph).unwrap();
            writer.edge_features(&placed).unwrap();
            finish(writer, vertices).unwrap();
            let cut = Cut { vertices, edges: &edges, chunk: 1 + random.below(200) as usize };
            let valued = Valued { cut, columns, values: &values, weight };
            let room = rooms()[random.below(5) as usize];
            let found = external_store(&valued, options, &room, &parts).unwrap();
            let loops = edges.iter().filter(|(s, t)| s == t && !options.keep_self_loops).count() as u64;
            assert_eq!(found, Findings { loops, ..expected }, "case {case}, {options:?}");
            same_files(&whole, &parts, &format!("case {case}, {options:?}, {columns} columns, {room:?}"));
            std::fs::remove_dir_all(&whole).unwrap();
            std::fs::remove_dir_all(&parts).unwrap();
        }
    }
}

#[test]
fn values_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let edges = [(0, 1), (1, 2), (2, 0)];
    for (columns, values, said) in [
        (1, &[1.0, 2.0, f32::NAN][..], "edges, chunk 1, row 0: feature column 0 is NaN"),
        (2, &[1.0, 2.0, 3.0, f32::INFINITY, 5.0, 6.0], "edges, chunk 0, row 1: feature column 1 is inf"),
        (1, &[1.0, 2.0], "edges, chunk 1: 0 values, but 1 edges of 1 columns has 1"),
        (1025, &[], "1025 columns"),
    ] {
        let valued =
            Valued { cut: Cut { vertices: 3, edges: &edges, chunk: 2 }, columns, values, weight: false };
        let mut writer = Writer::create(&folder.path().join("store")).unwrap();
        let found = external(&valued, Options::default(), MIN_MEMORY_BYTES, 2, &mut writer);
        let text = found.unwrap_err().to_string();
        assert!(text.contains(said), "{text}");
    }
}

#[test]
fn external_leaves_nothing_after_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let edges = [(0, 1), (1, 2), (2, 9), (0, 1), (8, 0)];
    let cut = Cut { vertices: 3, edges: &edges, chunk: 2 };
    for room in rooms() {
        let text = external_store(&cut, Options::default(), &room, &path).unwrap_err().to_string();
        assert!(text.contains("edges, chunk 1, row 0: an edge names vertex 9"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
    let mut writer = Writer::create(&path).unwrap();
    let text =
        external(&cut, Options::default(), MIN_MEMORY_BYTES - 1, 1, &mut writer).unwrap_err().to_string();
    assert!(text.contains("at least 64 MiB"), "{text}");
    let none = Cut { vertices: 0, edges: &[], chunk: 1 };
    assert!(external(&none, Options::default(), MIN_MEMORY_BYTES, 1, &mut writer).is_err());
}

#[test]
fn lists_of_somebody_are_taken_as_they_are_where_nothing_changes() {
    let options = |symmetric, keep_self_loops| Options { symmetric, keep_self_loops };
    let cases: [(&[u64], &[u32]); 5] = [
        (&[0, 1, 3, 4], &[1, 0, 2, 1]), // both ways
        (&[0, 1, 2, 2], &[1, 2]),       // one way
        (&[0, 2, 3, 4], &[0, 1, 0, 2]), // self loops
        (&[0, 2, 3, 3], &[2, 1, 1]),    // not ascending
        (&[0, 2, 2, 4], &[1, 1, 0, 1]), // repeats
    ];
    for (offsets, neighbours) in cases {
        for (symmetric, keep) in [(true, false), (true, true), (false, false), (false, true)] {
            for outgoing in [false, true] {
                let options = options(symmetric, keep);
                let lists = || (offsets.to_vec(), neighbours.to_vec());
                let made = of_lists(lists(), outgoing, options, 2).unwrap();
                let edges = (0..3).flat_map(|v| {
                    let list = &neighbours[offsets[v] as usize..offsets[v + 1] as usize];
                    list.iter().map(move |&u| if outgoing { (v as u32, u) } else { (u, v as u32) })
                });
                let mut wanted = Graph::from_edges(3, edges, options).unwrap();
                if wanted.transpose().is_some_and(|out| out == wanted.incoming()) {
                    wanted = Graph::from_parts(wanted.incoming().clone(), None).unwrap();
                }
                assert_eq!(made, wanted, "{neighbours:?} {options:?} outgoing {outgoing}");
            }
        }
    }
    let slab = eciton_tensor::Slab::from(vec![1u32, 0, 2, 1]);
    let place = slab.as_ptr();
    let made = of_lists((vec![0u64, 1, 3, 4], slab), false, Options::default(), 1).unwrap();
    assert_eq!(made.neighbours().as_ptr(), place, "no copy");
    for (offsets, neighbours) in [(vec![0, 2], vec![0]), (vec![1, 1], vec![0]), (vec![0, 2, 1, 1], vec![0])] {
        let refused = of_lists((offsets, neighbours), false, Options::default(), 1).unwrap_err();
        assert!(refused.to_string().contains("offsets that ascend from 0 to 1"), "{refused}");
    }
    let beyond = of_lists((vec![0, 1], vec![7]), false, Options::default(), 1).unwrap_err();
    assert!(beyond.to_string().contains("vertex 7"), "{beyond}");
}

#[test]
fn wrong_offsets_are_named() {
    let fault = |offsets: &[u64]| offsets_fault(offsets, 4);
    assert_eq!(fault(&[0, 2, 2, 4]), None);
    assert_eq!(fault(&[0, 2]).unwrap(), "offsets from 0 to 2");
    assert_eq!(fault(&[0, 3, 2, 4]).unwrap(), "2 after 3 (offset 2 of 4)");
    assert_eq!(fault(&[]).unwrap(), "no offsets");
    assert_eq!(fault(&[0]).unwrap(), "the single offset 0");
    assert_eq!(offsets_fault(&[0], 0), None);
}

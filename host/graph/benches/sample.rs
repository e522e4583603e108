//! What samplers give: subgraphs, vertices and edges a second of each method, on one thread and on
//! two.
//!
//! `cargo bench -p eciton-graph --profile release --bench sample -- [--vertices V] [--edges E] [--rows N]
//! [--threads T] [--runs R] [--samples S]`; without them the shape of Reddit's tenth and of Reddit,
//! budgets of 8,000 rows, 1,024 targets and two threads. The graph is a block model with skewed
//! degrees, seed 1. In tests it runs on a tiny graph.
//!
//! Runs by one thread and by several take turns, and draw the same subgraphs. `cpu ms` is a
//! subgraph's time on a processor with one thread, and the column `cpu` the ratio by the busiest
//! thread's, where the system tells it (Linux): on a machine that others use as well, both say more
//! than the clock does.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::edges::EdgeSource as _;
use eciton_graph::generate::{BlockModel, Shape};
use eciton_graph::sample::{Method, Room, SampleKey, Sampler, Subgraph, VertexWeight};

const SEED: u64 = 1;
/// Targets of a sample, where the method has any.
const TARGETS: u32 = 1_024;

/// Nanoseconds that this thread ran, as Linux counts them.
fn on_processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

fn graph(vertices: u64, edges: u64) -> Graph {
    let shape = Shape { vertices, classes: 4, seed: SEED, ..Shape::default() };
    let made = BlockModel { shape, ..BlockModel::default() }.generate().unwrap().aim(edges).unwrap();
    let (mut all, mut pairs) = (Vec::new(), Vec::new());
    for chunk in 0..made.chunks() {
        made.read(chunk, &mut pairs).unwrap();
        all.append(&mut pairs);
    }
    Graph::from_edges(vertices, all.into_iter(), Options::default()).unwrap()
}

/// What all samples of a run have, and its seconds by the clock and on a processor.
#[derive(Clone, Copy)]
struct Took {
    rows: usize,
    edges: usize,
    wall: f64,
    cpu: f64,
}

/// Draws samples 0 to `samples`, each thread those of its own remainder, with rooms that were used
/// before.
fn run(rooms: &mut [Room], samples: u32, draw: &(dyn Fn(u32, &mut Room) -> Subgraph + Sync)) -> Took {
    let threads = rooms.len();
    let begun = Instant::now();
    let own = |first: u32, room: &mut Room| {
        let before = on_processor();
        let (mut rows, mut edges) = (0, 0);
        for number in (first..samples).step_by(threads) {
            let drawn = black_box(draw(number, room));
            rows += drawn.ids.len();
            edges += drawn.edges.len();
        }
        let cpu = on_processor().zip(before).map_or(f64::NAN, |(after, before)| (after - before) / 1e9);
        (rows, edges, cpu)
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> =
            rooms.iter_mut().zip(0..).map(|(room, n)| scope.spawn(move || own(n, room))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    Took {
        rows: parts.iter().map(|part| part.0).sum(),
        edges: parts.iter().map(|part| part.1).sum(),
        wall: begun.elapsed().as_secs_f64(),
        cpu: parts.iter().map(|part| part.2).fold(0.0, f64::max),
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let has = |flag: &str| args.iter().any(|a| a == flag);
    // A test runner that asks for the list of tests, as cargo-nextest does.
    if has("--list") || has("--ignored") {
        if !has("--ignored") {
            println!("sample: test");
        }
        return;
    }
    let number = |flag: &str| {
        let at = args.iter().position(|a| a == flag)?;
        Some(args.get(at + 1).and_then(|n| n.parse::<u32>().ok()).unwrap_or_else(|| panic!("{flag} N")))
    };
    // `cargo test` runs benches with --test, `cargo bench` with --bench.
    let real = has("--bench");
    let sizes = match number("--vertices").zip(number("--edges")) {
        Some((vertices, edges)) => vec![(vertices, edges)],
        None if real => vec![(23_300, 1_150_000), (233_000, 11_500_000)],
        None => vec![(300, 3_000)],
    };
    let threads = number("--threads").unwrap_or(2).max(1) as usize;
    let runs = number("--runs").unwrap_or(if real { 5 } else { 1 }).max(1);
    let samples = number("--samples").unwrap_or(if real { 60 } else { 2 }).max(1);
    let rows = number("--rows").unwrap_or(if real { 8_000 } else { 80 });
    println!("sample, seed {SEED}, {samples} samples a run, medians of {runs} runs");
    for (vertices, edges) in sizes {
        let graph = graph(vertices.into(), edges.into());
        println!("\n{} vertices, {} edges; budget of {rows} rows", graph.vertices(), graph.edges());
        measure(&graph, (rows, samples, runs), threads);
    }
}

fn measure(graph: &Graph, (rows, samples, runs): (u32, u32, u32), threads: usize) {
    println!(
        "{:<20}{:>8}{:>9}{:>9}{:>12}{:>12}{:>10}{:>12}{:>7}{:>7}",
        "method",
        "rows",
        "edges",
        "cpu ms",
        "subgraphs/s",
        "vertices/s",
        "edges/s",
        "on threads",
        "ratio",
        "cpu"
    );
    let vertices = graph.vertices();
    let roots: Arc<[u32]> = (0..vertices).collect();
    for (name, method) in [
        ("vertex", Method::Vertex(VertexWeight::ColumnNorm)),
        ("edge", Method::Edge),
        ("walk 3", Method::Walk { length: 3 }),
        ("frontier, a third", Method::Frontier { frontier: rows / 3 }),
        ("neighbours 25, 10", Method::Neighbours { fan_out: vec![25, 10], replace: false }),
        ("shadow 10, 5", Method::ShadowKhop { fan_out: vec![10, 5] }),
    ] {
        let sampler = Sampler::new(graph, method, roots.clone(), rows).unwrap();
        let draw = |interval: u32, room: &mut Room| {
            let targets: Vec<u32> = (0..TARGETS.min(vertices))
                .map(|t| {
                    ((u64::from(interval) * 7_919 + u64::from(t) * 104_729) % u64::from(vertices)) as u32
                })
                .collect();
            sampler.sample(graph, SampleKey { seed: SEED, round: 0, interval }, &targets, room)
        };
        let rooms = |count: usize| (0..count).map(|_| Room::default()).collect::<Vec<_>>();
        let (mut one, mut several) = (rooms(1), rooms(threads));
        // Each room's first sample makes it as large as it has to be.
        run(&mut one, 1, &draw);
        run(&mut several, threads as u32, &draw);
        let pairs: Vec<_> =
            (0..runs).map(|_| (run(&mut one, samples, &draw), run(&mut several, samples, &draw))).collect();
        let single = median(pairs.iter().map(|(one, _)| one.wall).collect());
        let busy = median(pairs.iter().map(|(one, _)| one.cpu).collect());
        let wall = median(pairs.iter().map(|(one, all)| one.wall / all.wall).collect());
        let cpu = median(pairs.iter().map(|(one, all)| one.cpu / all.cpu).collect());
        let together = median(pairs.iter().map(|(_, all)| all.wall).collect());
        let Some((drawn, _)) = pairs.first() else { return };
        let a_second = |count: usize, seconds: f64| count as f64 / seconds;
        println!(
            "{name:<20}{:>8}{:>9}{:>9.2}{:>12.1}{:>12.0}{:>10.2e}{:>12.1}{wall:>6.2}x{cpu:>6.2}x",
            drawn.rows / samples as usize,
            drawn.edges / samples as usize,
            busy * 1e3 / f64::from(samples),
            a_second(samples as usize, single),
            a_second(drawn.rows, single),
            a_second(drawn.edges, single),
            a_second(samples as usize, together),
        );
    }
}

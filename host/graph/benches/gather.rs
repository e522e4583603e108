//! What a gather costs: nanoseconds an edge, bytes of rows touched a second, beside the machine's
//! streaming bandwidth and beside the plain loop over rows.
//!
//! `cargo bench -p eciton-graph --profile release --bench gather -- [--vertices V] [--edges E]
//! [--width W] [--threads T] [--runs R] [--pieces N] [--sweep]`; without them three sizes, five widths, one and two
//! threads. The graph is random and skewed (Pareto, exponent 2.2), its vertices in random order, seed 1.
//! In tests it runs on a tiny graph. `--sweep` tries block and tile sizes. The lines `N pieces` read source
//! rows that lie in so many pieces, in three buffers by turns: 8, 16 and 64 of them unless told.
//!
//! A column `cpu` is the busiest thread's time on a processor, where the system tells it (Linux): on a
//! machine that others use as well, it says more than the clock does.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::time::Instant;

use eciton_gather::cache::Caches;
use eciton_gather::{EdgeWeights, Gather, Path, Reduce, Rows, Sources};
use eciton_graph::adjacency::Adjacency;
use eciton_graph::random::SplitMix64;
use eciton_tensor::half::HalfBuffer;
use eciton_tensor::{Buffer, numeric_class};

const SEED: u64 = 1;

/// Seconds by the clock and on a processor.
#[derive(Clone, Copy)]
struct Took {
    wall: f64,
    cpu: f64,
}

/// Nanoseconds that this thread ran, as Linux counts them.
fn on_processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Runs `work(part)` for each part on a thread of its own: the clock's time and the busiest thread's.
fn parallel(parts: usize, work: &(dyn Fn(usize) + Sync)) -> Took {
    let begun = Instant::now();
    let cpu = std::thread::scope(|scope| {
        let busy = |part: usize| {
            let before = on_processor();
            work(part);
            on_processor().zip(before).map_or(f64::NAN, |(after, before)| (after - before) / 1e9)
        };
        let all: Vec<_> = (0..parts).map(|part| scope.spawn(move || busy(part))).collect();
        all.into_iter().map(|t| t.join().unwrap()).fold(0.0, f64::max)
    });
    Took { wall: begun.elapsed().as_secs_f64(), cpu }
}

/// Medians of `runs`, after one that is not counted.
fn median(runs: usize, mut work: impl FnMut() -> Took) -> Took {
    work();
    let all: Vec<Took> = (0..runs).map(|_| work()).collect();
    let of = |what: fn(&Took) -> f64| {
        let mut all: Vec<f64> = all.iter().map(what).collect();
        all.sort_by(f64::total_cmp);
        all[runs / 2]
    };
    Took { wall: of(|t| t.wall), cpu: of(|t| t.cpu) }
}

/// About `edges` edges between `vertices` whose degrees follow a power law; both ends of an edge are
/// drawn by degree. Each list is drawn in ascending order, by exponential gaps.
fn graph(vertices: usize, edges: usize) -> Adjacency {
    let unit = |random: &mut SplitMix64| ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    let mut random = SplitMix64::new(SEED);
    // P(w > x) = x^-2.2, cut at 300 times the smallest.
    let share: Vec<f64> = (0..vertices).map(|_| unit(&mut random).powf(-1.0 / 2.2).min(300.0)).collect();
    let total: f64 = share.iter().sum();
    // Vertex u has a part of these slots in proportion to its share.
    let mut slots: Vec<u32> = Vec::with_capacity(vertices * 17);
    let mut upto = 0.0;
    for (u, share) in share.iter().enumerate() {
        upto += share / total * (vertices * 16) as f64;
        while (slots.len() as f64) < upto {
            slots.push(u as u32);
        }
    }
    let (mut offsets, mut neighbours) = (vec![0u64], Vec::with_capacity(edges + edges / 16));
    for share in &share {
        let gap = slots.len() as f64 / (share / total * edges as f64);
        let (mut at, mut last) = (0.0, u32::MAX);
        loop {
            at -= unit(&mut random).ln() * gap;
            let Some(&u) = slots.get(at as usize) else { break };
            if u != last {
                neighbours.push(u);
                last = u;
            }
        }
        offsets.push(neighbours.len() as u64);
    }
    Adjacency::from_parts(offsets, neighbours).unwrap()
}

/// GB/s of a = b + s c over arrays that no cache holds, by `threads` threads.
fn streaming(threads: usize, values: usize) -> f64 {
    let cells: Vec<_> = (0..threads)
        .map(|_| std::sync::Mutex::new((vec![0.0f32; values], vec![1.0f32; values], vec![2.0f32; values])))
        .collect();
    let took = median(5, || {
        parallel(threads, &|part| {
            let (a, b, c) = &mut *cells[part].lock().unwrap();
            for ((a, b), c) in a.iter_mut().zip(&*b).zip(&*c) {
                *a = b + 3.0 * c;
            }
            black_box(a);
        })
    });
    (threads * values * 12) as f64 / 1e9 / took.wall
}

struct Asked {
    vertices: usize,
    edges: usize,
    widths: Vec<usize>,
    threads: Vec<usize>,
    runs: usize,
    pieces: Vec<usize>,
    sweep: bool,
    /// `true` in a benchmark, and `false` in a test.
    real: bool,
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let has = |flag: &str| args.iter().any(|a| a == flag);
    // A test runner that asks for the list of tests, as cargo-nextest does.
    if has("--list") || has("--ignored") {
        if !has("--ignored") {
            println!("gather: test");
        }
        return;
    }
    let number = |flag: &str| {
        let at = args.iter().position(|a| a == flag)?;
        Some(args.get(at + 1).and_then(|n| n.parse::<usize>().ok()).unwrap_or_else(|| panic!("{flag} N")))
    };
    // `cargo test` runs benches with --test, `cargo bench` with --bench.
    let real = has("--bench");
    let given = number("--vertices").zip(number("--edges"));
    let sizes = match given {
        Some(size) => vec![size],
        None if real => vec![(23_300, 2_300_000), (233_000, 11_500_000), (233_000, 115_000_000)],
        None => vec![(300, 3_000)],
    };
    let caches = Caches::here();
    let class = numeric_class();
    println!(
        "gather, seed {SEED}, {class}, caches {} KiB and {} MiB",
        caches.second >> 10,
        caches.last >> 20
    );
    for (vertices, edges) in sizes {
        let asked = Asked {
            vertices,
            edges,
            widths: number("--width").map_or(vec![8, 16, 41, 48, 128], |w| vec![w]),
            threads: number("--threads").map_or(vec![1, 2], |t| vec![t]),
            runs: number("--runs").unwrap_or(if real { 5 } else { 1 }).max(1),
            pieces: number("--pieces").map_or(vec![8, 16, 64], |n| vec![n]),
            sweep: has("--sweep"),
            real,
        };
        measure(&asked, if real { 16 << 20 } else { 1 << 10 });
    }
}

fn measure(asked: &Asked, streamed: usize) {
    let begun = Instant::now();
    let lists = graph(asked.vertices, asked.edges);
    let (vertices, edges) = (asked.vertices, lists.neighbours().len());
    println!("\n{vertices} vertices, {edges} edges, made in {:.1} s", begun.elapsed().as_secs_f64());
    let scale: Vec<f32> =
        lists.offsets().windows(2).map(|o| 1.0 / ((o[1] - o[0] + 1) as f32).sqrt()).collect();
    let gather = Gather::new(&lists, Reduce::Sum).weighted(EdgeWeights::Symmetric(&scale)).with_self();
    for &threads in &asked.threads {
        let limit = streaming(threads, streamed);
        println!("{threads} threads, streaming {limit:.1} GB/s");
        println!(
            "{:>6}{:>6} {:<24}{:>9}{:>10}{:>10}{:>9}{:>9}{:>8}",
            "width", "type", "path", "seconds", "ns/edge", "cpu", "GB/s", "stream", "plain"
        );
        for &width in &asked.widths {
            let values: Vec<f32> = (0..vertices * width).map(|i| (i % 101) as f32 / 50.0 - 1.0).collect();
            let wide = Buffer::from_rows(vertices, width, &values).unwrap();
            let half = HalfBuffer::from_rows(vertices, width, &values).unwrap();
            drop(values);
            let out = Buffer::zeroed(vertices, width).unwrap();
            // Shares of equally many edges.
            let cut = |part: usize| lists.offsets().partition_point(|&o| o < (edges * part / threads) as u64);
            let cuts: Vec<usize> = (0..threads).map(cut).chain([vertices]).collect();
            // So often that a thread's start does not show.
            let repeats = if asked.real { (10_000_000 / edges.max(1)).max(1) } else { 1 };
            let run = |input: Sources<'_>, path: Option<Path>| {
                let took = median(asked.runs, || {
                    parallel(threads, &|part| {
                        let rows = cuts[part]..cuts[part + 1];
                        let mut to = out.write(rows.clone()).unwrap();
                        for _ in 0..repeats {
                            gather.run_by(path, input, rows.clone(), &mut to.view_mut());
                        }
                    })
                });
                Took { wall: took.wall / repeats as f64, cpu: took.cpu / repeats as f64 }
            };
            let others: [Buffer; 2] = std::array::from_fn(|_| {
                let other = Buffer::zeroed(vertices, width).unwrap();
                other.write(0..vertices).unwrap().view_mut().data_mut().fill(1.0);
                other
            });
            let buffers = [wide.clone(), others[0].clone(), others[1].clone()];
            let (wide, half) = (wide.read(0..vertices).unwrap(), half.read(0..vertices).unwrap());
            for (kind, input, bytes) in
                [("f32", Rows::F32(wide.view()), 4), ("bf16", Rows::Bf16(half.view()), 2)]
            {
                let plain = run(input.into(), Some(Path::Direct { ahead: false }));
                let mut paths = vec![("ahead".to_owned(), Some(Path::Direct { ahead: true }))];
                if asked.sweep {
                    for kibibytes in [384, 768, 1536, 3072, 6144, 12288] {
                        for tile_rows in [4_000, 8_000, 16_000] {
                            let block_rows = (kibibytes << 10) / (width.next_multiple_of(16) * 4);
                            let name = format!("{kibibytes} KiB, {tile_rows}");
                            paths.push((name, Some(Path::Blocked { block_rows, tile_rows })));
                        }
                    }
                }
                paths.push(("chosen".to_owned(), None));
                let line = |name: &str, took: Took| {
                    let touched = (edges * width * bytes) as f64 / 1e9 / took.wall;
                    println!(
                        "{width:>6}{kind:>6} {name:<24}{:>9.4}{:>10.3}{:>10.3}{touched:>9.1}{:>8.2}x{:>7.2}x",
                        took.wall,
                        took.wall * 1e9 / edges as f64,
                        took.cpu * 1e9 * threads as f64 / edges as f64,
                        touched / limit,
                        plain.wall / took.wall,
                    );
                };
                line("plain", plain);
                for (name, path) in paths {
                    line(&name, run(input.into(), path));
                }
                for &count in asked.pieces.iter().filter(|_| kind == "f32") {
                    let cut = |piece: usize| vertices * piece / count;
                    let leases: Vec<_> = (0..count)
                        .map(|piece| buffers[piece % 3].read(cut(piece)..cut(piece + 1)).unwrap())
                        .collect();
                    let pieces: Vec<_> = (leases.iter().enumerate())
                        .map(|(piece, lease)| (cut(piece)..cut(piece + 1), lease.view().into()))
                        .collect();
                    line(&format!("{count} pieces"), run(Sources::pieces(vertices, &pieces).unwrap(), None));
                }
            }
        }
    }
}

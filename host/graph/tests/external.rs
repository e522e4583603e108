//! A graph many times larger than the memory it is built in: the bound holds, the bytes are those of a
//! build in memory, and a full disk leaves nothing behind. The only test of this binary: it counts what
//! all threads allocate.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use eciton_graph::adjacency::Options;
use eciton_graph::build::{self, MIN_MEMORY_BYTES};
use eciton_graph::edges::EdgeSource;
use eciton_graph::error::{Error, Result};
use eciton_graph::features::Features;
use eciton_graph::labels::Labels;
use eciton_graph::random::SplitMix64;
use eciton_graph::split::Split;
use eciton_graph::store::{self, Writer};

/// The system's memory, counted.
struct Counted;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller's layout.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's memory, from this allocator.
        unsafe { System.dealloc(data, layout) }
    }

    unsafe fn realloc(&self, data: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may exist at once.
        more(size);
        // SAFETY: the caller's memory, from this allocator.
        let moved = unsafe { System.realloc(data, layout, size) };
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Random edges, a quarter of them between the first of the vertices.
struct Random {
    vertices: u64,
    chunks: u64,
    chunk_edges: u64,
    columns: u32,
}

impl EdgeSource for Random {
    fn vertices(&self) -> u64 {
        self.vertices
    }

    fn chunks(&self) -> u64 {
        self.chunks
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()> {
        let mut random = SplitMix64::new(chunk);
        for at in 0..self.chunk_edges {
            let most = if at % 4 == 0 { self.vertices / 300 } else { self.vertices };
            edges.push((random.below(most) as u32, random.below(self.vertices) as u32));
        }
        Ok(())
    }

    fn columns(&self) -> u32 {
        self.columns
    }

    fn read_with_values(&self, chunk: u64, edges: &mut Vec<(u32, u32)>, values: &mut Vec<f32>) -> Result<()> {
        let before = edges.len();
        self.read(chunk, edges)?;
        let own = edges[before..].iter();
        values.extend(own.flat_map(|&(s, t)| (0..self.columns).map(move |column| (s ^ t ^ column) as f32)));
        Ok(())
    }
}

fn build(source: &Random, threads: usize, path: &Path) -> Result<()> {
    let mut writer = Writer::create(path)?;
    build::external(source, Options::default(), MIN_MEMORY_BYTES, threads, &mut writer)?;
    writer.labels(&Labels::none(source.vertices as u32))?;
    writer.split(&Split::default())?;
    writer.finish("random")
}

/// The peak of what is allocated meanwhile beyond what was before.
fn peak_of(work: impl FnOnce()) -> usize {
    let before = HELD.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed) - before
}

#[test]
fn the_bound_holds() {
    if std::env::var_os(FULL_DISK).is_some() {
        return on_a_full_disk();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // 480 MB as keys, 240 MB as lists: seven and three times the memory. Chunks are as long as may be.
    let (chunks, chunk_edges) = (8, 30_000_000 / 8);
    let source = Random { vertices: 1 << 20, chunks, chunk_edges, columns: 0 };
    let peak = peak_of(|| build(&source, 2, &path).unwrap());
    println!("{} MB at the peak of {} MB", peak / 1_000_000, MIN_MEMORY_BYTES / 1_000_000);
    assert!(peak as u64 <= MIN_MEMORY_BYTES, "{peak} bytes");
    let opened = store::open(&path).unwrap();
    assert_eq!(opened.features, Features::identity(1 << 20));
    let whole = build::in_memory(&source, Options::default(), 2).unwrap();
    assert!(opened.graph == whole, "the same lists");
    // Repeats and loops are few, but there.
    assert!((59_000_000..60_000_000).contains(&whole.edges()), "{}", whole.edges());
    drop(opened);
    std::fs::remove_dir_all(&path).unwrap();
    with_values(&path);
    #[cfg(unix)]
    full_disk(folder.path());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// 10 M edges of three values: 640 MB as records.
fn with_values(path: &Path) {
    let source = Random { vertices: 1 << 20, chunks: 8, chunk_edges: 10_000_000 / 8, columns: 3 };
    let peak = peak_of(|| build(&source, 2, path).unwrap());
    println!("{} MB at the peak, with values", peak / 1_000_000);
    assert!(peak as u64 <= MIN_MEMORY_BYTES, "{peak} bytes");
    let opened = store::open(path).unwrap();
    let found = opened.edge_features.as_ref().unwrap();
    assert_eq!((found.columns(), found.rows() as u64), (3, opened.graph.edges()));
    // A value says its edge. Repeats are added up, and two directions have the mean of their sums, so a row is a
    // multiple of an edge's values, in halves.
    let mut rows = found.values().chunks_exact(3);
    for target in 0..opened.graph.vertices() {
        for &source in opened.graph.in_neighbours(target) {
            let expected = [0, 1, 2].map(|column| (source ^ target ^ column) as f32);
            let row = rows.next().unwrap();
            let largest = if expected[1] > expected[0] { 1 } else { 0 };
            let factor = if expected[largest] == 0.0 { 1.0 } else { row[largest] / expected[largest] };
            assert!(factor >= 1.0 && (2.0 * factor).fract() == 0.0, "{source} to {target}: {row:?}");
            assert_eq!(row, expected.map(|value| value * factor), "{source} to {target}");
        }
    }
    drop(opened);
    std::fs::remove_dir_all(path).unwrap();
}

const FULL_DISK: &str = "ECITON_TEST_FULL_DISK";

/// Runs this test again as a process that may write 8 MB a file: writing fails as on a full disk.
#[cfg(unix)]
fn full_disk(folder: &Path) {
    let this = std::env::current_exe().unwrap();
    // Blocks are of 512 bytes in some shells and of 1024 in others.
    let script = "trap '' XFSZ; ulimit -f 16384; exec \"$0\" the_bound_holds --exact --nocapture";
    let mut shell = std::process::Command::new("sh");
    let ran = shell.args(["-c", script]).arg(this).env(FULL_DISK, folder).output().unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.contains("refused as it should"), "{text}");
}

fn on_a_full_disk() {
    let folder = std::path::PathBuf::from(std::env::var_os(FULL_DISK).unwrap());
    for threads in [1, 3] {
        // The temporary file does not fit; then it does and the lists do not.
        for edges in [6_000_000, 2_000_000] {
            let source = Random { vertices: 1000, chunks: 4, chunk_edges: edges / 4, columns: 0 };
            let wide = Random { vertices: 3_000_000, chunks: 4, chunk_edges: 1000, columns: 0 };
            for source in [source, wide] {
                let error = build(&source, threads, &folder.join("store")).unwrap_err();
                assert!(matches!(error, Error::Write { .. }), "{error}");
                assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{error}");
                println!("refused as it should: {error}");
            }
        }
    }
}

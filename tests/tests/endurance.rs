//! Fifty thousand calls on one pool, every third of them a fault: what is right stays right to the
//! bit, and neither instances nor memory are lost.
//!
//! A process of its own, for what is measured is the process's memory. `ECITON_SEED` repeats a run's order.
#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_exec::{
    Affinity, Answered, Clock, Completion, Executor as _, Job, KernelWork, LocalPool, Settings as Threads,
    Work, WorkError,
};
use eciton_kernel::{Call, Error, Kind, Layer, Limits, RowNumbers, Runtime, Settings, Target, VertexCall};
use eciton_tensor::{Buffer, Grid, Matrix};
use eciton_tests::{Numbers, root, status_kb, test_kernel};
use eciton_types::signature::Value;
use eciton_types::{Attempt, Attribute, IntervalId, OperationId, Round, StageId, Task, Version};

const CALLS: u32 = 50_000;
/// Calls under way at once.
const BATCH: u32 = 50;
const THREADS: u32 = 2;
const IN: usize = 6;
const OUT: usize = 5;
/// Rows of a call.
const ROWS: [usize; 4] = [1, 7, 64, 300];
/// What the process may hold more after the second half than after the first, in kB.
const MORE_KB: u64 = 8 << 10;

/// What is called, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    /// The bits of the first such call.
    Right,
    /// The same, or `guest-memory` where its instance has leaked that much.
    RightOrMemory,
    /// An error with these words.
    Fails(&'static str),
}

struct Tried {
    /// How often among a thousand calls.
    share: u32,
    layer: Arc<Layer>,
    ends: Ends,
    /// Columns of its input: others than were promised are the host's fault, and the kernel's error.
    columns: usize,
}

fn values(rows: usize, columns: usize, step: f32) -> Matrix {
    let all: Vec<f32> = (0..rows * columns).map(|i| (i as f32 * step).sin()).collect();
    let buffer = Buffer::from_rows(rows, columns, &all).unwrap();
    Matrix::from(buffer.read(0..rows).unwrap())
}

/// `linear`, with a bias, dropout and relu.
fn open(runtime: &Runtime, component: &Path) -> Arc<Layer> {
    let kernel = runtime.load("linear", &std::fs::read(component).unwrap()).unwrap();
    let attributes = [
        Attribute::new("out-features", Value::Integer(OUT as i64)),
        Attribute::new("activation", Value::Text("relu".to_owned())),
        Attribute::new("dropout", Value::Number(0.5)),
    ];
    kernel.open(&[vec![IN as u32]], &attributes).unwrap()
}

/// The runtimes, the second for what never ends, and all that is called on them.
fn kernels() -> ([Runtime; 2], Vec<Tried>) {
    let faults = [
        (100, "trapping", "the test kernel panics on"),
        (60, "error", "kernel error: the test kernel does not want to"),
        (40, "keeping", "still holds 1 handles"),
        (40, "wrong-shape", "shape error: linear"),
        (40, "unwritten", "never written"),
        (20, "recursing", "limit stack"),
        (10, "handles", "handles: 257 handles asked for, 256 allowed"),
        (10, "scratch", "limit error: matrix-bytes"),
        (10, "allocating", "limit guest-memory"),
    ];
    let limits = Limits {
        guest_memory_bytes: 4 << 20,
        handles: 256,
        matrix_bytes: 20 << 20,
        task_time: Duration::from_secs(60),
        ..Limits::default()
    };
    let ample = Runtime::new(Settings { limits: limits.clone(), ..Settings::default() }).unwrap();
    let limits = Limits { task_time: Limits::TICK, ..limits };
    let short = Runtime::new(Settings { limits, ..Settings::default() }).unwrap();

    let right = open(&ample, &root().join("guest-kernels/prebuilt/linear.wasm"));
    let tried = |share, layer, ends| Tried { share, layer, ends, columns: IN };
    let mut all = vec![
        tried(500, right.clone(), Ends::Right),
        tried(100, open(&ample, &test_kernel("doubled")), Ends::Right),
        // Its result is not a number, as the same bits.
        tried(29, open(&ample, &test_kernel("nan")), Ends::Right),
        tried(20, open(&ample, &test_kernel("leaking")), Ends::RightOrMemory),
        Tried { share: 20, layer: right, ends: Ends::Fails("shape error: linear: w"), columns: IN + 1 },
        tried(1, open(&short, &test_kernel("looping")), Ends::Fails("limit task-time")),
    ];
    for (share, name, words) in faults {
        all.push(tried(share, open(&ample, &test_kernel(name)), Ends::Fails(words)));
    }
    assert_eq!(all.iter().map(|tried| tried.share).sum::<u32>(), 1000);
    ([ample, short], all)
}

fn job(tried: &Tried, number: u32, into: &Buffer) -> Job {
    let rows = into.rows();
    let call = VertexCall {
        kind: Kind::Forward,
        seed: 11,
        epoch: 0,
        layer: 0,
        training: true,
        grid: Arc::new(Grid::single(rows)),
        row_numbers: RowNumbers::From(100),
        inputs: vec![values(rows, tried.columns, 0.37)],
        outputs: Vec::new(),
        kept: Vec::new(),
        parameters: vec![values(IN, OUT, 0.71), values(1, OUT, 0.9)],
        gradients: Vec::new(),
        output_count: 1,
        rows_out: vec![Some(Target::Rows { rows: into.write(0..rows).unwrap(), extents: vec![OUT as u32] })],
        sums_out: Vec::new(),
        labelled: None,
    };
    let task = Task {
        round: Round(1),
        stage: StageId(0),
        interval: IntervalId(number),
        attempt: Attempt(0),
        weights: Version(0),
    };
    let work = KernelWork {
        operation: OperationId(0),
        generation: 1,
        call: Call::vertex(&tried.layer, call).into(),
        shared: Vec::new(),
        twin: None,
    };
    Job { pass: 1, task, work: Work::Kernel(work), deadline: None, affinity: Affinity::Any }
}

fn bits(buffer: &Buffer) -> Vec<u32> {
    buffer.to_vec().unwrap().iter().map(|value| value.to_bits()).collect()
}

/// Calls by kernel, and how many of them failed.
type Counts = BTreeMap<usize, (u32, u32)>;

/// Half of the calls; `known`: the bits of each kernel that is right, by rows.
fn half(
    pool: &mut LocalPool,
    tried: &[Tried],
    numbers: &mut Numbers,
    known: &mut BTreeMap<(usize, usize), Vec<u32>>,
    counts: &mut Counts,
) {
    for batch in 0..CALLS / 2 / BATCH {
        let mut calls = Vec::new();
        for number in 0..BATCH {
            let mut draw = numbers.below(1000);
            let passed = |tried: &Tried| {
                let is = draw < tried.share;
                draw = draw.saturating_sub(tried.share);
                is
            };
            let which = tried.iter().position(passed).unwrap();
            let into = Buffer::zeroed(ROWS[numbers.below(ROWS.len() as u32) as usize], OUT).unwrap();
            pool.submit(job(&tried[which], number, &into));
            calls.push((which, into));
        }
        let mut done = Vec::new();
        while done.len() < calls.len() {
            pool.drain(&mut done, None);
        }
        for completion in done {
            let Completion::Ended { key, result, .. } = completion else { panic!("{completion:?}") };
            let (which, into) = &calls[key.interval.index()];
            let (tried, place) = (&tried[*which], format!("batch {batch}, call {}", key.interval));
            let count = counts.entry(*which).or_default();
            count.0 += 1;
            let result = result.map_err(|error| match error {
                WorkError::Kernel(error) => *error,
                WorkError::Host(text) => panic!("{place}: {text}"),
            });
            match (tried.ends, result) {
                (Ends::Right | Ends::RightOrMemory, Ok(Answered::InPlace(_))) => {
                    let found = bits(into);
                    let wanted = known.entry((*which, into.rows())).or_insert_with(|| found.clone());
                    assert_eq!(&found, wanted, "{place}");
                }
                (Ends::RightOrMemory, Err(error)) => {
                    count.1 += 1;
                    assert!(error.to_string().contains("limit guest-memory"), "{place}: {error}");
                }
                (Ends::Fails(words), Err(error)) => {
                    count.1 += 1;
                    assert!(error.to_string().contains(words), "{place}, {words:?}: {error}");
                    // An instance that could not be had is the host's fault.
                    assert!(matches!(
                        error,
                        Error::Guest { .. } | Error::Trap { .. } | Error::Promise { .. }
                    ));
                }
                (ends, result) => panic!("{place}: {ends:?}, but {result:?}"),
            }
            // Whatever became of it, nothing holds the rows that it wrote to.
            assert!(into.write(0..into.rows()).is_ok(), "{place}");
        }
    }
}

#[test]
fn fifty_thousand_calls_lose_nothing() {
    let seed = std::env::var("ECITON_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("ECITON_SEED={seed}");
    let mut numbers = Numbers(seed);
    let (runtimes, tried) = kernels();
    let _clocks = runtimes.each_ref().map(|runtime| Clock::start(runtime).unwrap());
    let threads = Threads { threads: THREADS, fresh_instances: false, newest_first: false, lanes: 0 };
    let mut pool = LocalPool::new(threads).unwrap();
    let (mut known, mut counts) = (BTreeMap::new(), Counts::new());
    let begun = Instant::now();
    half(&mut pool, &tried, &mut numbers, &mut known, &mut counts);
    let first = status_kb("VmRSS");
    half(&mut pool, &tried, &mut numbers, &mut known, &mut counts);
    let second = status_kb("VmRSS");
    let space = status_kb("VmSize") >> 20;
    let failed: u32 = counts.values().map(|(_, failed)| failed).sum();
    println!(
        "{CALLS} calls, {failed} of them failed, in {:.1} s; resident {first} kB after half, {second} kB after all",
        begun.elapsed().as_secs_f64()
    );
    assert!(counts.len() == tried.len() && failed > CALLS / 4, "{counts:?}");
    assert!(counts.values().all(|&(calls, _)| calls > CALLS / 2000), "{counts:?}");
    assert!(
        tried.iter().zip(counts.values()).all(|(t, n)| t.ends != Ends::RightOrMemory || n.1 > 0),
        "{counts:?}"
    );
    assert!(second <= first + MORE_KB, "{first} kB after half, {second} kB after all");
    // Of 15,000 instances that failed, each had more than 256 MiB of address space.
    assert!(space < 100, "{space} GiB of address space");
}

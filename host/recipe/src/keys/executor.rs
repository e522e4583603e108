//! The keys of `[executor]` and `[emulator]`.

use super::{Key, key};
use crate::document::Field;
use crate::error::Result;
use crate::executor::{
    EdgePlace, Emulator, Executor, ExecutorKind, FunctionCount, MAX_FUNCTIONS, RowFormat, SpanChoice,
    Transport,
};
use crate::prices::{HostPlace, Processor};

/// The last stage that a program may have.
const MAX_FIRST: u32 = 65_535;

pub(super) const EXECUTOR: &[Key<Executor>] = &[
    key(
        "kind",
        &["name", "where"],
        "local, emulated, lambda or workers (or loopback, for tests)",
        |executor, field| {
            // `loopback` is for tests.
            let known = "one of \"local\", \"emulated\", \"lambda\", \"workers\"";
            executor.kind = field.choice(&ExecutorKind::ALL).map_err(|_| field.refuse(known))?;
            Ok(())
        },
    ),
    key("transport", &[], "how tasks travel to functions: auto, payload or s3", |executor, field| {
        executor.transport = field.choice(&Transport::ALL)?;
        Ok(())
    }),
    key(
        "rows",
        &["encoding", "dtype"],
        "what rows are written as on their way: f32, bf16 (half the bytes, other results), or bits (a bit a value for layers of signs)",
        |executor, field| {
            executor.rows = field.choice(&RowFormat::ALL)?;
            Ok(())
        },
    ),
    key(
        "stream",
        &["streaming"],
        "whether a function computes on the first rows while the next arrive: true or false",
        |executor, field| {
            executor.stream = field.flag()?;
            Ok(())
        },
    ),
    key(
        "functions",
        &["concurrency", "invocations"],
        "functions at work at once, the host does the rest: 0 to 10000, or \"auto\", as an autotuner says",
        |executor, field| {
            let count = field.integer32_or_auto(0..=MAX_FUNCTIONS)?;
            executor.functions = count.map_or(FunctionCount::Auto, FunctionCount::Fixed);
            Ok(())
        },
    ),
    key(
        "edge_kernels",
        &["edges"],
        "where edge kernels run beside functions: host, or functions",
        |executor, field| {
            executor.edge_kernels = field.choice(&EdgePlace::ALL)?;
            Ok(())
        },
    ),
    key(
        "spans",
        &["fuse", "fusion"],
        "consecutive stages as one task: none, auto (as many as may be), or the first stages of runs, as [0, 3]",
        |executor, field| {
            executor.spans = match field.word(&["none", "auto"]) {
                Some("none") => SpanChoice::None,
                Some(_) => SpanChoice::Auto,
                None => SpanChoice::Firsts(field.integers32(0..=MAX_FIRST)?),
            };
            Ok(())
        },
    ),
    key(
        "host",
        &["place", "location"],
        "where the host is, for the price of its bytes: auto, home, region or zone",
        |executor, field| {
            executor.host = field.choice(&[
                ("auto", None),
                ("home", Some(HostPlace::Home)),
                ("region", Some(HostPlace::Region)),
                ("zone", Some(HostPlace::Zone)),
            ])?;
            Ok(())
        },
    ),
    key(
        "host_hour_usd",
        &["host_price"],
        "dollars an hour of the host, for functions = \"auto\": 0 to 10000; left out: 0.085 a thread",
        |executor, field| {
            let usd = field.number("dollars from 0 to 10000", |v| (0.0..=10_000.0).contains(&v))?;
            executor.host_hour_usd = Some(usd);
            Ok(())
        },
    ),
    key("memory_mb", &["memory", "size"], "the function's size in MiB: 128 to 10240", |executor, field| {
        executor.memory_mb = field.integer32(128..=10_240)?;
        Ok(())
    }),
    key(
        "timeout_s",
        &["timeout"],
        "an emulated function's time limit in seconds: 1 to 900",
        |executor, field| {
            executor.timeout_s = field.integer32(1..=900)?;
            Ok(())
        },
    ),
    key(
        "deadline_ms",
        &["deadline"],
        "a task, or a whole run, is launched again when it takes longer than this, in milliseconds, ...",
        |executor, field| {
            executor.deadline_ms = field.integer(0..=900_000)?;
            Ok(())
        },
    ),
    key(
        "deadline_ratio",
        &[],
        "... and longer than so many times its stage's average, or the runs' median: above 1, up to 1000",
        |executor, field| {
            executor.deadline_ratio =
                field.number("a number above 1, up to 1000", |v| v > 1.0 && v <= 1000.0)?;
            Ok(())
        },
    ),
    key(
        "audit",
        &["verify", "redundancy"],
        "share of the tasks of workers and functions that the host computes as well, to find wrong answers: 0 to 1",
        |executor, field| {
            executor.audit = share(field)?;
            Ok(())
        },
    ),
    key(
        "keep_doubtful",
        &[],
        "whether a run goes on with earlier answers of a process that an audit found to be wrong: true or false",
        |executor, field| {
            executor.keep_doubtful = field.flag()?;
            Ok(())
        },
    ),
    key("deployment", &["stack"], "a deployment's file, as `eciton deploy` writes it", |executor, field| {
        executor.deployment = Some(field.text("a path to a deployment's file")?);
        Ok(())
    }),
];

fn share(field: &Field) -> Result<f64> {
    field.number("a share from 0 to 1", |v| (0.0..=1.0).contains(&v))
}

pub(super) const EMULATOR: &[Key<Emulator>] = &[
    key("seed", &[], "what faults are drawn from: 0 to 2^63 - 1", |emulator, field| {
        emulator.seed = field.integer(0..=i64::MAX as u64)?;
        Ok(())
    }),
    key(
        "account_concurrency",
        &["concurrency"],
        "functions that may run at once, more are throttled: 1 to 10000",
        |emulator, field| {
            emulator.account_concurrency = field.integer32(1..=10_000)?;
            Ok(())
        },
    ),
    key(
        "mbit_s",
        &["bandwidth"],
        "network of each function, Mbit/s each way; 0: that of emulator.cloud for whole runs, no limit for layer tasks",
        |emulator, field| {
            emulator.mbit_s =
                field.number("a number from 0 to 100000", |v| (0.0..=100_000.0).contains(&v))?;
            Ok(())
        },
    ),
    key(
        "cold_start_ms",
        &[],
        "time of a cold start, in milliseconds: 0 to 60000; 0: that of emulator.cloud for whole runs, none for layer tasks",
        |emulator, field| {
            emulator.cold_start_ms = field.integer(0..=60_000)?;
            Ok(())
        },
    ),
    key(
        "cloud",
        &["preset"],
        "times of whole runs: a preset of infra/cloud.toml, lambda-2026 or ideal",
        |emulator, field| {
            emulator.cloud = field.text("the name of a preset")?;
            Ok(())
        },
    ),
    key("crash", &[], "share of invocations whose process dies: 0 to 1", |emulator, field| {
        emulator.crash = share(field)?;
        Ok(())
    }),
    key("lose", &["lost"], "share of answers that are lost: 0 to 1", |emulator, field| {
        emulator.lose = share(field)?;
        Ok(())
    }),
    key("corrupt", &[], "share of answers that arrive with one changed byte: 0 to 1", |emulator, field| {
        emulator.corrupt = share(field)?;
        Ok(())
    }),
    key("double", &[], "share of requests that run twice: 0 to 1", |emulator, field| {
        emulator.double = share(field)?;
        Ok(())
    }),
    key("straggle", &["stragglers"], "share of invocations that are held up: 0 to 1", |emulator, field| {
        emulator.straggle = share(field)?;
        Ok(())
    }),
    key("straggle_ms", &[], "how long they are held up, in milliseconds: 0 to 600000", |emulator, field| {
        emulator.straggle_ms = field.integer(0..=600_000)?;
        Ok(())
    }),
    key("throttle", &[], "share of requests that are throttled: 0 to 1", |emulator, field| {
        emulator.throttle = share(field)?;
        Ok(())
    }),
    key("worker", &["bootstrap"], "the worker program", |emulator, field| {
        emulator.worker = Some(field.text("a path to a program")?);
        Ok(())
    }),
    key(
        "architecture",
        &["arch"],
        "the processors that the programs were built for: auto (this machine's), x86_64, arm64",
        |emulator, field| {
            emulator.architecture = field.choice(&[
                ("auto", None),
                ("x86_64", Some(Processor::X86_64)),
                ("arm64", Some(Processor::Arm64)),
            ])?;
            Ok(())
        },
    ),
];

//! The keys of `[workers]`.

use super::{Key, key};
use crate::workers::{MAX_WORKERS, Owner, Workers};

pub(super) const WORKERS: &[Key<Workers>] = &[
    key(
        "count",
        &["workers", "nodes", "world_size"],
        "workers, which dial this run (executor.kind = \"workers\"): 0 to 1024",
        |workers, field| {
            workers.count = field.integer32(0..=MAX_WORKERS)?;
            Ok(())
        },
    ),
    key(
        "listen",
        &["address", "master_addr", "bind"],
        "where the run listens for workers that others start, as HOST:PORT; left out: it starts them here",
        |workers, field| {
            workers.listen = Some(field.text("HOST:PORT, for instance \"0.0.0.0:7070\"")?);
            Ok(())
        },
    ),
    key(
        "tokens",
        &["token_folder"],
        "folder of the workers' tokens (worker-0.token, ...), which later runs use again; left out: a folder for this run alone",
        |workers, field| {
            workers.tokens = Some(field.text("the path of a folder")?);
            Ok(())
        },
    ),
    key(
        "silence_ms",
        &["timeout_ms", "heartbeat_ms"],
        "after so many milliseconds without a message a worker is gone: 100 to 10^7",
        |workers, field| {
            workers.silence_ms = field.integer(100..=10_000_000)?;
            Ok(())
        },
    ),
    key(
        "answer_s",
        &["answer", "deadline_s"],
        "after so many seconds without an answer to a task a worker that is there is let go: 1 to 86400",
        |workers, field| {
            workers.answer_s = field.integer32(1..=86_400)?;
            Ok(())
        },
    ),
    key(
        "wait_s",
        &["wait", "patience"],
        "for how many seconds workers are waited for, at the start and when all are gone: 1 to 86400",
        |workers, field| {
            workers.wait_s = field.integer32(1..=86_400)?;
            Ok(())
        },
    ),
    key(
        "keep_bytes",
        &["memory_bytes", "memory"],
        "bytes that a worker which the run starts keeps of weights and rows: 1 MiB and more",
        |workers, field| {
            workers.keep_bytes = field.integer(1 << 20..=i64::MAX as u64)?;
            Ok(())
        },
    ),
    key(
        "shadows",
        &["redundancy", "redundant"],
        "whether a worker with nothing else to do also does its successor's forward steps: true or false",
        |workers, field| {
            workers.shadows = field.flag()?;
            Ok(())
        },
    ),
    key(
        "owner",
        &["owns", "weights_on", "placement"],
        "who holds weights and updates them: \"host\", or \"worker\", each those of its layers",
        |workers, field| {
            workers.owner = field.choice(&Owner::ALL)?;
            Ok(())
        },
    ),
    key(
        "log_every",
        &["log_interval", "replicate_every"],
        "after how many updates the host logs what workers own; a loss goes back to it: 1 to 10^6",
        |workers, field| {
            workers.log_every = field.integer32(1..=1_000_000)?;
            Ok(())
        },
    ),
    key(
        "replicas",
        &["replicate", "replica"],
        "how many workers have replicas of what one owns, and may be lost with it at no update's cost: 0 to 1023, or [1, 2] by lane",
        |workers, field| {
            workers.replicas = field.integers32(0..=MAX_WORKERS - 1)?;
            Ok(())
        },
    ),
    key(
        "vanish_at",
        &["faults"],
        "at which of its tasks each worker that the run starts vanishes, to try out losses: [0, 12]; 0: never",
        |workers, field| {
            workers.vanish_at = field.integers32(0..=u32::MAX)?;
            Ok(())
        },
    ),
];

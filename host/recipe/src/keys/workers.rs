//! The keys of `[workers]`.

use super::key::{Group, Key, Kind, key, names, value};
use crate::document::Field;
use crate::workers::{MAX_WORKERS, Owner, Workers};

type To = Workers;

pub(super) const WORKERS: &[Key<Workers>] = &[
    key("count", "Number of worker processes that run tasks, one for each lane if there are lanes", value!(integer32(0, MAX_WORKERS) => count))
        .also(&["workers", "nodes", "world_size"])
        .flag("workers", "N", Group::Pipeline),
    key("listen", "Address at which the run listens for workers that others start, as HOST:PORT", value!(some text("HOST:PORT, for instance \"0.0.0.0:7070\"") => listen))
        .also(&["address", "master_addr", "bind"])
        .absent("the run starts the workers on this machine"),
    key("tokens", "Folder of the tokens of machines (worker-0.token, ...), which later runs use again", value!(some text("the path of a folder") => tokens))
        .also(&["token_folder"])
        .absent("a folder for this run only"),
    key("spares", "Number of further workers that may connect. They wait, and replace workers that fail", value!(integer32(0, MAX_WORKERS) => spares))
        .also(&["standby", "extra_workers"]).absent("0"),
    key("silence_ms", "Time without a message after which a worker counts as failed, in milliseconds", value!(integer(100, 10_000_000) => silence_ms))
        .also(&["timeout_ms", "heartbeat_ms"]),
    key("answer_s", "Time without an answer to a task after which the run drops a connected worker, in seconds", value!(integer32(1, 86_400) => answer_s))
        .also(&["answer", "deadline_s"]).absent("600"),
    key("wait_s", "Time for which the run waits for workers, at the start and after all have failed, in seconds", value!(integer32(1, 86_400) => wait_s))
        .also(&["wait", "patience"]),
    key("cache_bytes", "Memory that a worker started by the run uses for cached weights and rows, in bytes", value!(integer(1 << 20, i64::MAX as u64) => cache_bytes))
        .formerly("keep_bytes").also(&["memory_bytes", "memory"]),
    key("redundant", "Redundant computation: an idle worker also computes its successor's forward steps", value!(flag => redundant))
        .formerly("shadows").also(&["redundancy"]).absent("false"),
    key("owner", "Owner of the weights, which updates them. worker: each worker owns those of its layers", value!(choice(Owner::ALL) => owner))
        .also(&["owns", "weights_on", "placement"]).absent("host"),
    key("snapshot_every", "Number of updates between snapshots of the weights that workers own. After a failure the run rolls back to the last one", value!(integer32(1, 1_000_000) => snapshot_every))
        .formerly("log_every").also(&["log_interval", "replicate_every"]).absent("16"),
    key("replicas", "Number of other workers that replicate the weights of a worker, one number for all lanes or one per lane. They may fail with it without a rollback", value!(integers(0, MAX_WORKERS - 1) => replicas))
        .also(&["replicate", "replica"]).absent("0"),
    key("fail_at", "Number of the task at which each worker that the run starts exits, to test failures; 0: never", value!(integers(0, u32::MAX) => fail_at))
        .formerly("vanish_at").also(&["faults"]).absent("0"),
];

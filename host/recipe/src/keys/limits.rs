//! The keys of `[limits]`.

use super::key::{Key, Kind, key, value};
use crate::config::Limits;
use crate::document::Field;

/// Largest integer that TOML can express.
const MAX_INTEGER: u64 = i64::MAX as u64;

type To = Limits;

pub(super) const LIMITS: &[Key<Limits>] = &[
    key(
        "guest_memory_bytes",
        "Maximum size of a kernel's own memory, in bytes",
        value!(some integer(65_536, 1 << 32) => guest_memory_bytes),
    )
    .also(&["memory"])
    .absent("the executor's limit"),
    key(
        "matrix_bytes",
        "Maximum size of a task's matrices on the host, in bytes",
        value!(some integer(1, MAX_INTEGER) => matrix_bytes),
    )
    .absent("the executor's limit"),
    key("handles", "Maximum number of a task's handles", value!(some integer32(1, 1 << 24) => handles))
        .absent("the executor's limit"),
    key(
        "call_bytes",
        "Maximum number of bytes that one host call copies",
        value!(some integer(1, 1 << 32) => call_bytes),
    )
    .absent("the executor's limit"),
    key(
        "call_work",
        "Maximum number of multiply-adds of one host call",
        value!(some integer(1, MAX_INTEGER) => call_work),
    )
    .absent("the executor's limit"),
    key("task_ms", "Time limit of a task in milliseconds", value!(some integer(1, 86_400_000) => task_ms))
        .also(&["timeout"])
        .absent("the executor's limit"),
    key(
        "wait_ms",
        "Time limit of a task's wait for rows, in milliseconds",
        value!(some integer(1, 86_400_000) => wait_ms),
    )
    .absent("the executor's limit"),
    key(
        "attempts",
        "Maximum number of attempts at a task that fails on the host's side or exceeds its time limit",
        value!(some integer32(1, 32) => attempts),
    )
    .also(&["retries"])
    .absent("the executor's limit"),
];

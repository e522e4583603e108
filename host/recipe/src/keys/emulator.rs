//! The keys of `[emulator]`.

use super::key::{Bounds, Group, Key, Kind, key, names, value};
use crate::document::Field;
use crate::executor::Emulator;
use crate::prices::Processor;

const ARCHITECTURES: [(&str, Option<Processor>); 3] =
    [("auto", None), ("x86_64", Some(Processor::X86_64)), ("arm64", Some(Processor::Arm64))];

type To = Emulator;

pub(super) const EMULATOR: &[Key<Emulator>] = &[
    key("seed", "Random seed of the faults", value!(integer(0, i64::MAX as u64) => seed)),
    key("account_concurrency", "Maximum number of functions that run at once. Further requests are throttled", value!(integer32(1, 10_000) => account_concurrency))
        .also(&["concurrency"]),
    key("mbit_s", "Network bandwidth of each function in Mbit/s, each way. 0: that of emulator.cloud for whole runs, no limit for layer tasks", value!(number(Bounds::from(0.0, 100_000.0)) => mbit_s))
        .also(&["bandwidth"]),
    key("cold_start_ms", "Time of a cold start in milliseconds. 0: that of emulator.cloud for whole runs, none for layer tasks", value!(integer(0, 60_000) => cold_start_ms)),
    key("cloud", "Preset of infra/cloud.toml with the times of whole runs: lambda-2026 or ideal", value!(text("the name of a preset") => cloud))
        .also(&["preset"]).absent("lambda-2026"),
    key("crash", "Share of invocations whose process dies", value!(number(Bounds::SHARE) => crash)),
    key("lose", "Share of answers that are lost", value!(number(Bounds::SHARE) => lose)).also(&["lost"]),
    key("corrupt", "Share of answers that arrive with one changed byte", value!(number(Bounds::SHARE) => corrupt)).absent("0"),
    key("double", "Share of requests that run twice", value!(number(Bounds::SHARE) => double)),
    key("straggle", "Share of invocations that are delayed", value!(number(Bounds::SHARE) => straggle)).also(&["stragglers"]),
    key("straggle_ms", "Delay of a delayed invocation in milliseconds", value!(integer(0, 600_000) => straggle_ms)),
    key("throttle", "Share of requests that are throttled", value!(number(Bounds::SHARE) => throttle)),
    key("worker", "Path of the worker program of emulated functions", value!(some text("a path to a program") => worker))
        .also(&["bootstrap"])
        .absent("the program next to eciton")
        .flag("worker", "PATH", Group::Functions),
    key("architecture", "Processor that the worker programs were built for. auto: this machine's", value!(choice(ARCHITECTURES) => architecture))
        .also(&["arch"]).absent("auto"),
];

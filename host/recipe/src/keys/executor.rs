//! The keys of `[executor]`.

use super::key::{Bounds, Group, Key, Kind, Write, key, names, value};
use crate::document::Field;
use crate::executor::{
    EdgePlace, Executor, ExecutorKind, FunctionCount, FusionChoice, MAX_FUNCTIONS, RowFormat, Transport,
};
use crate::prices::HostPlace;

/// Maximum stage number, because stage numbers have 16 bits.
const MAX_STAGE: u32 = 65_535;

const HOSTS: [(&str, Option<HostPlace>); 4] = [
    ("auto", None),
    ("home", Some(HostPlace::Home)),
    ("region", Some(HostPlace::Region)),
    ("zone", Some(HostPlace::Zone)),
];

type To = Executor;

pub(super) const EXECUTOR: &[Key<Executor>] = &[
    key("kind", "Executor of the tasks. emulated: functions on this machine behind an emulator of AWS", KIND)
        .also(&["name", "where"])
        .flag("executor", "NAME", Group::Execution),
    key("transport", "Transport of tasks to functions", value!(choice(Transport::ALL) => transport))
        .flag("transport", "NAME", Group::Functions),
    key("rows", "Format of rows in transit. bf16 changes results; bits stores one bit per value, for binary layers", value!(choice(RowFormat::ALL) => rows))
        .also(&["encoding", "dtype"])
        .flag("rows", "FORMAT", Group::Functions),
    key("stream", "Streaming: a function computes on the first rows while the next rows arrive", value!(flag => stream))
        .also(&["streaming"]),
    key("functions", "Maximum number of functions at work; the host's threads run the remaining tasks. 0: the host runs all tasks; auto: an autotuner chooses", FUNCTIONS)
        .also(&["concurrency", "invocations"])
        .flag("functions", "N|auto", Group::Functions),
    key("edge_kernels", "Place where edge kernels run if tasks run on functions", value!(choice(EdgePlace::ALL) => edge_kernels))
        .also(&["edges"]),
    key("fuse", "Fusion of consecutive stages into one task. auto: as many as possible; a list: the first stage of each task", FUSE)
        .formerly("spans").also(&["fusion", "fused"]).absent("none"),
    key("host", "Location of the host, for the price of its bytes. auto: read from the metadata of EC2 or ECS", value!(choice(HOSTS) => host))
        .also(&["place", "location"])
        .absent("auto").flag("host", "LOCATION", Group::Functions),
    key("host_hour_usd", "Price of the host in dollars per hour, for functions = \"auto\"", value!(some number(Bounds::from(0.0, 10_000.0)) => host_hour_usd))
        .also(&["host_price"])
        .absent("0.085 per thread"),
    key("memory_mb", "Memory size of the function in MiB", value!(integer32(128, 10_240) => memory_mb))
        .also(&["memory", "size"])
        .flag("memory", "MIB", Group::Functions),
    key("timeout_s", "Time limit of an emulated function in seconds", value!(integer32(1, 900) => timeout_s)).also(&["timeout"]),
    key("deadline_ms", "Minimum time after which a task, or a whole run, is launched a second time, in milliseconds", value!(integer(0, 900_000) => deadline_ms))
        .also(&["deadline"]),
    key("deadline_ratio", "Minimum multiple of the stage's average time, or of the runs' median, after which a task or run is launched a second time", value!(number(Bounds::above(1.0, 1000.0)) => deadline_ratio)),
    key("audit", "Share of the tasks of workers and functions that the host recomputes to find wrong results", value!(number(Bounds::SHARE) => audit))
        .also(&["verify", "redundancy"])
        .absent("0").flag("audit", "SHARE", Group::Execution),
    key("keep_doubtful", "Continuation with the earlier results of a process whose result an audit found to be wrong", value!(flag => keep_doubtful)).absent("false"),
    key("deployment", "Name or file of a deployment, as `eciton deploy` writes it", value!(some text("a path to a deployment's file") => deployment))
        .also(&["stack"])
        .absent("eciton")
        .flag("deployment", "NAME|FILE", Group::Functions),
];

const KIND: (Kind, Write<Executor>) = (
    // `loopback` exists for tests.
    Kind::Choice(|| names(&ExecutorKind::ALL).into_iter().filter(|name| *name != "loopback").collect()),
    |executor, field, kind| {
        executor.kind = field.choice(&ExecutorKind::ALL).map_err(|_| field.refuse(kind.text(&field.name)))?;
        Ok(())
    },
);

const FUNCTIONS: (Kind, Write<Executor>) =
    (Kind::IntegerOrAuto(0, MAX_FUNCTIONS as u64), |executor, field, kind| {
        executor.functions = kind.auto(field)?.map_or(FunctionCount::Auto, FunctionCount::Fixed);
        Ok(())
    });

const FUSE: (Kind, Write<Executor>) =
    (Kind::Open(|| vec!["none", "auto"], "a list of stages such as [0, 3]"), |executor, field, _| {
        executor.fuse = match field.word(&["none", "auto"]) {
            Some("none") => FusionChoice::None,
            Some(_) => FusionChoice::Auto,
            None => FusionChoice::Firsts(field.integers32(0..=MAX_STAGE)?),
        };
        Ok(())
    });

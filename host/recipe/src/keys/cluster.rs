//! The keys of `[cluster]`.

use super::key::{Bounds, Group, Key, Kind, key, value};
use crate::cluster::Cluster;
use crate::document::Field;

type To = Cluster;

pub(super) const CLUSTER: &[Key<Cluster>] = &[
    key("file", "Path of a file with this section, which describes the workers and their links", value!(some text("the path of a file with the section [cluster]") => file))
        .also(&["path"])
        .absent("none")
        .flag("cluster", "FILE", Group::Pipeline),
    key("speed_percent", "Speed of each worker's processor, in percent of the machine that measured the profile, one number for all workers or one per worker", value!(integers(1, 100_000) => speed_percent))
        .also(&["speed", "pace", "paces"])
        .absent("workers on this machine share its cores; others have the speed of the measured machine"),
    key("memory_mib", "Memory of each worker process in MiB, one number for all workers or one per worker", value!(integers(1, 1 << 30) => memory_mib))
        .also(&["memory", "memory_mb"])
        .absent("no limit"),
    key("link_mbits", "Bandwidth of each worker's link in each direction in megabits per second, one number for all workers or one per worker", value!(integers(1, 10_000_000) => link_mbits))
        .also(&["bandwidth", "network_mbits", "link"])
        .absent("that of processes on one machine"),
    key("host_link_mbits", "Bandwidth of the host's link in each direction, in megabits per second", value!(some integer32(1, 10_000_000) => host_link_mbits))
        .also(&["host_link"])
        .absent("that of the fastest worker"),
    key("transfer_us", "Time of a transfer in addition to its bytes divided by the bandwidth, in microseconds", value!(some integer32(0, 10_000_000) => transfer_us))
        .also(&["latency_us", "latency"])
        .absent("a built-in value"),
    key("failures_per_hour", "Mean number of failures per worker and hour, for which eciton plan chooses snapshots, replicas, width or redundant computation", value!(some number(Bounds::from(0.0, 3600.0)) => failures_per_hour))
        .also(&["preemption_rate", "failure_rate"])
        .absent("no failures are expected"),
    key("replaced_after_s", "Time until a failed worker is replaced, in seconds", value!(some integer32(0, 86_400) => replaced_after_s))
        .also(&["replacement_s"])
        .absent("five minutes"),
    key("usd_hour", "Price of a worker and hour in US dollars, with cluster.failures_per_hour", value!(some number(Bounds::from(0.0, 10_000.0)) => usd_hour))
        .also(&["price", "worker_hour_usd"])
        .absent("not set"),
    key("reliable_usd_hour", "Price of a worker and hour that does not fail in US dollars, for instance on demand", value!(some number(Bounds::from(0.0, 10_000.0)) => reliable_usd_hour))
        .also(&["on_demand_usd_hour"])
        .absent("there are no such workers"),
];

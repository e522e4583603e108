//! The keys of `[hosts]`.

use super::key::{Group, Key, Kind, key, value};
use crate::document::Field;
use crate::hosts::Hosts;

type To = Hosts;

pub(super) const HOSTS: &[Key<Hosts>] = &[
    key(
        "rendezvous",
        "Place at which the hosts learn the address of host 0: a folder that all share, s3://BUCKET/PREFIX, or \
         tcp://HOST:PORT",
        value!(some text("the path of a folder, s3://BUCKET/PREFIX or tcp://HOST:PORT") => rendezvous),
    )
    .also(&["init_method", "shared_folder", "master_addr"])
    .flag("rendezvous", "PLACE", Group::Execution)
    .absent("a temporary folder, for hosts on this machine"),
    key(
        "listen",
        "Address at which this host listens for other hosts, as HOST:PORT",
        value!(some text("HOST:PORT, for instance \"10.0.0.5:7070\"") => listen),
    )
    .also(&["address", "bind"])
    .absent("a free port of this machine's address"),
    key(
        "secret",
        "File with the secret of the run, which all hosts have",
        value!(some text("the path of a file") => secret),
    )
    .also(&["token", "password"])
    .absent("the environment variable ECITON_SECRET, or a new secret at the rendezvous"),
    key(
        "encrypt",
        "Encryption of the connections between hosts; false is allowed on private addresses",
        value!(flag => encrypt),
    )
    .also(&["tls", "ssl"]),
    key(
        "silence_ms",
        "Time without a byte after which a host counts as failed, in milliseconds",
        value!(integer(100, 10_000_000) => silence_ms),
    )
    .also(&["timeout_ms", "heartbeat_ms"]),
    key(
        "wait_s",
        "Time for which a host waits for the others at the start, in seconds",
        value!(integer32(1, 86_400) => wait_s),
    )
    .also(&["wait", "patience"]),
];

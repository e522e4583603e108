//! Training on several hosts, each of which runs the steps of its own intervals.
//!
//! All hosts have the same intervals, the same weights and the same sequence of updates. A host
//! sends rows of its steps to the hosts whose steps read them ([`lists`]), and the sums of its
//! gradients to all others. Sums follow the summation tree of the run, so that several hosts compute
//! the same bits as one ([`exchange`]).

mod checks;
mod connections;
mod cut;
mod exchange;
mod features;
mod link;
mod lists;
mod part;
mod plan;
mod reduced;
mod usage;
mod values;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use eciton_recipe::{Config, MAX_HOSTS};
use eciton_workers::{Apart, MeetingPlace, Mesh, MeshSettings, Secret, Watch};

pub(crate) use self::checks::{check, check_data, check_order};
pub use self::connections::Hosts;
pub(crate) use self::cut::Cut;
pub(crate) use self::exchange::{Exchange, Shared};
pub(crate) use self::link::{Facts, Link};
pub(crate) use self::part::{HostPart, copied};
pub use self::plan::{HostsPlan, PlannedHost};
pub(crate) use self::usage::{HostUsage, gather};
use crate::error::{Error, Result};
use crate::session::Session;

/// Names this host among those of its run.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Index of this host. If `None`, host 0 assigns one.
    pub me: Option<u32>,
    /// Number of hosts. If `None`, host 0 says it.
    pub count: Option<u32>,
    /// Number of hosts that share the memory of this machine, including this one.
    pub here: u32,
}

impl Hosts {
    /// Connects this host to all others, as `[hosts]` of `config` says. `watch` gets a line
    /// that says what the host waits for. Host 0 tells `task` to all hosts. Also returns what host 0 has told.
    ///
    /// # Errors
    /// Returns [`Error::Hosts`] without a rendezvous or with an unusable secret, and
    /// [`Error::Functions`] if the hosts cannot connect. Returns [`Error::HostFailed`] if host 0 has
    /// ended the run. Returns [`Error::Class`] if this processor does not support the numeric class
    /// of the configuration.
    pub fn connect(
        config: &Config,
        wanted: Wanted,
        task: Vec<u8>,
        watch: &mut dyn Watch,
    ) -> Result<(Self, Bytes)> {
        Session::settle_class(config)?;
        let of = &config.hosts;
        let rendezvous = of.rendezvous.as_ref().ok_or_else(|| {
            Error::Hosts(
                "set `hosts.rendezvous` (--rendezvous) to a folder that all hosts share, to s3://BUCKET/PREFIX, or \
                 to the address of host 0, tcp://HOST:PORT"
                    .to_owned(),
            )
        })?;
        let place = MeetingPlace::open(rendezvous)?;
        let secret = secret(of.secret.as_deref().map(Path::new))?;
        if let (MeetingPlace::Address(_), None) = (&place, &secret) {
            return Err(Error::Hosts(format!(
                "{place} needs a secret that all hosts have: set `hosts.secret` to a file with the output of \
                 `openssl rand -hex 32`, or put that text into the environment variable {SECRET}"
            )));
        }
        let settings = MeshSettings {
            me: wanted.me,
            count: wanted.count,
            place,
            secret,
            listen: of.listen.clone(),
            silence: Duration::from_millis(of.silence_ms),
            patience: Duration::from_secs(of.wait_s.into()),
            encrypt: of.encrypt,
            most: MAX_HOSTS,
            task: task.into(),
        };
        let mesh = Mesh::connect(&settings, watch).map_err(|apart| match apart {
            Apart::Here(error) => error.into(),
            Apart::There(reason) => Error::HostFailed { host: 0, reason, is_told: true },
            Apart::Failed(host, reason) => Error::HostFailed { host, reason, is_told: false },
        })?;
        let task = mesh.task.clone();
        let (me, count, here) = (mesh.me, mesh.count, wanted.here);
        Ok((Self { me, count, here, saves: false, fabric: Some(Arc::new(mesh)) }, task))
    }

    /// Ends the connections after the run of this host. If `result` is an error, the other hosts
    /// report it too.
    pub fn end<T>(&self, result: &Result<T>) {
        let Some(fabric) = &self.fabric else { return };
        match result {
            Ok(_) | Err(Error::Left { .. } | Error::Stopped) => fabric.end(None),
            Err(Error::HostFailed { host, reason, .. }) => fabric.end(Some((*host, reason))),
            Err(error) => fabric.end(Some((self.me, &eciton_input::text::causes(error)))),
        }
    }
}

/// Environment variable with the text of the secret, for machines that get it from a service.
const SECRET: &str = "ECITON_SECRET";

/// Reads the secret of a run from the file `path`, or else from the environment.
fn secret(path: Option<&Path>) -> Result<Option<Secret>> {
    let refused = |error: &dyn std::fmt::Display| Error::Hosts(format!("hosts.secret: {error}"));
    match (path, std::env::var(SECRET)) {
        (Some(path), _) => Secret::read(path).map(Some).map_err(|error| refused(&error)),
        (None, Ok(text)) if !text.is_empty() => {
            Secret::parse(&text).map(Some).map_err(|error| Error::Hosts(format!("{SECRET}: {error}")))
        }
        (None, _) => Ok(None),
    }
}

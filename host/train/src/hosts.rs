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
mod link;
mod lists;
mod part;
mod plan;
mod reduced;
mod values;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use eciton_recipe::Config;
use eciton_workers::{Mesh, MeshSettings};

pub(crate) use self::checks::{check, check_data};
pub use self::connections::Hosts;
pub(crate) use self::cut::Cut;
pub(crate) use self::exchange::{Exchange, Shared};
pub(crate) use self::link::{Facts, Link};
pub(crate) use self::part::{HostPart, copied};
pub use self::plan::{HostsPlan, PlannedHost};
use crate::error::{Error, Result};
use crate::session::Session;

impl Hosts {
    /// Connects host `me` of `count` hosts to all others, as `[hosts]` of `config` says. `tell` gets
    /// a line that says what the host waits for.
    ///
    /// # Errors
    /// Returns [`Error::Hosts`] without a folder of addresses, and [`Error::Functions`] if the hosts
    /// cannot connect. Returns [`Error::Class`] if this processor does not support the numeric class
    /// of the configuration.
    pub fn connect(config: &Config, (me, count): (u32, u32), tell: &mut dyn FnMut(&str)) -> Result<Self> {
        Session::settle_class(config)?;
        let of = &config.hosts;
        let rendezvous = of.rendezvous.as_ref().map(PathBuf::from);
        let rendezvous = rendezvous.ok_or_else(|| {
            Error::Hosts("set `hosts.rendezvous` (--rendezvous) to a folder that all hosts share".to_owned())
        })?;
        let settings = MeshSettings {
            me,
            count,
            rendezvous,
            listen: of.listen.clone(),
            silence: Duration::from_millis(of.silence_ms),
            patience: Duration::from_secs(of.wait_s.into()),
        };
        Ok(Self { me, count, fabric: Some(Arc::new(Mesh::connect(settings, tell)?)) })
    }

    /// Ends the connections after the run of this host. If `result` is an error, the other hosts
    /// report it too.
    pub fn end<T>(&self, result: &Result<T>) {
        let Some(fabric) = &self.fabric else { return };
        match result {
            Ok(_) => fabric.end(None),
            Err(Error::HostFailed { host, reason, .. }) => fabric.end(Some((*host, reason))),
            Err(error) => fabric.end(Some((self.me, &eciton_input::text::causes(error)))),
        }
    }
}

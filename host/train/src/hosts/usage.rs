//! Tasks and charges of all hosts, which host 0 reports for the whole run.

use eciton_exec::{Bill, Completion, Executor};
use eciton_types::Exchanged;
use serde::{Deserialize, Serialize};

use super::link::Link;
use crate::error::{Error, Result};

/// Usage of a host.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct HostUsage {
    /// Number of completed tasks.
    pub tasks: u64,
    /// Usage of charged services. `None` if nothing is charged.
    pub bill: Option<Bill>,
}

impl HostUsage {
    /// Returns the sum of the usage of two hosts.
    fn and(self, other: Self) -> Self {
        let bill = match (self.bill, other.bill) {
            (Some(one), Some(other)) => Some(one.and(&other)),
            (one, other) => one.or(other),
        };
        Self { tasks: self.tasks + other.tasks, bill }
    }
}

/// Sends what this host has used to host 0, as the messages of the pass `pass`. Host 0 stores the
/// usage of all hosts, and the others store their own.
///
/// # Errors
/// Returns [`Error::HostFailed`] if a host fails before host 0 has its usage.
pub(crate) fn gather<M: Executor + ?Sized>(
    link: &Link,
    machine: &mut M,
    (pass, own): (u32, HostUsage),
) -> Result<()> {
    link.used.set(Some(own));
    if link.hosts.me != 0 {
        let body = serde_json::to_vec(&own).map_err(|error| Error::Hosts(error.to_string()))?;
        link.report(pass, body.into());
        return Ok(());
    }
    let _waits = link.waits();
    let (mut all, mut done) = (own, link.kept(pass));
    let mut missing = link.others().count();
    loop {
        for completion in done.drain(..) {
            match completion {
                Completion::Received { from, message } if message.content == Exchanged::Usage => {
                    let found = serde_json::from_slice(&message.body);
                    all = all.and(found.map_err(|error| {
                        Error::Hosts(format!("host {from} has sent a usage that cannot be read ({error})"))
                    })?);
                    missing -= 1;
                }
                Completion::HostFailed { host, reason, is_told } => {
                    return Err(Error::HostFailed { host, reason, is_told });
                }
                // Tasks that were repeated elsewhere may end late.
                _ => {}
            }
        }
        if missing == 0 {
            link.used.set(Some(all));
            return Ok(());
        }
        machine.drain(&mut done, None);
    }
}

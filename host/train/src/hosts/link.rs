//! Messages between the hosts of a run, and the state that all programs of the run share.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use eciton_exec::hosts::Message;
use eciton_exec::{Completion, Inbox};
use eciton_program::Program;
use eciton_recipe::Config;
use eciton_runs::report::HostTraffic;
use eciton_types::{End, Exchanged, Round};
use sha2::{Digest as _, Sha256};

use super::connections::Hosts;
use super::cut::Cut;
use super::usage::HostUsage;
use crate::error::{Error, Result};
use crate::stop::{Ask, Stop};

/// The other hosts of a run, and what this host has exchanged with them.
#[derive(Debug)]
pub(crate) struct Link {
    pub hosts: Hosts,
    pub cut: Cut,
    /// Stop request that this host passes on to all hosts.
    stop: Arc<Stop>,
    /// True if a host has decided to end the run early.
    pub(super) stopped: Cell<bool>,
    /// True if a host has decided to end the run with only a checkpoint.
    leaves: Cell<bool>,
    /// Usage of all hosts, once they have exchanged it.
    pub used: Cell<Option<HostUsage>>,
    /// Bytes of message bodies that were sent to each host, and of those received from it.
    traffic: RefCell<Vec<HostTraffic>>,
    inbox: Inbox,
    /// Completions of passes that are not in progress, or that wait for an inner pass.
    kept: RefCell<Vec<Completion>>,
    facts: Facts,
    /// Digest of the weights and the step from which the training begins.
    start: Cell<[u8; 32]>,
}

/// Size of the facts that a host sends to each other one before each training, in bytes.
pub(super) const FACT_BYTES: u64 = 128;

/// Digests of what all hosts of a run must agree on: the data, the settings, and the program with
/// its kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts([[u8; 32]; 3]);

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl Facts {
    pub(crate) fn new(
        config: &Config,
        (data, reads_own): (&dyn std::fmt::Debug, bool),
        (program, cut, kernels): (&Program, &Cut, &dyn std::fmt::Debug),
    ) -> Self {
        // Threads, memory and executors may differ between hosts.
        let settings =
            (&config.model, &config.optimiser, &config.pipeline, config.run.seed, config.run.epochs);
        let periods = (config.run.steps, config.run.eval_every, config.run.keep, config.run.patience);
        Self([
            digest(&format!("{data:?}")),
            digest(&format!("{settings:?} {periods:?} {:?} {reads_own}", config.run.until)),
            digest(&format!(
                "{:?} {:?} {:?} {cut:?} {} {kernels:?}",
                program.stages,
                program.relations,
                program.parameters,
                eciton_tensor::simd::numeric_class()
            )),
        ])
    }
}

/// Makes the executor wait for messages as for a job in flight, until it is dropped.
pub(crate) struct Waits<'a>(&'a Inbox);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.forget();
    }
}

impl Link {
    /// Joins `hosts`, among which `cut` divides the intervals. Messages arrive in `inbox`.
    pub(crate) fn new(hosts: &Hosts, (cut, facts): (Cut, Facts), (stop, inbox): (&Arc<Stop>, Inbox)) -> Self {
        let traffic = (0..hosts.count).map(|host| HostTraffic { host, ..HostTraffic::default() }).collect();
        let traffic = RefCell::new(traffic);
        hosts.fabric.iter().for_each(|fabric| fabric.listen(inbox.clone()));
        let (hosts, stop, start) = (hosts.clone(), stop.clone(), Cell::new([0; 32]));
        let (stopped, leaves, kept) = (Cell::new(false), Cell::new(false), RefCell::default());
        let used = Cell::default();
        Self { hosts, cut, stop, stopped, leaves, used, traffic, inbox, kept, facts, start }
    }

    /// Sends the facts of this host to all others, which compare them in the pass `pass`. The
    /// training begins with the weights `values`, after the step and with the seed in `from`.
    pub(crate) fn announce(&self, pass: u32, from: (u64, u32), values: &[Vec<f32>]) {
        let mut start = Sha256::new_with_prefix(format!("{from:?}"));
        values.iter().flatten().for_each(|value| start.update(value.to_le_bytes()));
        self.start.set(start.finalize().into());
        let body = Bytes::from([&self.facts.0[..], &[self.start.get()]].concat().concat());
        for host in self.others() {
            self.send(host, (pass, Exchanged::Facts), body.clone());
        }
    }

    /// Checks the facts that another host has sent.
    ///
    /// # Errors
    /// Returns [`Error::Hosts`] if they are not those of this host.
    pub(crate) fn agrees(&self, from: u32, body: &[u8]) -> Result<()> {
        self.agrees_on(self.facts.0.into_iter().chain([self.start.get()]), from, body)
    }

    /// Checks the facts that another host has sent before this host knows its first weights.
    ///
    /// # Errors
    /// Returns [`Error::Hosts`] if they are not those of this host.
    pub(super) fn agrees_so_far(&self, from: u32, body: &[u8]) -> Result<()> {
        self.agrees_on(self.facts.0.into_iter(), from, body)
    }

    fn agrees_on(&self, facts: impl Iterator<Item = [u8; 32]>, from: u32, body: &[u8]) -> Result<()> {
        let found: Vec<&[u8]> = body.chunks(32).collect();
        let known = facts.zip(["data", "settings", "program, kernels or number of hosts", "first weights"]);
        let differs = known.enumerate().find(|(at, (fact, _))| found.get(*at) != Some(&&fact[..]));
        let Some((_, (_, what))) = differs else { return Ok(()) };
        Err(Error::Hosts(format!(
            "host {from} and host {} have different {what}; start all hosts with the same command, the same \
             data and the same version of eciton",
            self.hosts.me
        )))
    }

    /// Returns the intervals of this host.
    pub(crate) fn own(&self) -> Range<u32> {
        self.cut.of(self.hosts.me)
    }

    /// Makes the executor wait for messages of other hosts.
    pub(crate) fn waits(&self) -> Waits<'_> {
        self.inbox.begin();
        Waits(&self.inbox)
    }

    /// Stores a completion until its pass takes it.
    pub(crate) fn keep(&self, completion: Completion) {
        self.kept.borrow_mut().push(completion);
    }

    /// Removes the stored completions of `pass`.
    pub(crate) fn kept(&self, pass: u32) -> Vec<Completion> {
        self.kept.borrow_mut().extract_if(.., |completion| completion.pass() == Some(pass)).collect()
    }

    /// Returns the indices of all other hosts.
    pub(super) fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let me = self.hosts.me;
        (0..self.hosts.count).filter(move |&host| host != me)
    }

    pub(super) fn send(&self, to: u32, (pass, content): (u32, Exchanged), body: Bytes) {
        if let Some(traffic) = self.traffic.borrow_mut().get_mut(to as usize) {
            traffic.sent_bytes += body.len() as u64;
        }
        if let Some(fabric) = &self.hosts.fabric {
            fabric.send(to, Message { pass, content, body });
        }
    }

    /// Sends the usage of this host to host 0. It is not part of the traffic, because its size
    /// depends on times.
    pub(super) fn report(&self, pass: u32, body: Bytes) {
        if let Some(fabric) = &self.hosts.fabric {
            fabric.send(0, Message { pass, content: Exchanged::Usage, body });
        }
    }

    /// Counts the body of a message that host `from` has sent.
    pub(crate) fn count(&self, from: u32, body: &Bytes) {
        if let Some(traffic) = self.traffic.borrow_mut().get_mut(from as usize) {
            traffic.received_bytes += body.len() as u64;
        }
    }

    /// Returns the bytes that this host has exchanged with each other host so far.
    pub(crate) fn traffic(&self) -> Vec<HostTraffic> {
        let mut traffic = self.traffic.borrow().clone();
        traffic.retain(|of| of.host != self.hosts.me);
        traffic
    }

    /// Returns true if a host has decided to end the run early.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get()
    }

    /// Returns true if the run ends with only a checkpoint, which host 0 writes.
    pub(crate) fn leaves(&self) -> bool {
        self.leaves.get() && self.hosts.saves
    }

    /// Returns the end of the run if a stop was requested at this host. All hosts must learn it with
    /// this host's sums of `round`. `bound` is the number of rounds that a host may be ahead.
    pub(super) fn ends(&self, round: Round, bound: u32) -> Option<End> {
        if !self.stop.is_asked() || self.stopped.replace(true) {
            return None;
        }
        let end = End { after: Round(round.0.saturating_add(bound)), leaves: self.stop.leaves() };
        self.leaves.set(self.leaves.get() || end.leaves);
        Some(end)
    }

    /// Records that another host has decided to end the run.
    pub(super) fn ends_elsewhere(&self, end: End) {
        self.stopped.set(true);
        self.leaves.set(self.leaves.get() || end.leaves);
        self.stop.ask(if end.leaves { Ask::Leave } else { Ask::Finish });
    }
}

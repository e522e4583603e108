//! Training on several hosts, each of which runs the steps of its own intervals.
//!
//! All hosts have the same intervals, the same weights and the same sequence of updates. A host
//! sends rows of its steps to the hosts whose steps read them ([`lists`]), and the sums of its
//! gradients to all others. Sums follow the summation tree of the run, so that several hosts compute
//! the same bits as one ([`exchange`]).

mod exchange;
mod lists;
mod part;
mod plan;
mod values;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use eciton_exec::hosts::{Fabric, Message};
use eciton_exec::{Completion, Inbox};
use eciton_program::{Program, Scope};
use eciton_recipe::Config;
use eciton_runs::report::HostTraffic;
use eciton_types::{Exchanged, Round};
use eciton_workers::{Mesh, MeshSettings};
use sha2::{Digest as _, Sha256};

pub(crate) use self::exchange::{Exchange, Shared};
pub(crate) use self::part::{HostPart, copied};
pub use self::plan::{HostsPlan, PlannedHost};
use crate::checkpoint::Fingerprint;
use crate::data::{Inputs, Interval};
use crate::error::{Error, Result};
use crate::session::Session;
use crate::stop::Stop;

/// The hosts of a run, as one of them sees them.
#[derive(Debug, Clone)]
pub struct Hosts {
    /// Index of this host. Host 0 writes the run folder and its messages are those of the run.
    pub me: u32,
    /// Number of hosts, at least 2.
    pub count: u32,
    /// Connections to the other hosts. `None` for a plan, which exchanges nothing.
    pub fabric: Option<Arc<dyn Fabric>>,
}

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

/// Division of the intervals among the hosts. Each host has consecutive intervals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// First interval of each host, followed by the number of intervals.
    firsts: Vec<u32>,
}

impl Cut {
    /// Divides the intervals so that all hosts have about the same number of atoms, which are of
    /// about equal work.
    ///
    /// # Errors
    /// Returns [`Error::Hosts`] if there are fewer intervals than hosts.
    pub(crate) fn new(inputs: &Inputs, hosts: u32) -> Result<Self> {
        let tree = inputs.atoms.tree();
        let start =
            |interval: &Interval| interval.nodes.first().map_or(tree.atoms(), |node| tree.span(*node).start);
        let starts: Vec<u32> = inputs.intervals.iter().map(start).chain([tree.atoms()]).collect();
        let intervals = inputs.intervals.len() as u32;
        if intervals < hosts {
            return Err(Error::Hosts(format!(
                "the data set has {intervals} intervals, which {hosts} hosts cannot divide among them; use \
                 fewer hosts, or set `run.intervals` to at least {hosts}"
            )));
        }
        let mut firsts = vec![0];
        for host in 1..hosts {
            let wanted = u64::from(tree.atoms()) * u64::from(host) / u64::from(hosts);
            let distance = |at: &u32| u64::from(starts[*at as usize]).abs_diff(wanted);
            let before = firsts.last().copied().unwrap_or(0);
            let all = before + 1..=intervals - (hosts - host);
            firsts.push(all.min_by_key(distance).unwrap_or(before + 1));
        }
        firsts.push(intervals);
        Ok(Self { firsts })
    }

    /// Returns the intervals of a host.
    pub(crate) fn of(&self, host: u32) -> Range<u32> {
        let at = |host: u32| self.firsts.get(host as usize).copied().unwrap_or(0);
        at(host)..at(host + 1)
    }

    /// Returns the intervals of each host.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.firsts.windows(2).map(|pair| pair[0]..pair[1])
    }
}

/// The other hosts of a run, and what this host has exchanged with them.
#[derive(Debug)]
pub(crate) struct Link {
    pub hosts: Hosts,
    pub cut: Cut,
    /// Stop request that this host passes on to all hosts.
    stop: Arc<Stop>,
    /// True if a host has decided to end the run early.
    stopped: Cell<bool>,
    /// Bytes of message bodies that were sent to each host, and of those received from it.
    traffic: RefCell<Vec<HostTraffic>>,
    inbox: Inbox,
    /// Completions of passes that are not in progress, or that wait for an inner pass.
    kept: RefCell<Vec<Completion>>,
    facts: Facts,
}

/// Size of the facts that a host sends to each other one, in bytes.
const FACT_BYTES: u64 = 96;

/// Digests of what all hosts of a run must agree on: the data, the settings, and the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts([[u8; 32]; 3]);

impl Facts {
    pub(crate) fn new(config: &Config, data: Option<&Fingerprint>, (program, cut): (&Program, &Cut)) -> Self {
        // Threads, memory and executors may differ between hosts.
        let settings =
            (&config.model, &config.optimiser, &config.pipeline, config.run.seed, config.run.epochs);
        let periods = (config.run.steps, config.run.eval_every, config.run.keep, config.run.patience);
        let digest = |text: String| Sha256::digest(text.as_bytes()).into();
        Self([
            digest(format!("{data:?}")),
            digest(format!("{settings:?} {periods:?} {:?}", config.run.until)),
            digest(format!(
                "{:?} {:?} {:?} {cut:?} {}",
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
        let (stopped, kept) = (Cell::new(false), RefCell::default());
        let link =
            Self { hosts: hosts.clone(), cut, stop: stop.clone(), stopped, traffic, inbox, kept, facts };
        let body = Bytes::from(facts.0.concat());
        for host in link.others() {
            link.send(host, (0, Exchanged::Facts), body.clone());
        }
        link
    }

    /// Checks the facts that another host has sent.
    ///
    /// # Errors
    /// Returns [`Error::Hosts`] if they are not those of this host.
    pub(crate) fn agrees(&self, from: u32, body: &[u8]) -> Result<()> {
        let found: Vec<&[u8]> = body.chunks(32).collect();
        let known = self.facts.0.iter().zip(["data", "settings", "program or number of hosts"]);
        let differs = known.enumerate().find(|(at, (fact, _))| found.get(*at) != Some(&&fact[..]));
        let Some((_, (_, what))) = differs else { return Ok(()) };
        Err(Error::Hosts(format!(
            "host {from} and host {} have a different {what}; start all hosts with the same command, the same \
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
    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let me = self.hosts.me;
        (0..self.hosts.count).filter(move |&host| host != me)
    }

    fn send(&self, to: u32, (pass, content): (u32, Exchanged), body: Bytes) {
        if let Some(traffic) = self.traffic.borrow_mut().get_mut(to as usize) {
            traffic.sent_bytes += body.len() as u64;
        }
        if let Some(fabric) = &self.hosts.fabric {
            fabric.send(to, Message { pass, content, body });
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

    /// Returns the last round of the run if a stop was requested at this host. All hosts must learn
    /// it with this host's sums of `round`. `bound` is the number of rounds that a host may be ahead.
    fn ends(&self, round: Round, bound: u32) -> Option<Round> {
        (self.stop.is_asked() && !self.stopped.replace(true)).then(|| Round(round.0.saturating_add(bound)))
    }
}

/// Checks that several hosts can train this program.
///
/// # Errors
/// Returns [`Error::Hosts`] with the stage that prevents it, and what to do instead.
pub(crate) fn check(program: &Program) -> Result<()> {
    let whole = |stage: &&eciton_program::Stage| {
        stage.via.is_none() && stage.reads().any(|(_, scope)| scope == Scope::All)
    };
    let Some(stage) = program.stages.iter().find(whole) else { return Ok(()) };
    Err(Error::Hosts(format!(
        "the stage `{}` reads all rows, and several hosts cannot do that yet; use a model without \
         normalisation over rows (`model.norm`), or train on one host",
        stage.name
    )))
}

/// Checks that several hosts can train on this data with this configuration.
///
/// # Errors
/// Returns [`Error::Hosts`] with the setting that prevents it, and what to do instead.
pub(crate) fn check_data(config: &Config, inputs: &Inputs) -> Result<()> {
    let text = match () {
        () if config.executor.kind.has_workers() => {
            "workers and several hosts exclude each other; remove `executor.kind` or the hosts".to_owned()
        }
        () if config.lanes.lanes.count > 0 => {
            "lanes and several hosts exclude each other; remove `lanes.count` or the hosts".to_owned()
        }
        () if config.batch.is_on() => {
            "several hosts train on all rows in each step; remove the settings of `batch`".to_owned()
        }
        () if config.predicts_links() => {
            "links are drawn over all vertices, and several hosts cannot do that yet; train on one host"
                .to_owned()
        }
        () if inputs.dataset.graphs.is_some() => {
            "a data set of many graphs cannot be divided among several hosts yet; train on one host"
                .to_owned()
        }
        () => return Ok(()),
    };
    Err(Error::Hosts(text))
}

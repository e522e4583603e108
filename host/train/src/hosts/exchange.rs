//! Exchange of rows, sums and scores between the hosts, for the stages of one program.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use eciton_engine::Event;
use eciton_exec::{Affinity, Job, Work};
use eciton_gather::Rows;
use eciton_program::{Program, Relation};
use eciton_types::{End, Exchanged, IntervalId, ParameterId, Round, SlotId, StageId, Step, Task};

use super::link::{Link, Waits};
use super::lists;
use super::lists::Lists;
use super::values::{Values, check, put, put_half};
use crate::data::Inputs;
use crate::driver::{RowStore, WriteLease};
use crate::error::{Error, Result};
use crate::weights::Weights;

/// A slot whose rows other hosts read.
#[derive(Debug)]
struct Sent {
    slot: SlotId,
    width: usize,
    lists: Arc<Lists>,
}

/// Exchange of one program, which is the training or an evaluation.
#[derive(Debug)]
pub(crate) struct Exchange {
    link: Rc<Link>,
    /// Slots of each stage whose rows travel.
    sent: Vec<Vec<Sent>>,
    /// Parameters whose gradients the stages compute, in ascending order.
    sums: Vec<ParameterId>,
    /// Scores of all rows, and their number per row. Empty in a training.
    scores: RefCell<Vec<f32>>,
    columns: usize,
    /// First row of each interval, followed by the number of rows.
    rows: Vec<usize>,
    /// Rows that have arrived, until the engine orders to write them.
    arrived: RefCell<BTreeMap<Step, Bytes>>,
}

/// Exchanged results of a round.
pub(crate) enum Shared<'a> {
    /// Gradient sums and losses of a training.
    Sums(&'a mut Weights),
    /// Scores of an evaluation, in this slot.
    Scores(SlotId),
}

impl Exchange {
    /// Prepares the exchange of `schedule`. If `columns` is given, the program is an evaluation with
    /// this number of scores per row.
    pub(crate) fn new(
        link: &Rc<Link>,
        schedule: &Program,
        inputs: &Inputs,
        columns: Option<u32>,
    ) -> Result<Self> {
        let mut known: Vec<(Vec<Relation>, Arc<Lists>)> = Vec::new();
        let mut sent = Vec::new();
        for stage in &schedule.stages {
            let mut of_stage = Vec::new();
            for slot in stage.writes() {
                let width = schedule.slots.get(slot.index()).map_or(0, |spec| spec.width as usize);
                if lists::is_of_atoms(schedule, slot) {
                    let lists = Arc::new(Lists::of_atoms(inputs, &link.cut, link.hosts.me));
                    of_stage.push(Sent { slot, width, lists });
                    continue;
                }
                let relations = lists::readers(schedule, slot);
                if relations.is_empty() {
                    continue;
                }
                let found = known.iter().find(|(of, _)| *of == relations).map(|(_, lists)| lists.clone());
                let lists = match found {
                    Some(lists) => lists,
                    None => {
                        let lists = Lists::new(inputs, &link.cut, link.hosts.me, &relations)?;
                        known.push((relations, Arc::new(lists)));
                        known[known.len() - 1].1.clone()
                    }
                };
                of_stage.push(Sent { slot, width, lists });
            }
            sent.push(of_stage);
        }
        let starts = inputs.host.as_ref().map(|host| &host.starts[..]).unwrap_or_default();
        let columns = columns.map_or(0, |columns| columns as usize);
        Ok(Self {
            link: link.clone(),
            sent,
            sums: sums(schedule),
            scores: RefCell::new(vec![0.0; columns * inputs.rows_of_all() as usize]),
            columns,
            rows: starts.iter().map(|&start| start as usize).collect(),
            arrived: RefCell::default(),
        })
    }

    /// Begins a pass. Rows that an earlier one did not need are dropped. The executor waits for
    /// messages until the result is dropped.
    pub(crate) fn begin(&self) -> Waits<'_> {
        self.arrived.borrow_mut().clear();
        self.link.waits()
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Returns true if the steps of `interval` run at this host.
    pub(crate) fn owns(&self, interval: IntervalId) -> bool {
        self.link.own().contains(&interval.0)
    }

    /// Calls `f` with the scores of all rows, and their number per row.
    pub(crate) fn with_scores<T>(&self, f: impl FnOnce(&[f32], usize) -> T) -> T {
        f(&self.scores.borrow(), self.columns)
    }

    fn sent(&self, stage: StageId) -> &[Sent] {
        self.sent.get(stage.index()).map_or(&[], |sent| sent)
    }

    /// Sends the rows of a finished step of this host to the hosts whose steps read them.
    pub(crate) fn send_rows(&self, pass: u32, rows: &RowStore, step: Step) -> Result<()> {
        let own = (step.interval.0 - self.link.own().start) as usize;
        let mut bodies: Vec<Vec<u8>> = (0..self.link.hosts.count).map(|_| Vec::new()).collect();
        for Sent { slot, lists, .. } in self.sent(step.stage) {
            let lease = rows.lease(*slot, step.round, step.interval, None)?;
            for host in self.link.others() {
                let body = &mut bodies[host as usize];
                let of = &lists.to[host as usize][own];
                match lease.rows() {
                    Rows::F32(view) => of.iter().for_each(|&row| put(view.row(row as usize), body)),
                    Rows::Bf16(view) => of.iter().for_each(|&row| put_half(view.row(row as usize), body)),
                }
            }
        }
        for host in self.link.others() {
            let body = std::mem::take(&mut bodies[host as usize]).into();
            self.link.send(host, (pass, Exchanged::Rows(step)), body);
        }
        Ok(())
    }

    /// Stores rows that have arrived until [`Exchange::write`]. Returns the event for the engine.
    pub(crate) fn received(&self, (from, step): (u32, Step), rows: &RowStore, body: Bytes) -> Result<Event> {
        let known = self.link.cut.of(from).contains(&step.interval.0) && from != self.link.hosts.me;
        if !known || step.stage.index() >= self.sent.len() {
            return Err(Error::Hosts(format!("host {from} has sent rows of {step}, which it does not run")));
        }
        let bytes = |sent: &Sent| {
            let each = if rows.is_half(sent.slot) { 2 } else { 4 };
            sent.lists.from[step.interval.index()].len() as u64 * sent.width as u64 * each
        };
        let expected = self.sent(step.stage).iter().map(bytes).sum();
        check(from, &format!("rows of {step}"), &body, expected)?;
        self.arrived.borrow_mut().insert(step, body);
        Ok(Event::Received(step))
    }

    /// Creates the job that writes received rows into their slots.
    pub(crate) fn write(&self, pass: u32, rows: &RowStore, task: Task) -> Result<Job> {
        let step = task.step();
        let body = self.arrived.borrow_mut().remove(&step);
        let body = body.ok_or_else(|| Error::Internal(format!("no rows of {step} have arrived")))?;
        let lease = |Sent { slot, lists, .. }: &Sent| {
            let to = rows.write(*slot, step.round, step.interval, None)?;
            Ok((to, lists.from[step.interval.index()].clone()))
        };
        let leases = self.sent(step.stage).iter().map(lease).collect::<Result<Vec<_>>>()?;
        let work = Work::Host(Box::new(move || {
            let mut values = Values::new(&body);
            for (lease, listed) in leases {
                put_rows(lease, &listed, &mut values);
            }
            Ok(())
        }));
        Ok(Job { pass, task, work, deadline: None, affinity: Affinity::HOST })
    }

    /// Sends the results of a round that this host has finished on all of its intervals. `bound` is
    /// the number of rounds that a host may be ahead. Returns the event for the engine if the run
    /// ends early.
    pub(crate) fn share(
        &self,
        (pass, round, bound): (u32, Round, u32),
        rows: &RowStore,
        shared: Shared<'_>,
    ) -> Result<Option<Event>> {
        let (link, own) = (&self.link, self.link.own());
        let mut body = Vec::new();
        let mut end = None;
        match shared {
            Shared::Sums(weights) => {
                let values = weights.shared(round, (&self.sums, own.clone()))?;
                weights.add_shared((round, link.hosts.me), (&self.sums, own), &values)?;
                put(&values, &mut body);
                end = link.ends(round, bound);
            }
            Shared::Scores(slot) => {
                let mut scores = self.scores.borrow_mut();
                for interval in own.map(IntervalId) {
                    let (lease, first) =
                        (rows.lease(slot, round, interval, None)?, self.rows[interval.index()]);
                    let Rows::F32(view) = lease.rows() else {
                        return Err(Error::Internal("the scores are not stored as f32".to_owned()));
                    };
                    for row in 0..view.rows() {
                        put(view.row(row), &mut body);
                        let to = (first + row) * self.columns;
                        scores[to..to + self.columns].copy_from_slice(view.row(row));
                    }
                }
            }
        }
        let body = Bytes::from(body);
        for host in link.others() {
            link.send(host, (pass, Exchanged::Shared { round, end }), body.clone());
        }
        Ok(end.map(|end| Event::EndAfter { round: end.after }))
    }

    /// Stores the results of a round that another host has sent. Returns the events for the engine.
    pub(crate) fn shared(
        &self,
        (from, round, end): (u32, Round, Option<End>),
        weights: Option<&mut Weights>,
        body: &Bytes,
    ) -> Result<[Option<Event>; 2]> {
        let own = self.link.cut.of(from);
        let what = format!("results of round {round}");
        if own.is_empty() || from == self.link.hosts.me {
            return Err(Error::Hosts(format!("host {from} does not exist, but has sent {what}")));
        }
        let mut values = Values::new(body);
        match weights {
            Some(weights) => {
                let count = weights.shared_values(from, (&self.sums, own.clone()));
                check(from, &what, body, 4 * count)?;
                let mut all = vec![0.0; count as usize];
                values.take(&mut all);
                weights.add_shared((round, from), (&self.sums, own.clone()), &all)?;
            }
            None => {
                let rows = self.rows[own.start as usize]..self.rows[own.end as usize];
                check(from, &what, body, 4 * (rows.len() * self.columns) as u64)?;
                let all = rows.start * self.columns..rows.end * self.columns;
                values.take(&mut self.scores.borrow_mut()[all]);
            }
        }
        if let Some(end) = end {
            self.link.ends_elsewhere(end);
        }
        let shared = Event::Shared { first: own.start, end: own.end, round };
        Ok([end.map(|end| Event::EndAfter { round: end.after }), Some(shared)])
    }
}

/// Returns the parameters whose gradients the stages of a program compute, in ascending order.
pub(super) fn sums(schedule: &Program) -> Vec<ParameterId> {
    let sums: BTreeSet<ParameterId> =
        schedule.stages.iter().flat_map(|stage| stage.sums.iter().copied()).collect();
    sums.into_iter().collect()
}

/// Writes received values to the listed rows.
fn put_rows(lease: WriteLease, listed: &lists::Rows, values: &mut Values<'_>) {
    match lease {
        WriteLease::F32(mut lease) => {
            let mut view = lease.view_mut();
            listed.iter().for_each(|&row| values.take(view.row_mut(row as usize)));
        }
        WriteLease::Bf16(mut lease) => {
            let mut view = lease.view_mut();
            listed.iter().for_each(|&row| values.take_half(view.row_mut(row as usize)));
        }
    }
}

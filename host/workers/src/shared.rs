//! State that a worker pool shares with the connections to its workers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_connect::{Message, Token};
use eciton_exec::{Answered, Completion, Inbox, Instruction, Order, PendingJob, Process, Traffic};
use eciton_kernel::Error;
use eciton_types::{Location, Step, TaskKey, TensorKey};
use tokio::sync::watch;

use super::frames::{values, whole};
use super::link::{Flight, Link, ROW_MISSES};
use super::objects::Objects;
use super::settings::{CREDIT, Settings};

/// Reason of the end of a worker that was asked to leave and has finished its tasks.
pub(super) const GOES: &str = "the worker was asked to leave";
/// Maximum length of the reason of a worker's end, in bytes.
const REASON_BYTES: usize = 512;
/// Number of wrong answers from workers with one token after which the pool admits no more workers
/// with that token.
const WRONG_ANSWERS: u32 = 3;
/// Number of consecutive failures without an answer after which the pool admits no more workers
/// with that token.
const SILENT_FAILURES: u32 = 16;
/// Number of temporary failures of one step that a worker may report before another process must
/// reproduce the failure.
const PASSING_FAILURES: u32 = 1;
/// Number of rounds for which the pool remembers failure reports.
const FAILURE_ROUNDS: u32 = 16;
/// Maximum number of numeric classes that the pool records. Only four exist.
const CLASSES: usize = 16;

/// State of a pool that changes while it runs: its workers, objects and counts.
pub(super) struct State {
    pub(super) links: Vec<Option<Link>>,
    pub(super) objects: Objects,
    pub(super) traffic: Vec<Traffic>,
    pub(super) classes: BTreeSet<String>,
    /// Number of wrong answers of workers with each token.
    pub(super) wrong: BTreeMap<u32, u32>,
    /// Number of failures of workers with each token since their last answer.
    pub(super) silent: BTreeMap<u32, u32>,
    /// Failure reports, by step. The value is the first worker that reported the failure of the
    /// step, and its number of reports.
    pub(super) failures: BTreeMap<Step, (Location, u32)>,
    /// Number of connections accepted so far, which is also the number of the latest connection.
    pub(super) connections: u64,
    /// Number of tasks and instructions sent so far, which is also the number of the latest one.
    pub(super) numbers: u64,
    /// Asynchronous tasks that serve the connections.
    pub(super) writers: Vec<tokio::task::JoinHandle<()>>,
    /// True once the pool sends no more tasks.
    pub(super) closed: bool,
    /// True if no worker is connected, and a job counts as in flight until one connects.
    pub(super) deserted: bool,
}

impl State {
    /// Returns the link of the worker at `at`, if its connection has the number `id`.
    pub(super) fn link(&mut self, at: Location, id: u64) -> Option<&mut Link> {
        self.links.get_mut(at.index())?.as_mut().filter(|link| link.id == id)
    }

    /// Returns true if no worker is connected.
    pub(super) fn is_empty(&self) -> bool {
        self.links.iter().all(Option::is_none)
    }

    /// Returns true if another process must reproduce a failure before the engine gets the worker's
    /// report. Tasks are deterministic. A second process that computes the step either fails as
    /// well, or shows that the first report was wrong.
    ///
    /// The engine gets one report of a temporary failure without this check, because another
    /// attempt may succeed.
    fn is_doubtful(&mut self, at: Location, (key, of_lane): (TaskKey, bool), error: &Error) -> bool {
        self.failures.retain(|step, _| step.round.0.saturating_add(FAILURE_ROUNDS) >= key.round.0);
        let (first, reports) = self.failures.entry(key.step()).or_insert((at, 0));
        if *first != at {
            return false;
        }
        *reports += 1;
        if error.is_retryable() && *reports <= PASSING_FAILURES {
            return false;
        }
        let others = Location::workers().zip(&self.links).filter(|(other, _)| *other != at);
        let others = others.filter_map(|(_, link)| link.as_ref());
        // The host can compute every task that is not of a lane.
        !of_lane || others.into_iter().any(|link| !link.draining)
    }
}

/// State that a worker pool shares with the connections to its workers.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) inbox: Inbox,
    pub(super) state: Mutex<State>,
    /// Signals that a worker connected, is ready, or failed.
    pub(super) changed: Condvar,
    pub(super) runtime: tokio::runtime::Handle,
    /// Components (WebAssembly code) of kernels, each with its digest.
    pub(super) kernels: Vec<(String, Bytes)>,
    /// Signal that the run ends. The value is true if it may be resumed, and `None` before.
    pub(super) ending: watch::Sender<Option<bool>>,
}

/// Returns the beginning of `text`, truncated to at most `most` bytes.
fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

impl Shared {
    /// Locks the state, even if a thread panicked while it held the lock.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // The tables are consistent even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that each connected worker can cache the bytes that its lane (share of the pipeline)
    /// needs. Returns a message for the user if one cannot.
    pub(super) fn check(&self, state: &State) -> Result<(), String> {
        let needs = self.settings.needs.iter().zip(&state.links);
        for (at, (&(weights, rows), link)) in Location::workers().zip(needs) {
            let keeps = link.as_ref().map_or(u64::MAX, |link| link.keeps_bytes);
            if weights.saturating_add(rows) > keeps {
                return Err(format!(
                    "the lane of {at} needs {} bytes of cache ({weights} for weights, {rows} for rows), but the \
                     worker has {keeps}; use more lanes (--lanes), more micro-batches (--micro), or a larger cache \
                     (--cache, workers.cache_bytes)",
                    weights.saturating_add(rows)
                ));
            }
        }
        Ok(())
    }

    /// Sends a task to the worker at `at`. If that worker has failed, the task fails as well. A
    /// task of a lane is then dropped without a report, because the worker's failure was reported.
    pub(super) fn hand(self: &Arc<Self>, at: Location, order: &Order) {
        let key = order.task.key();
        let of_lane = order.affinity.is_bound();
        self.inbox.begin();
        let pending = PendingJob::new(&self.inbox);
        let mut state = self.lock();
        if state.closed {
            return;
        }
        let State { links, objects, numbers, traffic, .. } = &mut *state;
        let link = links.get(at.index()).and_then(Option::as_ref);
        let stranger = |link: &Link| of_lane && self.settings.peers && !link.begun;
        if link.is_none_or(|link| link.draining || stranger(link)) {
            drop(state);
            if !of_lane {
                let reason = format!("{at} is not connected");
                pending.end(
                    order.pass,
                    key,
                    Instant::now(),
                    Process::HOST,
                    Err(Error::Host { place: key.to_string(), reason }),
                );
            }
            return;
        };
        // Old objects are removed before new ones are sent.
        let mut gone = objects.forget_before(order.work.generation);
        gone.extend(objects.forget_rounds(key.round.0));
        links.iter_mut().flatten().for_each(|link| link.forget(&gone));
        let Some(link) = links.get_mut(at.index()).and_then(Option::as_mut) else { return };
        let written = match objects.write(&self.settings.run, &self.settings.framing, order) {
            Ok(written) => written,
            Err(error) => {
                drop(state);
                return pending.fail(order, error);
            }
        };
        let sent = link.give(&written.keys, objects);
        if let Some(traffic) = traffic.get_mut(at.index()) {
            traffic.object_bytes += sent;
            traffic.values_out += link.take_values() + values(&written.frame);
        }
        *numbers += 1;
        let flight = Flight::new((order.pass, key), pending, of_lane, written);
        let number = *numbers;
        link.begin(number, flight);
        drop(state);
        if let Some(deadline) = order.deadline.filter(|_| !of_lane) {
            self.watch((order.pass, key), deadline, (at, number));
        }
    }

    /// Reports a task as overdue if it has no answer when its deadline has passed. `number` is the
    /// message number of the task at the worker `at`.
    pub(super) fn watch(
        self: &Arc<Self>,
        (pass, key): (u32, TaskKey),
        deadline: Duration,
        (at, number): (Location, u64),
    ) {
        let shared = self.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(deadline).await;
            let state = shared.lock();
            let link = state.links.get(at.index()).and_then(Option::as_ref);
            let under_way = link.is_some_and(|link| link.flights.contains_key(&number));
            drop(state);
            if under_way {
                shared.inbox.note(Completion::Overdue { pass, key });
            }
        });
    }

    /// Returns the connected worker with the fewest tasks, or `None` if each has the maximum number
    /// of tasks.
    pub(super) fn free(&self) -> Option<Location> {
        let state = self.lock();
        let free = Location::workers().zip(&state.links).filter_map(|(at, link)| {
            let link = link.as_ref().filter(|link| !link.draining && link.flights.len() < CREDIT as usize)?;
            Some((link.flights.len(), at))
        });
        free.min().map(|(_, at)| at).filter(|_| !state.closed)
    }

    /// Sends offered tasks to workers, until no task is left or each worker has the maximum number
    /// of tasks.
    pub(super) fn dispatch(self: &Arc<Self>) {
        while let Some(at) = self.free() {
            let Some(order) = self.inbox.take_offer() else { return };
            self.hand(at, &order);
            // `hand` has counted the task a second time.
            self.inbox.forget();
        }
    }

    /// Returns the remaining time until the oldest task of a worker is overdue, or `None` if it is
    /// overdue.
    pub(super) fn time_to_answer(&self, at: Location, id: u64) -> Option<Duration> {
        let mut state = self.lock();
        let oldest = state.link(at, id).and_then(|link| link.flights.values().map(|task| task.begun).min());
        let waited = oldest.map_or(Duration::ZERO, |begun| begun.elapsed());
        self.settings.answer.checked_sub(waited).filter(|left| !left.is_zero())
    }

    /// Sends an instruction to the worker at `at`. The instruction fails if that worker has failed
    /// or has not received its first instruction. A worker that was asked to leave still executes
    /// all instructions but the first.
    pub(super) fn instruct(&self, at: Location, (pass, key): (u32, TaskKey), instruction: Instruction) {
        self.inbox.begin();
        let pending = PendingJob::new(&self.inbox);
        let mut state = self.lock();
        let State { links, numbers, traffic, .. } = &mut *state;
        let link = links.get_mut(at.index()).and_then(Option::as_mut);
        let may = |link: &&mut Link| if instruction.begins { !link.draining } else { link.begun };
        let Some(link) = link.filter(may) else {
            drop(state);
            let reason = format!("{at} is not connected");
            let error = Error::Host { place: key.to_string(), reason };
            return pending.end(pass, key, Instant::now(), Process::HOST, Err(error));
        };
        link.begun = true;
        if let Some(traffic) = traffic.get_mut(at.index()) {
            traffic.values_out += values(&instruction.frame);
        }
        *numbers += 1;
        link.begin(*numbers, Flight::instruction((pass, key), pending, instruction.frame));
    }

    /// Handles a worker's answer to the task or the instruction with this message number.
    ///
    /// # Errors
    /// Returns a message if the answer is wrong, or if another process must reproduce the failure
    /// that it reports. The caller excludes the worker, and other processes run its tasks.
    pub(super) fn answered(
        self: &Arc<Self>,
        at: Location,
        id: u64,
        (number, frame, passed): (u64, Bytes, u64),
    ) -> Result<(), String> {
        // The checksums are verified before the lock is taken, so that other threads do not wait.
        whole(&frame).map_err(|error| format!("wrong answer: {error}"))?;
        let mut state = self.lock();
        let known = number <= state.numbers;
        let Some(link) = state.link(at, id) else { return Ok(()) };
        let Some(flight) = link.flights.get(&number) else {
            // The task was cancelled, or it never existed.
            let never = || format!("wrong answer: the host has sent no task {number}");
            return known.then_some(()).ok_or_else(never);
        };
        let found = values(&frame);
        let of = (flight.key, flight.of_lane);
        let answer = flight.check(&frame).map_err(|reason| format!("wrong answer: {reason}"))?;
        if let Some(error) = answer.as_ref().and_then(|answer| answer.meta().error())
            && state.is_doubtful(at, of, &error)
        {
            let step = of.0.step();
            return Err(format!(
                "it reports that {step} failed, so another process repeats that task: {error}"
            ));
        }
        let Some(link) = state.link(at, id) else { return Ok(()) };
        let Some(Flight { pass, key, begun, pending, frees, .. }) = link.flights.remove(&number) else {
            return Ok(());
        };
        let (through, token) = (link.is_through(), link.token);
        state.silent.remove(&token);
        let is_task = answer.is_some();
        let result = match answer {
            None => Ok(Answered::Frame(frame)),
            Some(answer) => {
                let meta = answer.meta();
                if state.classes.len() < CLASSES {
                    state.classes.insert(meta.numeric_class.clone());
                }
                meta.error().map_or_else(|| Ok(Answered::Apart(Box::new(answer))), Err)
            }
        };
        state.objects.free(&frees);
        state.links.iter_mut().flatten().for_each(|link| link.forget(&frees));
        if let Some(traffic) = state.traffic.get_mut(at.index()) {
            traffic.tasks += u64::from(is_task);
            traffic.values_in += found;
            traffic.values_passed = traffic.values_passed.saturating_add(passed);
        }
        drop(state);
        // The pool must not appear idle between the last answer of a leaving worker and the report
        // that it has left, because the run may wait for nothing but that report.
        if through {
            self.inbox.begin();
        }
        pending.end(pass, key, begun, Process { at, connection: id }, result);
        if through {
            self.lost((at, id), GOES);
            self.inbox.forget();
        }
        self.dispatch();
        Ok(())
    }

    /// Handles a worker's report that it lacks tensors of a task. Sends missing objects again.
    /// Missing rows are reported to the engine, which has them computed again.
    ///
    /// # Errors
    /// Returns a message if the worker cannot lack these tensors, or lacks rows too often. The
    /// caller excludes the worker.
    pub(super) fn missing(
        self: &Arc<Self>,
        at: Location,
        id: u64,
        (number, keys): (u64, &[TensorKey]),
    ) -> Result<(), String> {
        let late = keys.iter().any(TensorKey::is_awaited);
        let rows = keys.iter().any(TensorKey::is_made_by_workers);
        let mut state = self.lock();
        let State { links, objects, traffic, .. } = &mut *state;
        let link = links.get_mut(at.index()).and_then(Option::as_mut).filter(|link| link.id == id);
        let Some(link) = link else { return Ok(()) };
        // The task may have been cancelled in the meantime.
        let Some(round) = link.flights.get(&number).map(|flight| flight.key.round) else { return Ok(()) };
        if rows {
            if !link.may_miss(round) {
                return Err(format!(
                    "it lacked rows of earlier tasks more than {ROW_MISSES} times in one round"
                ));
            }
            // The engine makes workers compute the rows again.
            let gone: Vec<u64> =
                link.flights.iter().filter(|(_, f)| f.of_lane).map(|(number, _)| *number).collect();
            let dropped: Vec<_> = gone.iter().filter_map(|number| link.flights.remove(number)).collect();
            if link.is_through() {
                drop(state);
                self.lost((at, id), GOES);
                drop(dropped);
                return Ok(());
            }
            let text = match late {
                true => format!("{at} did not receive the rows of another worker in time"),
                false => format!(
                    "the cache of {at} had no space for rows, so they are recomputed (--cache, workers.cache_bytes)"
                ),
            };
            self.inbox.note(Completion::Warned { at, text });
            self.inbox.note(Completion::Forgot { at });
            drop(state);
            drop(dropped);
            return Ok(());
        }
        let sent = link.again(number, keys, objects)?;
        if let Some(traffic) = traffic.get_mut(at.index()) {
            traffic.object_bytes += sent;
        }
        Ok(())
    }

    /// Excludes a worker that gave a wrong answer. If `connection` is given, the worker is excluded
    /// only if its connection has this number.
    pub(super) fn exclude(self: &Arc<Self>, at: Location, connection: Option<u64>, reason: &str) {
        let mut state = self.lock();
        let link = state.links.get(at.index()).and_then(Option::as_ref);
        let link = link.map(|link| (link.id, link.token));
        let link = link.filter(|(id, _)| connection.is_none_or(|connection| connection == *id));
        if let Some((_, token)) = link {
            *state.wrong.entry(token).or_default() += 1;
        }
        drop(state);
        if let Some((id, _)) = link {
            self.lost((at, id), reason);
        }
    }

    /// Excludes a worker, and admits no more workers with its token for the rest of the run.
    pub(super) fn bar(self: &Arc<Self>, Process { at, connection }: Process, reason: &str) {
        let mut state = self.lock();
        if let Some(token) = state.link(at, connection).map(|link| link.token) {
            state.wrong.insert(token, WRONG_ANSWERS);
        }
        drop(state);
        self.exclude(at, Some(connection), reason);
    }

    /// Returns true if the pool admits no more workers with this token. The reason is too many wrong
    /// answers or too many failures without an answer.
    pub(super) fn is_barred(&self, token: u32) -> bool {
        let state = self.lock();
        let reaches =
            |counts: &BTreeMap<u32, u32>, most| counts.get(&token).is_some_and(|count| *count >= most);
        reaches(&state.wrong, WRONG_ANSWERS) || reaches(&state.silent, SILENT_FAILURES)
    }

    /// Removes a worker that has failed or must leave. Reports its failure before its tasks are
    /// dropped, so that the pool never appears idle in between.
    pub(super) fn lost(self: &Arc<Self>, (at, id): (Location, u64), reason: &str) {
        // The reason that a worker sends may have any length.
        let reason = cut(reason, REASON_BYTES);
        let mut state = self.lock();
        let Some(slot) = state.links.get_mut(at.index()) else { return };
        let Some(link) = slot.take_if(|link| link.id == id) else { return };
        let closed = state.closed;
        // The next answer resets this count.
        *state.silent.entry(link.token).or_default() += 1;
        if let Some(traffic) = state.traffic.get_mut(at.index()) {
            traffic.lost += u32::from(!closed);
        }
        if !closed {
            let text = format!("{at} was removed from the run: {reason}");
            self.inbox.note(Completion::Warned { at, text });
            self.inbox.note(Completion::WorkerFailed { at });
        }
        let deserted = state.is_empty() && !closed && !state.deserted && self.settings.lanes;
        if deserted {
            state.deserted = true;
            // A job counts as in flight until a worker connects.
            self.inbox.begin();
        }
        let connections = state.connections;
        drop(state);
        if deserted {
            self.wait_for_others(connections, reason);
        }
        let again = reason != GOES && !self.is_barred(link.token);
        link.say(Message::Bye { reason: reason.to_owned(), again });
        for flight in link.flights.into_values().filter(|flight| !flight.of_lane) {
            let Flight { pass, key, begun, pending, .. } = flight;
            let reason = format!("{at} was removed from the run: {reason}");
            pending.end(pass, key, begun, Process::HOST, Err(Error::Host { place: key.to_string(), reason }));
        }
        self.changed.notify_all();
    }

    /// Records the address at which a worker listens for other workers. Sends the address to the
    /// other workers, and sends their addresses to this worker.
    ///
    /// Returns a message if the pool does not allow this address. The address must be the worker's
    /// own, and a worker may report only one.
    pub(super) fn door(&self, at: Location, id: u64, door: (String, Vec<Token>)) -> Result<(), String> {
        let mut state = self.lock();
        let count = state.links.len();
        if !self.settings.peers || door.1.len() != count {
            return Err(format!("it sent {} tokens, but the run has {count} workers", door.1.len()));
        }
        let Some(link) = state.link(at, id) else { return Ok(()) };
        let own = |address: &SocketAddr| address.ip().to_canonical() == link.address.to_canonical();
        if link.door.is_some() || !door.0.parse::<SocketAddr>().is_ok_and(|address| own(&address)) {
            let (given, own) = (cut(&door.0, 64), link.address);
            return Err(format!(
                "it reported the address `{given}`, but a worker may report one address only, at its own IP \
                 address {own}"
            ));
        }
        let peer = |at: Location, (address, tokens): &(String, Vec<Token>), to: Location| {
            let token = tokens.get(to.index())?.clone();
            Some(Message::Peer { at, address: address.clone(), token })
        };
        let others = || Location::workers().zip(&state.links).filter(|(other, _)| *other != at);
        for (other, link) in others() {
            let Some(link) = link else { continue };
            peer(at, &door, other).into_iter().for_each(|peer| link.say(peer));
        }
        let doors = others().filter_map(|(other, link)| Some((other, link.as_ref()?.door.as_ref()?)));
        let known: Vec<Message> = doors.filter_map(|(other, door)| peer(other, door, at)).collect();
        if let Some(link) = state.link(at, id) {
            known.into_iter().for_each(|peer| link.say(peer));
            link.door = Some(door);
        }
        let deserted = std::mem::take(&mut state.deserted);
        drop(state);
        self.inbox.note(Completion::Joined { at });
        if deserted {
            self.inbox.forget();
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Drops all tasks of lanes (shares of the pipeline), and asks the workers to drop them as
    /// well.
    pub(super) fn abandon(self: &Arc<Self>) {
        let mut state = self.lock();
        let (mut gone, mut through) = (Vec::new(), Vec::new());
        let rows = state.objects.forget_rows();
        for (at, link) in Location::workers().zip(&mut state.links) {
            let Some(link) = link else { continue };
            link.forget(&rows);
            let of_lanes: Vec<u64> =
                link.flights.iter().filter(|(_, flight)| flight.of_lane).map(|(number, _)| *number).collect();
            gone.extend(of_lanes.iter().filter_map(|number| link.flights.remove(number)));
            link.say(Message::Abandon);
            through.extend(Some((at, link.id)).filter(|_| link.is_through()));
        }
        drop(state);
        through.into_iter().for_each(|of| self.lost(of, GOES));
        // The inbox no longer counts jobs that are dropped.
        drop(gone);
    }

    /// Starts a timer that reports [`Completion::Deserted`] if no worker connects for
    /// `workers.wait_s` seconds. `last` is the reason why the last worker failed.
    fn wait_for_others(self: &Arc<Self>, connections: u64, last: &str) {
        let (shared, patience) = (self.clone(), self.settings.patience);
        let reason = format!(
            "all workers have failed, and none has connected for {} s (workers.wait_s); reason of the last \
             failure: {last}",
            patience.as_secs()
        );
        self.runtime.spawn(async move {
            tokio::time::sleep(patience).await;
            let state = shared.lock();
            // The number also shows workers that have connected and failed in the meantime.
            if state.deserted && state.connections == connections {
                shared.inbox.note(Completion::Deserted { reason });
            }
        });
    }

    /// Adds the bytes of a received or sent message to the counts of a worker.
    pub(super) fn count(&self, at: Location, (bytes_in, bytes_out): (u64, u64)) {
        if let Some(traffic) = self.lock().traffic.get_mut(at.index()) {
            traffic.bytes_in += bytes_in;
            traffic.bytes_out += bytes_out;
        }
    }
}

//! The calls of whole runs: launched, made again, paid for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use eciton_kernel::cache::{Cache, digest};
use eciton_plan::{Emulator, Executor, ExecutorKind, FunctionCount};
use eciton_transport::{Condition, Counts, Key, S3Store, Store};
use serde::Deserialize;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::record::{self, Before, Record};
use super::time::Time;
use super::{Call, Ended, OnEnd, REQUESTS, Rules};
use crate::deployment::{DEFAULT_STACK, Deployment};
use crate::emulated::{self, Stand};
use crate::functions::{self, Cut, Error, Keys, Most, Result, at_store};
use crate::invoker::Charge;
use crate::lambda::{LambdaInvoker, LambdaSettings};
use crate::{Architecture, Bill, Cost, Host, InvokeError, Invoker, Prices, Times, aws};

/// Attempts at a call; throttled ones do not count.
const ATTEMPTS: u32 = 10;
/// Memory sizes that an error advises, MB: those that `eciton deploy` offers for whole runs.
const SIZES: [u32; 7] = [512, 1024, 1769, 3008, 3538, 7076, 10_240];
/// Of what is under way, each call is expected to cost at most so many times the dearest so far, and so many times the
/// mean of the store's requests and bytes.
const DEARER: f64 = 1.5;
/// Requests to the store that a call is taken to make which has not told: looks and files, and its answer, in parts.
const UNTOLD: (u64, u64) = (16, 4);

/// Functions that do whole runs.
#[derive(Debug)]
pub struct Trainers {
    invoker: Arc<LambdaInvoker>,
    store: Arc<S3Store>,
    architecture: Architecture,
    host: Host,
    most: Most,
    asked: FunctionCount,
    memory_mb: u32,
    timeout: Duration,
    deadline: Deadline,
    prices: Prices,
    bill: Bill,
    time: Time,
    /// Name of the function, for the record.
    function: String,
    record: Option<Record>,
    /// Sum of earlier processes, by the record.
    before: Before,
    /// Calls that were given up in flight.
    abandoned: u64,
    /// Requests of functions to the store, as their answers tell.
    told: Counts,
    budget: Budget,
    /// The stand-in for AWS, which counts what functions do.
    cloud: Option<eciton_emulator::Emulator>,
    runtime: Option<Runtime>,
    /// Folder of emulated functions, removed after they have ended.
    _folder: Option<crate::scratch::Scratch>,
}

impl Trainers {
    /// The functions of a deployment, or emulated ones, with these kernels (name, component) at hand.
    ///
    /// # Errors
    /// An executor without functions that train; no trainer program or deployment, no credentials, a kernel that cannot
    /// be compiled, or that only another's key can sign.
    pub fn start(
        executor: &Executor,
        emulator: &Emulator,
        kernels: &[(&str, &[u8])],
        cache: Option<Cache>,
    ) -> Result<Self> {
        let timeout = Duration::from_secs(u64::from(executor.timeout_s));
        let mut trainers = match executor.kind {
            ExecutorKind::Emulated => {
                let program = crate::worker::find_trainer(None)?;
                let mut stand = Stand::start(("trainer", program), executor, emulator)?;
                stand.keys.cache = cache;
                let architecture = stand.architecture();
                let Stand { cloud, runtime, store, keys, baseline, invoker, folder } = stand;
                let package = folder.path("package").map_err(functions::system("making a package"))?;
                kernels.iter().try_for_each(|kernel| keys.package(&package, baseline, *kernel))?;
                Self {
                    invoker: Arc::new(invoker),
                    store: Arc::new(store),
                    architecture,
                    host: Host::of_emulated(executor.host),
                    most: Most::of_emulator(emulator),
                    asked: executor.functions,
                    memory_mb: executor.memory_mb,
                    timeout,
                    deadline: Deadline::of(executor),
                    prices: crate::cloud::prices()?,
                    bill: Bill::default(),
                    time: cloud.clock().map_or_else(|| Time::Real(Instant::now()), Time::Virtual),
                    function: format!("emulated-{}", executor.memory_mb),
                    record: None,
                    before: Before::default(),
                    abandoned: 0,
                    told: Counts::default(),
                    budget: Budget::default(),
                    cloud: Some(cloud),
                    runtime: Some(runtime),
                    _folder: Some(folder),
                }
            }
            ExecutorKind::Lambda => Self::of_deployment(executor, kernels, cache)?,
            _ => {
                let name = executor.kind.name();
                return Err(Error::Choice(format!(
                    "whole runs are tasks of functions, and executor {name} has none: emulated, lambda"
                )));
            }
        };
        trainers.most.count = trainers.most.count.max(1);
        Ok(trainers)
    }

    fn of_deployment(executor: &Executor, kernels: &[(&str, &[u8])], cache: Option<Cache>) -> Result<Self> {
        let deployment = Deployment::load(executor.deployment.as_deref().unwrap_or(DEFAULT_STACK))?;
        let function = deployment.trainer(executor.memory_mb)?;
        let runtime = functions::runtime(2)?;
        let config =
            runtime.block_on(aws::sdk(Some(deployment.region.as_str()), deployment.profile.as_deref()))?;
        let store = aws::store(&deployment, &config).map_err(at_store("opening the object store"))?;
        let mut keys = Keys::of(&deployment)?;
        keys.cache = cache;
        runtime.block_on(at_hand(&store, function.architecture.baseline(), &keys, kernels))?;
        let timeout = Duration::from_secs(u64::from(deployment.timeout_s));
        let settings = LambdaSettings {
            function: function.name.clone(),
            region: deployment.region.clone(),
            endpoint: deployment.endpoints.lambda.clone(),
            timeout,
            memory_mb: function.memory_mb,
        };
        Ok(Self {
            invoker: Arc::new(LambdaInvoker::new(&config, settings)),
            store: Arc::new(store),
            architecture: function.architecture,
            host: Host::find(executor.host, Some(&deployment.region), deployment.zone.as_deref()),
            most: deployment.most(),
            asked: executor.functions,
            memory_mb: function.memory_mb,
            timeout,
            deadline: Deadline::of(executor),
            prices: crate::cloud::prices_in(&deployment.region)?,
            bill: Bill::default(),
            time: Time::Real(Instant::now()),
            function: function.name.clone(),
            record: None,
            before: Before::default(),
            abandoned: 0,
            told: Counts::default(),
            budget: Budget::default(),
            cloud: None,
            runtime: Some(runtime),
            _folder: None,
        })
    }

    fn runtime(&self) -> Result<&Runtime> {
        self.runtime.as_ref().ok_or_else(|| Error::Choice("the functions were stopped".to_owned()))
    }

    /// Stores an object that calls need, unless the store has it.
    ///
    /// # Errors
    /// The store's.
    pub fn put(&mut self, key: &str, bytes: Vec<u8>) -> Result<()> {
        let key = Key::new(key).map_err(at_store(format!("storing `{key}`")))?;
        let stored = store_once(&self.store, &key, bytes.into());
        self.runtime()?.block_on(stored).map_err(at_store(format!("storing `{key}`")))
    }

    /// Returns the time limit of a call.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        self.timeout
    }

    /// Returns the time that a call of modelled functions waits for the object store besides its files and its answer.
    #[must_use]
    pub fn waits(&self) -> Duration {
        match &self.time {
            Time::Real(_) => Duration::ZERO,
            Time::Virtual(clock) => clock.first_byte() * REQUESTS,
        }
    }

    /// Returns the share of this machine's processor that a function is modelled with, or `None` if time is real.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        match &self.time {
            Time::Real(_) => None,
            Time::Virtual(clock) => Some(clock.cores()),
        }
    }

    /// By what the number of functions for so many calls is cut.
    #[must_use]
    pub fn cut(&self, calls: usize) -> Option<Cut> {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        Cut::find(self.asked, calls, &self.most)
    }

    /// Returns what was used so far of what is charged for, by earlier processes of the record too.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.before.bill.and(&self.own_bill())
    }

    /// Returns what this process has used so far.
    fn own_bill(&self) -> Bill {
        let (counts, told) = (self.store.counts(), self.told);
        let mut own = self.bill;
        own.store_writes = counts.puts + counts.lists + told.puts + told.lists;
        own.store_reads = counts.gets + counts.heads + told.gets + told.heads;
        own.store_bytes_in = counts.bytes_out + told.bytes_out;
        own.store_bytes_out = counts.bytes_in + told.bytes_in;
        own.store_bytes_host = counts.bytes_in + counts.bytes_out;
        own.store_bytes_to_host = counts.bytes_in;
        match &self.cloud {
            // The emulator counts a call at its end, which one that was given up does not reach.
            Some(cloud) => {
                let mut bill = emulated::bill(&cloud.bill(), &own);
                bill.invocations += self.abandoned;
                bill.unreported += self.abandoned;
                bill
            }
            None => own,
        }
    }

    /// Returns [`Self::bill`] in money.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.in_money(&self.bill())
    }

    fn in_money(&self, bill: &Bill) -> Cost {
        let times = match (&self.cloud, &self.time) {
            (None, _) => Times::Charged,
            (Some(_), Time::Virtual(_)) => Times::Modelled,
            (Some(_), Time::Real(_)) => Times::Measured,
        };
        Cost { times, ..bill.cost(&self.prices, self.architecture, &self.host) }
    }

    /// Returns the seconds of all calls so far, those of earlier processes of the record included. They are virtual
    /// where the emulator has times.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.before.seconds + self.time.now().as_secs_f64()
    }

    fn usd(&self, charge: &Charge) -> f64 {
        let gb_seconds = charge.billed_ms as f64 / 1e3 * f64::from(self.memory_mb) / 1024.0;
        self.prices.lambda_usd(self.architecture, gb_seconds, 1)
    }

    /// The store's requests of a call that has not told of them.
    fn untold_usd(&self) -> f64 {
        let (reads, writes) = UNTOLD;
        self.prices.s3_usd(writes, reads)
    }

    /// Whether one call more, beside those under way, keeps the bill within a limit, as far as anybody can tell.
    fn fits(&self, limit: f64, under: usize, longest: f64) -> bool {
        let Cost { usd, functions_usd, .. } = self.in_money(&self.own_bill());
        let Budget { lost_usd, answered, .. } = self.budget;
        let dearest_usd = self.dearest();
        // Each brings requests to the store, and bytes.
        let beside = match answered {
            0 => self.untold_usd(),
            answered => (usd - functions_usd) / answered as f64 * DEARER,
        };
        let each = dearest_usd.map_or(longest, |usd| (usd * DEARER).min(longest)) + beside;
        self.before.usd + usd + lost_usd + each * (under + 1) as f64 <= limit
    }

    /// Returns the time and request of the dearest call, in dollars.
    fn dearest(&self) -> Option<f64> {
        let (own, before) = (self.budget.dearest_usd, self.before.dearest_usd);
        own.zip(before).map_or(own.or(before), |(own, before)| Some(own.max(before)))
    }

    /// Counts a call that has ended, and what nobody tells of it.
    fn settle(&mut self, at: usize, result: &Result<Answer, Fault>, longest: f64) -> Result<()> {
        let charge = match result {
            Ok(answer) => answer.charge,
            Err(fault) => fault.charge,
        };
        self.count(result, charge);
        let known = charge.map(|charge| self.usd(&charge));
        let of = |reply: &Bytes| serde_json::from_slice::<Told>(reply).ok().and_then(|told| told.store);
        let told = result.as_ref().ok().and_then(|answer| of(&answer.reply));
        let untold_usd = self.untold_usd();
        let budget = &mut self.budget;
        budget.answered += u64::from(result.is_ok());
        // The stand-in counts all by itself.
        if self.cloud.is_none() {
            budget.lost_usd += if known.is_none() { budget.dearest_usd.unwrap_or(longest) } else { 0.0 };
            match told {
                Some(told) => add(&mut self.told, &told),
                None => budget.lost_usd += untold_usd,
            }
        }
        if let Some(usd) = known {
            budget.dearest_usd = Some(budget.dearest_usd.map_or(usd, |most| most.max(usd)));
        }
        let outcome = result.as_ref().map_or_else(|fault| &fault.text[..], |_| "answered");
        // Requests to the emulator take no time that means anything.
        let reply_s = result.as_ref().ok().filter(|_| self.cloud.is_none()).map(|answer| answer.reply_s);
        self.note(at, outcome, (charge, reply_s), known)
    }

    /// Writes the end of a call into the record.
    fn note(
        &mut self,
        call: usize,
        outcome: &str,
        (charge, reply_s): (Option<Charge>, Option<f64>),
        usd: Option<f64>,
    ) -> Result<()> {
        let bill = self.own_bill();
        let total_usd = self.in_money(&bill).usd + self.budget.lost_usd;
        let at = self.time.now().as_secs_f64();
        let Some(record) = &mut self.record else { return Ok(()) };
        record.end(record::Ended { call, outcome, charge, reply_s, usd, at, bill: &bill, total_usd })
    }

    /// Makes the calls, and those that continue them. The executor's setting and the account limit
    /// how many run at once. `told` hears of each end.
    ///
    /// # Errors
    /// A budget that not even one call fits into.
    pub fn run(&mut self, calls: &[Call], rules: &Rules<'_>, told: &mut OnEnd<'_>) -> Result<()> {
        let longest = Charge { billed_ms: self.timeout.as_millis() as u64, ..Charge::default() };
        let longest = self.usd(&longest);
        let one = longest + self.untold_usd();
        if let (Some(path), None) = (rules.record, &self.record) {
            let (mut record, before) = Record::open(path, one)?;
            record.start(&self.function, &self.in_money(&Bill::default()).prices)?;
            (self.record, self.before) = (Some(record), before);
        }
        if let Some(limit) = rules.max_usd.filter(|limit| *limit < one && self.dearest().is_none()) {
            return Err(Error::Choice(format!(
                "--max-usd {limit}: one call may cost {one:.4} (its time limit is {} s); allow more, or set \
                 executor.timeout_s lower",
                self.timeout.as_secs()
            )));
        }
        let runtime = self.runtime.take().ok_or_else(|| Error::Choice("already at work".to_owned()))?;
        let ended = runtime.block_on(self.work(calls, rules, longest, told));
        self.runtime = Some(runtime);
        ended
    }

    async fn work(
        &mut self,
        calls: &[Call],
        rules: &Rules<'_>,
        longest: f64,
        told: &mut OnEnd<'_>,
    ) -> Result<()> {
        let mut calls = calls.to_vec();
        let asked = match self.asked {
            FunctionCount::Fixed(count) => count.max(1),
            FunctionCount::Auto => u32::try_from(calls.len()).unwrap_or(u32::MAX),
        };
        let mut limit = asked.min(self.most.count) as usize;
        let most = limit;
        let mut states = vec![State::default(); calls.len()];
        let mut waiting: VecDeque<usize> = (0..calls.len()).collect();
        let mut under: JoinSet<(usize, u32, Duration, Result<Answer, Fault>)> = JoinSet::new();
        // The numbers of the calls in flight, one for each attempt.
        let mut flying: Vec<usize> = Vec::new();
        let end = rules.within.map(|within| Duration::from_secs_f64((within - self.before.seconds).max(0.0)));
        let mut took: Vec<Duration> = Vec::new();
        loop {
            let now = self.time.now();
            let stopped = (rules.stop)() || end.is_some_and(|end| now >= end);
            while !stopped && under.len() < limit {
                if rules.max_usd.is_some_and(|limit| !self.fits(limit, under.len(), longest)) {
                    break;
                }
                // A call of the usual length would end too late.
                if end.is_some_and(|end| now + median(&mut took).unwrap_or_default() > end) {
                    break;
                }
                let late = || straggler(&states, &mut took, (now, self.deadline));
                let Some(at) = waiting.pop_front().or_else(late) else {
                    break;
                };
                let (Some(call), Some(state)) = (calls.get(at), states.get_mut(at)) else { continue };
                if state.ended {
                    continue;
                }
                state.begun = Some(state.begun.unwrap_or(now));
                state.under += 1;
                state.attempts += 1;
                let (invoker, store, call) = (self.invoker.clone(), self.store.clone(), call.clone());
                let (link, timeout) = (state.link, self.timeout);
                self.bill.bytes_to_functions += call.event.len() as u64;
                if let Some(record) = &mut self.record {
                    record.call(at)?;
                }
                self.time.announce();
                flying.push(at);
                let advice = (self.memory_mb, timeout);
                under.spawn(async move { (at, link, now, make(&invoker, &store, call, advice).await) });
            }
            // What is under way beside a call that has ended answers nothing new.
            if stopped || under.is_empty() || states.iter().all(|state| state.ended) {
                break;
            }
            let timer = next_late(&states, &mut took, (now, self.deadline)).into_iter().chain(end).min();
            let Some(joined) = self.time.next(&mut under, timer).await else { continue };
            // A call that panicked has no number: what it was for ends as left.
            let Ok((at, link, begun, result)) = joined else { continue };
            let lasted = self.time.now().saturating_sub(begun);
            if let Some(landed) = flying.iter().position(|flying| *flying == at) {
                flying.swap_remove(landed);
            }
            self.settle(at, &result, longest)?;
            let (Some(state), Some(call)) = (states.get_mut(at), calls.get_mut(at)) else { continue };
            // A second attempt at a call that has been continued since.
            if link != state.link {
                continue;
            }
            state.under -= 1;
            if state.ended {
                continue;
            }
            match result {
                Ok(answer) => {
                    took.push(lasted);
                    limit = (limit + 1).min(most);
                    let Answer { reply, object, second, .. } = answer;
                    match told(at, Ended::Answered { reply, object, second }) {
                        Some(next) => {
                            *call = next;
                            *state = State { link: link + 1, ..State::default() };
                            // Before the calls that have not begun: a chain is the longest of them.
                            waiting.push_front(at);
                        }
                        None => state.ended = true,
                    }
                }
                Err(fault) => {
                    if fault.throttled {
                        limit = (limit * 3 / 4).max(1);
                        state.attempts -= 1;
                        state.throttled += 1;
                    }
                    let again =
                        fault.retryable && state.attempts < ATTEMPTS && state.throttled < 10 * ATTEMPTS;
                    match (again, state.under) {
                        (true, 0) => waiting.push_back(at),
                        (false, 0) => {
                            state.ended = true;
                            let _ = told(at, Ended::Failed(fault.text));
                        }
                        // The other attempt may end well.
                        _ => {}
                    }
                }
            }
        }
        self.abandon(&flying, longest)?;
        under.abort_all();
        for (at, _) in states.iter().enumerate().filter(|(_, state)| !state.ended) {
            let _ = told(at, Ended::Left);
        }
        Ok(())
    }

    /// Counts calls that are given up in flight. They are charged to their end, which nobody reports.
    fn abandon(&mut self, calls: &[usize], longest: f64) -> Result<()> {
        let count = calls.len() as u64;
        self.bill.invocations += count;
        self.bill.unreported += count;
        self.abandoned += count;
        let each = self.dearest().unwrap_or(longest) + self.untold_usd();
        self.budget.lost_usd += each * count as f64;
        calls.iter().try_for_each(|call| self.note(*call, "left", (None, None), None))
    }

    fn count(&mut self, result: &Result<Answer, Fault>, charge: Option<Charge>) {
        let bill = &mut self.bill;
        bill.invocations += 1;
        if let Some(charge) = charge {
            bill.billed_ms += charge.billed_ms;
            bill.gb_seconds += charge.billed_ms as f64 / 1e3 * f64::from(self.memory_mb) / 1024.0;
            bill.cold_starts += u64::from(charge.init_ms.is_some());
            bill.init_ms += charge.init_ms.unwrap_or_default();
        } else {
            bill.unreported += 1;
        }
        match result {
            Ok(answer) => {
                bill.bytes_from_functions += answer.reply_bytes;
                bill.throttled += answer.throttled;
            }
            Err(fault) => {
                bill.failed += 1;
                bill.throttled += fault.throttles;
            }
        }
    }
}

impl Drop for Trainers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            if let Some(cloud) = &self.cloud {
                // Functions die with it at the latest.
                let _ = runtime.block_on(cloud.stop());
            }
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
    }
}

/// Puts kernels where functions take them from.
async fn at_hand(
    store: &S3Store,
    baseline: eciton_kernel::artefact::Baseline,
    keys: &Keys,
    kernels: &[(&str, &[u8])],
) -> Result<()> {
    for (name, component) in kernels {
        keys.store(store, baseline, name, &digest(component), component).await?;
    }
    Ok(())
}

/// What calls have cost, as far as the bill does not have it.
#[derive(Debug, Clone, Copy, Default)]
struct Budget {
    /// Of calls that nobody told of.
    lost_usd: f64,
    /// The dearest call, its requests to the store aside.
    dearest_usd: Option<f64>,
    answered: u64,
}

/// The function's use of the store, as its reply reports it.
#[derive(Deserialize)]
struct Told {
    store: Option<Counts>,
}

fn add(sum: &mut Counts, more: &Counts) {
    sum.gets += more.gets;
    sum.puts += more.puts;
    sum.lists += more.lists;
    sum.heads += more.heads;
    sum.bytes_in += more.bytes_in;
    sum.bytes_out += more.bytes_out;
}

/// State of a call.
#[derive(Debug, Clone, Default)]
struct State {
    /// Number of calls that this one continues.
    link: u32,
    /// Begin of its first attempt.
    begun: Option<Duration>,
    attempts: u32,
    throttled: u32,
    under: u32,
    ended: bool,
}

/// When a call is a straggler: `executor.deadline_ms`, `executor.deadline_ratio`.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    /// After this time at least.
    floor: Duration,
    /// And after so many times the median of the calls that have answered.
    ratio: f64,
}

impl Deadline {
    fn of(executor: &Executor) -> Self {
        Self { floor: Duration::from_millis(executor.deadline_ms), ratio: executor.deadline_ratio }
    }
}

/// Returns the median of the times that calls took.
fn median(took: &mut [Duration]) -> Option<Duration> {
    let middle = took.len() / 2;
    if took.is_empty() {
        return None;
    }
    Some(*took.select_nth_unstable(middle).1)
}

/// Returns the time after which a call counts as a straggler, from its first attempt on.
fn late_after(took: &mut [Duration], deadline: Deadline) -> Option<Duration> {
    Some(deadline.floor.max(median(took)?.mul_f64(deadline.ratio)))
}

/// Returns whether a second attempt at a call may be made beside the one in flight.
fn is_single(state: &State) -> bool {
    !state.ended && state.under == 1 && state.attempts < ATTEMPTS
}

/// Returns a call that takes much longer than the others did, and has one attempt in flight.
fn straggler(
    states: &[State],
    took: &mut [Duration],
    (now, deadline): (Duration, Deadline),
) -> Option<usize> {
    let late = late_after(took, deadline)?;
    let is_late = |state: &State| state.begun.is_some_and(|begun| now >= begun + late);
    states.iter().position(|state| is_single(state) && is_late(state))
}

/// Returns the next time at which a call becomes a straggler.
fn next_late(
    states: &[State],
    took: &mut [Duration],
    (now, deadline): (Duration, Deadline),
) -> Option<Duration> {
    let late = late_after(took, deadline)?;
    let times = states.iter().filter(|state| is_single(state)).filter_map(|state| Some(state.begun? + late));
    times.filter(|time| *time > now).min()
}

struct Answer {
    reply: Bytes,
    /// Size of the reply as it came.
    reply_bytes: u64,
    /// Real seconds from the request to the reply.
    reply_s: f64,
    object: Bytes,
    second: Option<Bytes>,
    charge: Option<Charge>,
    throttled: u64,
}

struct Fault {
    text: String,
    retryable: bool,
    throttled: bool,
    throttles: u64,
    charge: Option<Charge>,
}

/// Returns why another attempt would fail as well, for a call that ran into its function's time limit or memory.
fn exhausted(error: &InvokeError, (memory_mb, timeout): (u32, Duration)) -> Option<String> {
    let InvokeError::Function { kind, message, charge, .. } = error else { return None };
    let larger = match SIZES.iter().find(|size| **size > memory_mb) {
        Some(size) => format!("a larger function (executor.memory_mb={size})"),
        None => "a smaller training: no function is larger".to_owned(),
    };
    if kind == TIMED_OUT {
        return Some(format!(
            "{error}; a call has to read its data and to train at least one epoch within the function's time limit of \
             {} s. Use {larger}, fewer rows in an epoch, or a longer limit (executor.timeout_s, 900 at most)",
            timeout.as_secs()
        ));
    }
    if message.contains("no space left in /tmp") {
        let text =
            "another attempt would write as much. Use a smaller data set, or a store of it (eciton convert)";
        return Some(format!("{error}: {text}"));
    }
    let full = charge.is_some_and(|charge| charge.used_mb >= charge.memory_mb && charge.memory_mb > 0);
    if kind == "Runtime.ExitError" && full {
        let text = format!("the function used all of its {memory_mb} MB; another attempt would as well");
        return Some(format!("{error}: {text}. Use {larger}"));
    }
    None
}

/// Stores an object unless the store has it. A conditional request alone would send its bytes first.
async fn store_once(store: &S3Store, key: &Key, bytes: Bytes) -> eciton_transport::Result<()> {
    match store.size(key).await {
        Ok(_) => Ok(()),
        Err(error) if error.may_be_absent() => store.put(key, bytes, Condition::IfAbsent).await.map(drop),
        Err(error) => Err(error),
    }
}

/// Makes a call once, and gets its answer.
async fn make(
    invoker: &LambdaInvoker,
    store: &S3Store,
    call: Call,
    advice: (u32, Duration),
) -> Result<Answer, Fault> {
    let failed = |doing: String, error: &eciton_transport::Error| Fault {
        text: format!("{doing}: {error}"),
        retryable: true,
        throttled: false,
        throttles: 0,
        charge: None,
    };
    for (key, bytes) in call.files {
        let stored = store_once(store, &key, bytes).await;
        stored.map_err(|error| failed(format!("storing `{key}`"), &error))?;
    }
    let sent = Instant::now();
    let invoked = invoker.invoke(call.event).await.map_err(|error| refused(&error, advice))?;
    let reply_s = sent.elapsed().as_secs_f64();
    let (throttles, charge) = (invoked.throttled, invoked.charge);
    let reading = |key: &Key, error: eciton_transport::Error| Fault {
        throttles,
        charge,
        ..failed(format!("reading the answer `{key}`"), &error)
    };
    let reply_bytes = invoked.payload.len() as u64;
    let (reply, carried) = without_answer(invoked.payload);
    let object = match carried {
        Some(object) => object,
        None => store.get(&call.answer, None).await.map_err(|error| reading(&call.answer, error))?,
    };
    let second = match &call.second {
        Some(key) => match store.get(key, None).await {
            Ok(second) => Some(second),
            Err(error) if error.may_be_absent() => None,
            Err(error) => return Err(reading(key, error)),
        },
        None => None,
    };
    Ok(Answer { reply, reply_bytes, reply_s, object, second, charge, throttled: throttles })
}

/// Describes a call that failed. One that reached a limit of its function would do so again.
fn refused(error: &InvokeError, advice: (u32, Duration)) -> Fault {
    let (_, throttles) = error.requests();
    let throttled = matches!(error, InvokeError::Service { .. }) && throttles > 0;
    let charge = error.charge();
    match exhausted(error, advice) {
        Some(text) => Fault { text, retryable: false, throttled, throttles, charge },
        None => {
            Fault { text: error.to_string(), retryable: error.is_retryable(), throttled, throttles, charge }
        }
    }
}

/// Kind of the error of a function that reached its time limit.
const TIMED_OUT: &str = "Sandbox.Timedout";

/// Splits a reply into the reply without its answer, and the answer. A damaged answer counts as
/// none: the store has it as well.
fn without_answer(reply: Bytes) -> (Bytes, Option<Bytes>) {
    let Ok(mut fields) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&reply) else {
        return (reply, None);
    };
    let Some(serde_json::Value::String(answer)) = fields.remove(ANSWER) else { return (reply, None) };
    match (STANDARD.decode(answer), serde_json::to_vec(&fields)) {
        (Ok(answer), Ok(rest)) => (rest.into(), Some(answer.into())),
        _ => (reply, None),
    }
}

/// Field of a reply that has the answer in Base64.
const ANSWER: &str = "answer";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_call_is_a_straggler_after_both_times() {
        let second = Duration::from_secs(1);
        let state = State { begun: Some(second), under: 1, ..State::default() };
        let find = |took: &[u64], floor_ms, ratio| {
            let mut took: Vec<Duration> = took.iter().map(|&ms| Duration::from_millis(ms)).collect();
            let at = (2 * second, Deadline { floor: Duration::from_millis(floor_ms), ratio });
            let states = std::slice::from_ref(&state);
            (straggler(states, &mut took, at), next_late(states, &mut took, at).map(|time| time.as_millis()))
        };
        assert_eq!(find(&[100, 90, 5000], 500, 4.0), (Some(0), None), "the median is 100 ms");
        assert_eq!(find(&[100, 90, 5000], 9000, 4.0), (None, Some(10_000)), "not before the floor");
        assert_eq!(find(&[400, 400], 500, 4.0), (None, Some(2600)), "not before so many times the median");
        assert_eq!(find(&[], 0, 4.0), (None, None), "nothing has answered");
        let states = [State { under: 2, ..state.clone() }, State { ended: true, ..state.clone() }];
        let mut took = [Duration::from_millis(1)];
        let at = (2 * second, Deadline { floor: Duration::ZERO, ratio: 4.0 });
        assert_eq!(straggler(&states, &mut took, at), None, "one attempt more, and of what goes on");
    }

    fn function_error(kind: &str, message: &str, used_mb: u32) -> InvokeError {
        InvokeError::Function {
            function: "f".to_owned(),
            kind: kind.to_owned(),
            message: message.to_owned(),
            retryable: true,
            charge: Some(Charge { used_mb, memory_mb: 512, ..Charge::default() }),
            requests: 1,
            throttled: 0,
        }
    }

    #[test]
    fn a_limit_of_the_function_is_no_reason_for_another_attempt() {
        let second = Duration::from_secs(1);
        let timed_out = function_error("Sandbox.Timedout", "Task timed out after 3.00 seconds", 40);
        let said = exhausted(&timed_out, (512, second)).unwrap();
        assert!(said.contains("executor.timeout_s") && said.contains("executor.memory_mb=1024"), "{said}");
        let killed = "RequestId: 1 Error: Runtime exited with error: signal: killed";
        let full = exhausted(&function_error("Runtime.ExitError", killed, 512), (512, second)).unwrap();
        assert!(full.contains("all of its 512 MB") && full.contains("executor.memory_mb=1024"), "{full}");
        assert_eq!(
            exhausted(&function_error("Runtime.ExitError", killed, 40), (512, second)),
            None,
            "it crashed"
        );
        let most = exhausted(&function_error("Runtime.ExitError", killed, 512), (10_240, second)).unwrap();
        assert!(most.contains("no function is larger"), "{most}");
    }

    #[test]
    fn the_answer_of_a_reply_is_taken_out_of_it() {
        let split = |reply: &str| without_answer(Bytes::from(reply.to_owned()));
        let (rest, answer) = split(r#"{"found":false,"answer":"UEsDBA==","seconds":1.5}"#);
        assert_eq!(answer.unwrap(), Bytes::from_static(b"PK\x03\x04"));
        let rest: serde_json::Value = serde_json::from_slice(&rest).unwrap();
        assert_eq!(rest, serde_json::json!({"found": false, "seconds": 1.5}));
        // The store has the answer of these.
        for reply in [r#"{"found":true}"#, r#"{"answer":"?"}"#, r#"{"answer":7}"#, "[]", "not JSON"] {
            assert_eq!(split(reply), (Bytes::from(reply.to_owned()), None), "{reply}");
        }
    }

    #[test]
    fn a_call_that_reached_its_time_limit_is_not_made_again() {
        let error = |kind: &str| InvokeError::Function {
            function: "f".to_owned(),
            kind: kind.to_owned(),
            message: "Task timed out after 3.00 seconds".to_owned(),
            retryable: true,
            charge: None,
            requests: 1,
            throttled: 0,
        };
        let timed_out = refused(&error(TIMED_OUT), (512, Duration::from_secs(3)));
        assert!(!timed_out.retryable);
        for word in ["limit of 3 s", "executor.memory_mb", "executor.timeout_s", "timed out after"] {
            assert!(timed_out.text.contains(word), "{}", timed_out.text);
        }
        assert!(refused(&error("Runtime.ExitError"), (512, Duration::from_secs(3))).retryable);
    }

    #[test]
    fn an_object_that_the_store_has_is_not_sent_again() {
        let (executor, emulator) = (Executor::default(), Emulator::default());
        // Nobody invokes the function.
        let stand = Stand::start(("trainer", "/bin/true".into()), &executor, &emulator).unwrap();
        let key = Key::new("runs/files/object").unwrap();
        let mut sent = Vec::new();
        for _ in 0..2 {
            let stored = store_once(&stand.store, &key, Bytes::from(vec![7; 1000]));
            stand.runtime.block_on(stored).unwrap();
            sent.push(stand.store.counts().bytes_out);
        }
        assert_eq!(sent, [1000, 1000]);
        assert_eq!(stand.runtime.block_on(stand.store.get(&key, None)).unwrap(), vec![7; 1000]);
        assert_eq!((stand.cloud.bill().s3.puts, stand.cloud.bill().s3.heads), (1, 2));
    }
}

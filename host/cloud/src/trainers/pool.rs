//! Pool of functions that compute whole training runs. It makes the calls, repeats failed calls,
//! and accounts for costs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_kernel::cache::{Cache, digest};
use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{Emulator, Executor, FunctionCount, Prices};
use eciton_transport::{Counts, Key, S3Store, Store};
use serde::Deserialize;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::answer::{Answer, Fault, make, store_once};
use super::late::{ATTEMPTS, Deadline, State, median, next_late, straggler};
use super::record::{self, Before, Record};
use super::time::Time;
use super::{Call, Ended, OnEnd, REQUESTS, Rules};
use crate::architecture::Architecture;
use crate::aws;
use crate::bill::{Bill, Cost, TimeOrigin};
use crate::cloud_file;
use crate::concurrency::{ConcurrencyLimit, Cut};
use crate::deployment::{DEFAULT_STACK, Deployment};
use crate::emulated_account::{EmulatedAccount, bill};
use crate::error::{Error, Result, at_store, system};
use crate::host::Host;
use crate::invoker::Charge;
use crate::kernel_keys::KernelKeys;
use crate::lambda_invoker::{LambdaInvoker, LambdaSettings};
use crate::programs;
use crate::runtime::runtime;
use crate::scratch::Scratch;

/// Safety factor for the estimated cost of a call in flight. The pool assumes this factor times the
/// cost of the most expensive call so far. It assumes this factor times the mean cost of store
/// requests and bytes.
const DEARER: f64 = 1.5;
/// Assumed numbers of read and write requests to the store for a call that does not report them.
/// They cover lookups, reads of files, and the parts of an answer.
const UNTOLD: (u64, u64) = (16, 4);

/// Cloud functions that compute whole training runs, with the bill and the budget of their calls.
#[derive(Debug)]
pub struct Trainers {
    invoker: Arc<LambdaInvoker>,
    store: Arc<S3Store>,
    architecture: Architecture,
    host: Host,
    most: ConcurrencyLimit,
    asked: FunctionCount,
    memory_mb: u32,
    timeout: Duration,
    deadline: Deadline,
    prices: Prices,
    bill: Bill,
    time: Time,
    /// Name of the function, which the record contains.
    function: String,
    record: Option<Record>,
    /// Total usage of earlier processes, according to the record.
    before: Before,
    /// Number of calls that were abandoned while in flight.
    abandoned: u64,
    /// Requests of the functions to the object store, as their replies report them.
    told: Counts,
    budget: Budget,
    /// The emulated AWS services, which count the usage themselves. `None` for AWS.
    cloud: Option<eciton_emulator::Emulator>,
    runtime: Option<Runtime>,
    /// Folder of emulated functions, which is deleted after they have ended.
    _folder: Option<Scratch>,
}

impl Trainers {
    /// Starts the trainer functions of a deployment or emulated ones. Makes `kernels`, pairs of a
    /// name and a WebAssembly component, available to the functions.
    ///
    /// # Errors
    /// Returns an [`Error`] if the executor has no functions, or if a program, a deployment or
    /// credentials are missing. Also returns one if a kernel cannot be compiled or signed on this
    /// machine.
    pub fn start(
        executor: &Executor,
        emulator: &Emulator,
        kernels: &[(&str, &[u8])],
        cache: Option<Cache>,
    ) -> Result<Self> {
        let timeout = Duration::from_secs(u64::from(executor.timeout_s));
        let mut trainers = match executor.kind {
            ExecutorKind::Emulated => {
                let program = programs::find_trainer(None)?;
                let mut stand = EmulatedAccount::start(("trainer", program), executor, emulator)?;
                stand.keys.cache = cache;
                let architecture = stand.architecture();
                let EmulatedAccount { cloud, runtime, store, keys, baseline, invoker, folder } = stand;
                let package = folder.path("package").map_err(system("create a package"))?;
                kernels.iter().try_for_each(|kernel| keys.package(&package, baseline, *kernel))?;
                Self {
                    invoker: Arc::new(invoker),
                    store: Arc::new(store),
                    architecture,
                    host: Host::of_emulated(executor.host),
                    most: ConcurrencyLimit::of_emulator(emulator),
                    asked: executor.functions,
                    memory_mb: executor.memory_mb,
                    timeout,
                    deadline: Deadline::from_executor(executor),
                    prices: cloud_file::prices()?,
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
                    "a whole run can be a task of the executors emulated and lambda only, but the executor is {name}"
                )));
            }
        };
        trainers.most.count = trainers.most.count.max(1);
        Ok(trainers)
    }

    /// Creates the pool for the AWS Lambda functions of a deployment.
    fn of_deployment(executor: &Executor, kernels: &[(&str, &[u8])], cache: Option<Cache>) -> Result<Self> {
        let deployment = Deployment::load(executor.deployment.as_deref().unwrap_or(DEFAULT_STACK))?;
        let function = deployment.trainer(executor.memory_mb)?;
        let runtime = runtime(2)?;
        let config =
            runtime.block_on(aws::sdk(Some(deployment.region.as_str()), deployment.profile.as_deref()))?;
        let store = aws::store(&deployment, &config).map_err(at_store("open the object store"))?;
        let mut keys = KernelKeys::from_deployment(&deployment)?;
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
            deadline: Deadline::from_executor(executor),
            prices: cloud_file::prices_in(&deployment.region)?,
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

    /// Writes an object that calls read to the object store, unless the object exists.
    ///
    /// # Errors
    /// Returns an [`Error`] if `key` is not valid or the object store fails.
    pub fn put(&mut self, key: &str, bytes: Vec<u8>) -> Result<()> {
        let key = Key::new(key).map_err(at_store(format!("store `{key}`")))?;
        let stored = store_once(&self.store, &key, bytes.into());
        self.runtime()?.block_on(stored).map_err(at_store(format!("store `{key}`")))
    }

    /// Returns the time limit of each call.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        self.timeout
    }

    /// Returns the modelled time for which a call waits for the object store, not counting its
    /// files and its answer. It is zero if times are real.
    #[must_use]
    pub fn waits(&self) -> Duration {
        match &self.time {
            Time::Real(_) => Duration::ZERO,
            Time::Virtual(clock) => clock.first_byte() * REQUESTS,
        }
    }

    /// Returns the computing speed of a modelled function, as a multiple of one processor of this
    /// machine. Returns `None` if times are real.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        match &self.time {
            Time::Real(_) => None,
            Time::Virtual(clock) => Some(clock.cores()),
        }
    }

    /// Returns the limit that reduces the number of functions for `calls` calls, if any.
    #[must_use]
    pub fn cut(&self, calls: usize) -> Option<Cut> {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        Cut::find(self.asked, calls, &self.most)
    }

    /// Returns the usage so far, including that of earlier processes in the record.
    #[must_use]
    pub fn bill(&self) -> Bill {
        self.before.bill.and(&self.own_bill())
    }

    /// Returns the usage of this process so far.
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
            // The emulator counts a call at its end, which an abandoned call does not reach.
            Some(cloud) => {
                let mut bill = bill(&cloud.bill(), &own);
                bill.invocations += self.abandoned;
                bill.unreported += self.abandoned;
                bill
            }
            None => own,
        }
    }

    /// Returns the cost of the usage that [`Self::bill`] returns.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.in_money(&self.bill())
    }

    fn in_money(&self, bill: &Bill) -> Cost {
        let times = match (&self.cloud, &self.time) {
            (None, _) => TimeOrigin::Charged,
            (Some(_), Time::Virtual(_)) => TimeOrigin::Modelled,
            (Some(_), Time::Real(_)) => TimeOrigin::Measured,
        };
        Cost { times, ..bill.cost(&self.prices, self.architecture, &self.host) }
    }

    /// Returns the total duration of calls so far in seconds, including that of earlier processes
    /// in the record. The time is virtual if the emulator models times.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.before.seconds + self.time.now().as_secs_f64()
    }

    fn usd(&self, charge: &Charge) -> f64 {
        let gb_seconds = charge.billed_ms as f64 / 1e3 * f64::from(self.memory_mb) / 1024.0;
        self.prices.lambda_usd(self.architecture, gb_seconds, 1)
    }

    /// Returns the estimated cost of store requests for a call that does not report them, in US
    /// dollars.
    fn untold_usd(&self) -> f64 {
        let (reads, writes) = UNTOLD;
        self.prices.s3_usd(writes, reads)
    }

    /// Returns true if the estimated total cost stays within `limit` dollars after one more call.
    /// `under` is the number of calls in flight, and `longest` is the maximum cost of a call.
    fn fits(&self, limit: f64, under: usize, longest: f64) -> bool {
        let Cost { usd, functions_usd, .. } = self.in_money(&self.own_bill());
        let Budget { lost_usd, answered, .. } = self.budget;
        let dearest_usd = self.dearest();
        // Each call also makes requests to the store and moves bytes.
        let beside = match answered {
            0 => self.untold_usd(),
            answered => (usd - functions_usd) / answered as f64 * DEARER,
        };
        let each = dearest_usd.map_or(longest, |usd| (usd * DEARER).min(longest)) + beside;
        self.before.usd + usd + lost_usd + each * (under + 1) as f64 <= limit
    }

    /// Returns the cost of the most expensive call so far in US dollars, without its store
    /// requests. Returns `None` if no cost was reported.
    fn dearest(&self) -> Option<f64> {
        let (own, before) = (self.budget.dearest_usd, self.before.dearest_usd);
        own.zip(before).map_or(own.or(before), |(own, before)| Some(own.max(before)))
    }

    /// Adds an ended call to the bill, the budget and the record. Estimates the costs that are not
    /// reported.
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
        // The stand-in counts all usage itself.
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
        // Request times of the emulator have no meaning.
        let reply_s = result.as_ref().ok().filter(|_| self.cloud.is_none()).map(|answer| answer.reply_s);
        self.note(at, outcome, (charge, reply_s), known)
    }

    /// Appends the end of a call to the record, if there is one.
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

    /// Makes all calls, including those with which `told` continues them. The setting
    /// `executor.functions` and the account limit the number of concurrent calls. Calls `told` at
    /// the end of each call.
    ///
    /// Returns an [`Error`] if the budget is less than the maximum cost of one call, or if the
    /// record cannot be written.
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
                "--max-usd {limit}: one call may cost up to {one:.4} dollars, because its time limit is {} s; raise \
                 --max-usd, or lower executor.timeout_s",
                self.timeout.as_secs()
            )));
        }
        let runtime = self
            .runtime
            .take()
            .ok_or_else(|| Error::Choice("the functions already execute other calls".to_owned()))?;
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
        // Indices of the calls in flight, one for each attempt.
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
                // A call of median duration would end too late.
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
            // Attempts still in flight for calls that have ended give nothing new.
            if stopped || under.is_empty() || states.iter().all(|state| state.ended) {
                break;
            }
            let timer = next_late(&states, &mut took, (now, self.deadline)).into_iter().chain(end).min();
            let Some(joined) = self.time.next(&mut under, timer).await else { continue };
            // A panic loses the index of the call, so that call ends as left.
            let Ok((at, link, begun, result)) = joined else { continue };
            let lasted = self.time.now().saturating_sub(begun);
            if let Some(landed) = flying.iter().position(|flying| *flying == at) {
                flying.swap_remove(landed);
            }
            self.settle(at, &result, longest)?;
            let (Some(state), Some(call)) = (states.get_mut(at), calls.get_mut(at)) else { continue };
            // This was a second attempt at a call that has been continued in the meantime.
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
                            // This precedes calls that have not begun, because a chain of calls
                            // takes longest.
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
                        // The other attempt at this call may succeed.
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

    /// Adds calls that are abandoned in flight to the bill and the record. They are charged, but
    /// their charge is never reported.
    fn abandon(&mut self, calls: &[usize], longest: f64) -> Result<()> {
        let count = calls.len() as u64;
        self.bill.invocations += count;
        self.bill.unreported += count;
        self.abandoned += count;
        let each = self.dearest().unwrap_or(longest) + self.untold_usd();
        self.budget.lost_usd += each * count as f64;
        calls.iter().try_for_each(|call| self.note(*call, "left", (None, None), None))
    }

    /// Adds the result of an attempt at a call to the bill.
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
                // The functions end with the cloud at the latest.
                let _ = runtime.block_on(cloud.stop());
            }
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
    }
}

/// Compiles and stores the kernels that the functions do not have yet.
async fn at_hand(
    store: &S3Store,
    baseline: eciton_kernel::artefact::Baseline,
    keys: &KernelKeys,
    kernels: &[(&str, &[u8])],
) -> Result<()> {
    for (name, component) in kernels {
        keys.store(store, baseline, name, &digest(component), component).await?;
    }
    Ok(())
}

/// Costs of calls that are not part of the bill, and the basis for estimates.
#[derive(Debug, Clone, Copy, Default)]
struct Budget {
    /// Estimated cost of calls whose charge was not reported, in US dollars.
    lost_usd: f64,
    /// Cost of the most expensive call in US dollars, without its store requests. `None` before the
    /// first report.
    dearest_usd: Option<f64>,
    answered: u64,
}

/// Part of a function's reply that reports its requests to the object store.
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

//! The calls of whole runs: launched, made again, paid for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_kernel::cache::{Cache, digest};
use eciton_plan::{Emulator, Executor, ExecutorKind, FunctionCount};
use eciton_transport::{Condition, Counts, Key, S3Store, Store};
use serde::Deserialize;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{Call, Ended, Rules};
use crate::deployment::{DEFAULT_STACK, Deployment};
use crate::emulated::{self, Stand};
use crate::functions::{self, Cut, Error, Keys, Most, Result, at_store};
use crate::invoker::Charge;
use crate::lambda::{LambdaInvoker, LambdaSettings};
use crate::{Architecture, Bill, Cost, Host, InvokeError, Invoker, Prices, aws};

/// Attempts at a call; throttled ones do not count.
const ATTEMPTS: u32 = 10;
/// How often what is under way is looked at.
const LOOK: Duration = Duration::from_millis(50);
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
                runtime.block_on(at_hand(&store, baseline, &keys, kernels))?;
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
                    prices: Prices::read()?,
                    bill: Bill::default(),
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
            prices: Prices::read()?,
            bill: Bill::default(),
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

    /// Stores an object that calls need, unless it is there.
    ///
    /// # Errors
    /// The store's.
    pub fn put(&mut self, key: &str, bytes: Vec<u8>) -> Result<()> {
        let key = Key::new(key).map_err(at_store(format!("storing `{key}`")))?;
        let put = self.store.put(&key, bytes.into(), Condition::IfAbsent);
        self.runtime()?.block_on(put).map_err(at_store(format!("storing `{key}`")))?;
        Ok(())
    }

    /// By what the number of functions for so many calls is cut.
    #[must_use]
    pub fn cut(&self, calls: usize) -> Option<Cut> {
        let calls = u32::try_from(calls).unwrap_or(u32::MAX);
        Cut::find(self.asked, calls, &self.most)
    }

    /// What was used so far of what is charged for.
    #[must_use]
    pub fn bill(&self) -> Bill {
        let (counts, told) = (self.store.counts(), self.told);
        let mut own = self.bill;
        own.store_writes = counts.puts + counts.lists + told.puts + told.lists;
        own.store_reads = counts.gets + counts.heads + told.gets + told.heads;
        own.store_bytes_in = counts.bytes_out + told.bytes_out;
        own.store_bytes_out = counts.bytes_in + told.bytes_in;
        own.store_bytes_host = counts.bytes_in + counts.bytes_out;
        own.store_bytes_to_host = counts.bytes_in;
        match &self.cloud {
            Some(cloud) => emulated::bill(&cloud.bill(), &own),
            None => own,
        }
    }

    /// That, in money.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.bill().cost(&self.prices, self.architecture, &self.host)
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
        let Cost { usd, functions_usd, .. } = self.cost();
        let Budget { lost_usd, dearest_usd, answered } = self.budget;
        // Each brings requests to the store, and bytes.
        let beside = match answered {
            0 => self.untold_usd(),
            answered => (usd - functions_usd) / answered as f64 * DEARER,
        };
        let each = dearest_usd.map_or(longest, |usd| (usd * DEARER).min(longest)) + beside;
        usd + lost_usd + each * (under + 1) as f64 <= limit
    }

    /// Counts a call that has ended, and what nobody tells of it.
    fn settle(&mut self, result: &Result<Answer, Fault>, charge: Option<Charge>, longest: f64) {
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
    }

    /// Makes the calls, as many at once as the executor's setting and the account allow. `told` hears of each end.
    ///
    /// # Errors
    /// A budget that not even one call fits into.
    pub fn run(
        &mut self,
        calls: &[Call],
        rules: &Rules<'_>,
        told: &mut dyn FnMut(usize, Ended),
    ) -> Result<()> {
        let longest = Charge { billed_ms: self.timeout.as_millis() as u64, ..Charge::default() };
        let longest = self.usd(&longest);
        let one = longest + self.untold_usd();
        if let Some(limit) = rules.max_usd.filter(|limit| *limit < one) {
            return Err(Error::Choice(format!(
                "--max-usd {limit}: one call may cost {one:.4} (its time limit is {} s); allow more, or set \
                 executor.timeout_s lower",
                self.timeout.as_secs()
            )));
        }
        let runtime = self.runtime.take().ok_or_else(|| Error::Choice("already at work".to_owned()))?;
        runtime.block_on(self.work(calls, rules, longest, told));
        self.runtime = Some(runtime);
        Ok(())
    }

    async fn work(
        &mut self,
        calls: &[Call],
        rules: &Rules<'_>,
        longest: f64,
        told: &mut dyn FnMut(usize, Ended),
    ) {
        let asked = match self.asked {
            FunctionCount::Fixed(count) => count.max(1),
            FunctionCount::Auto => u32::try_from(calls.len()).unwrap_or(u32::MAX),
        };
        let mut limit = asked.min(self.most.count) as usize;
        let most = limit;
        let mut states = vec![State::default(); calls.len()];
        let mut waiting: VecDeque<usize> = (0..calls.len()).collect();
        let mut under: JoinSet<(usize, Duration, Result<Answer, Fault>)> = JoinSet::new();
        let mut took: Vec<Duration> = Vec::new();
        loop {
            let stopped = (rules.stop)();
            while !stopped && under.len() < limit {
                if rules.max_usd.is_some_and(|limit| !self.fits(limit, under.len(), longest)) {
                    break;
                }
                let Some(at) = waiting.pop_front().or_else(|| straggler(&states, &mut took, self.deadline))
                else {
                    break;
                };
                let (Some(call), Some(state)) = (calls.get(at), states.get_mut(at)) else { continue };
                if state.ended {
                    continue;
                }
                state.begun = Some(state.begun.unwrap_or_else(Instant::now));
                state.under += 1;
                state.attempts += 1;
                let (invoker, store, call) = (self.invoker.clone(), self.store.clone(), call.clone());
                self.bill.bytes_to_functions += call.event.len() as u64;
                under.spawn(async move {
                    let begun = Instant::now();
                    let answer = make(&invoker, &store, call).await;
                    (at, begun.elapsed(), answer)
                });
            }
            // What is under way beside a call that has ended answers nothing new.
            if stopped || under.is_empty() || states.iter().all(|state| state.ended) {
                break;
            }
            let Ok(Some(joined)) = tokio::time::timeout(LOOK, under.join_next()).await else { continue };
            // A call that panicked has no number: what it was for ends as left.
            let Ok((at, lasted, result)) = joined else { continue };
            let charge = match &result {
                Ok(answer) => answer.charge,
                Err(fault) => fault.charge,
            };
            self.settle(&result, charge, longest);
            let Some(state) = states.get_mut(at) else { continue };
            state.under -= 1;
            if state.ended {
                continue;
            }
            match result {
                Ok(answer) => {
                    took.push(lasted);
                    state.ended = true;
                    limit = (limit + 1).min(most);
                    told(at, Ended::Answered { reply: answer.reply, object: answer.object });
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
                            told(at, Ended::Failed(fault.text));
                        }
                        // The other attempt may end well.
                        _ => {}
                    }
                }
            }
        }
        self.abandon(under.len(), longest);
        under.abort_all();
        for (at, _) in states.iter().enumerate().filter(|(_, state)| !state.ended) {
            told(at, Ended::Left);
        }
    }

    /// Counts calls that are given up: they are charged to their end, which nobody tells.
    fn abandon(&mut self, calls: usize, longest: f64) {
        self.bill.invocations += calls as u64;
        self.bill.unreported += calls as u64;
        let each = self.budget.dearest_usd.unwrap_or(longest) + self.untold_usd();
        self.budget.lost_usd += each * calls as f64;
    }

    fn count(&mut self, result: &Result<Answer, Fault>, charge: Option<Charge>) {
        let bill = &mut self.bill;
        bill.invocations += 1;
        if let Some(charge) = charge {
            bill.billed_ms += charge.billed_ms;
            bill.gb_seconds += charge.billed_ms as f64 / 1e3 * f64::from(self.memory_mb) / 1024.0;
            bill.cold_starts += u64::from(charge.init_ms.is_some());
        } else {
            bill.unreported += 1;
        }
        match result {
            Ok(answer) => {
                bill.bytes_from_functions += answer.reply.len() as u64;
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

/// What an answer tells of the function's use of the store.
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

/// Where a call stands.
#[derive(Debug, Clone, Default)]
struct State {
    /// Of its first attempt.
    begun: Option<Instant>,
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

/// A call that takes much longer than the others did, and has one attempt under way.
fn straggler(states: &[State], took: &mut [Duration], deadline: Deadline) -> Option<usize> {
    let middle = took.len() / 2;
    if took.is_empty() {
        return None;
    }
    let (_, median, _) = took.select_nth_unstable(middle);
    let late = deadline.floor.max(median.mul_f64(deadline.ratio));
    let is_late = |state: &State| state.begun.is_some_and(|begun| begun.elapsed() > late);
    let one = |state: &State| !state.ended && state.under == 1 && state.attempts < ATTEMPTS && is_late(state);
    states.iter().position(one)
}

struct Answer {
    reply: Bytes,
    object: Bytes,
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

async fn make(invoker: &LambdaInvoker, store: &S3Store, call: Call) -> Result<Answer, Fault> {
    let invoked = invoker.invoke(call.event).await.map_err(|error| {
        let (_, throttles) = error.requests();
        let throttled = matches!(&error, InvokeError::Service { .. }) && throttles > 0;
        let (retryable, charge) = (error.is_retryable(), error.charge());
        Fault { text: error.to_string(), retryable, throttled, throttles, charge }
    })?;
    let object = store.get(&call.answer, None).await.map_err(|error| Fault {
        text: format!("reading the answer `{}`: {error}", call.answer),
        retryable: true,
        throttled: false,
        throttles: invoked.throttled,
        charge: invoked.charge,
    })?;
    Ok(Answer { reply: invoked.payload, object, charge: invoked.charge, throttled: invoked.throttled })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_call_is_a_straggler_after_both_times() {
        let second = Duration::from_secs(1);
        let state = State { begun: Instant::now().checked_sub(second), under: 1, ..State::default() };
        let of = |took: &[u64], floor_ms, ratio| {
            let mut took: Vec<Duration> = took.iter().map(|&ms| Duration::from_millis(ms)).collect();
            let deadline = Deadline { floor: Duration::from_millis(floor_ms), ratio };
            straggler(std::slice::from_ref(&state), &mut took, deadline)
        };
        assert_eq!(of(&[100, 90, 5000], 500, 4.0), Some(0), "the median is 100 ms");
        assert_eq!(of(&[100, 90, 5000], 900_000, 4.0), None, "not before the floor");
        assert_eq!(of(&[400, 400], 500, 4.0), None, "not before so many times the median");
        assert_eq!(of(&[], 0, 4.0), None, "nothing has answered");
        let states = [State { under: 2, ..state.clone() }, State { ended: true, ..state.clone() }];
        let mut took = [Duration::from_millis(1)];
        let deadline = Deadline { floor: Duration::ZERO, ratio: 4.0 };
        assert_eq!(straggler(&states, &mut took, deadline), None, "one attempt more, and of what goes on");
    }
}

//! State machine of flights, which are invocations of functions from request to answer.

use eciton_engine::Event;
use eciton_types::TaskKey;

use super::{Item, World, us};
use crate::flight::{Fate, Flight, Phase, Timer, parts};
use crate::host::{Job, JobKind};
use crate::random::{Purpose, unit};
use crate::settings::Transport;

/// Maximum number of requests per invocation, including throttled requests, like in `eciton-exec`.
const REQUESTS: u32 = 10;
/// Maximum wait in seconds after the first throttled request. It doubles after each further one.
/// The actual wait is a random share of it (full jitter).
const BACKOFF_S: f64 = 1.0;
/// Upper limit of the wait after a throttled request, in seconds.
const MAX_BACKOFF_S: f64 = 20.0;
/// Size of base64 text relative to the encoded bytes.
const BASE64: f64 = 4.0 / 3.0;

impl World<'_> {
    /// Starts a flight (an invocation) for a task, and queues the job that creates its request.
    pub(super) fn begin_flight(&mut self, host: u32, key: TaskKey) {
        let work = self.work.stages[key.stage.index()];
        let limit = self.settings.cloud.payload_bytes as f64;
        let auto = self.settings.functions.transport == Transport::Auto;
        let flight = Flight {
            key,
            host,
            begun_us: self.now_us,
            started_us: 0,
            phase: Phase::Request,
            in_store: auto && work.in_bytes * BASE64 > limit,
            out_store: auto && work.out_bytes * BASE64 > limit,
            fate: Fate::draw(self.settings.seed, &self.settings.faults, key),
            throttled: 0,
            cold: false,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.flights[number as usize] = flight;
                number
            }
            None => {
                self.flights.push(flight);
                // As many as functions, at most.
                (self.flights.len() - 1) as u32
            }
        };
        self.hosts[host as usize].in_flight += 1;
        self.tally.flights(self.now_us, 1);
        self.waited[key.stage.index()].insert((self.now_us, key));
        self.look_later();
        self.hosts[host as usize].jobs.insert(Job { key, kind: JobKind::Send, flight: number });
    }

    /// Sends the request of a flight after a core has created it.
    pub(super) fn sent(&mut self, number: u32) {
        let flight = self.flights[number as usize];
        let bytes = self.work.stages[flight.key.stage.index()].in_bytes;
        match self.settings.functions.transport {
            // It carries coordinates only.
            Transport::Direct => self.after(0, number, Timer::Request),
            Transport::Auto => {
                let bytes = if flight.in_store { bytes } else { bytes * BASE64 };
                self.tally.bytes.to_functions += bytes;
                self.transfer(number, bytes);
            }
        }
    }

    /// Ends a flight after a core has decoded its answer, and delivers the answer.
    pub(super) fn received(&mut self, number: u32) {
        let flight = self.flights[number as usize];
        let took_us = self.now_us - flight.begun_us;
        self.free.push(number);
        self.waited[flight.key.stage.index()].remove(&(flight.begun_us, flight.key));
        if let Some(after_us) = flight.fate.doubled_after_us {
            self.put(after_us, Item::Engine(Event::Completed { key: flight.key, took_us }));
        }
        self.deliver(flight.host, flight.key, took_us);
    }

    fn after(&mut self, after_us: u64, flight: u32, timer: Timer) {
        self.put(after_us, Item::Flight { flight, timer });
    }

    /// Starts a transfer of `bytes` bytes for a flight over its host's link.
    fn transfer(&mut self, number: u32, bytes: f64) {
        let host = self.flights[number as usize].host;
        self.hosts[host as usize].link.begin(self.now_us, bytes, number);
        self.watch(host);
    }

    /// Schedules an event for the end of the next transfer on a host's link.
    fn watch(&mut self, host: u32) {
        let link = &self.hosts[host as usize].link;
        if let Some(at_us) = link.next_us() {
            let generation = link.generation;
            self.put(at_us.saturating_sub(self.now_us), Item::Link { host, generation });
        }
    }

    pub(super) fn link_done(&mut self, host: u32, generation: u64) {
        let link = &mut self.hosts[host as usize].link;
        if link.generation != generation {
            // Another transfer began or ended meanwhile, and made a timer of its own.
            return;
        }
        let mut done = Vec::new();
        link.done(self.now_us, &mut done);
        self.watch(host);
        for number in done {
            self.transferred(number);
        }
        self.dispatch(host);
    }

    /// Continues a flight after its transfer has ended.
    fn transferred(&mut self, number: u32) {
        let flight = self.flights[number as usize];
        match flight.phase {
            Phase::Request if flight.in_store => {
                self.tally.functions.store_writes += 1;
                self.after(self.settings.cloud.store_us, number, Timer::Request);
            }
            Phase::Request => self.after(0, number, Timer::Request),
            Phase::Reading => {
                self.flights[number as usize].phase = Phase::Running;
                let compute_us = us(self.compute_s(&flight));
                self.finish_or_die(number, compute_us, Timer::Computed);
            }
            Phase::Writing => self.after(0, number, Timer::End),
            Phase::Running | Phase::Answer => {
                self.leave(number);
                let job = Job { key: flight.key, kind: JobKind::Receive, flight: number };
                self.hosts[flight.host as usize].jobs.insert(job);
            }
        }
    }

    pub(super) fn timer(&mut self, number: u32, timer: Timer) {
        let flight = self.flights[number as usize];
        let work = self.work.stages[flight.key.stage.index()];
        match timer {
            Timer::Request => self.request(number),
            Timer::Start => self.start(number),
            Timer::Connected => {
                self.flights[number as usize].phase = Phase::Reading;
                let bytes = work.in_bytes + work.constant_bytes;
                self.tally.bytes.to_functions += bytes;
                self.transfer(number, bytes);
            }
            Timer::Computed => {
                self.flights[number as usize].phase = Phase::Writing;
                self.tally.bytes.from_functions += work.out_bytes;
                self.transfer(number, work.out_bytes);
            }
            Timer::End => {
                self.bill(number, true);
                self.flights[number as usize].phase = Phase::Answer;
                if flight.fate.lost {
                    let until_us = flight.begun_us.saturating_add(self.settings.cloud.give_up_us);
                    self.after(until_us.saturating_sub(self.now_us), number, Timer::GiveUp);
                } else if self.settings.functions.transport == Transport::Direct {
                    self.transferred(number);
                    self.dispatch(flight.host);
                } else if flight.out_store {
                    self.tally.functions.store_reads += 1;
                    self.after(self.settings.cloud.store_us, number, Timer::Reply);
                } else {
                    self.after(0, number, Timer::Reply);
                }
            }
            Timer::Reply => {
                let bytes = if flight.out_store { work.out_bytes } else { work.out_bytes * BASE64 };
                self.tally.bytes.from_functions += bytes;
                self.transfer(number, bytes);
            }
            Timer::Die => {
                self.bill(number, false);
                self.fail(number);
            }
            Timer::GiveUp => self.fail(number),
        }
    }

    /// Handles a request that arrives at the cloud service, which accepts or throttles it. A
    /// throttled request is repeated after a random wait.
    fn request(&mut self, number: u32) {
        let cloud = self.settings.cloud;
        match self.environments.start(self.now_us) {
            Some(cold) => {
                let flight = &mut self.flights[number as usize];
                flight.cold = cold;
                self.tally.functions.invocations += 1;
                let cold_us = if cold { cloud.cold_us } else { 0 };
                self.after(cloud.latency_us + cold_us, number, Timer::Start);
            }
            None => {
                let flight = &mut self.flights[number as usize];
                flight.throttled += 1;
                let (tries, key) = (flight.throttled, flight.key);
                if tries >= REQUESTS {
                    self.fail(number);
                    return;
                }
                let most = MAX_BACKOFF_S.min(BACKOFF_S * f64::from(1u32 << (tries - 1)));
                let [epoch, stage, interval, attempt] = parts(key);
                let parts = [epoch, stage, interval, attempt, tries.into()];
                let wait_s = most * unit(self.settings.seed, Purpose::Backoff, &parts);
                self.after(1 + us(wait_s), number, Timer::Request);
            }
        }
    }

    /// Handles the start of a function. Its run time is charged from here on.
    fn start(&mut self, number: u32) {
        let cloud = self.settings.cloud;
        let flight = &mut self.flights[number as usize];
        flight.started_us = self.now_us;
        flight.phase = Phase::Running;
        let flight = *flight;
        let init_us = if flight.cold { cloud.init_us } else { 0 };
        if self.settings.functions.transport == Transport::Direct {
            self.after(init_us, number, Timer::Connected);
            return;
        }
        let work = self.work.stages[flight.key.stage.index()];
        let rate = cloud.alone_mbits * 1e6 / 8.0;
        let compute_s = self.compute_s(&flight);
        // Objects are read one after the other; the kernel computes on rows as they come.
        let objects = work.constant_objects + u32::from(flight.in_store);
        let read = work.constant_bytes + if flight.in_store { work.in_bytes } else { 0.0 };
        self.tally.functions.store_reads += u64::from(objects);
        let mut seconds = f64::from(objects) * cloud.store_us as f64 * 1e-6 + compute_s.max(read / rate);
        self.tally.bytes.store += read;
        if flight.out_store {
            self.tally.functions.store_writes += 1;
            self.tally.bytes.store += work.out_bytes;
            seconds += cloud.store_us as f64 * 1e-6 + work.out_bytes / rate;
        }
        self.finish_or_die(number, init_us + us(seconds), Timer::End);
    }

    /// Returns the time in seconds that a function computes for a flight if it begins now. It
    /// includes jitter, stragglers and slow periods.
    fn compute_s(&self, flight: &Flight) -> f64 {
        let faults = &self.settings.faults;
        let mut seconds = self.work.stages[flight.key.stage.index()].function_s;
        seconds *= 1.0 + self.settings.jitter * flight.fate.jitter;
        if flight.fate.straggles {
            seconds *= faults.straggle_factor;
        }
        if let Some(bursts) = faults.bursts {
            let now_s = self.now_us as f64 * 1e-6;
            if now_s % bursts.period_s < bursts.share * bursts.period_s {
                seconds *= bursts.factor;
            }
        }
        seconds
    }

    /// Schedules the end of a function in `rest_us` microseconds. If it crashes or reaches its time
    /// limit before, that event is scheduled instead.
    fn finish_or_die(&mut self, number: u32, rest_us: u64, timer: Timer) {
        let flight = self.flights[number as usize];
        let limit_us = flight.started_us.saturating_add(self.settings.cloud.time_limit_us);
        if let Some(share) = flight.fate.crashes_at {
            let until_us = ((rest_us as f64 * share) as u64).min(limit_us.saturating_sub(self.now_us));
            self.after(until_us, number, Timer::Die);
        } else if self.now_us.saturating_add(rest_us) > limit_us {
            self.after(limit_us.saturating_sub(self.now_us), number, Timer::Die);
        } else {
            self.after(rest_us, number, timer);
        }
    }

    /// Charges the run time of a function that has ended, rounded up to milliseconds. `lives`
    /// states that its environment can be reused.
    fn bill(&mut self, number: u32, lives: bool) {
        let flight = &self.flights[number as usize];
        let billed_us = self.now_us - flight.started_us;
        self.tally.functions.billed_ms += billed_us.div_ceil(1000);
        self.environments.end(self.now_us, lives);
    }

    /// Removes a flight from the number of invocations in flight.
    fn leave(&mut self, number: u32) {
        let flight = self.flights[number as usize];
        let host = &mut self.hosts[flight.host as usize];
        host.in_flight -= 1;
        host.pace.after(flight.throttled > 0, host.limit);
        self.tally.flights(self.now_us, -1);
    }

    fn fail(&mut self, number: u32) {
        let flight = self.flights[number as usize];
        self.leave(number);
        self.free.push(number);
        self.waited[flight.key.stage.index()].remove(&(flight.begun_us, flight.key));
        self.tell(Event::Failed { key: flight.key, retryable: true });
        self.dispatch(flight.host);
    }
}

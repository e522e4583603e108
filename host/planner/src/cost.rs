//! Seconds and dollars of work at a cloud, before it runs: functions, fleets of machines, other services.
//!
//! [`Work`] has counts and processor seconds, [`Cloud`] has prices and times. [`usage`] follows the emulator: a
//! function's time is processor time over its share of a processor, plus waits for the object store. [`table`] makes
//! one row of each place that could do the work, and [`Table::verdict`] compares them.
//!
//! A fleet of `m` cores takes `B + W/m` seconds and costs `m max(M, W/m) p`: B is the boot, M the minimum charge, p
//! the price of a core for a second. A fleet that is as fast as T has `W/m = T - B`. While that is below M it costs
//! `W M p / (T - B)`. Functions cost `r W p`. So functions that answer before `T* = B + M/r` beat every fleet.

mod rivals;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use eciton_recipe::cloud::{Cloud, Preset};
use eciton_recipe::prices::{HostPlace, Moved, Prices, Processor};
use rivals::{fleet, fleets, gpu, service};

/// Memory sizes of functions in a table, MB.
pub const SIZES: [u32; 4] = [512, 1024, 1769, 3008];
/// Age of a cloud file above which a reader is warned, days.
pub const MAX_AGE_DAYS: i64 = 180;

/// Origin of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Counted from the plan, as the program will do it.
    Counted,
    /// Computed from a measured pilot.
    Modelled,
    /// Computed from assumed speeds and sizes.
    Assumed,
}

impl Origin {
    /// Returns the word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Modelled => "modelled",
            Self::Assumed => "assumed",
        }
    }
}

/// Requests to an object store, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// PUT requests, those of a multipart upload included.
    pub puts: u64,
    /// GET requests.
    pub gets: u64,
    /// HEAD requests.
    pub heads: u64,
    /// Bytes written.
    pub bytes_in: u64,
    /// Bytes read.
    pub bytes_out: u64,
}

impl Requests {
    /// Returns the sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            puts: self.puts + other.puts,
            gets: self.gets + other.gets,
            heads: self.heads + other.heads,
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
        }
    }

    /// Returns the seconds that a function waits for them.
    #[must_use]
    pub fn seconds(self, preset: &Preset, memory_mb: u32) -> f64 {
        let count = (self.puts + self.gets + self.heads) as f64;
        let bytes = (self.bytes_in + self.bytes_out) as f64;
        count * preset.first_byte_ms / 1e3 + bytes / preset.bytes_per_second(memory_mb)
    }
}

/// One invocation's work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Task {
    /// Processor seconds in a process that has done such a task before, on one core of c7a.
    pub core_s: f64,
    /// Further processor seconds of a process's first task: it reads the data set.
    pub first_core_s: f64,
    /// Requests of the function to the object store.
    pub store: Requests,
    /// Further requests of a process's first task.
    pub first_store: Requests,
    /// Bytes of the event.
    pub event_bytes: u64,
    /// Bytes of the reply.
    pub reply_bytes: u64,
}

/// Work that is to be done somewhere.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Work {
    /// Tasks by phase. A phase begins after all tasks of the phase before have ended.
    pub phases: Vec<Vec<Task>>,
    /// Requests of the host to the object store.
    pub host: Requests,
    /// Origin of the processor seconds.
    pub times: Origin,
    /// Origin of the sizes of answers.
    pub sizes: Origin,
}

impl Work {
    fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.phases.iter().flatten()
    }

    /// Returns the processor seconds of all tasks in warm processes, on one core of c7a.
    #[must_use]
    pub fn core_s(&self) -> f64 {
        self.tasks().map(|task| task.core_s).sum()
    }

    fn widest(&self) -> usize {
        self.phases.iter().map(Vec::len).max().unwrap_or(0).max(1)
    }
}

/// Functions of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Functions {
    /// The kind of their processors.
    pub processor: Processor,
    /// Their memory size, MB.
    pub memory_mb: u32,
    /// Maximum number of them at work at once.
    pub count: u32,
}

/// Use of functions and of the object store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds from the first call to the last answer.
    pub seconds: f64,
    /// Invocations.
    pub invocations: u64,
    /// Invocations that start a process.
    pub cold_starts: u64,
    /// Milliseconds charged.
    pub billed_ms: u64,
    /// Milliseconds of initialisation, out of the milliseconds charged.
    pub init_ms: f64,
    /// Memory times time charged, GiB-seconds.
    pub gb_seconds: f64,
    /// Bytes of events.
    pub bytes_to_functions: u64,
    /// Bytes of replies.
    pub bytes_from_functions: u64,
    /// Requests of host and functions to the object store.
    pub store: Requests,
    /// Bytes of objects that the host reads.
    pub bytes_to_host: u64,
}

/// A schedule of tasks: the end of the last one, the end of each process, and the processes that had work.
struct Schedule {
    end: f64,
    ends: Vec<f64>,
}

/// Gives each task, in order, to the process that is free first. `starts` has the time at which each process can begin.
/// `seconds` gets the task and whether it is the process's first.
fn schedule(work: &Work, starts: &[f64], seconds: &mut dyn FnMut(&Task, bool) -> f64) -> Schedule {
    let mut ends = starts.to_vec();
    let mut begun = vec![false; starts.len()];
    let mut end = 0.0f64;
    let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
    for phase in &work.phases {
        let from = end;
        // Processes that have begun are taken before new ones.
        let free = ends.iter().zip(&begun).enumerate();
        let mut free: BinaryHeap<_> =
            free.map(|(at, (end, begun))| Reverse((nanoseconds(end.max(from)), !begun, at))).collect();
        for task in phase {
            let Some(Reverse((_, _, at))) = free.pop() else { continue };
            let (Some(own), Some(begun)) = (ends.get_mut(at), begun.get_mut(at)) else { continue };
            let first = !std::mem::replace(begun, true);
            *own = own.max(from) + seconds(task, first);
            end = end.max(*own);
            free.push(Reverse((nanoseconds(*own), false, at)));
        }
    }
    for (end, begun) in ends.iter_mut().zip(begun) {
        if !begun {
            *end = 0.0;
        }
    }
    Schedule { end, ends }
}

/// Returns what functions use for work, without faults and without second attempts.
#[must_use]
pub fn usage(work: &Work, functions: Functions, preset: &Preset) -> Usage {
    let Functions { processor, memory_mb, count } = functions;
    let processes = (count.min(preset.concurrency).max(1) as usize).min(work.widest());
    let cores = preset.cores(processor, memory_mb);
    // The program's start is work of its processor, as any other.
    let init_s = preset.init_ms / 1e3 * preset.cores(processor, preset.vcpu_mb) / cores;
    let mut used = Usage { store: work.host, bytes_to_host: work.host.bytes_out, ..Usage::default() };
    let starts: Vec<f64> =
        (0..processes).map(|at| (at / preset.environments_per_10_s.max(1) as usize) as f64 * 10.0).collect();
    let (invoke_s, cold_s) = (preset.invoke_ms / 1e3, preset.cold_start_ms / 1e3);
    let done = schedule(work, &starts, &mut |task, first| {
        let mut store = task.store;
        let (mut core_s, mut before) = (task.core_s, 0.0);
        if first {
            store = store.and(task.first_store);
            core_s += task.first_core_s;
            before = init_s;
            used.cold_starts += 1;
            used.init_ms += init_s * 1e3;
        }
        let seconds = before + core_s / cores + store.seconds(preset, memory_mb);
        used.invocations += 1;
        used.billed_ms += (seconds * 1e3).ceil() as u64;
        used.bytes_to_functions += task.event_bytes;
        used.bytes_from_functions += task.reply_bytes;
        used.store = used.store.and(store);
        invoke_s + if first { cold_s } else { 0.0 } + seconds
    });
    used.seconds = done.end;
    used.gb_seconds = used.billed_ms as f64 / 1e3 * f64::from(memory_mb) / 1024.0;
    used
}

/// A line of an invoice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Usage type, without the region's prefix.
    pub usage: String,
    /// Quantity, in units.
    pub quantity: f64,
    /// Unit of the quantity.
    pub unit: &'static str,
    /// Price of a unit, USD.
    pub unit_usd: f64,
    /// Quantity times price, USD.
    pub usd: f64,
    /// Origin of the quantity.
    pub origin: Origin,
}

impl Line {
    fn new(usage: impl Into<String>, (quantity, unit): (f64, &'static str), price: f64, of: Origin) -> Self {
        Self { usage: usage.into(), quantity, unit, unit_usd: price, usd: quantity * price, origin: of }
    }
}

/// Returns the invoice lines of functions for a host at a place. With `free`, what an account has for nothing each
/// month is taken off.
#[must_use]
pub fn lines(
    used: &Usage,
    (functions, place, free): (Functions, HostPlace, bool),
    prices: &Prices,
    (times, sizes): (Origin, Origin),
) -> Vec<Line> {
    let lambda = &prices.lambda;
    let (suffix, second) = match functions.processor {
        Processor::X86_64 => ("", lambda.x86_64_gb_second),
        Processor::Arm64 => ("-ARM", lambda.arm64_gb_second),
    };
    let (free_seconds, free_requests) =
        if free { (lambda.free_gb_seconds, lambda.free_requests) } else { (0.0, 0.0) };
    let seconds = (used.gb_seconds - free_seconds).max(0.0);
    let requests = (used.invocations as f64 - free_requests).max(0.0);
    let (writes, reads) = (used.store.puts as f64, (used.store.gets + used.store.heads) as f64);
    let moved = Moved {
        to_functions: used.bytes_to_functions,
        from_functions: used.bytes_from_functions,
        objects_to_host: used.bytes_to_host,
    };
    let gb_usd = prices.transfer_gb_usd(place);
    let transfer = match place {
        HostPlace::Home => "DataTransfer-Out-Bytes",
        HostPlace::Region | HostPlace::Zone => "DataTransfer-Regional-Bytes",
    };
    let gb = prices.moved_bytes(place, &moved) as f64 / 1e9;
    vec![
        Line::new(format!("Lambda-GB-Second{suffix}"), (seconds, "GB-s"), second, times),
        Line::new(
            format!("Request{suffix}"),
            (requests, "invocations"),
            lambda.million_requests / 1e6,
            Origin::Counted,
        ),
        Line::new("Requests-Tier1", (writes, "PUT"), prices.s3.thousand_writes / 1e3, Origin::Counted),
        Line::new("Requests-Tier2", (reads, "GET, HEAD"), prices.s3.thousand_reads / 1e3, Origin::Counted),
        Line::new(transfer, (gb, "GB"), gb_usd, sizes),
    ]
}

/// Kind of a place that could do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The machine at hand.
    Here,
    /// Functions.
    Functions,
    /// Machines that are started for the work.
    Fleet,
    /// A machine with a GPU.
    Gpu,
    /// Containers of a service.
    Service,
}

/// One place that could do the work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the place.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Seconds from the request to the last answer; `None` if no fleet of this kind fits the money.
    pub seconds: Option<f64>,
    /// Dollars.
    pub usd: f64,
    /// V, 1 / (seconds x dollars); `None` for what costs nothing.
    pub value: Option<f64>,
    /// T*: functions that answer before it beat every fleet of machines on demand in seconds and dollars.
    pub break_even_s: Option<f64>,
    /// Invoice lines, whose dollars add up to [`Self::usd`].
    pub lines: Vec<Line>,
}

impl Row {
    fn new(name: String, kind: Kind, seconds: f64, lines: Vec<Line>) -> Self {
        let usd: f64 = lines.iter().map(|line| line.usd).sum();
        let value = Some(1.0 / (seconds * usd)).filter(|value| value.is_finite());
        Self { name, kind, seconds: Some(seconds), usd, value, break_even_s: None, lines }
    }
}

/// The wish that a table answers.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Functions of the command line: the first row, to which the others' V is relative.
    pub functions: Functions,
    /// The place of the host, for the price of bytes.
    pub place: HostPlace,
    /// Cores of this machine.
    pub cores: u32,
    /// Price of this machine for an hour, USD.
    pub hour_usd: f64,
}

/// Kind of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Faster than the fleet of the best value, and cheaper than any fleet that is as fast.
    FasterAndCheaper,
    /// Faster than the fleet of the best value, but some fleet is as fast for less.
    Faster,
    /// Neither.
    Neither,
}

/// Places that could do the work, compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// The functions of the command line first.
    pub rows: Vec<Row>,
    /// Use of these functions.
    pub usage: Usage,
    /// The verdict about them, against fleets on demand.
    pub verdict: Verdict,
    /// Names of rows, fleets of machines apart, that are both faster and cheaper than they.
    pub beaten_by: Vec<String>,
}

/// Compares the places that could do the work.
#[must_use]
pub fn table(work: &Work, asked: Asked, cloud: &Cloud, (prices, preset): (&Prices, &Preset)) -> Table {
    let times = work.times;
    let used = usage(work, asked.functions, preset);
    let of_functions = |functions: Functions, free: bool| {
        let used = usage(work, functions, preset);
        let lines = lines(&used, (functions, asked.place, free), prices, (times, work.sizes));
        let name = match functions.processor {
            Processor::X86_64 => "x86_64",
            Processor::Arm64 => "arm64",
        };
        let free = if free { ", free tier" } else { "" };
        let name = format!("functions, {name}, {} MB{free}", functions.memory_mb);
        let mut row = Row::new(name, Kind::Functions, used.seconds, lines);
        row.break_even_s = break_even(work, row.usd, cloud, prices);
        row
    };
    let first = of_functions(asked.functions, false);
    let (seconds, usd) = (first.seconds.unwrap_or_default(), first.usd);
    let mut rows = vec![first];
    let here = fleet(work, (1, asked.cores.max(1) as usize), (1.0, 0.0, 0.0, 0.0));
    let hours = (here.0 / 3600.0, "hours");
    let line = Line::new("this machine", hours, asked.hour_usd, times);
    rows.push(Row::new(format!("this machine, {} cores", asked.cores), Kind::Here, here.0, vec![line]));
    for processor in [Processor::X86_64, Processor::Arm64] {
        for memory_mb in SIZES {
            let functions = Functions { processor, memory_mb, ..asked.functions };
            for free in [false, true] {
                if functions != asked.functions || free {
                    rows.push(of_functions(functions, free));
                }
            }
        }
    }
    let on_demand = fleets(work, cloud, prices, false);
    for (spot, found) in [(false, &on_demand), (true, &fleets(work, cloud, prices, true))] {
        let kind = if spot { "spot" } else { "on demand" };
        let best = found.iter().min_by(|a, b| (a.seconds * a.usd).total_cmp(&(b.seconds * b.usd)));
        rows.extend(best.map(|best| best.row(format!("EC2 {kind}, best value"), times)));
        let within = found.iter().filter(|fleet| fleet.usd <= usd);
        let fastest = within.min_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.usd.total_cmp(&b.usd)));
        let name = format!("EC2 {kind}, fastest for the functions' money");
        rows.push(match fastest {
            Some(fastest) => fastest.row(name, times),
            None => Row {
                name: format!("{name}: none"),
                kind: Kind::Fleet,
                seconds: None,
                usd: 0.0,
                value: None,
                break_even_s: None,
                lines: Vec::new(),
            },
        });
    }
    rows.extend(gpu(work, cloud, prices));
    rows.extend(cloud.services.iter().filter_map(|(name, one)| service(work, name, one)));
    let best = on_demand.iter().min_by(|a, b| (a.seconds * a.usd).total_cmp(&(b.seconds * b.usd)));
    let is_faster = best.is_none_or(|best| seconds < best.seconds);
    let is_beaten = on_demand.iter().any(|fleet| fleet.seconds <= seconds && fleet.usd <= usd);
    let verdict = match (is_faster, is_beaten) {
        (true, false) => Verdict::FasterAndCheaper,
        (true, true) => Verdict::Faster,
        (false, _) => Verdict::Neither,
    };
    let rivals = rows.iter().filter(|row| !matches!(row.kind, Kind::Functions | Kind::Fleet));
    let wins = |row: &&Row| row.seconds.is_some_and(|own| own < seconds) && row.usd < usd;
    let beaten_by = rivals.filter(wins).map(|row| row.name.clone()).collect();
    Table { rows, usage: used, verdict, beaten_by }
}

/// Returns T* against the machines on demand that make it the smallest.
fn break_even(work: &Work, usd: f64, cloud: &Cloud, prices: &Prices) -> Option<f64> {
    let machines = prices.ec2.values().filter(|machine| !machine.gpu);
    let each = machines.map(|machine| {
        let fleet_usd = work.core_s() / machine.speed / machine.cores() * machine.hour / 3600.0;
        cloud.fleet.boot_s + cloud.fleet.minimum_s * fleet_usd / usd
    });
    each.min_by(f64::total_cmp).filter(|time| time.is_finite())
}

/// Returns the age of a date (`2026-11` or `2026-11-27`) in days, where `today` is in days since 1970-01-01. `None` if it
/// is no date.
#[must_use]
pub fn age_days(date: &str, today: i64) -> Option<i64> {
    let mut parts = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month) = (parts.next()??, parts.next()??);
    let day = parts.next().unwrap_or(Some(1))?;
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    // Days of the Gregorian calendar from March on, so that a leap day ends a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(today - days)
}

#[cfg(test)]
mod tests;

//! Estimates of time and price for work in a cloud, before it runs: by functions, fleets of
//! machines, and other services.
//!
//! [`Work`] has counts and processor seconds, and [`Cloud`] has prices and times. [`usage`]
//! computes times like the emulator does: a function's time is processor time over its share of a
//! processor, plus waits for the object store. [`table`] makes one row for each alternative, and
//! [`Table::verdict`] compares the alternatives.
//!
//! A fleet of `m` cores takes `B + W/m` seconds and costs `m max(M, W/m) p`. B is the boot time, M
//! the minimum charged time, W the work in core seconds, and p the price of a core per second. A
//! fleet that takes the time T has `W/m = T - B`. If that is below M, the fleet costs `W M p / (T -
//! B)`. Functions cost `r W p`. So functions that answer before `T* = B + M/r` beat every fleet.

mod rivals;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use eciton_recipe::cloud::{Cloud, Preset};
use eciton_recipe::prices::{HostPlace, Moved, Prices, Processor};
use rivals::{fleet, fleets, gpu, service};

/// Memory sizes of functions that a table compares, in MB.
pub const SIZES: [u32; 4] = [512, 1024, 1769, 3008];
/// Age of a cloud file in days above which the user gets a warning.
pub const MAX_AGE_DAYS: i64 = 180;

/// Origin of a value in a cost estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Counted from the plan. The run will have the same number.
    Counted,
    /// Computed from a measured pilot run.
    Modelled,
    /// Computed from assumed speeds and sizes.
    Assumed,
}

impl Origin {
    /// Returns the name of the origin.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counted => "counted",
            Self::Modelled => "modelled",
            Self::Assumed => "assumed",
        }
    }
}

/// Numbers of requests to an object store, and of the bytes that they move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Number of PUT requests, including those of multipart uploads.
    pub puts: u64,
    /// Number of GET requests.
    pub gets: u64,
    /// Number of HEAD requests.
    pub heads: u64,
    /// Number of bytes written to the object store.
    pub bytes_in: u64,
    /// Number of bytes read from the object store.
    pub bytes_out: u64,
}

impl Requests {
    /// Returns the sum of two sets of requests.
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

    /// Returns the time that a function waits for these requests, in seconds.
    #[must_use]
    pub fn seconds(self, preset: &Preset, memory_mb: u32) -> f64 {
        let count = (self.puts + self.gets + self.heads) as f64;
        let bytes = (self.bytes_in + self.bytes_out) as f64;
        count * preset.first_byte_ms / 1e3 + bytes / preset.bytes_per_second(memory_mb)
    }
}

/// Work of one invocation of a function.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Task {
    /// Processor time on one core of c7a, in seconds, in a process that has done such a task
    /// before.
    pub core_s: f64,
    /// Additional processor time of a process's first task, in seconds. The process reads the data
    /// set.
    pub first_core_s: f64,
    /// Requests of the function to the object store.
    pub store: Requests,
    /// Additional requests to the object store in a process's first task.
    pub first_store: Requests,
    /// Size of the invocation event, in bytes.
    pub event_bytes: u64,
    /// Size of the reply, in bytes.
    pub reply_bytes: u64,
}

/// Work of a whole run, as input for cost estimates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Work {
    /// Tasks of each phase. A phase begins after all tasks of the previous phase have ended.
    pub phases: Vec<Vec<Task>>,
    /// Requests to the object store that the host makes itself.
    pub host: Requests,
    /// Origin of the processor times.
    pub times: Origin,
    /// Origin of the sizes of answers.
    pub sizes: Origin,
}

impl Work {
    fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.phases.iter().flatten()
    }

    /// Returns the processor time of all tasks in warm processes, in seconds on one core of c7a.
    #[must_use]
    pub fn core_s(&self) -> f64 {
        self.tasks().map(|task| task.core_s).sum()
    }

    fn widest(&self) -> usize {
        self.phases.iter().map(Vec::len).max().unwrap_or(0).max(1)
    }
}

/// Functions of one kind that run tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Functions {
    /// Kind of processor of the functions.
    pub processor: Processor,
    /// Memory size of each function, in MB.
    pub memory_mb: u32,
    /// Maximum number of functions that work at the same time.
    pub count: u32,
}

/// Use of functions and of the object store by a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Time from the first call to the last answer, in seconds.
    pub seconds: f64,
    /// Number of invocations.
    pub invocations: u64,
    /// Number of invocations that start a new process.
    pub cold_starts: u64,
    /// Charged time, in milliseconds.
    pub billed_ms: u64,
    /// Part of the charged time that is initialisation, in milliseconds.
    pub init_ms: f64,
    /// Product of memory size and charged time, in GiB-seconds.
    pub gb_seconds: f64,
    /// Number of bytes in invocation events.
    pub bytes_to_functions: u64,
    /// Number of bytes in replies.
    pub bytes_from_functions: u64,
    /// Requests to the object store by the host and by functions.
    pub store: Requests,
    /// Number of bytes of objects that the host reads.
    pub bytes_to_host: u64,
}

/// Schedule of tasks on processes: the end of the last task, the end of each process, and the
/// processes that had work.
struct Schedule {
    end: f64,
    ends: Vec<f64>,
}

/// Assigns each task, in order, to the process that is free first. `starts` has the time at which
/// each process can begin. `seconds` returns the time of a task, given the task and whether it is
/// the first of its process.
fn schedule(work: &Work, starts: &[f64], seconds: &mut dyn FnMut(&Task, bool) -> f64) -> Schedule {
    let mut ends = starts.to_vec();
    let mut begun = vec![false; starts.len()];
    let mut end = 0.0f64;
    let nanoseconds = |seconds: f64| (seconds * 1e9) as u64;
    for phase in &work.phases {
        let from = end;
        // Running processes are used before new ones.
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

/// Returns the use of functions for some work, without faults and without second attempts.
#[must_use]
pub fn usage(work: &Work, functions: Functions, preset: &Preset) -> Usage {
    let Functions { processor, memory_mb, count } = functions;
    let processes = (count.min(preset.concurrency).max(1) as usize).min(work.widest());
    let cores = preset.cores(processor, memory_mb);
    // The start of the program takes processor time like other work.
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

/// Line of an invoice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Usage type in AWS's terms, without the prefix of the region.
    pub usage: String,
    /// Quantity, in units.
    pub quantity: f64,
    /// Unit in which the quantity is measured.
    pub unit: &'static str,
    /// Price of one unit, in USD.
    pub unit_usd: f64,
    /// Quantity times price, in USD.
    pub usd: f64,
    /// Origin of the quantity.
    pub origin: Origin,
}

impl Line {
    fn new(usage: impl Into<String>, (quantity, unit): (f64, &'static str), price: f64, of: Origin) -> Self {
        Self { usage: usage.into(), quantity, unit, unit_usd: price, usd: quantity * price, origin: of }
    }
}

/// Returns the invoice lines of functions, for a host at location `place`. With `free`, the free
/// tier of an account is subtracted.
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

/// Kind of an alternative that can do the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The machine on which the command runs.
    Here,
    /// Functions of a cloud.
    Functions,
    /// Virtual machines that are started for the work.
    Fleet,
    /// A virtual machine with a GPU.
    Gpu,
    /// Containers of a container service.
    Service,
}

/// Alternative that can do the work, with its time and price.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the alternative.
    pub name: String,
    /// Kind of the alternative.
    pub kind: Kind,
    /// Time from the request to the last answer, in seconds. `None` if no fleet of this kind is
    /// possible for the money.
    pub seconds: Option<f64>,
    /// Price, in USD.
    pub usd: f64,
    /// Value V, which is 1 / (seconds x dollars). `None` for an alternative that costs nothing.
    pub value: Option<f64>,
    /// Break-even time T*, in seconds. Functions that answer before it beat every on-demand fleet
    /// of machines in both time and price.
    pub break_even_s: Option<f64>,
    /// Invoice lines, whose prices add up to [`Self::usd`].
    pub lines: Vec<Line>,
}

impl Row {
    fn new(name: String, kind: Kind, seconds: f64, lines: Vec<Line>) -> Self {
        let usd: f64 = lines.iter().map(|line| line.usd).sum();
        let value = Some(1.0 / (seconds * usd)).filter(|value| value.is_finite());
        Self { name, kind, seconds: Some(seconds), usd, value, break_even_s: None, lines }
    }
}

/// Request for a table of alternatives.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Functions of the command line. They are the first row of the table, and the values V of
    /// other rows are relative to it.
    pub functions: Functions,
    /// Location of the host, which determines the price of bytes.
    pub place: HostPlace,
    /// Number of cores of this machine.
    pub cores: u32,
    /// Price of this machine per hour, in USD.
    pub hour_usd: f64,
}

/// Verdict about functions in comparison with fleets of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Functions are faster than the fleet of best value, and cheaper than any fleet of the same
    /// speed.
    FasterAndCheaper,
    /// Functions are faster than the fleet of best value, but some fleet of the same speed is
    /// cheaper.
    Faster,
    /// Functions are not faster than the fleet of best value.
    Neither,
}

/// Comparison of all alternatives that can do the work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Alternatives. The functions of the command line are the first row.
    pub rows: Vec<Row>,
    /// Use of the functions of the command line.
    pub usage: Usage,
    /// Verdict about these functions, in comparison with on-demand fleets.
    pub verdict: Verdict,
    /// Names of the rows, except fleets of machines, that are both faster and cheaper than these
    /// functions.
    pub beaten_by: Vec<String>,
}

/// Compares all alternatives that can do the work.
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

/// Returns the smallest T* over all types of on-demand machines.
fn break_even(work: &Work, usd: f64, cloud: &Cloud, prices: &Prices) -> Option<f64> {
    let machines = prices.ec2.values().filter(|machine| !machine.gpu);
    let each = machines.map(|machine| {
        let fleet_usd = work.core_s() / machine.speed / machine.cores() * machine.hour / 3600.0;
        cloud.fleet.boot_s + cloud.fleet.minimum_s * fleet_usd / usd
    });
    each.min_by(f64::total_cmp).filter(|time| time.is_finite())
}

/// Returns the age of a date (`2026-11` or `2026-11-27`) in days. `today` is the number of days
/// since 1970-01-01. Returns `None` if the text is not a date.
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

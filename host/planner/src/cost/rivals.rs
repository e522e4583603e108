//! Alternatives to functions: fleets of machines, a GPU server, and container services.

use super::{Kind, Line, Origin, Row, Work, schedule};
use eciton_recipe::cloud::{Cloud, Service};
use eciton_recipe::prices::{Machine, Prices};

/// Memory size of a service's container per vCPU, in GiB.
const SERVICE_GIB: f64 = 2.0;
/// Number of machines up to which every number is tried. Above it, each number is a twentieth
/// larger than the one before.
const EACH: usize = 64;
/// Maximum number of machines or containers of a fleet.
const MAX_MACHINES: usize = 10_000;

/// Fleet: a number of machines of one type, with its time and price for some work.
pub(super) struct Fleet<'a> {
    pub(super) name: &'a str,
    pub(super) count: usize,
    pub(super) hour: f64,
    pub(super) spot: bool,
    pub(super) seconds: f64,
    pub(super) hours: f64,
    pub(super) usd: f64,
}

impl Fleet<'_> {
    pub(super) fn row(&self, title: String, times: Origin) -> Row {
        let usage = if self.spot { "SpotUsage" } else { "BoxUsage" };
        let line = Line::new(format!("{usage}:{}", self.name), (self.hours, "hours"), self.hour, times);
        Row::new(format!("{title}: {} x {}", self.count, self.name), Kind::Fleet, self.seconds, vec![line])
    }
}

/// Returns the time and the charged hours of machines with `cores` cores each. A task takes one
/// core. `times` has the cores' speed, the boot time, the charged part of the boot time, and the
/// minimum charge of a machine.
pub(super) fn fleet(
    work: &Work,
    (count, cores): (usize, usize),
    (speed, boot, charged, minimum): (f64, f64, f64, f64),
) -> (f64, f64) {
    let starts = vec![0.0; count * cores];
    let done = schedule(work, &starts, &mut |task, first| {
        (task.core_s + if first { task.first_core_s } else { 0.0 }) / speed
    });
    let machines = done.ends.chunks(cores);
    let busy = machines.map(|ends| ends.iter().copied().fold(0.0, f64::max));
    let seconds: f64 = busy.map(|busy| minimum.max(charged + busy)).sum();
    (boot + done.end, seconds / 3600.0)
}

/// Returns the numbers of machines that are tried, up to `most`.
fn counts(most: usize) -> impl Iterator<Item = usize> {
    let next = |count: &usize| Some(if *count < EACH { count + 1 } else { count + count / 20 });
    std::iter::successors(Some(1), next).take_while(move |count| *count <= most.clamp(1, MAX_MACHINES))
}

/// Returns fleets of each type of machine without a GPU, of any number of machines that could have
/// work.
pub(super) fn fleets<'a>(work: &Work, cloud: &Cloud, prices: &'a Prices, spot: bool) -> Vec<Fleet<'a>> {
    let times = &cloud.fleet;
    let mut found = Vec::new();
    for (name, machine) in prices.ec2.iter().filter(|(_, machine)| !machine.gpu) {
        let Machine { speed, .. } = *machine;
        let hour = match (spot, machine.spot) {
            (false, _) => machine.hour,
            (true, Some(share)) => machine.hour * share,
            (true, None) => continue,
        };
        let cores = (machine.cores() as usize).max(1);
        for count in counts(work.widest().div_ceil(cores)) {
            let own = (speed, times.boot_s, times.boot_charged_s, times.minimum_s);
            let (seconds, hours) = fleet(work, (count, cores), own);
            found.push(Fleet { name, count, hour, spot, seconds, hours, usd: hours * hour });
        }
    }
    found
}

/// Returns the row of the cheapest GPU machine.
pub(super) fn gpu(work: &Work, cloud: &Cloud, prices: &Prices) -> Option<Row> {
    let times = &cloud.fleet;
    let machines = prices.ec2.iter().filter(|(_, machine)| machine.gpu);
    let (name, machine) = machines.min_by(|(_, a), (_, b)| a.hour.total_cmp(&b.hour))?;
    let own = (times.gpu_speed, times.gpu_boot_s, times.boot_charged_s, times.minimum_s);
    let (seconds, hours) = fleet(work, (1, 1), own);
    let line = Line::new(format!("BoxUsage:{name}"), (hours, "hours"), machine.hour, Origin::Assumed);
    Some(Row::new(format!("one GPU server: {name}"), Kind::Gpu, seconds, vec![line]))
}

/// Returns the row of a container service, with the number of one-core containers that has the best
/// value.
pub(super) fn service(work: &Work, name: &str, service: &Service) -> Option<Row> {
    let Service { vcpu_hour, gib_hour, start_s, minimum_s, cores, speed, .. } = *service;
    let each = |count: usize| {
        let (seconds, hours) = fleet(work, (count, 1), (speed, start_s, 0.0, minimum_s));
        (seconds, hours, count)
    };
    let cost = |(seconds, hours, _): &(f64, f64, usize)| seconds * hours;
    let best = counts(work.widest()).map(each).min_by(|a, b| cost(a).total_cmp(&cost(b)));
    let (seconds, hours, count) = best?;
    // The container has a whole core.
    let vcpus = 1.0 / cores;
    let lines = vec![
        Line::new(format!("{name} vCPU"), (hours * vcpus, "vCPU-hours"), vcpu_hour, Origin::Assumed),
        Line::new(
            format!("{name} memory"),
            (hours * vcpus * SERVICE_GIB, "GiB-hours"),
            gib_hour,
            Origin::Assumed,
        ),
    ];
    Some(Row::new(format!("{name}: {count} x 1 core"), Kind::Service, seconds, lines))
}

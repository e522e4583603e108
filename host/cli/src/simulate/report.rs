//! Report of a simulated training run as text.

use eciton_exec::Prices;
use eciton_program::Profile;
use eciton_simulate::{Report, Settings, Shape};

use crate::output::Output;
use crate::text::{bytes, counted, grouped, percent, seconds};

#[allow(clippy::too_many_arguments)]
/// Prints the report of a simulation. `took` is the run time of the simulator itself, in seconds.
pub(super) fn print(
    shape: &Shape,
    settings: &Settings,
    machine: &str,
    profile: &Profile,
    prices: &Prices,
    report: &Report,
    took: f64,
    output: &mut Output,
) {
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<12} {text}"));
    let usd = |dollars: f64| format!("${dollars:.6}");
    row(
        "shape",
        format!(
            "{}: {} vertices, {} edges, gcn {}{}-{}",
            shape.name,
            grouped(shape.vertices.into()),
            grouped(shape.edges),
            shape.features,
            format!("-{}", shape.hidden).repeat(shape.layers.saturating_sub(1) as usize),
            shape.classes
        ),
    );
    let hosts = settings.hosts;
    row(
        "hosts",
        format!(
            "{} ({machine}) with {} each; {}, seed {}",
            hosts.count,
            counted(hosts.cores.into(), "core"),
            counted(settings.intervals.into(), "interval"),
            settings.seed
        ),
    );
    row(
        "functions",
        match settings.functions.count {
            0 => "none".to_owned(),
            count => format!(
                "{}{} concurrent, {} MB each",
                if settings.functions.auto.is_some() { "set by the autotuner, up to " } else { "" },
                grouped(count.into()),
                settings.functions.memory_mb
            ),
        },
    );
    let mut sorted = report.epoch_seconds.clone();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let (least, most) = (sorted.first().copied(), sorted.last().copied());
    row(
        "epoch time",
        format!(
            "{} (median; {} to {})",
            seconds(median),
            seconds(least.unwrap_or_default()),
            seconds(most.unwrap_or_default())
        ),
    );
    row("total time", format!("{}, {}", seconds(report.seconds), counted(settings.epochs.into(), "epoch")));
    let paid = report.usd;
    row(
        "dollars",
        format!(
            "{}: hosts {}, functions {}, requests {}, store {}",
            usd(paid.total),
            usd(paid.hosts),
            usd(paid.functions),
            usd(paid.requests),
            usd(paid.store)
        ),
    );
    row("value", format!("{:.6} = 1 / (seconds x dollars)", report.value));
    row(
        "busy",
        format!(
            "hosts {} %, functions {} %",
            percent(Some(report.hosts_busy)),
            percent((settings.functions.count > 0).then_some(report.functions_busy))
        ),
    );
    let moved = report.bytes;
    row(
        "moved",
        format!(
            "{} to functions, {} back, {} between functions and store, {} between hosts",
            bytes(moved.to_functions),
            bytes(moved.from_functions),
            bytes(moved.store),
            bytes(moved.between_hosts)
        ),
    );
    let engine = report.engine;
    row(
        "tasks",
        format!(
            "{} ({} on hosts), {}; {} relaunched, {} retried, {} duplicate, {} late",
            grouped(engine.tasks),
            grouped(report.local_tasks),
            counted(engine.gathers, "gather"),
            grouped(engine.relaunches),
            grouped(engine.retries),
            grouped(engine.duplicates),
            grouped(engine.late)
        ),
    );
    if settings.functions.count > 0 {
        let f = report.functions;
        row(
            "invocations",
            format!(
                "{}, {}, {} throttled; at most {} concurrent; {:.1} GB-s",
                grouped(f.invocations),
                counted(f.cold_starts, "cold start"),
                grouped(f.throttled),
                grouped(f.most_running.into()),
                f.gb_seconds
            ),
        );
    }
    let read: u64 = report.ages.iter().sum();
    if read > 0 {
        let shares = report
            .ages
            .iter()
            .enumerate()
            .map(|(age, &rows)| format!("{age}: {} %", percent(Some(rows as f64 / read as f64))));
        row(
            "ages",
            format!(
                "{} (age in epochs of the rows of other intervals that gathers read)",
                shares.collect::<Vec<_>>().join(", ")
            ),
        );
    }
    for chosen in &report.decisions {
        let when = seconds(chosen.seconds);
        row("autotuner", format!("{when}: {} -> {}: {}", chosen.from, chosen.to, chosen.why));
    }
    row("profile", profile.source.clone());
    row("prices", format!("of {}, {}", prices.date, prices.region));
    row(
        "simulated",
        format!(
            "in {}, {} events, {} per second",
            seconds(took),
            grouped(report.events),
            grouped((report.events as f64 / took.max(1e-9)) as u64)
        ),
    );
}

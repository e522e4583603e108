//! Summary at the end of a run, which is printed as a block of text or as the last JSON object.

use eciton_recipe::Metric;
use eciton_train::{
    AuditReport, BestEpoch, Bill, Helpers, HelpersUsed, HostTraffic, Quality, SeedReport, Summary, Target,
    WorkersUsed,
};
use serde::Serialize;

use crate::output::Output;
use crate::quality;
use crate::text::{bytes, counted, grouped, measured, seconds, unit};

/// Summary of a run, which `eciton train --json` prints as the last line. It has the content of
/// `summary.json` of the run folder, and the name of the event.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    event: &'static str,
    #[serde(flatten)]
    summary: &'a Summary,
}

impl<'a> Line<'a> {
    pub(crate) fn from_summary(summary: &'a Summary) -> Self {
        Self { event: "summary", summary }
    }
}

/// Prints the summary of a run as a block of text. For a single seed, tables with the quality of
/// each class follow.
pub(crate) fn print(summary: &Summary, output: &mut Output) {
    output.line("");
    for (name, text) in rows(summary) {
        output.line(format_args!("{name:<14} {text}"));
    }
    if let [seed] = &summary.seeds[..]
        && let Some(quality) = &seed.quality
    {
        quality::table(quality).iter().for_each(|line| output.line(line));
    }
}

/// Returns the label of the test metric in the summary, which has at most 14 characters.
fn test_label(metric: Metric) -> &'static str {
    match metric {
        Metric::Accuracy => "test accuracy",
        Metric::RocAuc => "test ROC-AUC",
        Metric::AveragePrecision => "test AP",
        Metric::F1Micro => "test micro F1",
        Metric::F1Macro => "test macro F1",
        Metric::BalancedAccuracy => "test balanced",
        Metric::CrossEntropy => "test loss",
        Metric::MeanAbsoluteError => "test MAE",
        Metric::RootMeanSquaredError => "test RMSE",
        Metric::Hits10 => "test hits@10",
        Metric::Hits20 => "test hits@20",
        Metric::Hits50 => "test hits@50",
        Metric::Hits100 => "test hits@100",
        Metric::MeanReciprocalRank => "test MRR",
    }
}

/// Returns the rows of the summary as pairs of label and text. A row that continues the previous
/// one has an empty label.
fn rows(summary: &Summary) -> Vec<(&'static str, String)> {
    let (seeds, metric) = (summary.seeds.as_slice(), summary.metric);
    let spread = |mean: Option<f64>, of: &dyn Fn(&SeedReport) -> Option<f64>| match seeds {
        [_, _, ..] => {
            let values: Vec<f64> = seeds.iter().filter_map(of).collect();
            let spread = measured(metric, Some(deviation(&values)));
            format!("{}{} \u{b1} {spread}", measured(metric, mean), unit(metric))
        }
        _ => format!("{}{}", measured(metric, mean), unit(metric)),
    };
    let last = spread(summary.test_metric, &|seed| seed.metrics.test);
    let best =
        spread(summary.test_metric_at_best_validation, &|seed| seed.best.and_then(|best| best.metrics.test));
    let (last_epoch, best_epoch, who) = match seeds {
        [seed] => (
            format!(" ({})", seed.epochs),
            seed.best.map_or(String::new(), |BestEpoch { epoch, metrics, .. }| {
                let validation = measured(metric, metrics.validation);
                format!(" (epoch {epoch}, validation {validation}{})", unit(metric))
            }),
            format!("seed {}", seed.seed),
        ),
        _ => (String::new(), String::new(), counted(seeds.len() as u64, "seed")),
    };
    let pieces = format!(
        "{} on {}",
        counted(u64::from(summary.intervals), "interval"),
        counted(u64::from(summary.threads), "thread")
    );
    let is_measured =
        !summary.undefined_metrics.is_empty() || seeds.iter().any(|seed| seed.metrics.is_measured());
    let mut rows = vec![
        ("data and model", format!("{}, {}, {who}", summary.dataset, summary.model)),
        match is_measured {
            true => (test_label(metric), format!("{last} after the last epoch{last_epoch}")),
            false => ("metrics", "none, because the run was not evaluated".to_owned()),
        },
        ("epoch time", format!("{} (median)", seconds(summary.epoch_seconds_median))),
        ("total time", seconds(summary.total_seconds)),
        ("peak memory", bytes(summary.peak_memory_bytes)),
        ("tasks", format!("{}, {pieces}", grouped(summary.tasks))),
    ];
    if seeds.iter().any(|seed| seed.best.is_some()) {
        rows.insert(2, ("", format!("{best} at best validation{best_epoch}")));
    }
    let judged: Vec<&Quality> = seeds.iter().filter_map(|seed| seed.quality.as_ref()).collect();
    if judged.len() == seeds.len() {
        let at = if seeds.iter().any(|seed| seed.best.is_some()) { 3 } else { 2 };
        rows.splice(at..at, quality::rows(&judged, false));
    }
    let causes = eciton_train::defaults::causes(summary);
    for (number, cause) in causes.into_iter().enumerate() {
        rows.push((if number == 0 { "below baseline" } else { "" }, cause));
    }
    if let Some(ages) = &summary.rows_by_age {
        let share = |(age, share): (usize, &f64)| {
            let age = match age {
                0 => "of the same epoch".to_owned(),
                1 => "one epoch old".to_owned(),
                _ => format!("{age} epochs old"),
            };
            format!("{:.1} % {age}", share * 100.0)
        };
        let shares: Vec<String> = ages.shares.iter().enumerate().map(share).collect();
        rows.push(("rows by age", shares.join(", ")));
    }
    if let Some(trial) = &summary.trial {
        let last = match trial.synchronous_last {
            0 => String::new(),
            last => format!("; last {} synchronous", counted(u64::from(last), "epoch")),
        };
        rows.push(("pipeline", format!("{}{last}", trial.why)));
    }
    if let Some(order) = &summary.order {
        rows.push(("vertex order", format!("{}, {}", order.name, seconds(order.seconds))));
    }
    if let Some(helpers) = &summary.helpers {
        rows.push(("concurrency", concurrency(helpers)));
    }
    if let Some(attempts) = &summary.attempts {
        let parts = [
            (attempts.retries, "retried"),
            (attempts.relaunches, "relaunched"),
            (attempts.duplicates + attempts.late, "answered too late"),
            (attempts.cancelled, "cancelled"),
        ];
        let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {} {what}", grouped(*n)));
        let text = format!("{} committed{}", grouped(attempts.committed), parts.collect::<String>());
        rows.push(("attempts", text));
    }
    if let Some(workers) = &summary.workers {
        rows.extend(worker_rows(workers));
    }
    rows.extend(host_rows(&summary.hosts));
    if let Some(audit) = &summary.audit {
        rows.extend(audited(audit));
    }
    if let Some(bill) = &summary.bill {
        rows.extend(billed(bill));
    }
    if let Some(cost) = &summary.cost {
        let (would, times) = match summary.executor == "emulated" {
            true => ("would be ", "; times measured on this machine"),
            false => ("", ""),
        };
        rows.push((
            "cost",
            format!(
                "{would}${:.6}: functions {:.6}, store {:.6}, transfer {:.6} (prices of {}{times})",
                cost.usd, cost.functions_usd, cost.store_usd, cost.transfer_usd, cost.prices
            ),
        ));
        rows.push(("host", cost.host.to_string()));
    }
    rows.extend(early(seeds).map(|text| ("stopped", text)));
    rows.extend(target(seeds, metric).map(|text| ("target", text)));
    if let [seed] = seeds
        && let Some(epoch) = seed.synchronised_after
    {
        rows.push(("synchronous", format!("since shortly after epoch {epoch}, near the target")));
    }
    if let [seed] = seeds
        && let Some(epoch) = seed.kept_epoch
    {
        rows.push(("model", format!("weights of epoch {epoch}, the best at validation")));
    } else if seeds.iter().any(|seed| seed.kept_epoch.is_some()) {
        rows.push(("models", "weights of the best epochs at validation".to_owned()));
    }
    if summary.stopped {
        rows.push(("stopped", "before the last epoch, by a signal".to_owned()));
    }
    if summary.without_predictions {
        let text = match is_measured {
            true => {
                "not written (one score per token of the vocabulary); add --scores, or run `eciton predict`"
            }
            false => "not written, because the run was not evaluated; run `eciton predict`",
        };
        rows.push(("predictions", text.to_owned()));
    }
    if summary.predictions_left_out {
        let text = "not fetched; run `eciton predict`, or add --predictions to `eciton sweep`";
        rows.push(("predictions", text.to_owned()));
    }
    match &summary.run_dir {
        Some(folder) => rows.push(("run folder", folder.display().to_string())),
        None => rows.push(("run folder", "none".to_owned())),
    }
    rows
}

/// Returns a text that lists the rounds (optimiser steps) in which a process returned wrong
/// answers, for instance `rounds 3, 4`.
fn rounds(rounds: &[(u64, u32)]) -> String {
    let mut rounds: Vec<String> = rounds.iter().map(|(_, round)| round.to_string()).collect();
    rounds.dedup();
    format!("round{} {}", if rounds.len() > 1 { "s" } else { "" }, rounds.join(", "))
}

/// Returns the summary rows about the audit of a run. The audit repeats tasks on other processes
/// and compares the answers.
fn audited(audit: &AuditReport) -> Vec<(&'static str, String)> {
    let excluded = match audit.excluded.len() {
        0 => "all equal".to_owned(),
        count => format!("{} excluded", counted(count as u64, "process")),
    };
    let (compared, answers) = (grouped(audit.compared), grouped(audit.answers));
    let mut rows = vec![("audit", format!("{compared} of {answers} answers verified, {excluded}"))];
    for one in &audit.excluded {
        let (_, epoch) = one.since;
        rows.push((
            "",
            format!("{}: wrong in {}, unverified since epoch {epoch}", one.process, rounds(&one.rounds)),
        ));
    }
    if audit.unverified {
        rows.push(("", "UNVERIFIED: the run used doubtful answers (executor.keep_doubtful)".to_owned()));
    }
    rows
}

/// Returns the summary rows about the traffic between host 0 and each other host.
fn host_rows(hosts: &[HostTraffic]) -> Vec<(&'static str, String)> {
    let one = |(at, of): (usize, &HostTraffic)| {
        let text =
            format!("{}: {} sent, {} received", of.host, bytes(of.sent_bytes), bytes(of.received_bytes));
        (if at == 0 { "hosts" } else { "" }, text)
    };
    hosts.iter().enumerate().map(one).collect()
}

/// Returns the summary rows about the workers of a run. They are the traffic between the host and
/// each worker, the number of rollbacks, and the steps that were repeated after failures.
fn worker_rows(workers: &WorkersUsed) -> Vec<(&'static str, String)> {
    let mut rows: Vec<(&'static str, String)> = Vec::new();
    for (at, place) in workers.places.iter().enumerate().take(MAX_PLACES) {
        let failed = match place.lost {
            0 => String::new(),
            1 => ", failed once".to_owned(),
            times => format!(", failed {times} times"),
        };
        let text = format!(
            "{}: {}, {} sent ({} of weights), {} received{failed}",
            place.place,
            counted(place.tasks, "task"),
            bytes(place.bytes_out),
            bytes(place.object_bytes),
            bytes(place.bytes_in)
        );
        rows.push((if at == 0 { "workers" } else { "" }, text));
    }
    if workers.places.len() > MAX_PLACES {
        rows.push(("", format!("and {} more", workers.places.len() - MAX_PLACES)));
    }
    if let Some(returns) = workers.returns.filter(|returns| *returns > 0) {
        rows.push(("rollbacks", format!("{returns} to a snapshot of the weights")));
    }
    if workers.again + workers.redundant + workers.retries > 0 {
        let text = format!(
            "{} restarted, {} repeated to recompute activations, {} redundant (workers.redundant)",
            workers.retries, workers.again, workers.redundant
        );
        rows.push(("steps", text));
    }
    rows
}

/// Maximum number of workers in the printed summary of a run. The option `--json` prints all.
const MAX_PLACES: usize = 16;

/// Returns a text on the number of concurrent functions or additional threads. It gives the reason
/// for this number, and the number of tasks that they executed.
fn concurrency(helpers: &HelpersUsed) -> String {
    let HelpersUsed { what, least, last, most, changes, why, cut, tasks, own_tasks, .. } = helpers;
    let (one, all, own) = match what {
        Helpers::Functions => ("function", "functions", "the host"),
        Helpers::Threads => ("additional thread", "additional threads", "the first thread"),
    };
    let many = if least == most {
        format!("at most {}", counted(u64::from(*most), one))
    } else {
        let changes = counted(*changes, "change");
        format!("{least} to {}, finally {last} after {changes}", counted(u64::from(*most), one))
    };
    let (tasks, own_tasks) = (grouped(*tasks), grouped(*own_tasks));
    let cut = cut.as_ref().map_or(String::new(), |cut| format!("; {cut}"));
    format!("{many} ({why}); {tasks} tasks on {all}, {own_tasks} on {own}{cut}")
}

/// Returns a text on the seeds that early stopping ended. Returns `None` if no seed stopped early.
fn early(seeds: &[SeedReport]) -> Option<String> {
    let stopped = || seeds.iter().filter_map(|seed| seed.stopped_early);
    let (least, most) = (stopped().min()?, stopped().max()?);
    let epochs =
        if least == most { counted(u64::from(most), "epoch") } else { format!("{least} to {most} epochs") };
    let who = if seeds.len() == 1 { String::new() } else { format!(" ({} of the seeds)", stopped().count()) };
    Some(format!("early, no improvement for {epochs}{who}"))
}

/// Returns a text on the seeds that reached the stop target `run.until`, with the epoch and the
/// training time. Returns `None` if the run had no target.
fn target(seeds: &[SeedReport], metric: Metric) -> Option<String> {
    let targets: Vec<Target> = seeds.iter().filter_map(|seed| seed.target).collect();
    let until = targets.first()?.until;
    let shown = |value| format!("{}{}", measured(metric, Some(value)), unit(metric));
    let wanted = format!("{} {}", until.part.name(), shown(until.value));
    if let [target] = &targets[..] {
        let took = seconds(target.seconds);
        let best = target.best.map_or("-".to_owned(), shown);
        return Some(match target.epoch {
            Some(epoch) => format!("{wanted} reached after epoch {epoch}, {took} of training"),
            None => format!("{wanted} never reached in {took} of training; the best was {best}"),
        });
    }
    let reached: Vec<(u32, f64)> =
        targets.iter().filter_map(|target| Some((target.epoch?, target.seconds))).collect();
    let count = format!("{wanted} reached by {} of {} seeds", reached.len(), targets.len());
    let (least, most) =
        (reached.iter().map(|(epoch, _)| *epoch).min(), reached.iter().map(|(epoch, _)| *epoch).max());
    let (Some(least), Some(most)) = (least, most) else { return Some(count) };
    let mean = reached.iter().map(|(_, seconds)| seconds).sum::<f64>() / reached.len() as f64;
    Some(format!("{count}, after epoch {least} to {most}, {} of training on average", seconds(mean)))
}

/// Returns the summary rows about the AWS services that a run used. They are the calls of
/// functions, their payloads, and the requests to the object store.
fn billed(bill: &Bill) -> [(&'static str, String); 3] {
    let failed = match (bill.failed, bill.throttled, bill.unreported) {
        (0, 0, 0) => String::new(),
        (failed, throttled, unreported) => format!(
            " ({} failed, {} without a report, {} requests throttled)",
            grouped(failed),
            grouped(unreported),
            grouped(throttled)
        ),
    };
    [
        (
            "functions",
            format!(
                "{}{failed}, {}, {} billed, {:.3} GB-s",
                counted(bill.invocations, "invocation"),
                counted(bill.cold_starts, "cold start"),
                seconds(bill.billed_ms as f64 / 1000.0),
                bill.gb_seconds
            ),
        ),
        (
            "payloads",
            format!(
                "{} to functions, {} back",
                bytes(bill.bytes_to_functions),
                bytes(bill.bytes_from_functions)
            ),
        ),
        (
            "object store",
            format!(
                "{} PUT, {} GET; {} written, {} read",
                grouped(bill.store_writes),
                grouped(bill.store_reads),
                bytes(bill.store_bytes_in),
                bytes(bill.store_bytes_out)
            ),
        ),
    ]
}

/// Returns the sample standard deviation (divisor n - 1) of the values, or 0 for fewer than two
/// values.
fn deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    if count < 2.0 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_exec::{Cut, Host};
    use eciton_recipe::HostPlace;
    use eciton_train::Metrics;

    fn summary(tests: &[f64]) -> Summary {
        let metrics = |test| Metrics {
            metric: Metric::Accuracy,
            train: Some(1.0),
            validation: Some(0.79),
            test: Some(test),
        };
        let seed = |(at, &test): (usize, &f64)| SeedReport {
            seed: at as u64,
            epochs: 200,
            loss: 0.5,
            metrics: metrics(test),
            best: Some(BestEpoch { epoch: 143, step: 143, metrics: metrics(test + 0.01) }),
            kept_epoch: None,
            stopped_early: None,
            target: None,
            synchronised_after: None,
            model_digest: "00".to_owned(),
            quality: None,
        };
        Summary {
            without_predictions: false,
            predictions_left_out: false,
            dataset: "cora".to_owned(),
            model: "gcn 1433-16-7".to_owned(),
            seeds: tests.iter().enumerate().map(seed).collect(),
            metric: Metric::Accuracy,
            test_metric: Some(tests.iter().sum::<f64>() / tests.len() as f64),
            test_metric_std: Some(deviation(tests)),
            test_metric_at_best_validation: Some(0.82),
            undefined_metrics: std::collections::BTreeMap::new(),
            epoch_seconds_median: 0.000_412,
            total_seconds: 0.131,
            peak_memory_bytes: 31_200_000,
            settings: Vec::new(),
            model_digest: "00".to_owned(),
            numeric_class: "portable-1".to_owned(),
            intervals: 1,
            threads: 2,
            order: None,
            executor: "local".to_owned(),
            tasks: 1800,
            rows_by_age: None,
            trial: None,
            helpers: None,
            attempts: None,
            workers: None,
            hosts: Vec::new(),
            batches: None,
            audit: None,
            bill: None,
            cost: None,
            stopped: false,
            provenance: None,
            run_dir: None,
        }
    }

    fn shown(summary: &Summary) -> String {
        rows(summary).into_iter().map(|(name, text)| format!("{name}|{text}\n")).collect()
    }

    #[test]
    fn one_seed() {
        let text = shown(&summary(&[0.815]));
        let wanted = "data and model|cora, gcn 1433-16-7, seed 0\n\
            test accuracy|81.50 % after the last epoch (200)\n\
            |82.00 % at best validation (epoch 143, validation 79.00 %)\n\
            epoch time|0.412 ms (median)\n\
            total time|131.0 ms\n\
            peak memory|31.2 MB\n\
            tasks|1,800, 1 interval on 2 threads\n\
            run folder|none\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn an_early_stop_differs_from_an_interruption() {
        let mut one = summary(&[0.815]);
        (one.seeds[0].stopped_early, one.seeds[0].kept_epoch) = (Some(20), Some(143));
        let text = shown(&one);
        assert!(text.contains("stopped|early, no improvement for 20 epochs\n"), "{text}");
        assert!(text.contains("model|weights of epoch 143, the best at validation\n"), "{text}");
        assert!(!text.contains("by a signal"), "{text}");
        let mut two = summary(&[0.81, 0.82]);
        two.seeds[1].stopped_early = Some(1);
        assert!(shown(&two).contains("stopped|early, no improvement for 1 epoch (1 of the seeds)\n"));
        two.seeds[0].stopped_early = Some(20);
        assert!(shown(&two).contains("early, no improvement for 1 to 20 epochs (2 of the seeds)\n"));
        two.stopped = true;
        assert!(shown(&two).contains("stopped|before the last epoch, by a signal\n"));
    }

    #[test]
    fn a_target_is_printed_whether_or_not_it_was_reached() {
        let target = |epoch, seconds| {
            let until = "test_acc=0.8".parse().unwrap();
            Some(eciton_train::Target { until, epoch, seconds, best: Some(0.815) })
        };
        let mut one = summary(&[0.815]);
        one.seeds[0].target = target(Some(12), 0.5);
        let text = shown(&one);
        assert!(
            text.contains("target|test 80.00 % reached after epoch 12, 500.0 ms of training\n"),
            "{text}"
        );
        one.seeds[0].target = target(None, 2.0);
        let wanted = "target|test 80.00 % never reached in 2.00 s of training; the best was 81.50 %\n";
        assert!(shown(&one).contains(wanted), "{}", shown(&one));
        let mut two = summary(&[0.81, 0.82]);
        (two.seeds[0].target, two.seeds[1].target) = (target(None, 2.0), target(Some(9), 1.0));
        let wanted = "reached by 1 of 2 seeds, after epoch 9 to 9, 1.00 s of training on average\n";
        assert!(shown(&two).contains(wanted), "{}", shown(&two));
    }

    #[test]
    fn the_concurrency_is_printed_with_its_reason() {
        let mut one = summary(&[0.815]);
        let mut helpers = HelpersUsed {
            what: Helpers::Functions,
            auto: false,
            least: 3,
            last: 3,
            most: 3,
            changes: 0,
            why: "as set".to_owned(),
            cut: None,
            tasks: 1200,
            own_tasks: 7,
        };
        one.helpers = Some(helpers.clone());
        let text = shown(&one);
        assert!(
            text.contains(
                "concurrency|at most 3 functions (as set); 1,200 tasks on functions, 7 on the host\n"
            ),
            "{text}"
        );
        let limit = "the account may run 3 functions at once".to_owned();
        let cut = Some(Cut { asked: 500, given: 3, limit });
        one.helpers = Some(HelpersUsed { cut, ..helpers.clone() });
        let wanted = "7 on the host; 500 requested, 3 available: the account may run 3 functions at once\n";
        assert!(shown(&one).contains(wanted), "{}", shown(&one));
        (helpers.auto, helpers.least, helpers.last, helpers.changes) = (true, 0, 1, 2);
        helpers.why = "no untested number remains".to_owned();
        one.helpers = Some(helpers);
        let wanted = "concurrency|0 to 3 functions, finally 1 after 2 changes (no untested number remains); 1,200 tasks";
        assert!(shown(&one).contains(wanted), "{}", shown(&one));
    }

    #[test]
    fn a_bill_did_not_say_where_the_host_was_taken_to_be() {
        let mut one = summary(&[0.815]);
        one.cost = Some(eciton_train::Cost {
            usd: 0.84,
            functions_usd: 0.46,
            store_usd: 0.37,
            transfer_usd: 0.01,
            host: Host {
                place: HostPlace::Region,
                because: "the EC2 metadata service reports us-east-1a".to_owned(),
            },
            times: eciton_train::TimeOrigin::Measured,
            prices: "2026-11, us-east-1".to_owned(),
        });
        let text = shown(&one);
        assert!(text.contains("transfer 0.010000 (prices of 2026-11, us-east-1)\n"), "{text}");
        assert!(
            text.contains("host|in the functions' region: the EC2 metadata service reports us-east-1a\n"),
            "{text}"
        );
    }

    #[test]
    fn several_seeds_have_a_spread() {
        let text = shown(&summary(&[0.81, 0.82]));
        assert!(text.contains("test accuracy|81.50 % ± 0.71 after the last epoch\n"), "{text}");
        assert!(text.contains("cora, gcn 1433-16-7, 2 seeds\n"), "{text}");
        assert!(text.contains("|82.00 % ± 0.71 at best validation\n"), "{text}");
    }

    #[test]
    fn json_is_the_summary_with_its_event() {
        let text = serde_json::to_string(&Line::from_summary(&summary(&[0.815]))).unwrap();
        assert!(
            text.starts_with(r#"{"event":"summary","dataset":"cora","model":"gcn 1433-16-7","seeds":["#),
            "{text}"
        );
        assert!(text.ends_with(r#""run_dir":null}"#), "{text}");
    }
}

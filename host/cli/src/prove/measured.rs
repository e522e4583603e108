//! Measurement of the assumptions in the cloud file from the function calls of a proof.

use std::path::Path;

use eciton_planner::cost::{Functions, Requests, Task, Work};
use eciton_recipe::{Preset, Processor};
use eciton_train::job::Done;
use serde::Deserialize;

use super::proof::Assumption;
use crate::failure::Failure;

/// Maximum size of a cost record, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// A line of the cost record (`spent.jsonl`), reduced to the fields about the end of a call.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Attempt {
    event: String,
    #[serde(default)]
    outcome: String,
    pub(super) billed_ms: Option<u64>,
    init_ms: Option<f64>,
    duration_ms: Option<f64>,
    pub(super) used_mb: Option<u32>,
    reply_s: Option<f64>,
}

/// Returns the size of a cost record in bytes, or 0 if the file does not exist.
pub(super) fn length(record: &Path) -> usize {
    std::fs::metadata(record).map_or(0, |found| usize::try_from(found.len()).unwrap_or(usize::MAX))
}

/// Returns the ends of function calls in a cost record. The first `from` bytes of the record are
/// skipped.
pub(super) fn attempts(record: &Path, from: usize) -> Result<Vec<Attempt>, Failure> {
    let shown = record.display();
    let text = eciton_input::file::read_text(record, MAX_BYTES)
        .map_err(|error| Failure::Failed(format!("{shown}: cannot be read: {error}")))?;
    let lines = text.get(from..).unwrap_or_default().lines();
    let read = |line: &str| {
        serde_json::from_str::<Attempt>(line)
            .map_err(|error| Failure::Failed(format!("{shown}: not a line of a cost record: {error}")))
    };
    let all = lines.map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(all.into_iter().filter(|attempt| attempt.event == "end").collect())
}

/// Function calls of a workload on functions of one memory size.
pub(super) struct Calls<'a> {
    /// Predicted work of the workload, which the measurements are compared with.
    pub(super) work: &'a Work,
    pub(super) attempts: &'a [Attempt],
    pub(super) jobs: &'a [Done],
}

/// Measured values of one assumption of the cloud file.
struct Sample {
    values: Vec<f64>,
    /// Description of how the values were measured, for the reader of the proof.
    how: &'static str,
    /// Reason why there are no values, which is shown if `values` is empty.
    none: &'static str,
}

/// Returns the median (the upper one for an even number of values), or `None` if there are no
/// values.
fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Compares the assumptions of the cloud file with the values that the function calls measured.
/// `preset` is the part of the cloud file with the given name.
pub(super) fn assumptions(
    calls: &[Calls<'_>],
    (name, preset): (&str, &Preset),
    functions: Functions,
) -> Vec<Assumption> {
    let Functions { processor, memory_mb, .. } = functions;
    let attempts: Vec<&Attempt> =
        calls.iter().flat_map(|calls| calls.attempts).filter(|end| end.outcome == "answered").collect();
    // The value in the cloud file is for a function with one vCPU.
    let cores = preset.cores(processor, memory_mb);
    let whole = preset.cores(processor, preset.vcpu_mb);
    let init = attempts.iter().filter_map(|end| end.init_ms);
    // Only warm calls: the time of a cold call includes its start.
    let outside = |end: &&Attempt| Some(end.reply_s? * 1e3 - end.duration_ms? - end.init_ms.unwrap_or(0.0));
    let warm = attempts.iter().filter(|end| end.init_ms.is_none()).filter_map(outside);
    let warm: Vec<f64> = warm.collect();
    let invoke_ms = median(&warm).unwrap_or(preset.invoke_ms);
    let cold = attempts.iter().filter(|end| end.init_ms.is_some()).filter_map(outside);
    let fetched: Vec<(f64, f64, f64)> = calls
        .iter()
        .flat_map(|calls| calls.jobs)
        .filter(|job| !job.found && job.files_bytes > 0)
        .map(|job| (job.files_seconds, job.files_bytes as f64, 2.0 * job.store.gets as f64))
        .collect();
    let rate = preset.bytes_per_second(memory_mb);
    let first_byte_s = preset.first_byte_ms / 1e3;
    let positive = |value: &f64| *value > 0.0 && value.is_finite();
    let first = fetched.iter().map(|(seconds, bytes, requests)| (seconds - bytes / rate) / requests * 1e3);
    let network = fetched.iter().map(|(seconds, bytes, requests)| {
        let transfer = seconds - requests * first_byte_s;
        bytes / transfer / 1e6
    });
    let speed = calls.iter().flat_map(|calls| speeds(calls, preset, memory_mb));
    let vcpus = preset.vcpus(memory_mb);
    let (own, key) = match processor {
        Processor::X86_64 => (preset.x86_64_cores, "x86_64_cores"),
        Processor::Arm64 => (preset.arm64_cores, "arm64_cores"),
    };
    let all = [
        (
            "init_ms",
            preset.init_ms,
            "ms",
            Sample {
                values: init.map(|ms| ms * cores / whole).collect(),
                how: "Init Duration of the REPORT lines, scaled to a function of one vCPU",
                none: "no REPORT line has an Init Duration",
            },
        ),
        (
            "invoke_ms",
            preset.invoke_ms,
            "ms",
            Sample {
                values: warm,
                how: "time from request to reply of warm calls, minus Duration; includes the network between this host and the \
                      region",
                none: "no warm call has a REPORT line",
            },
        ),
        (
            "cold_start_ms",
            preset.cold_start_ms,
            "ms",
            Sample {
                values: cold.map(|ms| ms - invoke_ms).collect(),
                how: "time from request to reply of cold calls, minus Duration, Init Duration and invoke_ms",
                none: "no REPORT line has an Init Duration",
            },
        ),
        (
            "first_byte_ms",
            preset.first_byte_ms,
            "ms",
            Sample {
                values: first.filter(positive).collect(),
                how: "time for the files of a job, minus their bytes divided by the assumed bandwidth, per request; includes \
                      unpacking",
                none: "no call fetched files, or the assumed bandwidth explains the whole time",
            },
        ),
        (
            "bandwidth",
            rate / 1e6,
            "MB/s",
            Sample {
                values: network.filter(positive).collect(),
                how: "bytes of the files of a job divided by their time minus the assumed first_byte_ms; includes unpacking. \
                      Correct either this value or first_byte_ms, because both come from one measurement",
                none: "no call fetched files, or the assumed first_byte_ms explains the whole time",
            },
        ),
        (
            key,
            own,
            "cores",
            Sample {
                values: speed.map(|cores| cores / vcpus).filter(positive).collect(),
                how: "predicted processor seconds divided by measured Duration without waits, per vCPU. The prediction is \
                      for a core of this host, which the file equates with a c7a core",
                none: "no call has a REPORT line",
            },
        ),
    ];
    let assumption = |(field, assumed, unit, sample): (&str, f64, &str, Sample)| {
        let Sample { values, how, none } = sample;
        let range = values.iter().copied().reduce(f64::min).zip(values.iter().copied().reduce(f64::max));
        Assumption {
            key: format!("presets.{name}.{field}"),
            memory_mb,
            assumed,
            measured: median(&values),
            samples: values.len(),
            range: range.map(|(least, most)| [least, most]),
            unit: unit.to_owned(),
            how: if values.is_empty() { none } else { how }.to_owned(),
        }
    };
    all.into_iter().map(assumption).collect()
}

/// Returns the effective number of cores of each call. It is the mean predicted processor time
/// divided by the measured time without waits for the object store.
fn speeds(calls: &Calls<'_>, preset: &Preset, memory_mb: u32) -> Vec<f64> {
    let tasks: Vec<&Task> = calls.work.phases.iter().flatten().collect();
    let count = tasks.len().max(1) as f64;
    let mean = |value: &dyn Fn(&Task) -> f64| tasks.iter().map(|task| value(task)).sum::<f64>() / count;
    let waits = |store: Requests| store.seconds(preset, memory_mb);
    let warm = (mean(&|task| task.core_s), mean(&|task| waits(task.store)));
    let first = (mean(&|task| task.first_core_s), mean(&|task| waits(task.first_store)));
    let cores = |end: &Attempt| {
        let cold = if end.init_ms.is_some() { 1.0 } else { 0.0 };
        let (core_s, wait_s) = (warm.0 + cold * first.0, warm.1 + cold * first.1);
        Some(core_s / (end.duration_ms? / 1e3 - wait_s))
    };
    calls.attempts.iter().filter(|end| end.outcome == "answered").filter_map(cores).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_planner::cost::Origin;
    use eciton_recipe::Cloud;

    fn end(init_ms: Option<f64>, duration_ms: f64, reply_s: f64) -> String {
        let init = init_ms.map_or("null".to_owned(), |ms| ms.to_string());
        format!(
            "{{\"event\":\"end\",\"call\":0,\"outcome\":\"answered\",\"billed_ms\":9,\"init_ms\":{init},\
             \"duration_ms\":{duration_ms},\"used_mb\":99,\"reply_s\":{reply_s},\"usd\":0.1,\"at\":1.0,\"bill\":{{}}}}\n"
        )
    }

    #[test]
    fn the_tail_of_a_record_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spent.jsonl");
        assert_eq!(length(&path), 0);
        let first = format!("{{\"event\":\"start\"}}\n{}", end(None, 1.0, 1.0));
        std::fs::write(
            &path,
            format!("{first}{{\"event\":\"call\",\"call\":1}}\n{}", end(Some(7.0), 2.0, 3.0)),
        )
        .unwrap();
        let found = attempts(&path, first.len()).map_err(Failure::into_text).unwrap();
        let [one] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.init_ms, one.duration_ms, one.used_mb), (Some(7.0), Some(2.0), Some(99)));
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(
            attempts(&path, 0)
                .map_err(Failure::into_text)
                .unwrap_err()
                .contains("not a line of a cost record")
        );
    }

    #[test]
    fn assumptions_are_recovered_from_calls_that_follow_them() {
        let cloud = Cloud::parse(include_str!("../../../../infra/cloud.toml")).unwrap();
        let preset = cloud.preset("lambda-2026").unwrap();
        let functions = Functions { processor: Processor::X86_64, memory_mb: 512, count: 9 };
        let store = Requests { puts: 1, heads: 1, bytes_in: 100_000, ..Requests::default() };
        let first_store = Requests { gets: 1, heads: 1, bytes_out: 3_000_000, ..Requests::default() };
        let task = Task { core_s: 1.0, first_core_s: 0.2, store, first_store, ..Task::default() };
        let (times, sizes) = (Origin::Modelled, Origin::Modelled);
        let work = Work { phases: vec![vec![task; 2]], host: Requests::default(), times, sizes };
        let cores = preset.cores(Processor::X86_64, 512);
        let wait = |store: Requests| store.seconds(preset, 512);
        let init_ms = preset.init_ms * preset.cores(Processor::X86_64, 1769) / cores;
        let warm_ms = 1e3 * (1.0 / cores + wait(store));
        let cold_ms = 1e3 * (1.2 / cores + wait(store) + wait(first_store));
        let read = |line: String| serde_json::from_str::<Attempt>(&line).unwrap();
        let attempts = [
            read(end(None, warm_ms, (warm_ms + preset.invoke_ms) / 1e3)),
            read(end(
                Some(init_ms),
                cold_ms,
                (cold_ms + init_ms + preset.invoke_ms + preset.cold_start_ms) / 1e3,
            )),
        ];
        let mut done = Done { files_bytes: 3_000_000, files_seconds: wait(first_store), ..Done::default() };
        done.store.gets = 1;
        let calls = Calls { work: &work, attempts: &attempts, jobs: &[done, Done::default()] };
        let found = assumptions(&[calls], ("lambda-2026", preset), functions);
        assert_eq!(found.len(), 6);
        for one in &found {
            let measured = one.measured.unwrap();
            assert!((measured / one.assumed - 1.0).abs() < 1e-6, "{one:?}");
        }
        assert_eq!(found[5].samples, 2);
        let none = Calls { work: &work, attempts: &[], jobs: &[] };
        for one in assumptions(&[none], ("lambda-2026", preset), functions) {
            assert_eq!((one.measured, one.samples, one.range), (None, 0, None));
            assert!(
                one.how.starts_with("no call")
                    || one.how.starts_with("no REPORT")
                    || one.how.starts_with("no warm")
            );
        }
    }
}

//! The option `eciton cost --compare`, which compares predicted with recorded quantities of a job
//! that ran on functions.

use std::path::{Path, PathBuf};

use eciton_exec::{Architecture, Bill, Host};
use eciton_planner::cost::{self, Functions, Line, Origin, Requests, Usage};
use eciton_recipe::Config;
use eciton_train::cost::Trials;
use eciton_train::run_folder::Run;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Book;
use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::sweep::{FUNCTIONS, RECORD};

/// Maximum size of a cost record or settings file, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Maximum number of trials of a sweep that are compared.
const MAX_TRIALS: usize = 100_000;

/// A quantity, for instance `cold starts`, with its predicted and its recorded value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) predicted: f64,
    pub(crate) counted: f64,
    /// Relative error of the prediction, which is `predicted / counted - 1`. `None` if the recorded
    /// value is 0 and the predicted value is not.
    pub(crate) error: Option<f64>,
}

impl Pair {
    fn new(name: impl Into<String>, unit: &str, predicted: f64, counted: f64) -> Self {
        let error = if predicted == counted { Some(0.0) } else { Some(predicted / counted - 1.0) };
        let error = error.filter(|error| error.is_finite());
        Self { name: name.into(), unit: unit.to_owned(), predicted, counted, error }
    }
}

/// Comparison of predicted with recorded quantities, which `eciton cost --compare --json` prints.
#[derive(Serialize)]
struct Comparison<'a> {
    event: &'static str,
    folder: String,
    region: &'a str,
    prices: &'a str,
    /// Origin of the predicted processor times, for instance measured or assumed.
    times: &'static str,
    notes: &'a [String],
    quantities: &'a [Pair],
    dollars: &'a [Pair],
}

/// A line of the cost record (`spent.jsonl`), reduced to the fields that the comparison needs.
#[derive(Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Start {},
    Call {},
    End { bill: Box<Bill>, at: f64 },
}

/// Returns the content of a text file, or an error if it has more than [`MAX_BYTES`].
fn read(path: &Path) -> Result<String, Failure> {
    eciton_input::file::read_text(path, MAX_BYTES)
        .map_err(|error| Failure::Failed(format!("{}: cannot be read: {error}", path.display())))
}

/// Sums the last bills of all processes in a cost record. Returns the total bill, the total time of
/// these processes in seconds, and their number.
fn recorded(path: &Path) -> Result<(Bill, f64, usize), Failure> {
    let (mut sum, mut current) = ((Bill::default(), 0.0), (Bill::default(), 0.0));
    let mut processes = 0;
    let text = read(path)?;
    // A process that was killed may leave half a line.
    for (number, line) in text.split_inclusive('\n').filter(|line| line.ends_with('\n')).enumerate() {
        let event = serde_json::from_str::<Event>(line).map_err(|error| {
            Failure::Failed(format!(
                "{}: line {} is not a line of a cost record: {error}",
                path.display(),
                number + 1
            ))
        })?;
        match event {
            Event::Start {} => {
                sum = (sum.0.and(&current.0), sum.1 + current.1);
                current = Default::default();
                processes += 1;
            }
            Event::Call {} => {}
            Event::End { bill, at } => current = (*bill, at),
        }
    }
    Ok((sum.0.and(&current.0), sum.1 + current.1, processes))
}

/// Returns the run folders of the sweep in `folder`, in the order of its trials. If `folder` is
/// itself a run folder, it is the only result.
fn runs(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let trials = folder.join("trials");
    if !trials.is_dir() {
        return Ok(vec![folder.to_owned()]);
    }
    let path = folder.join("results.json");
    let results: Value = serde_json::from_str(&read(&path)?).map_err(|error| {
        Failure::Failed(format!("{}: {error}; expected the results of a completed sweep", path.display()))
    })?;
    if results.get("epochs").is_some_and(|epochs| !epochs.is_null()) {
        let remedy = "use `eciton cost sweep` with the arguments of the sweep";
        return Err(Failure::Failed(format!(
            "{}: a sweep with successive halving cannot be compared, because the order of trials is not recorded; {remedy}",
            folder.display()
        )));
    }
    let count = results.get("rows").and_then(Value::as_array).map_or(0, Vec::len).min(MAX_TRIALS);
    Ok((0..count).map(|at| eciton_train::sweep::trial_folder(folder, at)).collect())
}

/// Predicts the quantities of a job from the settings in its folder, and prints them next to the
/// recorded quantities.
pub(super) fn run(folder: &Path, pilot: bool, json: bool, output: &mut Output) -> Result<(), Failure> {
    let settings = folder.join(FUNCTIONS);
    if !settings.is_file() {
        return Err(Failure::Failed(format!(
            "{}: {FUNCTIONS} not found; expected the folder of a sweep on functions, or of a run with `train --as-task`",
            folder.display()
        )));
    }
    let place = Config::parse(&read(&settings)?, &settings.display().to_string())?;
    let (bill, real, processes) = recorded(&folder.join(RECORD))?;
    let mut configs = Vec::new();
    let (mut seeds, mut predictions) = (1, false);
    for path in runs(folder)? {
        let run = Run::open(&path)?;
        seeds = u32::try_from(run.summary.seeds.len()).unwrap_or(u32::MAX).max(1);
        predictions |= !run.summary.predictions_left_out;
        configs.push(run.config);
    }
    let epochs = configs.iter().map(|config| config.run.epochs).max().unwrap_or_default();
    let rungs = [(epochs, configs.len())];
    let trials = Trials { configs: &configs, seeds, rungs: &rungs, place: &place, predictions };
    let forecast = eciton_train::cost::train(trials, pilot)?;
    let book = Book::open(&place)?;
    let functions = super::functions(&place);
    let used = cost::usage(&forecast.work, functions, &book.preset);
    let counted = usage_from_bill(&bill, real);
    let mut notes = forecast.notes.clone();
    if processes > 1 {
        notes.push(format!("{processes} processes made the calls; the prediction assumes one"));
    }
    if bill.failed + bill.unreported + bill.throttled > 0 {
        notes.push(
            "some calls failed, were throttled or were not reported; the prediction assumes none".to_owned(),
        );
    }
    let host = Host::of_emulated(place.executor.host);
    let priced = |used: &Usage| {
        let origins = (Origin::Counted, Origin::Counted);
        cost::lines(used, (functions, host.place, false), &book.prices, origins)
    };
    let quantities = quantities(&used, &counted);
    let dollars = dollars(&priced(&used), &priced(&counted));
    let warnings = book.warnings();
    warnings.iter().for_each(|warning| tell(format_args!("warning: {warning}")));
    if json {
        output.json(&Comparison {
            event: "comparison",
            folder: folder.display().to_string(),
            region: &book.prices.region,
            prices: &book.prices.date,
            times: forecast.work.times.name(),
            notes: &notes,
            quantities: &quantities,
            dollars: &dollars,
        });
        return Ok(());
    }
    let Functions { memory_mb, .. } = functions;
    let kind = place.executor.kind.name();
    output.line(format_args!(
        "{}: functions ({kind}) of {memory_mb} MB, {}; predicted times are {}",
        folder.display(),
        Architecture::from(functions.processor).name(),
        forecast.work.times.name()
    ));
    output.line(format_args!("{:<22} {:>16} {:>16} {:>9}", "", "predicted", "recorded", "error"));
    for (pairs, digits) in [(&quantities, 3), (&dollars, 8)] {
        for Pair { name, unit, predicted, counted, error } in pairs {
            let error = error.map_or_else(|| "-".to_owned(), |error| format!("{:+.1} %", error * 100.0));
            let digits = if predicted.fract() == 0.0 && counted.fract() == 0.0 { 0 } else { digits };
            output.line(format_args!(
                "{name:<22} {predicted:>16.digits$} {counted:>16.digits$} {error:>9}  {unit}"
            ));
        }
    }
    output.line(format_args!("prices of {} ({})", book.prices.region, book.prices.date));
    output.line("bytes of replies vary by about 2 %, because they contain measured times as text");
    for note in &notes {
        output.line(format_args!("note: {note}"));
    }
    Ok(())
}

/// Converts the bill of a job that took `seconds` into usage. GET and HEAD requests are counted
/// together as GET, because a bill does not distinguish them.
pub(crate) fn usage_from_bill(bill: &Bill, seconds: f64) -> Usage {
    Usage {
        seconds,
        invocations: bill.invocations,
        cold_starts: bill.cold_starts,
        billed_ms: bill.billed_ms,
        init_ms: bill.init_ms,
        gb_seconds: bill.gb_seconds,
        bytes_to_functions: bill.bytes_to_functions,
        bytes_from_functions: bill.bytes_from_functions,
        store: Requests {
            puts: bill.store_writes,
            gets: bill.store_reads,
            heads: 0,
            bytes_in: bill.store_bytes_in,
            bytes_out: bill.store_bytes_out,
        },
        bytes_to_host: bill.store_bytes_to_host,
    }
}

/// Returns the predicted and recorded number of calls, requests and bytes, and the times.
pub(crate) fn quantities(predicted: &Usage, counted: &Usage) -> Vec<Pair> {
    let pair = |name: &str, unit: &str, value: &dyn Fn(&Usage) -> f64| {
        Pair::new(name, unit, value(predicted), value(counted))
    };
    vec![
        pair("invocations", "", &|one| one.invocations as f64),
        pair("cold starts", "", &|one| one.cold_starts as f64),
        pair("PUT", "requests", &|one| one.store.puts as f64),
        pair("GET and HEAD", "requests", &|one| (one.store.gets + one.store.heads) as f64),
        pair("bytes to functions", "bytes", &|one| one.bytes_to_functions as f64),
        pair("bytes of replies", "bytes", &|one| one.bytes_from_functions as f64),
        pair("bytes written", "bytes", &|one| one.store.bytes_in as f64),
        pair("bytes read", "bytes", &|one| one.store.bytes_out as f64),
        pair("bytes to the host", "bytes", &|one| one.bytes_to_host as f64),
        pair("initialisation", "ms", &|one| one.init_ms),
        pair("charged", "ms", &|one| one.billed_ms as f64),
        pair("charged, no init", "ms", &|one| one.billed_ms as f64 - one.init_ms),
        pair("GB-s", "GB-s", &|one| one.gb_seconds),
        pair("seconds", "s", &|one| one.seconds),
    ]
}

/// Returns the predicted and recorded cost of each AWS service in USD, followed by the total.
fn dollars(predicted: &[Line], counted: &[Line]) -> Vec<Pair> {
    let both = predicted.iter().zip(counted);
    let mut pairs: Vec<Pair> =
        both.map(|(own, other)| Pair::new(own.usage.clone(), "USD", own.usd, other.usd)).collect();
    let sum = |lines: &[Line]| lines.iter().map(|line| line.usd).sum::<f64>();
    pairs.push(Pair::new("total", "USD", sum(predicted), sum(counted)));
    pairs
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn errors_are_signed_and_nothing_counted_has_none() {
        assert_eq!(Pair::new("a", "", 11.0, 10.0).error, Some(11.0 / 10.0 - 1.0));
        assert_eq!(
            (Pair::new("a", "", 0.0, 0.0).error, Pair::new("a", "", 1.0, 0.0).error),
            (Some(0.0), None)
        );
    }

    #[test]
    fn bills_of_processes_add_up_and_half_a_line_is_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(RECORD);
        let end = |invocations: u64| {
            let bill = serde_json::to_string(&Bill { invocations, ..Bill::default() }).unwrap();
            format!(
                "{{\"event\":\"end\",\"call\":0,\"outcome\":\"answered\",\"at\":1.5,\"bill\":{bill},\"total_usd\":0.1}}\n"
            )
        };
        let start =
            "{\"event\":\"start\",\"function\":\"f\",\"prices\":\"p\"}\n{\"event\":\"call\",\"call\":0}\n";
        let text = format!("{start}{}{}{start}{}{{\"event\"", end(1), end(2), end(4));
        std::fs::write(&path, text).unwrap();
        let (bill, seconds, processes) = recorded(&path).map_err(Failure::into_text).unwrap();
        assert_eq!((bill.invocations, seconds, processes), (6, 3.0, 2));
        std::fs::write(&path, "nonsense\n").unwrap();
        let said = recorded(&path).map_err(Failure::into_text).unwrap_err();
        assert!(said.contains("line 1"), "{said}");
    }
}

//! The command `eciton cost`, which estimates the time and cost of a job on functions and on
//! machines before it runs.

pub(crate) mod compare;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use eciton_exec::{Architecture, Host};
use eciton_planner::cost::{self, Asked, Functions, Kind, Line, MAX_AGE_DAYS, Row, Table, Verdict};
use eciton_recipe::{Cloud, Config, FunctionCount, Preset, Prices, Processor};
use eciton_train::cost::{Forecast, Trials};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::text::{bytes, counted, seconds};
use crate::{predict, recipe, sweep, train};

/// Arguments of `eciton cost`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    job: Option<Job>,
    /// Compare predicted with recorded quantities of a sweep folder or run folder by functions
    #[arg(long, value_name = "DIR")]
    compare: Option<PathBuf>,
    /// Measure the processor time with two short trainings first
    #[arg(long, requires = "compare")]
    pilot: bool,
    /// Print one JSON object
    #[arg(long, requires = "compare")]
    json: bool,
}

const AFTER_HELP: &str = "\
Each subcommand accepts the arguments of the command of the same name, and runs
nothing. With --pilot, it measures the processor time of two short trainings of
the recipe, or of the cheapest and the most expensive choice of a sweep.

Columns of the table:
  seconds  Time of the job.
  dollars  Cost of the job.
  V        Value 1 / (seconds x dollars), relative to the first row.
  T*       Break-even time: functions that finish before T* are faster and
           cheaper than any on-demand EC2 fleet.
An asterisk marks the best value of a column.

Prices and times come from infra/cloud.toml, or from the file that ECITON_CLOUD
names. docs/explanation/when-functions-pay.md derives V and T*.";

/// Job whose cost is estimated. The comment of a variant is its help text.
#[derive(Debug, clap::Subcommand)]
enum Job {
    /// Estimate a training that runs as one task on a function
    Train(Box<Train>),
    /// Estimate a sweep with one function task per trial
    Sweep(Box<Sweep>),
    /// Estimate a prediction that runs as one task on a function
    Predict(Box<Predict>),
}

/// Arguments of `eciton cost train`.
#[derive(Debug, clap::Args)]
struct Train {
    #[command(flatten)]
    job: train::Arguments,
    #[command(flatten)]
    study: Study,
}

/// Arguments of `eciton cost sweep`.
#[derive(Debug, clap::Args)]
struct Sweep {
    #[command(flatten)]
    job: sweep::Arguments,
    #[command(flatten)]
    study: Study,
}

/// Arguments of `eciton cost predict`.
#[derive(Debug, clap::Args)]
struct Predict {
    #[command(flatten)]
    job: predict::Arguments,
    #[command(flatten)]
    study: Study,
}

/// Flags of all cost estimates.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Study {
    /// Measure the processor time with short trainings first [default: assume typical speeds]
    #[arg(long, help_heading = "Cost")]
    pilot: bool,
    /// Price of this machine, in US dollars per hour [default: 0]
    #[arg(long, value_name = "USD", allow_negative_numbers = true, value_parser = hour, help_heading = "Cost")]
    host_hour_usd: Option<f64>,
}

/// Parses an hourly price in US dollars. It must be finite and not negative.
fn hour(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(usd) if usd >= 0.0 && usd.is_finite() => Ok(usd),
        _ => Err("expected a number of US dollars, 0 or more, for instance 0.20".to_owned()),
    }
}

/// Prices and assumed times of functions that an estimate is based on.
pub(crate) struct Book {
    pub(crate) cloud: Cloud,
    pub(crate) prices: Prices,
    pub(crate) preset: Preset,
}

impl Book {
    /// Reads the cloud file, and selects the preset that the configuration names.
    pub(crate) fn open(place: &Config) -> Result<Self, Failure> {
        let cloud = eciton_exec::cloud()?;
        let prices = eciton_exec::prices()?;
        let preset = cloud.preset(&place.emulator.cloud)?.clone();
        Ok(Self { cloud, prices, preset })
    }

    /// Returns a warning for each date in the cloud file that is malformed or more than
    /// [`MAX_AGE_DAYS`] old.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
        let dates = [("the cloud file", &self.cloud.date), ("the prices", &self.prices.date)];
        let old = dates.into_iter().filter_map(|(name, date)| {
            let age = cost::age_days(date, i64::try_from(today).unwrap_or(i64::MAX));
            match age {
                Some(age) if age <= MAX_AGE_DAYS => None,
                Some(age) => Some(format!(
                    "{name} of {date} may be outdated ({age} days old, limit {MAX_AGE_DAYS}); check infra/cloud.toml, and set \
                     ECITON_CLOUD to the path of a corrected copy"
                )),
                None => Some(format!(
                    "{name}: invalid date {date:?}; expected YEAR-MONTH or YEAR-MONTH-DAY, for instance 2026-11"
                )),
            }
        });
        old.collect()
    }
}

/// Returns the processor, memory size and maximum number of the functions that a configuration
/// selects. Emulated functions have this machine's processor.
fn functions(place: &Config) -> Functions {
    let is_emulated = place.executor.kind.is_emulated();
    let processor = place.emulator.architecture.unwrap_or(match is_emulated {
        // The emulator runs function binaries on this machine.
        true if cfg!(target_arch = "aarch64") => Processor::Arm64,
        _ => Architecture::X86_64.into(),
    });
    let count = match place.executor.functions {
        FunctionCount::Fixed(count) => count.max(1),
        FunctionCount::Auto => u32::MAX,
    };
    let memory_mb = place.executor.memory_mb;
    let count = match is_emulated {
        true => count.min(place.emulator.account_concurrency.max(1)),
        false => count,
    };
    Functions { processor, memory_mb, count }
}

/// Estimate of time and cost, which `eciton cost --json` prints.
#[derive(Serialize)]
struct Report<'a> {
    event: &'static str,
    region: &'a str,
    prices: &'a str,
    preset: &'a str,
    host: &'a Host,
    warnings: &'a [String],
    #[serde(flatten)]
    forecast: &'a Forecast,
    #[serde(flatten)]
    table: &'a Table,
    sentence: &'a str,
}

/// Estimates the time and cost of the given job. With `--compare`, compares an estimate with
/// recorded quantities instead.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    match (&arguments.job, &arguments.compare) {
        (None, Some(folder)) => compare::run(folder, arguments.pilot, arguments.json, output),
        (None, None) => {
            let known = "`eciton cost train`, `sweep` or `predict`, or --compare DIR";
            Err(Failure::Usage(format!("no job given; use {known}")))
        }
        (Some(Job::Train(train)), _) => {
            let config = eciton_train::defaults::settle(&recipe::configure(&train.job.request()?)?)?;
            let mut place = Config::default();
            (place.executor, place.emulator) = (config.executor.clone(), config.emulator.clone());
            let configs = std::slice::from_ref(&config);
            let rungs = [(config.run.epochs, 1)];
            let trials =
                Trials { configs, seeds: train.job.seeds, rungs: &rungs, place: &place, predictions: true };
            let found = eciton_train::cost::train(trials, train.study.pilot)?;
            report(&found, (&place, train.study), train.job.json, output)
        }
        (Some(Job::Sweep(sweep)), _) => {
            let planned = sweep::read(&sweep.job)?;
            let (rungs, place) = (planned.rungs(), &planned.place);
            let predictions = sweep.job.predictions;
            let trials = Trials { configs: &planned.configs, seeds: 1, rungs: &rungs, place, predictions };
            let found = eciton_train::cost::train(trials, sweep.study.pilot)?;
            report(&found, (place, sweep.study), sweep.job.json, output)
        }
        (Some(Job::Predict(predict)), _) => {
            let place = predict.job.task.place()?.unwrap_or_default();
            let data = predict.job.data.chosen();
            let run = std::path::absolute(&predict.job.run).unwrap_or_else(|_| predict.job.run.clone());
            let wanted = (data.as_ref(), predict.job.embeddings);
            let found = eciton_train::cost::predict(&run, wanted, &place, predict.study.pilot)?;
            report(&found, (&place, predict.study), predict.job.json, output)
        }
    }
}

/// Computes the cost table for a job from a forecast of its work, and prints it.
fn report(
    forecast: &Forecast,
    (place, study): (&Config, Study),
    json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    let book = Book::open(place)?;
    let host = Host::of_emulated(place.executor.host);
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let hour_usd = study.host_hour_usd.or(place.executor.host_hour_usd).unwrap_or(0.0);
    let asked = Asked { functions: functions(place), place: host.place, cores, hour_usd };
    let table = cost::table(&forecast.work, asked, &book.cloud, (&book.prices, &book.preset));
    let (warnings, sentence) = (book.warnings(), sentence(&table));
    warnings.iter().for_each(|warning| tell(format_args!("warning: {warning}")));
    if json {
        output.json(&Report {
            event: "cost",
            region: &book.prices.region,
            prices: &book.prices.date,
            preset: &place.emulator.cloud,
            host: &host,
            warnings: &warnings,
            forecast,
            table: &table,
            sentence: &sentence,
        });
        return Ok(());
    }
    print_work(forecast, &table, output);
    if let Some(first) = table.rows.first() {
        print_lines(first, output);
    }
    print_rows(&table.rows, output);
    output.line("");
    output.line(&sentence);
    output.line(format_args!(
        "prices of {} ({}), times of preset {}; host {host}",
        book.prices.region, book.prices.date, place.emulator.cloud
    ));
    let limit_ms = f64::from(book.preset.time_limit_s) * 1e3;
    if table.usage.billed_ms as f64 > limit_ms * table.usage.invocations as f64 {
        output.line(format_args!(
            "note: an invocation takes longer than the time limit of functions, {} s",
            book.preset.time_limit_s
        ));
    }
    for note in &forecast.notes {
        output.line(format_args!("note: {note}"));
    }
    Ok(())
}

/// Prints the forecast work of the job and the requests of its functions.
fn print_work(forecast: &Forecast, table: &Table, output: &mut Output) {
    let (work, used) = (&forecast.work, &table.usage);
    output.line(format_args!(
        "work        {}, {} of one core ({}), {:.3e} flop in training",
        counted(used.invocations, "task"),
        seconds(work.core_s()),
        work.times.name(),
        forecast.flops
    ));
    for pilot in &forecast.pilots {
        output.line(format_args!(
            "pilot       trial {}: {} and {} epochs; {} of setup, {} per epoch, {} extra in a new process",
            pilot.trial,
            pilot.epochs[0],
            pilot.epochs[1],
            seconds(pilot.start_s),
            seconds(pilot.epoch_s),
            seconds(pilot.first_s)
        ));
    }
    let store = used.store;
    output.line(format_args!(
        "functions   {}, {} cold; {} PUT, {} GET, {} HEAD; {} written, {} read",
        counted(used.invocations, "invocation"),
        used.cold_starts,
        store.puts,
        store.gets,
        store.heads,
        bytes(store.bytes_in),
        bytes(store.bytes_out)
    ));
}

/// Prints the cost in a table row by AWS service.
fn print_lines(row: &Row, output: &mut Output) {
    output.line("");
    output.line(format_args!("{}", row.name));
    for Line { usage, quantity, unit, unit_usd, usd, origin } in &row.lines {
        let price = format!("{unit_usd:.10}");
        let price = price.trim_end_matches('0');
        let origin = origin.name();
        output.line(format_args!(
            "  {usage:<27} {quantity:>14.6} {unit:<11}  x ${price:<12}  ${usd:<12.8} {origin}"
        ));
    }
    output.line(format_args!("  {:<27} {:>41}  ${:.8}", "total", "", row.usd));
}

/// Prints the cost table, with a row for each way to run the job: functions, EC2 fleets or this
/// machine.
fn print_rows(rows: &[Row], output: &mut Output) {
    let widest = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let reference = rows.first().and_then(|row| row.value);
    let relative = |row: &Row| Some(row.value? / reference?);
    let least = |of: &dyn Fn(&Row) -> Option<f64>| rows.iter().filter_map(of).min_by(f64::total_cmp);
    let quickest = least(&|row| row.seconds);
    let cheapest = least(&|row| row.seconds.map(|_| row.usd));
    let best = rows.iter().filter_map(relative).max_by(f64::total_cmp);
    let mark = |own: Option<f64>, best: Option<f64>| if own.is_some() && own == best { "*" } else { " " };
    output.line("");
    output.line(format_args!(
        "{:<widest$}  {:>10}   {:>12}   {:>9}   {:>8}",
        "", "seconds", "dollars", "V", "T*"
    ));
    for row in rows {
        let text = |found: Option<f64>, digits: usize| match found {
            Some(found) => format!("{found:.digits$}"),
            None => "-".to_owned(),
        };
        let usd = row.seconds.map(|_| row.usd);
        let v = relative(row);
        let star = if row.kind == Kind::Functions { row.break_even_s } else { None };
        output.line(format_args!(
            "{:<widest$}  {:>10}{}  {:>12}{}  {:>9}{}  {:>8}",
            row.name,
            text(row.seconds, 2),
            mark(row.seconds, quickest),
            text(usd, 7),
            mark(usd, cheapest),
            text(v, 3),
            mark(v, best),
            text(star, 1)
        ));
    }
}

/// Returns a one-line verdict, which says whether functions are faster or cheaper than EC2 fleets.
fn sentence(table: &Table) -> String {
    let verdict = match table.verdict {
        Verdict::FasterAndCheaper => "functions are faster, and cheaper than any equally fast EC2 fleet",
        Verdict::Faster => "functions are faster, but an equally fast EC2 fleet is cheaper",
        Verdict::Neither => "functions are neither faster nor cheaper than the EC2 fleet of the best value",
    };
    let beaten = match &table.beaten_by[..] {
        [] => String::new(),
        [one] => format!("; faster and cheaper than functions: {one}"),
        all => format!("; faster and cheaper than functions: {}", all.join("; ")),
    };
    let value = |row: &Row| row.value.unwrap_or_default();
    let best = table.rows.iter().filter(|row| row.kind != Kind::Functions);
    let best = best.max_by(|one, other| value(one).total_cmp(&value(other)));
    let better = match (best, table.rows.first()) {
        (Some(best), Some(first)) if value(best) > value(first) => {
            format!("; better value than functions: {} ({:.1} times)", best.name, value(best) / value(first))
        }
        _ => String::new(),
    };
    format!("verdict: {verdict}{beaten}{better}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_price_of_an_hour_is_0_or_more() {
        assert_eq!((hour("0"), hour("0.2")), (Ok(0.0), Ok(0.2)));
        for wrong in ["-1", "nan", "inf", "x"] {
            assert!(hour(wrong).is_err_and(|text| text.contains("0 or more")), "{wrong}");
        }
    }

    #[test]
    fn an_old_file_is_warned_of() {
        let mut cloud = Cloud::parse(include_str!("../../../infra/cloud.toml")).unwrap();
        let prices = cloud.region("us-east-1").unwrap().clone();
        let preset = cloud.preset("lambda-2026").unwrap().clone();
        cloud.date = "2020-01".to_owned();
        let book = Book { cloud, prices, preset };
        let warnings = book.warnings();
        assert!(
            warnings.iter().any(|text| text.contains("2020-01") && text.contains("ECITON_CLOUD")),
            "{warnings:?}"
        );
    }
}

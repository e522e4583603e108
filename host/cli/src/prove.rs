//! The command `eciton prove`, which runs workloads on a temporary stack and compares the predicted
//! with the billed cost.

mod invoice;
mod measured;
mod plan;
mod proof;
mod run;
mod stack;
mod table;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eciton_deploy::{Choices, LOG_DAYS, Located, MAX_TRAINERS, Reserve, TRAINER_SIZES, Target};
use eciton_exec::{Architecture, Host};
use eciton_recipe::{Config, FunctionCount, HostPlace};
use eciton_train::Stop;

use crate::cost::Book;
use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::run_name::{iso, now, stamp};
use crate::text::{counted, seconds};
use crate::{deploy, interrupt, sweep};
use plan::{Planned, Workload, dollars};
use proof::{CloudFile, Proof, VERSION};
use stack::Temporary;

/// Time limit of each function call of a proof, in seconds.
const TIMEOUT_S: u32 = 120;

/// Subcommands of `eciton prove`. The comment of a variant is its help text.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Run the proof on AWS (Lambda and S3)
    #[command(after_help = AFTER_HELP)]
    Aws(Aws),
}

/// Arguments of `eciton prove aws`.
#[derive(Debug, clap::Args)]
pub(crate) struct Aws {
    /// Maximum total cost of the proof, in US dollars. If the prediction exceeds it, nothing is
    /// deployed
    #[arg(long, value_name = "USD", value_parser = sweep::usd, required_unless_present = "cur")]
    max_usd: Option<f64>,
    /// Memory sizes of the functions in MB, up to three of 512, 1024, 1769, 3008, 3538, 7076,
    /// 10240. New AWS accounts are limited to 3,008 MB
    #[arg(long, value_name = "MB", value_delimiter = ',', default_value = "512,1769,3008")]
    memory_mb: Vec<u32>,
    /// Name of the temporary stack, which must not exist
    #[arg(long, value_name = "NAME", default_value = "eciton-proof")]
    stack: String,
    /// AWS region [default: AWS_REGION, else the region of the profile]
    #[arg(long)]
    region: Option<String>,
    /// Profile in ~/.aws with the credentials [default: AWS_PROFILE]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Processor architecture of the functions: x86_64 or arm64
    #[arg(long, default_value = "x86_64", value_name = "ARCH")]
    arch: Architecture,
    /// Maximum number of concurrent functions; auto: one per training, up to the account limit
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = functions)]
    functions: FunctionCount,
    /// Recipe of all trainings: DATASET/MODEL (see `eciton recipes`), or a recipe file
    #[arg(long, value_name = "RECIPE", default_value = "pubmed/gcn")]
    recipe: String,
    /// Data set that replaces that of the recipe
    #[arg(long, value_name = "PATH")]
    data: Option<String>,
    /// Set a key of the recipe
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
    /// Run workload W2 with 8 trainings instead of 200
    #[arg(long)]
    quick: bool,
    /// Location of this machine, for transfer prices: home (outside AWS), region or zone of the
    /// functions [default: detected from the machine's metadata]
    #[arg(long, value_name = "PLACE", value_parser = deploy::place)]
    host: Option<HostPlace>,
    /// Folder to write the proof to, which must not exist [default: proofs/aws-DATE-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the resources and the predicted cost, and exit without requests to AWS
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation before the stack is deployed
    #[arg(long)]
    yes: bool,
    /// Add a Cost and Usage Report (CSV, optionally gzip, with resource IDs) to an earlier proof
    #[arg(long, value_name = "FILE", requires = "of", conflicts_with_all = ["max_usd", "dry_run", "yes", "out", "quick"])]
    cur: Option<PathBuf>,
    /// File proof.json of the earlier proof, for --cur
    #[arg(long, value_name = "PROOF.json", requires = "cur")]
    of: Option<PathBuf>,
    /// Print the proof as one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The command deploys a stack and runs two workloads on functions of each memory
size: W1 (one training) and W2 (a sweep of 200 trainings). It then removes the
stack, also after an error or Ctrl-C.

DIR/proof.json and DIR/proof.md compare each line of the invoice, predicted and
billed, and the assumptions of infra/cloud.toml with measurements. Billed values
are those of the service's REPORT lines and Eciton's counts. To add the Cost and
Usage Report, which arrives up to one day later:
  eciton prove aws --cur report.csv.gz --of DIR/proof.json";

/// Parses the value of `--functions`, which is `auto` or a positive number.
fn functions(text: &str) -> Result<FunctionCount, String> {
    match (text, text.parse::<u32>()) {
        ("auto", _) => Ok(FunctionCount::Auto),
        (_, Ok(count)) if count > 0 => Ok(FunctionCount::Fixed(count)),
        _ => Err("expected auto or a whole number above 0".to_owned()),
    }
}

/// Runs a proof. With `--cur`, adds a Cost and Usage Report to an earlier proof instead.
pub(crate) fn run(command: &Command, output: &mut Output) -> Result<(), Failure> {
    let Command::Aws(arguments) = command;
    match (&arguments.cur, &arguments.of) {
        (Some(report), Some(file)) => join(report, file, arguments.json, output),
        _ => prove(arguments, output),
    }
}

/// Adds the Cost and Usage Report `report` to an earlier proof, and rewrites both files of the
/// proof.
fn join(report: &Path, file: &Path, json: bool, output: &mut Output) -> Result<(), Failure> {
    let mut proof = Proof::load(file)?;
    proof.invoice = Some(invoice::join(&proof, report)?);
    proof.save(file)?;
    print(&proof, file, json, output);
    Ok(())
}

impl Aws {
    /// Returns the deployment options of the temporary stack.
    fn choices(&self, region: Option<&str>) -> Choices {
        Choices {
            stack: self.stack.clone(),
            region: region.or(self.region.as_deref()).map(str::to_owned),
            profile: self.profile.clone(),
            architecture: self.arch,
            // A deployment requires a function for tasks. The proof does not call it.
            memory_mb: vec![512],
            timeout_s: TIMEOUT_S,
            reserve: Reserve::Nothing,
            alarms: false,
            email: None,
            budget_usd: 0,
            log_days: LOG_DAYS[0],
            trainer_mb: self.memory_mb.clone(),
            worker: None,
            key: None,
            folder: None,
            out: None,
            shielded: true,
        }
    }

    /// Returns the configuration with the executor settings of all runs. The memory size is not
    /// set.
    fn place(&self) -> Config {
        let mut place = Config::default();
        place.run_on_lambda();
        place.executor.functions = self.functions;
        place.executor.deployment = Some(self.stack.clone());
        place.executor.timeout_s = TIMEOUT_S;
        place.executor.host = self.host;
        place.emulator.architecture = Some(self.arch.into());
        place
    }

    /// Returns the distinct memory sizes of `--memory-mb` in MB, in ascending order.
    fn sizes(&self) -> Result<Vec<u32>, Failure> {
        let mut sizes = self.memory_mb.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let unknown = sizes.iter().any(|size| !TRAINER_SIZES.contains(size));
        if sizes.is_empty() || sizes.len() > MAX_TRAINERS || unknown {
            let list = |sizes: &[u32]| sizes.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
            return Err(Failure::Usage(format!(
                "--memory-mb: found {}, expected 1 to {MAX_TRAINERS} of the sizes {}",
                list(&sizes),
                list(&TRAINER_SIZES)
            )));
        }
        Ok(sizes)
    }
}

/// A proof with its predictions, before its stack is deployed.
struct Prepared<'a> {
    arguments: &'a Aws,
    out: PathBuf,
    region: String,
    host: Host,
    book: Book,
    workloads: [Workload; 2],
    /// Predicted runs in the order of execution, one for each workload and memory size.
    planned: Vec<Planned>,
    /// Predicted total cost of all runs, in US dollars.
    predicted_usd: f64,
    max_usd: f64,
}

/// Predicts the cost of the proof, asks the user for confirmation, and runs the proof.
fn prove(arguments: &Aws, output: &mut Output) -> Result<(), Failure> {
    let Some(max_usd) = arguments.max_usd else {
        return Err(Failure::Usage("--max-usd is required: the maximum cost of the proof".to_owned()));
    };
    let sizes = arguments.sizes()?;
    let choices = arguments.choices(None);
    choices.check().map_err(|error| Failure::usage(&error))?;
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => Path::new("proofs").join(format!("aws-{}", stamp(now()))),
    };
    if out.symlink_metadata().is_ok() {
        let text = format!("{} already exists; choose a new folder with --out", out.display());
        return Err(Failure::Failed(text));
    }
    let missing = eciton_deploy::missing(&choices);
    if !arguments.dry_run && !missing.is_empty() {
        return Err(Failure::Failed(format!("nothing was deployed: {}", missing.join("\n"))));
    }
    let target = Target::find(&arguments.stack, arguments.region.clone(), arguments.profile.clone())?;
    let region = locate(arguments, &target)?;
    let scratch = tempfile::tempdir()?;
    let file = scratch.path().join(plan::W2_FILE);
    let w2 = plan::w2(arguments)?;
    sweep::write(&file, w2.as_bytes())?;
    let workloads = plan::workloads(arguments, &file)?;
    let mut book = Book::open(&arguments.place())?;
    book.prices = eciton_exec::cloud::prices_in(&region)?;
    let host = Host::find(arguments.host, Some(&region), None);
    let mut planned = Vec::new();
    for size in &sizes {
        let mut before = None;
        for (number, workload) in workloads.iter().enumerate() {
            tell(format_args!(
                "predicting {} with {size} MB from a pilot training on this machine",
                workload.name
            ));
            let own = Planned::new((number, workload), arguments.place(), (*size, before))?;
            before = Some(own.forecast.work.clone());
            planned.push(own);
        }
    }
    let usd = |planned: &Planned| dollars(&planned.predicted(u32::MAX, host.place, &book).1);
    let predicted_usd = planned.iter().map(usd).sum();
    let prepared =
        Prepared { arguments, out, region, host, book, workloads, planned, predicted_usd, max_usd };
    for text in prepared.describe(&choices) {
        // With --json, standard output contains only the proof.
        if arguments.json { tell(text) } else { output.line(text) }
    }
    prepared.book.warnings().iter().for_each(|warning| tell(format_args!("warning: {warning}")));
    prepared.afford(&sizes)?;
    if arguments.dry_run {
        missing.iter().for_each(|missing| output.line(format_args!("missing on this machine: {missing}")));
        return Ok(());
    }
    output.flush();
    if !arguments.yes && !agreed(&arguments.stack)? {
        return Err(Failure::Failed(format!(
            "cancelled: the answer was not `{}`, so nothing was deployed",
            arguments.stack
        )));
    }
    std::fs::create_dir_all(&prepared.out).map_err(|error| {
        Failure::Failed(format!("{}: cannot be created: {error}", prepared.out.display()))
    })?;
    sweep::write(&prepared.out.join(plan::W2_FILE), w2.as_bytes())?;
    prepared.execute(output)
}

/// Returns the AWS region of the proof.
///
/// # Errors
/// Returns [`Failure::Failed`] if a stack with the given name exists, because the proof would
/// remove it.
fn locate(arguments: &Aws, target: &Target) -> Result<String, Failure> {
    let taken = |region: &str, how: &str| {
        Failure::Failed(format!(
            "stack `{0}` already exists ({how}), but a proof removes its stack; choose another --stack, or remove this \
             one with `eciton destroy --stack {0} --region {region}`",
            target.stack
        ))
    };
    if let Some(file) = &target.file {
        let region = target.region.as_deref().unwrap_or("REGION");
        return Err(taken(region, &format!("deployment file {}", file.display())));
    }
    if arguments.dry_run {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let region = arguments.region.clone().or_else(|| variable("AWS_REGION"));
        let region = region.or_else(|| variable("AWS_DEFAULT_REGION"));
        return Ok(region.unwrap_or_else(|| eciton_recipe::cloud::DEFAULT_REGION.to_owned()));
    }
    tell("checking the region and the stack name at AWS");
    let Located { region, is_taken } = eciton_deploy::locate(target)?;
    if is_taken { Err(taken(&region, "reported by CloudFormation")) } else { Ok(region) }
}

/// Asks the user to confirm the deployment by typing the stack's name. Returns true if the answer
/// is that name.
fn agreed(stack: &str) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "cannot ask for confirmation to deploy stack `{stack}`, because standard input is no terminal; add --yes to \
             deploy it without confirmation"
        )));
    }
    let question = format!(
        "This deploys stack `{stack}`, spends money and removes the stack. Type {stack} to confirm: "
    );
    let _ = std::io::stderr().lock().write_all(question.as_bytes());
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == stack)
}

impl Prepared<'_> {
    /// Returns the lines that describe the resources to be created and the predicted cost, for the
    /// user.
    fn describe(&self, choices: &Choices) -> Vec<String> {
        let mut text = Vec::new();
        let facts = choices.facts(&self.book.prices);
        let Aws { stack, arch, .. } = self.arguments;
        text.push(format!(
            "stack       {stack} in {}, {arch}: {}, removed at the end",
            self.region,
            counted(u64::from(facts.resources), "resource")
        ));
        for function in &facts.trainers {
            text.push(format!("function    {}, {} MB", function.name, function.memory_mb));
        }
        text.push("buckets     one for objects, one for packages; both are removed".to_owned());
        text.push(format!("host        {}", self.host));
        for planned in &self.planned {
            let Some(workload) = self.workloads.get(planned.workload) else { continue };
            let (used, lines) = planned.predicted(u32::MAX, self.host.place, &self.book);
            text.push(format!(
                "{:<11} {} MB: {}, {:.2} GB-s, {}, USD {:.6}",
                workload.name,
                planned.memory_mb,
                counted(used.invocations, "call"),
                used.gb_seconds,
                seconds(used.seconds),
                dollars(&lines)
            ));
        }
        text.push(format!(
            "predicted   USD {:.6}, without free tier (limit --max-usd: USD {})",
            self.predicted_usd, self.max_usd
        ));
        text.push(format!("prices      of {} ({})", self.book.prices.region, self.book.prices.date));
        if self.book.prices.region != self.region {
            text.push(format!(
                "note: the cloud file has no prices for {}; prices for {} are used",
                self.region, self.book.prices.region
            ));
        }
        text
    }

    /// Checks that the cost limit covers the predicted cost, and also a call that reaches the time
    /// limit on the largest function.
    ///
    /// # Errors
    /// Returns [`Failure::Failed`] if the limit is too low, with the cost that exceeds it.
    fn afford(&self, sizes: &[u32]) -> Result<(), Failure> {
        let (limit, predicted) = (self.max_usd, self.predicted_usd);
        if predicted > limit {
            return Err(Failure::Failed(format!(
                "the predicted cost of USD {predicted:.6} exceeds --max-usd {limit}, so nothing was deployed; increase \
                 the limit, choose smaller sizes with --memory-mb, or add --quick"
            )));
        }
        let largest = sizes.last().copied().unwrap_or_default();
        let gb_seconds = f64::from(TIMEOUT_S) * f64::from(largest) / 1024.0;
        let longest = self.book.prices.lambda_usd(self.arguments.arch, gb_seconds, 1);
        if longest * 1.1 > limit {
            return Err(Failure::Failed(format!(
                "--max-usd {limit} is too low: a call with {largest} MB and the full time limit of {TIMEOUT_S} s costs \
                 USD {longest:.4}, so nothing was deployed; increase the limit, or choose smaller sizes with --memory-mb"
            )));
        }
        Ok(())
    }

    /// Returns the content of the proof file before the first run.
    fn proof(&self) -> Result<Proof, Failure> {
        let (path, sha256) = eciton_exec::cloud_digest()?;
        let prices = &self.book.prices;
        Ok(Proof {
            version: VERSION,
            eciton: env!("CARGO_PKG_VERSION").to_owned(),
            begun: iso(now()),
            ended: None,
            region: self.region.clone(),
            architecture: self.arguments.arch.to_string(),
            cloud: CloudFile {
                path,
                sha256,
                prices: format!("{}, {}", prices.date, prices.region),
                preset: self.arguments.place().emulator.cloud,
            },
            host: self.host.clone(),
            stack: proof::Stack { name: self.arguments.stack.clone(), ..proof::Stack::default() },
            max_usd: self.max_usd,
            predicted_usd: self.predicted_usd,
            spent_usd: 0.0,
            workloads: self.workloads.iter().map(|workload| workload.describe(&self.arguments.recipe)).collect(),
            runs: Vec::new(),
            digests_equal: None,
            assumptions: Vec::new(),
            notes: vec![
                "the prediction of W2 assumes that the function instance of W1 is still warm and has its files; AWS may \
                 start another instance"
                    .to_owned(),
                "a training that takes too long is started a second time; the prediction does not include such calls"
                    .to_owned(),
            ],
            error: None,
            invoice: None,
        })
    }

    /// Deploys the stack, runs all workloads, and removes the stack. The proof is saved before and
    /// after the removal.
    fn execute(&self, output: &mut Output) -> Result<(), Failure> {
        let path = self.out.join(proof::FILE);
        let mut proof = self.proof()?;
        let stop: Arc<Stop> = Arc::default();
        interrupt::watch_proof(stop.clone())?;
        let region = Some(self.region.clone());
        let mut target = Target::find(&self.arguments.stack, region, self.arguments.profile.clone())?;
        target.shielded = true;
        let mut stack = Temporary::new(target);
        proof.stack.left =
            Some(format!("the proof has not ended; to remove the stack, run `{}`", stack.command()));
        let choices = self.arguments.choices(Some(&self.region));
        let ran = stack.deploy(&choices).and_then(|deployed| {
            let mut running = run::Running { prepared: self, deployment: &deployed.deployment, stop: &stop };
            running.all(&mut proof, &path)
        });
        let stopped = interrupt::code();
        if let Err(failure) = &ran {
            proof.error = Some(proof::without_account(failure.words()));
        }
        proof.ended = Some(iso(now()));
        proof.compare_digests();
        // The removal takes a minute, in which this process may be killed.
        let saved = proof.save(&path);
        let removed = stack.remove();
        let left = removed.as_ref().err().cloned();
        proof.stack.removed(removed);
        saved.and_then(|()| proof.save(&path))?;
        print(&proof, &path, self.arguments.json, output);
        if let Some(text) = left {
            let before = ran.err().map_or_else(String::new, |failure| format!("{}\n", failure.into_text()));
            return Err(Failure::Failed(format!("{before}{text}")));
        }
        if let (Some(code), Err(_)) = (stopped, &ran) {
            let text = format!(
                "the proof was stopped and its stack was removed; {} contains the completed runs",
                path.display()
            );
            return Err(Failure::Stopped { text, code });
        }
        ran?;
        if proof.digests_equal == Some(false) {
            return Err(Failure::Failed(format!(
                "the models of a workload differ between memory sizes; see the digests in {}",
                path.display()
            )));
        }
        Ok(())
    }
}

/// Prints the predicted and billed cost of each run, and the paths of the proof's files.
fn print(proof: &Proof, path: &Path, json: bool, output: &mut Output) {
    if json {
        output.json(proof);
        return;
    }
    let tables = proof::markdown(path);
    for run in &proof.runs {
        let own: f64 = run.lines.iter().map(|line| line.predicted_usd).sum();
        let billed: Option<f64> = run.lines.iter().map(|line| line.billed_usd).sum();
        let billed = match billed {
            Some(usd) => format!("{usd:.6}"),
            None => format!("unknown (no report line for {} of {} calls)", run.unreported, run.calls),
        };
        output.line(format_args!(
            "{} {:>5} MB  USD predicted {own:.6}, billed {billed}",
            run.workload, run.memory_mb
        ));
    }
    if let Some(invoice) = &proof.invoice {
        output.line(format_args!(
            "{}: {} of {} lines belong to stack {}",
            invoice.file, invoice.own_items, invoice.items, proof.stack.name
        ));
        invoice.notes.iter().for_each(|note| output.line(format_args!("note: {note}")));
    }
    if proof.digests_equal == Some(true) {
        output.line("models      identical at all memory sizes");
    }
    if proof.stack.removed {
        output.line(format_args!("stack       {} removed", proof.stack.name));
    }
    output.line(format_args!("proof       {} and {}", path.display(), tables.display()));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_number_of_functions_is_above_0_or_auto() {
        assert_eq!(functions("auto"), Ok(FunctionCount::Auto));
        assert_eq!(functions("7"), Ok(FunctionCount::Fixed(7)));
        for wrong in ["0", "-1", "x", ""] {
            assert!(functions(wrong).is_err(), "{wrong}");
        }
    }
}

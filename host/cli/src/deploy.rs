//! The command `eciton deploy`, which creates or updates functions on AWS Lambda with the tool
//! `sam`.

use std::path::{Path, PathBuf};

use eciton_deploy::{Choices, Component, Deployed, Facts, Progress, Reserve, Step};
use eciton_exec::{Architecture, DEFAULT_STACK, Host, Prices};
use eciton_recipe::HostPlace;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Output};
use crate::text::{bytes, counted};

/// Arguments of `eciton deploy`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --dry-run or --build-only, no request is sent to AWS.\nGuide with an example bill: docs/how-to/deploy-to-aws.md"
)]
pub(crate) struct Arguments {
    /// Name of the stack, for `eciton train --deployment`
    #[arg(long, value_name = "NAME", default_value = DEFAULT_STACK)]
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
    /// Memory sizes in MB, one function each: 512, 1024, 1769 (one processor), 3538, 7076, 10240.
    /// New AWS accounts are limited to 3,008 MB
    #[arg(long, value_name = "MB", value_delimiter = ',', default_value = "1769")]
    memory: Vec<u32>,
    /// Memory sizes in MB of functions that execute whole runs (`eciton sweep`, `eciton train
    /// --as-task`): up to three of the sizes of --memory, or 3008; 0 for none
    #[arg(long, value_name = "MB", value_delimiter = ',', default_value = "1769")]
    trainer: Vec<u32>,
    /// Time limit of a function call, in seconds: 30, 60, 120, 300 or 900
    #[arg(long, value_name = "S", default_value_t = 120)]
    timeout: u32,
    /// Reserved concurrency of each function: none, auto (100 if the account limit allows it) or a
    /// number
    #[arg(long, value_name = "N", default_value = "none")]
    reserve: Reserve,
    /// E-mail address for alarms and budget notices; AWS sends a confirmation request to it
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// Monthly cost of the account above which --email is notified, in whole US dollars; 0 for no
    /// budget
    #[arg(long, value_name = "USD", default_value_t = 20)]
    budget: u32,
    /// Do not create alarms
    #[arg(long)]
    no_alarms: bool,
    /// Retention time of logs, in days
    #[arg(long, value_name = "DAYS", default_value_t = 14)]
    log_days: u32,
    /// Kernel to compile, sign and upload to the bucket (repeatable)
    #[arg(long, value_name = "NAME=FILE.wasm", value_parser = named_file)]
    kernel: Vec<(String, PathBuf)>,
    /// Worker binary [default: ECITON_WORKER, else target/worker/bootstrap in this folder or a
    /// parent]
    #[arg(long, value_name = "FILE")]
    worker: Option<PathBuf>,
    /// Key file that signs kernels; created if missing [default: ~/.local/state/eciton/signing.key]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Folder for building the package [default: ~/.cache/eciton/deploy/STACK]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Deployment file to write [default: ~/.config/eciton/deployments/STACK.json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Location of the host that trains, for transfer prices: home (outside AWS), region or zone of
    /// the functions [default: detected from the machine's metadata]
    #[arg(long, value_name = "PLACE", value_parser = place)]
    host: Option<HostPlace>,
    /// Print the IAM policy that deploying this stack requires, and exit
    #[arg(long, conflicts_with_all = ["build_only", "dry_run", "json"])]
    policy: bool,
    /// Print the steps and the resources to be created, and exit
    #[arg(long, conflicts_with = "build_only")]
    dry_run: bool,
    /// Build the package with `sam build`, and exit
    #[arg(long)]
    build_only: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Parses the argument of `--kernel`, a name and a path in the form `NAME=FILE.wasm`.
fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), file.into())),
        _ => Err("expected NAME=FILE.wasm".to_owned()),
    }
}

/// Parses the location of the host, which is `home` (outside AWS), `region` or `zone`. The latter
/// two mean the region or zone of the functions.
pub(crate) fn place(text: &str) -> Result<HostPlace, String> {
    let found = HostPlace::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, place)| *place).ok_or_else(|| "expected home, region or zone".to_owned())
}

/// Prints a progress report of a deployment on standard error. Lines of the output of a tool are
/// indented.
pub(crate) fn show(progress: Progress<'_>) {
    match progress {
        Progress::Step(text) => output::tell(text),
        Progress::Line(text) => output::tell(format_args!("  | {text}")),
    }
}

impl Arguments {
    /// Converts the arguments to the options of the deployment library.
    fn choices(&self) -> Choices {
        Choices {
            stack: self.stack.clone(),
            region: self.region.clone(),
            profile: self.profile.clone(),
            architecture: self.arch,
            memory_mb: self.memory.clone(),
            timeout_s: self.timeout,
            reserve: self.reserve,
            alarms: !self.no_alarms,
            email: self.email.clone(),
            budget_usd: self.budget,
            log_days: self.log_days,
            trainer_mb: self.trainer.clone(),
            worker: self.worker.clone(),
            key: self.key.clone(),
            folder: self.folder.clone(),
            out: self.out.clone(),
            shielded: false,
        }
    }

    /// Returns the location of the host, which is the machine that trains. If `--host` is not
    /// given, the location follows from this machine's metadata.
    fn host(&self) -> Host {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let region = self.region.clone().or_else(|| variable("AWS_REGION"));
        let region = region.or_else(|| variable("AWS_DEFAULT_REGION"));
        Host::find(self.host, region.as_deref(), None)
    }

    /// Reads the components that `--kernel` names, and checks them against the lock files that
    /// apply to them.
    fn own_kernels(&self) -> Result<Vec<Component>, Failure> {
        let read = |(name, path): &(String, PathBuf)| {
            let refuse = |error| Failure::Failed(format!("{}: cannot be read: {error}", path.display()));
            let mut component = Vec::new();
            let file = eciton_input::file::open(path).map_err(refuse)?;
            // One byte above the limit is enough to report an error.
            let limit = eciton_author::MAX_COMPONENT_BYTES + 1;
            std::io::Read::read_to_end(&mut std::io::Read::take(file, limit), &mut component)
                .map_err(refuse)?;
            if component.len() as u64 == limit {
                let text = format!(
                    "{}: not a kernel, because it is larger than {} bytes",
                    path.display(),
                    limit - 1
                );
                return Err(Failure::Failed(text));
            }
            eciton_author::Pins::check(path, &component)?;
            Ok(Component { name: name.clone(), bytes: component })
        };
        self.kernel.iter().map(read).collect()
    }
}

/// Returns all built-in kernels. Edge kernels are included because functions that execute whole
/// runs need them. Functions that execute single tasks use only vertex kernels.
pub(crate) fn builtin() -> Vec<Component> {
    let all = eciton_train::kernels::builtin().iter();
    all.map(|kernel| Component { name: kernel.name.to_owned(), bytes: kernel.component.to_vec() }).collect()
}

/// Creates or updates a stack. With `--dry-run`, `--build-only` or `--policy`, no request is sent
/// to AWS.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let choices = arguments.choices();
    choices.check().map_err(|error| Failure::usage(&error))?;
    if arguments.policy {
        output.line(format_args!("{}", eciton_deploy::policy(&choices)));
        return Ok(());
    }
    let prices = eciton_exec::prices()?;
    let facts = choices.facts(&prices);
    let money = Money { prices, host: arguments.host() };
    if arguments.dry_run {
        return dry_run(arguments, &choices, &money, &facts, output);
    }
    let own = arguments.own_kernels()?;
    if arguments.build_only {
        let built = eciton_deploy::build(&choices, &builtin(), &mut show)?;
        let (template, len) = (built.package.built_template(), built.package.bytes_len);
        if arguments.json {
            output.json(&json!({
                "event": "built",
                "template": template,
                "package": built.package.contents(),
                "package_bytes": len,
                "worker": built.worker,
                "trainer": built.trainer,
                "verifying_key": built.signer.verifier().to_string(),
                "sam": built.sam.version,
            }));
        } else {
            output.line(format_args!("{}: {} per function", template.display(), bytes(len)));
        }
        return Ok(());
    }
    let deployed = eciton_deploy::deploy(&choices, &builtin(), &own, &mut show)?;
    if arguments.json {
        output.json(
            &json!({ "event": "deployed", "result": deployed, "facts": facts, "prices_date": money.prices.date, "host": money.host, "transfer_gb_usd": money.transfer() }),
        );
    } else {
        print(&deployed, &facts, &money, arguments, output);
    }
    Ok(())
}

/// Prices of AWS, and the host, which is the machine that trains. The location of the host
/// determines the price of transfers.
struct Money {
    prices: Prices,
    host: Host,
}

impl Money {
    /// Returns the price of transfers between the host and the functions, in US dollars per GB.
    fn transfer(&self) -> f64 {
        self.prices.transfer_gb_usd(self.host.place)
    }
}

/// Prints the steps of the deployment and the resources of the stack. No request is sent to AWS.
fn dry_run(
    arguments: &Arguments,
    choices: &Choices,
    money: &Money,
    facts: &Facts,
    output: &mut Output,
) -> Result<(), Failure> {
    let worker = eciton_exec::worker::find_for_package(arguments.worker.as_deref(), arguments.arch).ok();
    let key = arguments.key.clone().map_or_else(eciton_deploy::signing_key, Ok)?;
    let names: Vec<String> = arguments.kernel.iter().map(|(name, _)| name.clone()).collect();
    let steps = choices.steps(worker.as_deref(), &key, key.is_file(), &names);
    let missing = eciton_deploy::missing(choices);
    if arguments.json {
        let parameters = choices.parameters("KEY", 0);
        output.json(&json!({
            "event": "dry-run",
            "stack": arguments.stack,
            "steps": steps,
            "facts": facts,
            "parameters": parameters,
            "missing": missing,
            "prices_date": money.prices.date,
            "host": money.host,
            "transfer_gb_usd": money.transfer(),
        }));
        return Ok(());
    }
    output.line(format_args!("Steps to deploy stack `{}` (* sends requests to AWS):", arguments.stack));
    for (at, step) in (1..).zip(&steps) {
        let Step { does, command, aws } = step;
        output.line(format_args!("{} {at:>2}. {does}", if *aws { '*' } else { ' ' }));
        if let Some(command) = command {
            output.line(format_args!("      {command}"));
        }
    }
    output.line("");
    describe(facts, money, output);
    for missing in &missing {
        output.line(format_args!("\nmissing on this machine: {missing}"));
    }
    Ok(())
}

/// Prints the resources of a stack, their prices, and the monthly cost of the stack without runs.
fn describe(facts: &Facts, money: &Money, output: &mut Output) {
    let prices = &money.prices;
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<12} {text}"));
    for (at, function) in facts.functions.iter().chain(&facts.trainers).enumerate() {
        let name = if at == 0 { "functions" } else { "" };
        let second = f64::from(function.memory_mb) / 1024.0;
        let usd = prices.lambda_usd(function.architecture, second, 0);
        row(
            name,
            format!(
                "{}: {} MB, {}, USD {:.4} per 1,000 s",
                function.name,
                function.memory_mb,
                function.architecture,
                usd * 1e3
            ),
        );
    }
    row("", format!("{}, time limit {} s", facts.runtime, facts.timeout_s));
    row("permissions", facts.role_actions.join(" "));
    row("logs", format!("retained for {}", counted(u64::from(facts.log_days), "day")));
    row(
        "bucket",
        format!(
            "private, encrypted, TLS only; remaining objects of runs are deleted after {}",
            counted(u64::from(facts.runs_expire_days), "day")
        ),
    );
    row("alarms", facts.alarms.to_string());
    row(
        "budget",
        facts.budget_usd.map_or("none; requires --email".to_owned(), |usd| {
            format!("USD {usd} per month, notification by e-mail only")
        }),
    );
    row("resources", facts.resources.to_string());
    row(
        "idle",
        format!(
            "USD {:.2} per month for alarms (the first {} of an account are free), and cents for stored packages",
            facts.idle_usd_month, prices.alarms.free
        ),
    );
    row("host", money.host.to_string());
    let gb = |place| prices.transfer_gb_usd(place);
    row(
        "transfer",
        format!(
            "USD {:.2} per GB out of AWS, {:.2} per GB each way within the region, {:.2} within the functions' zone",
            gb(HostPlace::Home),
            gb(HostPlace::Region),
            gb(HostPlace::Zone)
        ),
    );
    row(
        "prices",
        format!(
            "of {}, {}: {}",
            prices.date,
            prices.region,
            if std::env::var_os("ECITON_CLOUD").is_some() {
                "the file of ECITON_CLOUD"
            } else {
                "infra/cloud.toml"
            }
        ),
    );
}

/// Prints the deployed resources, and a command that trains on them.
fn print(deployed: &Deployed, facts: &Facts, money: &Money, arguments: &Arguments, output: &mut Output) {
    let (deployment, stack) = (&deployed.deployment, arguments.stack.as_str());
    describe(facts, money, output);
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<12} {text}"));
    row("package", format!("{} per function", bytes(deployed.package_bytes)));
    row("account", format!("{} by {}", deployed.account.id, deployed.account.caller));
    let functions = deployment.functions.len() as u32;
    row("concurrency", deployed.account.told(functions, arguments.reserve, deployment.reserved_concurrency));
    row("bucket", deployment.bucket.clone());
    for (name, key) in &deployed.kernels {
        row("kernel", format!("{name}: {key}"));
    }
    row("deployment", shown(&deployed.file));
    output.line("");
    output.line("To train on this stack:");
    let which = if stack == DEFAULT_STACK { String::new() } else { format!(" --deployment {stack}") };
    output.line(format_args!("  eciton train --executor lambda{which}"));
    output.line("or in a recipe:");
    output.line("  [executor]");
    output.line("  kind = \"lambda\"");
    output.line(format_args!("  deployment = \"{stack}\""));
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn kernels_are_named_files() {
        assert_eq!(named_file("a=b/c=d.wasm").unwrap(), ("a".to_owned(), "b/c=d.wasm".into()));
        for bad in ["", "a", "=b", "a="] {
            assert!(named_file(bad).is_err(), "{bad}");
        }
    }
}

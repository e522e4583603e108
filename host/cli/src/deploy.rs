//! `eciton deploy`: functions at AWS, which `sam` makes from one package.

use std::path::{Path, PathBuf};

use eciton_deploy::{Choices, Component, Deployed, Facts, Progress, Reserve, Step};
use eciton_exec::{Architecture, DEFAULT_STACK, Host, Prices};
use eciton_recipe::HostPlace;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{self, Output};
use crate::text::{bytes, counted};

/// `eciton deploy`
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is asked of AWS with --dry-run or --build-only. docs/how-to/deploy-to-aws.md is the guide, with a bill."
)]
pub(crate) struct Arguments {
    /// The stack: also the name that `eciton train --deployment` takes
    #[arg(long, value_name = "NAME", default_value = DEFAULT_STACK)]
    stack: String,
    /// The region [default: AWS_REGION, or the profile's]
    #[arg(long)]
    region: Option<String>,
    /// A named set of credentials of ~/.aws [default: AWS_PROFILE]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The functions' processors: x86_64 or arm64
    #[arg(long, default_value = "x86_64", value_name = "ARCH")]
    arch: Architecture,
    /// A function of each size, in MB: 512, 1024, 1769 (one processor), 3538, 7076, 10240; AWS limits new accounts to
    /// 3,008 MB
    #[arg(long, value_name = "MB", value_delimiter = ',', default_value = "1769")]
    memory: Vec<u32>,
    /// Sizes in MB of the functions that do whole runs (`eciton sweep`, `eciton train --as-task`): up to three of the
    /// same sizes and 3008; 0 for none
    #[arg(long, value_name = "MB", value_delimiter = ',', default_value = "1769")]
    trainer: Vec<u32>,
    /// After which a function is ended, in seconds: 30, 60, 120, 300 or 900
    #[arg(long, value_name = "S", default_value_t = 120)]
    timeout: u32,
    /// Concurrency set aside for each function, and its limit: none, auto (100 where the account has room), or a number
    #[arg(long, value_name = "N", default_value = "none")]
    reserve: Reserve,
    /// E-mail address for alarms and the budget; AWS asks it to confirm
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// Costs of the account in a month above which --email is told, in whole USD; 0 for no budget
    #[arg(long, value_name = "USD", default_value_t = 20)]
    budget: u32,
    /// Make no alarms
    #[arg(long)]
    no_alarms: bool,
    /// Retention of logs, in days
    #[arg(long, value_name = "DAYS", default_value_t = 14)]
    log_days: u32,
    /// A kernel of yours, put into the bucket compiled and signed; may be repeated
    #[arg(long, value_name = "NAME=FILE.wasm", value_parser = named_file)]
    kernel: Vec<(String, PathBuf)>,
    /// The worker's binary [default: ECITON_WORKER, or target/worker/bootstrap here or above]
    #[arg(long, value_name = "FILE")]
    worker: Option<PathBuf>,
    /// The key that signs kernels; made if it is not there [default: ~/.local/state/eciton/signing.key]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Folder in which the package is built [default: ~/.cache/eciton/deploy/STACK]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Deployment file to write [default: ~/.config/eciton/deployments/STACK.json]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Place of the runs' host, for the price of its bytes: home, region, zone (the functions') [default: as
    /// this machine's metadata says]
    #[arg(long, value_name = "PLACE", value_parser = place)]
    host: Option<HostPlace>,
    /// Print the IAM policy that whoever deploys this stack needs, and do nothing
    #[arg(long, conflicts_with_all = ["build_only", "dry_run", "json"])]
    policy: bool,
    /// Print every step and what would be made, and do nothing
    #[arg(long, conflicts_with = "build_only")]
    dry_run: bool,
    /// Make the package with `sam build`, and stop
    #[arg(long)]
    build_only: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Parses `NAME=FILE`.
fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), file.into())),
        _ => Err("not NAME=FILE.wasm".to_owned()),
    }
}

/// Parses the place of a host: `home`, `region` or `zone`.
pub(crate) fn place(text: &str) -> Result<HostPlace, String> {
    let found = HostPlace::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, place)| *place).ok_or_else(|| "home, region or zone is needed".to_owned())
}

/// Shows progress on standard error. Steps start at the margin, lines of tools are indented.
pub(crate) fn show(progress: Progress<'_>) {
    match progress {
        Progress::Step(text) => output::tell(text),
        Progress::Line(text) => output::tell(format_args!("  | {text}")),
    }
}

impl Arguments {
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

    /// Returns the place of the runs' host, as far as this machine can find it out.
    fn host(&self) -> Host {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let region = self.region.clone().or_else(|| variable("AWS_REGION"));
        let region = region.or_else(|| variable("AWS_DEFAULT_REGION"));
        Host::find(self.host, region.as_deref(), None)
    }

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
                let text = format!("{}: more than {} bytes, no kernel", path.display(), limit - 1);
                return Err(Failure::Failed(text));
            }
            eciton_author::Pins::check(path, &component)?;
            Ok(Component { name: name.clone(), bytes: component })
        };
        self.kernel.iter().map(read).collect()
    }
}

/// Returns the built-in kernels. Whole runs need those on edges too, which tasks leave to the host.
pub(crate) fn builtin() -> Vec<Component> {
    let all = eciton_train::kernels::builtin().iter();
    all.map(|kernel| Component { name: kernel.name.to_owned(), bytes: kernel.component.to_vec() }).collect()
}

/// Creates or changes a stack, or prints the steps with `--dry-run`.
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
            output.line(format_args!("{}: {} a function", template.display(), bytes(len)));
        }
        return Ok(());
    }
    let deployed = eciton_deploy::deploy(&choices, &builtin(), &own, &mut show)?;
    if arguments.json {
        output.json(
            &json!({ "event": "deployed", "result": deployed, "facts": facts, "prices_date": money.prices.date, "host": money.host, "transfer_gb_usd": money.transfer() }),
        );
    } else {
        tell(&deployed, &facts, &money, arguments, output);
    }
    Ok(())
}

/// Prices, and the host whose place decides the price of transfers.
struct Money {
    prices: Prices,
    host: Host,
}

impl Money {
    /// Returns the price of 1 GB between the host and functions, US dollars.
    fn transfer(&self) -> f64 {
        self.prices.transfer_gb_usd(self.host.place)
    }
}

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
    output.line(format_args!(
        "Steps for the stack `{}`; those marked * ask or change something at AWS:",
        arguments.stack
    ));
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
        output.line(format_args!("\nmissing here: {missing}"));
    }
    Ok(())
}

/// Prints the resources of a stack, and their cost while idle.
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
                "{}: {} MB, {}, USD {:.4} for 1,000 s",
                function.name,
                function.memory_mb,
                function.architecture,
                usd * 1e3
            ),
        );
    }
    row("", format!("{}, ended after {} s", facts.runtime, facts.timeout_s));
    row("may", facts.role_actions.join(" "));
    row("logs", format!("kept {}", counted(u64::from(facts.log_days), "day")));
    row(
        "bucket",
        format!(
            "closed, encrypted, TLS only; what runs leave is removed after {}",
            counted(u64::from(facts.runs_expire_days), "day")
        ),
    );
    row("alarms", facts.alarms.to_string());
    row(
        "budget",
        facts.budget_usd.map_or("none: it needs --email".to_owned(), |usd| {
            format!("USD {usd} a month, told by e-mail; it stops nothing")
        }),
    );
    row("resources", facts.resources.to_string());
    row(
        "idle",
        format!(
            "USD {:.2} a month for alarms (the first {} of an account are free), and cents for stored packages",
            facts.idle_usd_month, prices.alarms.free
        ),
    );
    row("host", money.host.to_string());
    let gb = |place| prices.transfer_gb_usd(place);
    row(
        "transfer",
        format!(
            "USD {:.2} a GB that comes home, {:.2} a GB each way in the region, {:.2} in the functions' zone",
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
            if std::env::var_os("ECITON_CLOUD").is_some() { "your file" } else { "infra/cloud.toml" }
        ),
    );
}

fn tell(deployed: &Deployed, facts: &Facts, money: &Money, arguments: &Arguments, output: &mut Output) {
    let (deployment, stack) = (&deployed.deployment, arguments.stack.as_str());
    describe(facts, money, output);
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<12} {text}"));
    row("package", format!("{} a function", bytes(deployed.package_bytes)));
    row("account", format!("{} by {}", deployed.account.id, deployed.account.caller));
    let functions = deployment.functions.len() as u32;
    row("concurrency", deployed.account.told(functions, arguments.reserve, deployment.reserved_concurrency));
    row("bucket", deployment.bucket.clone());
    for (name, key) in &deployed.kernels {
        row("kernel", format!("{name}: {key}"));
    }
    row("deployment", shown(&deployed.file));
    output.line("");
    output.line("Train on it:");
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

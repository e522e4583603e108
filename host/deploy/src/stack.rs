//! Description of a stack before it exists: options, resources, and the steps to create it.
//!
//! All types are plain data, which `--dry-run` prints and a deployment executes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use eciton_cloud::deployment::{Deployment, Function, check_stack};
use eciton_cloud::{Architecture, Prices};
use serde::Serialize;

use super::account::Reserve;
use super::error::{Error, Result};
use super::sam::shown;

/// Memory sizes of functions that the template supports, in MiB. A function has one vCPU per 1,769
/// MiB. AWS limits new accounts to 3,008 MiB per function.
pub const SIZES: [u32; 6] = [512, 1024, 1769, 3538, 7076, 10240];
/// Memory sizes that the template supports for functions that execute whole training runs, in MiB.
pub const TRAINER_SIZES: [u32; 7] = [512, 1024, 1769, 3008, 3538, 7076, 10240];
/// Maximum number of functions in a stack that execute whole training runs. Each has a different
/// memory size.
pub const MAX_TRAINERS: usize = 3;
/// Time limits of functions that the template supports, in seconds.
pub const TIME_LIMITS: [u32; 5] = [30, 60, 120, 300, 900];
/// Retention periods of logs that the template supports, in days.
pub const LOG_DAYS: [u32; 10] = [1, 3, 5, 7, 14, 30, 60, 90, 180, 365];
/// Number of CloudWatch alarms for each function.
const ALARMS: u32 = 3;
/// IAM actions that the functions' role allows. The template states the reason for each action, and
/// a check compares this list with the template.
const ROLE_ACTIONS: [&str; 5] =
    ["logs:CreateLogStream", "logs:PutLogEvents", "s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"];

/// Returns the name of the S3 bucket for a stack's packages. The length limit of stack names
/// ensures that the result has at most 63 characters, the maximum of S3.
#[must_use]
pub(super) fn packages_bucket(stack: &str, account: &str, region: &str) -> String {
    format!("{stack}-packages-{account}-{region}")
}

/// Options of a deployment, as given on the command line.
#[derive(Debug, Clone)]
pub struct Choices {
    /// Name of the CloudFormation stack.
    pub stack: String,
    /// AWS region of the stack. If `None`, the AWS configuration of the user determines it.
    pub region: Option<String>,
    /// AWS profile with the credentials. If `None`, the AWS configuration of the user determines
    /// it.
    pub profile: Option<String>,
    /// Processor architecture of the functions.
    pub architecture: Architecture,
    /// Memory sizes of the functions that execute layer tasks, in MiB. The stack has one function
    /// for each size.
    pub memory_mb: Vec<u32>,
    /// Memory sizes of the functions that execute whole training runs, in MiB. A size of 0 creates
    /// no function.
    pub trainer_mb: Vec<u32>,
    /// Time limit of a function call, in seconds.
    pub timeout_s: u32,
    /// Reserved concurrency of each function of the stack.
    pub reserve: Reserve,
    /// True if the stack has CloudWatch alarms.
    pub alarms: bool,
    /// E-mail address that receives messages of alarms. If `None`, no message is sent.
    pub email: Option<String>,
    /// Monthly budget in whole USD. 0 means no budget.
    pub budget_usd: u32,
    /// Retention period of the functions' logs, in days.
    pub log_days: u32,
    /// Path of the worker binary. If `None`, the default locations are searched.
    pub worker: Option<PathBuf>,
    /// Path of the signing key. If `None`, the user's default key is used.
    pub key: Option<PathBuf>,
    /// Folder in which the package is built. If `None`, a folder in the user's cache folder is
    /// used.
    pub folder: Option<PathBuf>,
    /// Path of the deployment file to write. If `None`, the file is in the user's folder of
    /// deployments.
    pub out: Option<PathBuf>,
    /// True if signals of the terminal, for instance Ctrl-C, must not reach the `sam` process.
    pub shielded: bool,
}

/// Step of a deployment that `--dry-run` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Description of the step, for users.
    pub does: String,
    /// Command line of the step. `None` if the step runs no command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// True if the step queries or changes anything on AWS.
    pub aws: bool,
}

/// Resources that the template creates with the given options, and their monthly cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Facts {
    /// Functions that execute layer tasks, one for each memory size.
    pub functions: Vec<Function>,
    /// Functions that execute whole training runs, one for each memory size.
    pub trainers: Vec<Function>,
    /// Time limit of a function call, in seconds.
    pub timeout_s: u32,
    /// Lambda runtime of the functions, which determines their operating system.
    pub runtime: &'static str,
    /// IAM actions that the functions' role allows.
    pub role_actions: [&'static str; 5],
    /// Retention period of the functions' logs, in days.
    pub log_days: u32,
    /// Total number of CloudWatch alarms of the stack.
    pub alarms: u32,
    /// Monthly budget, in USD. `None` if no e-mail address is given, or if the budget is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<u32>,
    /// Age at which the stack's bucket deletes objects of runs, in days.
    pub runs_expire_days: u32,
    /// Number of CloudFormation resources in the stack.
    pub resources: u32,
    /// Monthly cost of the stack without runs, in USD, if the account has no other alarms. Storage
    /// of packages and kernels, a few cents per GB, is not included.
    pub idle_usd_month: f64,
}

impl Choices {
    /// Checks that all options have valid values.
    ///
    /// # Errors
    /// Returns an error if a name, a size, a limit or an address is invalid.
    pub fn check(&self) -> Result<()> {
        check_stack(&self.stack)?;
        if self.memory_mb.is_empty() {
            return Err(Error::Choice("no size of function is chosen: give --memory".to_owned()));
        }
        for size in &self.memory_mb {
            one_of("--memory", *size, &SIZES)?;
        }
        for size in self.trainer_mb.iter().filter(|size| **size != 0) {
            one_of("--trainer", *size, &TRAINER_SIZES)?;
        }
        let count = self.trainers().len();
        if count > MAX_TRAINERS {
            let most = format!("a stack has at most {MAX_TRAINERS} functions for whole runs");
            return Err(Error::Choice(format!("--trainer has {count} sizes, but {most}")));
        }
        one_of("--timeout", self.timeout_s, &TIME_LIMITS)?;
        one_of("--log-days", self.log_days, &LOG_DAYS)?;
        // The template has the same pattern. It is checked here because CloudFormation reports a
        // violation only after a minute.
        if let Some(email) = &self.email {
            let parts: Vec<&str> = email.split('@').collect();
            let sound = matches!(parts[..], [name, host] if !name.is_empty() && host.split('.').all(|p| !p.is_empty()) && host.contains('.'));
            if !sound || email.chars().any(|c| c.is_whitespace() || c.is_control() || c == '"') {
                return Err(Error::Choice(format!("--email: `{email}` is not an e-mail address")));
            }
        }
        Ok(())
    }

    /// Returns the functions that execute layer tasks, one per size, in ascending order of size.
    #[must_use]
    pub fn functions(&self) -> Vec<Function> {
        let mut sizes = self.memory_mb.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let named = |memory_mb| Function {
            name: format!("{}-worker-{memory_mb}", self.stack),
            memory_mb,
            architecture: self.architecture,
        };
        sizes.into_iter().map(named).collect()
    }

    /// Returns the functions that execute whole training runs, one per size, in ascending order of
    /// size.
    #[must_use]
    pub fn trainers(&self) -> Vec<Function> {
        let mut sizes: Vec<u32> = self.trainer_mb.iter().copied().filter(|size| *size > 0).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let named = |(at, memory_mb)| Function {
            name: trainer_name(&self.stack, at),
            memory_mb,
            architecture: self.architecture,
        };
        sizes.into_iter().enumerate().map(named).collect()
    }

    /// Returns the resources that the template creates with these options, and their monthly cost
    /// by `prices`.
    #[must_use]
    pub fn facts(&self, prices: &Prices) -> Facts {
        let functions = self.functions();
        let trainers = self.trainers();
        let (runs, count) = (u32::from(!trainers.is_empty()), (functions.len() + trainers.len()) as u32);
        let alarms = if self.alarms { ALARMS * count } else { 0 };
        let budget_usd = self.email.as_ref().map(|_| self.budget_usd).filter(|usd| *usd > 0);
        // Bucket, bucket policy, role and trainer policy. Role of whole runs. Each function with
        // its log group. Topic and budget.
        let resources =
            4 + runs + 2 * count + alarms + u32::from(self.email.is_some()) + u32::from(budget_usd.is_some());
        Facts {
            functions,
            trainers,
            timeout_s: self.timeout_s,
            runtime: "provided.al2023",
            role_actions: ROLE_ACTIONS,
            log_days: self.log_days,
            alarms,
            budget_usd,
            runs_expire_days: 1,
            resources,
            idle_usd_month: prices.alarms_usd(alarms),
        }
    }

    /// Returns the value of every parameter of the template. `reserved` is the reserved concurrency
    /// of each function. No parameter is omitted, because an omitted one would retain the value of
    /// the previous deployment.
    #[must_use]
    pub fn parameters(&self, verifying_key: &str, reserved: u32) -> BTreeMap<String, String> {
        let sizes: Vec<u32> = self.functions().iter().map(|f| f.memory_mb).collect();
        let mut all: BTreeMap<String, String> =
            SIZES.iter().map(|size| (format!("Size{size}"), sizes.contains(size).to_string())).collect();
        let rest = [
            ("VerifyingKey", verifying_key.to_owned()),
            ("Architecture", self.architecture.to_string()),
            ("TimeoutSeconds", self.timeout_s.to_string()),
            ("ReservedConcurrency", reserved.to_string()),
            ("LogRetentionDays", self.log_days.to_string()),
            ("Alarms", self.alarms.to_string()),
            ("Email", self.email.clone().unwrap_or_default()),
            ("BudgetUsd", self.budget_usd.to_string()),
        ];
        all.extend(rest.map(|(name, value)| (name.to_owned(), value)));
        let trainers = self.trainers();
        all.extend((0..MAX_TRAINERS).map(|at| {
            let number = if at == 0 { String::new() } else { (at + 1).to_string() };
            let memory_mb = trainers.get(at).map_or(0, |function| function.memory_mb);
            (format!("TrainerMemory{number}"), memory_mb.to_string())
        }));
        all
    }

    /// Returns the arguments of `sam build`.
    #[must_use]
    pub fn build_line(&self) -> Vec<String> {
        vec!["build".to_owned()]
    }

    /// Returns the arguments of `sam deploy`. `packages` is the name of the bucket for packages.
    #[must_use]
    pub fn deploy_line(
        &self,
        region: &str,
        packages: &str,
        parameters: &BTreeMap<String, String>,
    ) -> Vec<String> {
        let mut line: Vec<String> =
            ["deploy", "--stack-name", &self.stack, "--s3-bucket", packages, "--s3-prefix", &self.stack]
                .map(str::to_owned)
                .to_vec();
        line.extend(self.place(region));
        line.extend(["--no-progressbar".to_owned(), "--parameter-overrides".to_owned()]);
        // Values are quoted, because sam treats an empty value as missing.
        line.extend(parameters.iter().map(|(name, value)| format!("{name}=\"{value}\"")));
        line
    }

    /// Returns the arguments that select region and profile, for instance `--region us-east-1
    /// --profile work`.
    #[must_use]
    pub fn place(&self, region: &str) -> Vec<String> {
        place(region, self.profile.as_deref())
    }

    /// Returns the steps of a deployment, in the order of their execution. `key_exists` is false if
    /// the signing key must be created, and `user_kernels` are names of kernels.
    #[must_use]
    pub fn steps(
        &self,
        worker: Option<&Path>,
        key: &Path,
        key_exists: bool,
        user_kernels: &[String],
    ) -> Vec<Step> {
        let region = self.region.as_deref().unwrap_or("REGION");
        let worker = worker.map_or("WORKER".to_owned(), |path| path.display().to_string());
        let packages = packages_bucket(&self.stack, "ACCOUNT", region);
        let mut parameters = self.parameters("KEY", 0);
        parameters.insert("ReservedConcurrency".to_owned(), "COMPUTED".to_owned());
        let key_does = if key_exists { "open" } else { "make" };
        let baseline = self.architecture.baseline();
        let here = |does: String| Step { does, command: None, aws: false };
        let there = |does: String| Step { does, command: None, aws: true };
        let mut steps = vec![
            here(format!("check the worker {worker}: {}, glibc 2.34 or older", self.architecture)),
            there(
                "ask who deploys (sts:GetCallerIdentity) and how many functions may run at once (lambda:GetAccountSettings)"
                    .to_owned(),
            ),
            here(format!(
                "{key_does} the signing key {}; only its public half leaves this machine",
                key.display()
            )),
            here(format!("compile the built-in kernels for {baseline}, sign them, put them beside the worker")),
            Step {
                does: "make the package".to_owned(),
                command: Some(shown(&self.build_line())),
                aws: false,
            },
            there(format!("make the bucket {packages} for packages, closed to the public")),
            Step {
                does: "make or change the stack".to_owned(),
                command: Some(shown(&self.deploy_line(region, &packages, &parameters))),
                aws: true,
            },
            there("ask for the name of the stack's bucket".to_owned()),
        ];
        for kernel in user_kernels {
            steps.push(there(format!("compile `{kernel}` for {baseline}, sign it, put it into the bucket")));
        }
        let file = self.out.clone().or_else(|| Deployment::path(&self.stack).ok());
        steps.push(here(format!("write {}", file.unwrap_or_default().display())));
        steps
    }
}

/// Returns the IAM policy that a user needs to deploy this stack, as JSON. The policy applies to
/// any account, because the account is not queried. It applies to any region if none is set.
#[must_use]
pub fn policy(choices: &Choices) -> String {
    let region = choices.region.as_deref().unwrap_or("*");
    let partition = match region.split('-').collect::<Vec<_>>()[..] {
        ["cn", ..] => "aws-cn",
        ["us", "gov", ..] => "aws-us-gov",
        _ => "aws",
    };
    let values = [("Partition", partition), ("Region", region), ("Account", "*"), ("Stack", &choices.stack)];
    let policy = values.iter().fold(super::package::DEPLOYER_POLICY.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), value)
    });
    policy.trim_end().to_owned()
}

#[cfg(feature = "aws")]
/// Returns the names of all functions that a stack with this name can have.
pub(super) fn function_names(stack: &str) -> Vec<String> {
    let sizes = SIZES.iter().map(|size| format!("{stack}-worker-{size}"));
    sizes.chain((0..MAX_TRAINERS).map(|at| trainer_name(stack, at))).collect()
}

/// Returns the name of a function that executes whole training runs. `at` is its index among the
/// stack's sizes, from 0.
fn trainer_name(stack: &str, at: usize) -> String {
    match at {
        0 => format!("{stack}-worker-runs"),
        at => format!("{stack}-worker-runs-{}", at + 1),
    }
}

/// Returns the arguments that select region and profile, for instance `--region us-east-1 --profile
/// work`.
pub(super) fn place(region: &str, profile: Option<&str>) -> Vec<String> {
    let mut line = vec!["--region".to_owned(), region.to_owned()];
    line.extend(profile.into_iter().flat_map(|p| ["--profile".to_owned(), p.to_owned()]));
    line
}

fn one_of(flag: &str, value: u32, known: &[u32]) -> Result<()> {
    if known.contains(&value) {
        return Ok(());
    }
    let known: Vec<String> = known.iter().map(ToString::to_string).collect();
    Err(Error::Choice(format!("{flag}: {value} is not supported; the values are {}", known.join(", "))))
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(crate) fn choices() -> Choices {
        Choices {
            stack: "eciton".to_owned(),
            region: None,
            profile: None,
            architecture: Architecture::X86_64,
            memory_mb: vec![3538, 1769, 1769],
            trainer_mb: vec![1769],
            timeout_s: 120,
            reserve: Reserve::default(),
            alarms: true,
            email: None,
            budget_usd: 20,
            log_days: 14,
            worker: None,
            key: None,
            folder: None,
            out: None,
            shielded: false,
        }
    }

    #[test]
    fn sizes_are_sorted_and_once() {
        let names: Vec<String> = choices().functions().into_iter().map(|f| f.name).collect();
        assert_eq!(names, ["eciton-worker-1769", "eciton-worker-3538"]);
    }

    #[test]
    fn whole_runs_have_a_function_of_each_size() {
        let of = |trainer_mb: &[u32]| Choices { trainer_mb: trainer_mb.to_vec(), ..choices() };
        let names = |choices: &Choices| -> Vec<(String, u32)> {
            choices.trainers().into_iter().map(|f| (f.name, f.memory_mb)).collect()
        };
        let three = of(&[3008, 512, 1769, 512]);
        three.check().unwrap();
        let wanted = [("runs", 512), ("runs-2", 1769), ("runs-3", 3008)];
        assert_eq!(names(&three), wanted.map(|(name, size)| (format!("eciton-worker-{name}"), size)));
        let parameters = three.parameters("k", 0);
        let given = ["TrainerMemory", "TrainerMemory2", "TrainerMemory3"].map(|name| &parameters[name][..]);
        assert_eq!(given, ["512", "1769", "3008"]);
        assert!(of(&[0]).trainers().is_empty());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |change: &dyn Fn(&mut Choices)| {
            let mut choices = choices();
            change(&mut choices);
            choices.check().unwrap_err().to_string()
        };
        choices().check().unwrap();
        assert!(refused(&|c| c.memory_mb = vec![]).contains("--memory"));
        assert!(refused(&|c| c.memory_mb = vec![1000]).contains("512, 1024, 1769, 3538, 7076, 10240"));
        assert!(refused(&|c| c.trainer_mb = vec![1769, 1]).contains("--trainer"));
        assert!(refused(&|c| c.trainer_mb = vec![512, 1024, 1769, 3008]).contains("at most 3"));
        assert!(refused(&|c| c.timeout_s = 1).contains("--timeout"));
        assert!(refused(&|c| c.log_days = 2).contains("--log-days"));
        assert!(refused(&|c| c.stack = "A".to_owned()).contains("lower-case"));
        for email in ["", "a", "a@b", "a@b.", "a b@c.d", "a@b@c.d", "a\"@b.c"] {
            assert!(
                refused(&|c| c.email = Some(email.to_owned())).contains("not an e-mail address"),
                "{email}"
            );
        }
        let good = Choices { email: Some("a.b@c.de".to_owned()), ..choices() };
        good.check().unwrap();
    }

    #[test]
    fn every_parameter_of_the_template_is_given() {
        let text = crate::package::TEMPLATE;
        let parameters = text.split("\nParameters:\n").nth(1).unwrap().split("\nMappings:").next().unwrap();
        let name = |line: &str| {
            let name = line.strip_prefix("  ")?.split(':').next()?;
            name.starts_with(|c: char| c.is_ascii_uppercase()).then(|| name.to_owned())
        };
        let mut named: Vec<String> = parameters.lines().filter_map(name).collect();
        named.sort();
        let given: Vec<String> = choices().parameters("k", 0).into_keys().collect();
        assert_eq!(named, given);
    }

    #[test]
    fn a_deployers_policy_is_of_this_stack() {
        let choices =
            Choices { stack: "mine".to_owned(), region: Some("cn-north-1".to_owned()), ..choices() };
        let text = policy(&choices);
        assert!(!text.contains("${"), "{text}");
        assert!(text.contains("arn:aws-cn:lambda:cn-north-1:*:function:mine-worker-*"), "{text}");
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["Version"], "2012-10-17");
        let statements = document["Statement"].as_array().unwrap();
        assert!(statements.iter().all(|s| s["Effect"] == "Allow" && s["Action"] != "*"), "{text}");
        assert!(policy(&Choices { region: None, ..choices }).contains("arn:aws:lambda:*:*:function:mine"));
    }

    #[test]
    fn the_longest_name_is_one_of_a_bucket() {
        let stack = "a".repeat(eciton_cloud::deployment::MAX_STACK_CHARS);
        let longest = packages_bucket(&stack, "123456789012", "ap-southeast-1");
        assert!(longest.len() <= 63, "{longest}: {}", longest.len());
    }
}

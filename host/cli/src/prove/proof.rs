//! File of a proof, `proof.json`. It has the predicted and billed invoice lines, and measurements
//! of the assumptions in the cloud file.

use std::path::{Path, PathBuf};

use eciton_deploy::Destroyed;
use eciton_exec::Host;
use eciton_exec::deployment::Function;
use eciton_planner::cost::{Line, Usage};
use serde::{Deserialize, Serialize};

use super::invoice::Invoice;
use super::table;
use crate::cost::compare::Pair;
use crate::failure::Failure;
use crate::sweep::write;

/// Version number of the format of proof files.
pub(super) const VERSION: u32 = 1;
/// File name of the proof in its folder.
pub(super) const FILE: &str = "proof.json";
/// Maximum size of a proof file, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Content of the file `proof.json`, which `eciton prove` writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Proof {
    /// Version number of the file format, which is [`VERSION`].
    pub(super) version: u32,
    /// Version of the program that ran the proof.
    pub(super) eciton: String,
    /// Start time of the proof as an ISO 8601 text, in UTC.
    pub(super) begun: String,
    /// End time of the proof as an ISO 8601 text, in UTC. `None` if the program was killed before
    /// the end.
    pub(super) ended: Option<String>,
    pub(super) region: String,
    pub(super) architecture: String,
    pub(super) cloud: CloudFile,
    pub(super) host: Host,
    pub(super) stack: Stack,
    /// Limit on the total cost of the proof, in US dollars (`--max-usd`).
    pub(super) max_usd: f64,
    /// Predicted total cost of all runs, in US dollars.
    pub(super) predicted_usd: f64,
    /// Total cost of all runs so far, in US dollars, by the service's report lines and Eciton's
    /// counts.
    pub(super) spent_usd: f64,
    pub(super) workloads: Vec<Workload>,
    pub(super) runs: Vec<Run>,
    /// True if each training produced the same model at all memory sizes. `None` if no workload has
    /// run at two sizes.
    pub(super) digests_equal: Option<bool>,
    pub(super) assumptions: Vec<Assumption>,
    pub(super) notes: Vec<String>,
    /// Message of the error that ended the proof before all workloads had run. `None` if there was
    /// none.
    pub(super) error: Option<String>,
    /// Lines of a Cost and Usage Report, which `--cur` adds up to a day later. `None` before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) invoice: Option<Invoice>,
}

/// Identity of the cloud file, whose prices and times the predictions are based on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CloudFile {
    pub(super) path: String,
    pub(super) sha256: String,
    /// Date and region of the prices. The region is the default one if the file has no prices for
    /// the region of the stack.
    pub(super) prices: String,
    pub(super) preset: String,
}

/// The stack of AWS resources that exists only during a proof.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Stack {
    pub(super) name: String,
    /// Name of the bucket for the objects of runs. Empty before the stack is deployed.
    pub(super) bucket: String,
    /// Functions that execute whole training runs, one for each memory size.
    pub(super) functions: Vec<Function>,
    /// Maximum number of functions that the AWS account may run at once.
    pub(super) account_concurrency: u32,
    /// True if the stack was removed at the end of the proof.
    pub(super) removed: bool,
    /// Names of resources that were found deleted after the removal.
    pub(super) gone: Vec<String>,
    /// Reason why the stack has not been removed, with the command that removes it. `None` if it
    /// was removed.
    pub(super) left: Option<String>,
}

impl Stack {
    /// Records the result of the removal of the stack.
    pub(super) fn removed(&mut self, done: Result<Destroyed, String>) {
        match done {
            Ok(done) => {
                let gone = done.gone.iter().map(|name| without_account(name)).collect();
                (self.removed, self.gone, self.left) = (true, gone, None);
            }
            Err(text) => self.left = Some(without_account(&text)),
        }
    }
}

/// Description of a workload, which is a set of trainings, in the proof file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Workload {
    /// Name of the workload, `W1` or `W2`.
    pub(super) name: String,
    pub(super) about: String,
    pub(super) trainings: usize,
    pub(super) recipe: String,
}

/// Result of a workload on functions of one memory size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) workload: String,
    pub(super) memory_mb: u32,
    pub(super) function: String,
    /// Start time of the run as an ISO 8601 text, in UTC.
    pub(super) begun: String,
    /// End time of the run as an ISO 8601 text, in UTC.
    pub(super) ended: String,
    /// Number of trainings of the workload that completed.
    pub(super) done: usize,
    /// Number of trainings of the workload that failed.
    pub(super) failed: usize,
    /// Number of function calls of the run.
    pub(super) calls: u64,
    /// Number of calls for which the service returned no REPORT line.
    pub(super) unreported: u64,
    /// Largest amount of memory that a call used, in MiB. `None` if no call reported it.
    pub(super) used_mb: Option<u32>,
    /// Origin of the predicted processor times, for instance measured or assumed.
    pub(super) times: String,
    pub(super) lines: Vec<Billed>,
    pub(super) quantities: Vec<Pair>,
    pub(super) notes: Vec<String>,
    /// Digest of the trained model of each training, in the order of the workload. `None` for a
    /// training that failed.
    pub(super) digests: Vec<Option<String>>,
}

/// An invoice line with its predicted and its billed quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Billed {
    /// Usage type without the prefix of the region, for instance `Request`.
    pub(super) usage: String,
    pub(super) unit: String,
    /// Price per unit, in US dollars.
    pub(super) unit_usd: f64,
    /// Predicted quantity, in the unit of the usage type.
    pub(super) predicted: f64,
    /// Origin of the prediction, which is `counted`, `modelled` or `assumed`.
    pub(super) origin: String,
    /// Billed quantity, in the unit of the usage type. `None` if the service did not report it for
    /// every call.
    pub(super) billed: Option<f64>,
    /// Source of the billed quantity, which is `reports` for the service's report lines, or
    /// `counted` for Eciton's counts.
    pub(super) source: String,
    /// Predicted divided by billed quantity. `None` if the billed quantity is unknown or the ratio
    /// is undefined.
    pub(super) ratio: Option<f64>,
    pub(super) predicted_usd: f64,
    pub(super) billed_usd: Option<f64>,
}

/// Replaces AWS account ids in a text by `ACCOUNT`, so that a proof can be published. Any number
/// with exactly twelve digits counts as an account id.
pub(super) fn without_account(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut digits = String::new();
    let end = |digits: &mut String, out: &mut String| {
        out.push_str(if digits.len() == 12 { "ACCOUNT" } else { digits });
        digits.clear();
    };
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        end(&mut digits, &mut out);
        out.push(c);
    }
    end(&mut digits, &mut out);
    out
}

/// Returns the predicted divided by the billed quantity. Returns `None` if the billed quantity is
/// unknown or the ratio is undefined.
pub(super) fn ratio(predicted: f64, billed: Option<f64>) -> Option<f64> {
    let billed = billed?;
    if predicted == billed { Some(1.0) } else { Some(predicted / billed).filter(|ratio| ratio.is_finite()) }
}

/// Combines the predicted and the counted invoice lines of a run. The billed time of functions is
/// known only if `unreported`, the number of calls without a REPORT line, is 0.
pub(super) fn lines(predicted: &[Line], counted: &[Line], unreported: u64) -> Vec<Billed> {
    let both = predicted.iter().zip(counted);
    let compare = |(own, other): (&Line, &Line)| {
        let by_report = own.usage.starts_with("Lambda-GB-Second");
        let is_known = !by_report || unreported == 0;
        let billed = is_known.then_some(other.quantity);
        Billed {
            usage: own.usage.clone(),
            unit: own.unit.to_owned(),
            unit_usd: own.unit_usd,
            predicted: own.quantity,
            origin: own.origin.name().to_owned(),
            billed,
            source: if by_report { "reports" } else { "counted" }.to_owned(),
            ratio: ratio(own.quantity, billed),
            predicted_usd: own.usd,
            billed_usd: is_known.then_some(other.usd),
        }
    };
    both.map(compare).collect()
}

/// Combines the predicted and the recorded quantities of a run. Times of functions are included
/// only if `unreported`, the number of calls without a REPORT line, is 0.
pub(super) fn quantities(predicted: &Usage, counted: &Usage, unreported: u64) -> Vec<Pair> {
    const REPORTED: [&str; 5] = ["cold starts", "initialisation", "charged", "charged, no init", "GB-s"];
    let mut all = crate::cost::compare::quantities(predicted, counted);
    all.retain(|pair| unreported == 0 || !REPORTED.contains(&&pair.name[..]));
    all
}

/// An assumption in the cloud file, for instance the time of a cold start, with the values that a
/// proof measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Assumption {
    /// Key of the assumption in the cloud file.
    pub(super) key: String,
    /// Memory size of the functions on which the value was measured, in MB.
    pub(super) memory_mb: u32,
    /// Value in the cloud file, in `unit`.
    pub(super) assumed: f64,
    /// Median of the measured values, in `unit`. `None` if no call measured the value.
    pub(super) measured: Option<f64>,
    /// Number of measured values.
    pub(super) samples: usize,
    /// Minimum and maximum of the measured values. `None` if no call measured the value.
    pub(super) range: Option<[f64; 2]>,
    pub(super) unit: String,
    /// Description of how the value was measured, or why it was not measured.
    pub(super) how: String,
}

impl Proof {
    /// Compares the digests of the trained models across memory sizes, and sets `digests_equal`.
    pub(super) fn compare_digests(&mut self) {
        let mut compared = false;
        let mut equal = true;
        for workload in &self.workloads {
            let mut runs = self.runs.iter().filter(|run| run.workload == workload.name);
            let Some(first) = runs.next() else { continue };
            for run in runs {
                compared = true;
                equal &= run.digests == first.digests && run.digests.iter().all(Option::is_some);
            }
        }
        self.digests_equal = compared.then_some(equal);
    }

    /// Writes the proof to the file at `path`, and its tables in Markdown to a file next to it.
    pub(super) fn save(&self, path: &Path) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        write(path, &text)?;
        write(&markdown(path), table::markdown(self).as_bytes())
    }

    /// Reads the proof file at `path`.
    ///
    /// # Errors
    /// Returns [`Failure::Failed`] if the file cannot be read, is not a proof, or has another
    /// format version.
    pub(super) fn load(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = eciton_input::file::read_text(path, MAX_BYTES)
            .map_err(|error| Failure::Failed(format!("{shown}: cannot be read: {error}")))?;
        let version = serde_json::from_str::<serde_json::Value>(&text).ok();
        let version = version.and_then(|value| value.get("version")?.as_u64());
        if version.is_some_and(|version| version != u64::from(VERSION)) {
            let found = version.unwrap_or_default();
            return Err(Failure::Failed(format!(
                "{shown}: proof version {found}, expected version {VERSION}; use the version of Eciton that wrote the \
                 proof"
            )));
        }
        serde_json::from_str(&text).map_err(|error| {
            Failure::Failed(format!("{shown}: {error}; expected the {FILE} that `eciton prove` wrote"))
        })
    }
}

/// Returns the path of the Markdown tables that belong to the proof file at `path`.
pub(super) fn markdown(path: &Path) -> PathBuf {
    path.with_extension("md")
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    pub(crate) fn proof() -> Proof {
        let function = |name: &str, memory_mb| Function {
            name: name.to_owned(),
            memory_mb,
            architecture: eciton_exec::Architecture::X86_64,
        };
        let line = |usage: &str, predicted: f64, billed: Option<f64>, unit_usd: f64| Billed {
            usage: usage.to_owned(),
            unit: "GB-s".to_owned(),
            unit_usd,
            predicted,
            origin: "modelled".to_owned(),
            billed,
            source: "reports".to_owned(),
            ratio: ratio(predicted, billed),
            predicted_usd: predicted * unit_usd,
            billed_usd: billed.map(|billed| billed * unit_usd),
        };
        let run = |workload: &str, memory_mb: u32| Run {
            workload: workload.to_owned(),
            memory_mb,
            function: format!("mine-worker-{memory_mb}"),
            begun: "2026-11-27T17:10:00Z".to_owned(),
            ended: "2026-11-27T17:11:00Z".to_owned(),
            done: 1,
            failed: 0,
            calls: 1,
            unreported: 0,
            used_mb: Some(99),
            times: "modelled".to_owned(),
            lines: vec![
                line("Lambda-GB-Second", 3.0, Some(2.0), 1e-5),
                line("Request", 1.0, Some(1.0), 2e-7),
                line("Requests-Tier1", 2.0, Some(2.0), 5e-6),
                line("Requests-Tier2", 4.0, Some(5.0), 4e-7),
                line("DataTransfer-Out-Bytes", 0.001, Some(0.001), 0.09),
            ],
            quantities: Vec::new(),
            notes: Vec::new(),
            digests: vec![Some("d".to_owned())],
        };
        let workload = |name: &str| Workload {
            name: name.to_owned(),
            about: "one training".to_owned(),
            trainings: 1,
            recipe: "cora/gcn".to_owned(),
        };
        Proof {
            version: VERSION,
            eciton: "0.1.0".to_owned(),
            begun: "2026-11-27T17:05:00Z".to_owned(),
            ended: Some("2026-11-27T17:20:00Z".to_owned()),
            region: "us-east-1".to_owned(),
            architecture: "x86_64".to_owned(),
            cloud: CloudFile {
                path: "infra/cloud.toml".to_owned(),
                sha256: "0".repeat(64),
                prices: "2026-11, us-east-1".to_owned(),
                preset: "lambda-2026".to_owned(),
            },
            host: Host::default(),
            stack: Stack {
                name: "mine".to_owned(),
                bucket: "mine-bucket-1".to_owned(),
                functions: vec![function("mine-worker-512", 512), function("mine-worker-1769", 1769)],
                account_concurrency: 10,
                ..Stack::default()
            },
            max_usd: 1.0,
            predicted_usd: 0.1,
            spent_usd: 0.1,
            workloads: vec![workload("W1"), workload("W2")],
            runs: vec![run("W1", 512), run("W2", 512), run("W1", 1769), run("W2", 1769)],
            digests_equal: None,
            assumptions: Vec::new(),
            notes: Vec::new(),
            error: None,
            invoice: None,
        }
    }

    #[test]
    fn digests_must_be_equal_and_known() {
        let mut proof = proof();
        proof.compare_digests();
        assert_eq!(proof.digests_equal, Some(true));
        proof.runs[3].digests = vec![Some("e".to_owned())];
        proof.compare_digests();
        assert_eq!(proof.digests_equal, Some(false));
        proof.runs.truncate(2);
        proof.compare_digests();
        assert_eq!(proof.digests_equal, None, "one size alone proves nothing");
    }

    #[test]
    fn account_numbers_are_removed() {
        let text = "bucket p-packages-123456789012-us-east-1, 1234567890123, 12";
        assert_eq!(without_account(text), "bucket p-packages-ACCOUNT-us-east-1, 1234567890123, 12");
        assert_eq!(without_account("123456789012"), "ACCOUNT");
    }

    #[test]
    fn time_without_a_report_has_no_figure() {
        let line = |usage: &str, quantity: f64| Line {
            usage: usage.to_owned(),
            quantity,
            unit: "GB-s",
            unit_usd: 2.0,
            usd: 2.0 * quantity,
            origin: eciton_planner::cost::Origin::Modelled,
        };
        let both = [line("Lambda-GB-Second-ARM", 3.0), line("Request-ARM", 4.0)];
        let of = |unreported| lines(&both, &both, unreported);
        assert_eq!(of(0)[0].billed_usd, Some(6.0));
        assert_eq!((of(1)[0].billed, of(1)[0].ratio, of(1)[0].billed_usd), (None, None, None));
        assert_eq!(of(1)[1].billed, Some(4.0));
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_another_version_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let proof = proof();
        proof.save(&path).map_err(Failure::into_text).unwrap();
        assert_eq!(Proof::load(&path).map_err(Failure::into_text).unwrap(), proof);
        assert!(markdown(&path).is_file());
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Proof::load(&path).map_err(Failure::into_text).unwrap_err()
        };
        assert!(refused("{\"version\": 9}").contains("version 9"));
        assert!(refused("{}").contains("proof.json"));
    }
}

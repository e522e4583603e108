//! The file of a proof: predicted against billed lines, and measurements next to assumptions.

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

/// Version of the file.
pub(super) const VERSION: u32 = 1;
/// Name of the file in the folder of a proof.
pub(super) const FILE: &str = "proof.json";
/// Maximum length of a file that is read, bytes.
const MAX_BYTES: u64 = 64 << 20;

/// A proof.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Proof {
    /// [`VERSION`].
    pub(super) version: u32,
    /// Version of the program that made the proof.
    pub(super) eciton: String,
    /// Begin and end, UTC. Without an end the program was killed.
    pub(super) begun: String,
    pub(super) ended: Option<String>,
    pub(super) region: String,
    pub(super) architecture: String,
    pub(super) cloud: CloudFile,
    pub(super) host: Host,
    pub(super) stack: Stack,
    /// Limit of the dollars of all runs, their prediction, and their cost by reports and counts.
    pub(super) max_usd: f64,
    pub(super) predicted_usd: f64,
    pub(super) spent_usd: f64,
    pub(super) workloads: Vec<Workload>,
    pub(super) runs: Vec<Run>,
    /// True if each training has the same model at all memory sizes; `None` before two sizes have
    /// run.
    pub(super) digests_equal: Option<bool>,
    pub(super) assumptions: Vec<Assumption>,
    pub(super) notes: Vec<String>,
    /// Reason of an end before all workloads were run.
    pub(super) error: Option<String>,
    /// Lines of a Cost and Usage Report, which arrives a day later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) invoice: Option<Invoice>,
}

/// The cloud file that the prediction used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct CloudFile {
    pub(super) path: String,
    pub(super) sha256: String,
    /// Region and date of the prices. The region is another one if the file has no prices of the
    /// stack's region.
    pub(super) prices: String,
    pub(super) preset: String,
}

/// The stack, which exists for the time of the proof.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Stack {
    pub(super) name: String,
    /// Bucket of objects. Empty before the stack was deployed.
    pub(super) bucket: String,
    /// Functions that do whole runs, by memory size.
    pub(super) functions: Vec<Function>,
    /// Number of functions that the account may run at once.
    pub(super) account_concurrency: u32,
    /// True if the stack is removed, and what was looked for afterwards and is gone.
    pub(super) removed: bool,
    pub(super) gone: Vec<String>,
    /// Reason why it is not removed, and the command that removes it.
    pub(super) left: Option<String>,
}

impl Stack {
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

/// A workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Workload {
    /// `W1` or `W2`.
    pub(super) name: String,
    pub(super) about: String,
    pub(super) trainings: usize,
    pub(super) recipe: String,
}

/// A workload on functions of one memory size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) workload: String,
    pub(super) memory_mb: u32,
    pub(super) function: String,
    /// Begin and end, UTC.
    pub(super) begun: String,
    pub(super) ended: String,
    pub(super) done: usize,
    pub(super) failed: usize,
    /// Number of calls, and of those without a report of the service.
    pub(super) calls: u64,
    pub(super) unreported: u64,
    /// Largest memory that a call used, MiB.
    pub(super) used_mb: Option<u32>,
    /// Origin of the predicted times.
    pub(super) times: String,
    pub(super) lines: Vec<Billed>,
    pub(super) quantities: Vec<Pair>,
    pub(super) notes: Vec<String>,
    /// Digest of each training's model, by its number.
    pub(super) digests: Vec<Option<String>>,
}

/// A line of an invoice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Billed {
    /// Usage type, without the region's prefix.
    pub(super) usage: String,
    pub(super) unit: String,
    pub(super) unit_usd: f64,
    pub(super) predicted: f64,
    /// Origin of the prediction: `counted`, `modelled` or `assumed`.
    pub(super) origin: String,
    /// Quantity; `None` if the service did not report it for every call.
    pub(super) billed: Option<f64>,
    /// Source of the quantity: `reports` of the service, or `counted` by Eciton.
    pub(super) source: String,
    /// Predicted over billed; `None` where nothing was billed.
    pub(super) ratio: Option<f64>,
    pub(super) predicted_usd: f64,
    pub(super) billed_usd: Option<f64>,
}

/// Returns a text without account numbers, which have twelve digits: a proof may be shown to
/// others.
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

/// Returns predicted over billed, or `None` where that is no number.
pub(super) fn ratio(predicted: f64, billed: Option<f64>) -> Option<f64> {
    let billed = billed?;
    if predicted == billed { Some(1.0) } else { Some(predicted / billed).filter(|ratio| ratio.is_finite()) }
}

/// Returns the lines of a run. The time of functions is billed only if every call has a report.
pub(super) fn lines(predicted: &[Line], counted: &[Line], unreported: u64) -> Vec<Billed> {
    let both = predicted.iter().zip(counted);
    let of = |(own, other): (&Line, &Line)| {
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
    both.map(of).collect()
}

/// Returns the quantities of a run that are known. Times of functions are known only if every call
/// has a report.
pub(super) fn quantities(predicted: &Usage, counted: &Usage, unreported: u64) -> Vec<Pair> {
    const REPORTED: [&str; 5] = ["cold starts", "initialisation", "charged", "charged, no init", "GB-s"];
    let mut all = crate::cost::compare::quantities(predicted, counted);
    all.retain(|pair| unreported == 0 || !REPORTED.contains(&&pair.name[..]));
    all
}

/// A figure of the cloud file that a run can test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Assumption {
    /// Key of the cloud file.
    pub(super) key: String,
    /// Memory size of the functions that were measured, MB.
    pub(super) memory_mb: u32,
    /// Value in the file.
    pub(super) assumed: f64,
    /// Value that the runs ask for; `None` if they did not measure it.
    pub(super) measured: Option<f64>,
    /// Number of calls that were measured, and the least and the greatest value among them.
    pub(super) samples: usize,
    pub(super) range: Option<[f64; 2]>,
    pub(super) unit: String,
    /// Way of the measurement, or why there is none.
    pub(super) how: String,
}

impl Proof {
    /// Compares the digests of each workload's trainings at all memory sizes.
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

    /// Writes the file, and its tables as Markdown next to it.
    pub(super) fn save(&self, path: &Path) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        write(path, &text)?;
        write(&markdown(path), table::markdown(self).as_bytes())
    }

    pub(super) fn load(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = eciton_input::file::read_text(path, MAX_BYTES)
            .map_err(|error| Failure::Failed(format!("{shown}: cannot be read: {error}")))?;
        let version = serde_json::from_str::<serde_json::Value>(&text).ok();
        let version = version.and_then(|value| value.get("version")?.as_u64());
        if version.is_some_and(|version| version != u64::from(VERSION)) {
            let found = version.unwrap_or_default();
            return Err(Failure::Failed(format!(
                "{shown}: a proof of version {found}, this program reads version {VERSION}; use the version of Eciton \
                 that made it"
            )));
        }
        serde_json::from_str(&text).map_err(|error| {
            Failure::Failed(format!("{shown}: {error}; expected the {FILE} that `eciton prove` wrote"))
        })
    }
}

/// Returns the path of the tables of a proof.
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
    fn account_numbers_are_left_out() {
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

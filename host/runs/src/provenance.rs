//! Provenance of a run: the data, settings, kernels, version and machine that a result comes from.

use std::collections::BTreeMap;
use std::path::Path;

use eciton_graph::checksum::{self, Part};
use eciton_graph::dataset::Dataset;
use eciton_recipe::Config;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::run_folder::{CONTRACT, ECITON_VERSION};

/// Number of hexadecimal digits that the digest of one section of the data is cut to.
const PART_DIGITS: usize = 16;

/// Digests of the data set that a run is trained on, in hexadecimal: one of the whole set, and one
/// of each section. Features are hashed before they are scaled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DataDigest {
    /// SHA-256 over the checksums of all sections of the data set.
    pub all: String,
    /// Digest of the edges, and of the assignment of vertices to graphs.
    pub graph: String,
    /// Digest of the vertex features.
    pub features: String,
    /// Digest of the edge features. Empty if the data set has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub edge_features: String,
    /// Digest of the labels.
    pub labels: String,
    /// Digest of the split into training, validation and test rows.
    pub split: String,
    /// Digest of the names of vertices, graphs, feature columns and classes.
    pub names: String,
}

impl DataDigest {
    /// Computes the digests of a prepared data set. Sections whose checksums a store has verified
    /// are not read again.
    pub fn compute(dataset: &Dataset) -> Self {
        let checksums = checksum::for_dataset(dataset);
        let hash = |wanted: &dyn Fn(Part) -> bool| {
            let mut hasher = Sha256::new();
            let mut some = false;
            for checksum in checksums.iter().filter(|checksum| wanted(checksum.part)) {
                some = true;
                hasher.update(checksum.bytes.to_le_bytes());
                hasher.update(checksum.crc32.to_le_bytes());
            }
            if some { hex(&hasher.finalize()) } else { String::new() }
        };
        let part =
            |part: Part| -> String { hash(&|other| other == part).chars().take(PART_DIGITS).collect() };
        Self {
            all: hash(&|_| true),
            graph: part(Part::Graph),
            features: part(Part::Features),
            edge_features: part(Part::EdgeFeatures),
            labels: part(Part::Labels),
            split: part(Part::Split),
            names: part(Part::Names),
        }
    }

    fn parts(&self) -> [(Part, &'static str, &str); 6] {
        [
            (Part::Graph, "graph", &self.graph),
            (Part::Features, "features", &self.features),
            (Part::EdgeFeatures, "edge features", &self.edge_features),
            (Part::Labels, "labels", &self.labels),
            (Part::Split, "split", &self.split),
            (Part::Names, "names", &self.names),
        ]
    }

    /// Returns a sentence for each section whose digest in `self` differs from that in `now`. Only
    /// sections for which `compared` returns true are considered.
    pub fn differences(&self, now: &Self, compared: impl Fn(Part) -> bool) -> Vec<String> {
        let pairs = self.parts().into_iter().zip(now.parts());
        let other = pairs.filter(|((part, _, then), (_, _, now))| compared(*part) && then != now);
        let shown = |digest: &str| if digest.is_empty() { "none".to_owned() } else { digest.to_owned() };
        other
            .map(|((_, name, then), (_, _, now))| {
                format!("the digest of the data's {name} was {} and is now {}", shown(then), shown(now))
            })
            .collect()
    }
}

/// Processor, memory and operating system of the machine that a run was started on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Processor model as reported by the operating system. If it reports none, the processor
    /// architecture.
    pub processor: String,
    /// Number of hardware threads that the process may use.
    pub cores: u32,
    /// Total memory of the machine in bytes, or 0 if the system does not report it.
    pub memory_bytes: u64,
    /// Name and version of the operating system.
    pub os: String,
}

impl Machine {
    fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpu = read("/proc/cpuinfo");
        let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let memory = read("/proc/meminfo");
        let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let total = total.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        let release = read("/proc/sys/kernel/osrelease");
        let text = |text: &str| eciton_input::text::shown(text.trim());
        Self {
            processor: model.map_or(std::env::consts::ARCH.to_owned(), |(_, name)| text(name)),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            memory_bytes: total.unwrap_or(0) * 1024,
            os: text(&format!("{} {release}", std::env::consts::OS)),
        }
    }
}

/// Provenance of a run: all that its results depend on. It is a part of `summary.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Provenance {
    /// Path or name of the data set, as in the setting `data.source`.
    pub source: String,
    /// Digests of the data that the run was trained on.
    pub data: DataDigest,
    /// SHA-256 of the settings that the user requested, in hexadecimal (see [`recipe_digest`]).
    /// Empty if the run was resumed from a checkpoint that does not record it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub recipe: String,
    /// SHA-256 of each kernel component in hexadecimal, keyed by kernel name.
    pub kernels: BTreeMap<String, String>,
    /// Version of Eciton that trained the run.
    pub eciton: String,
    /// Version of the kernel contract, the interface between Eciton and its kernels.
    pub contract: String,
    /// Numeric class of the results. Processors of the same numeric class compute the same bits.
    pub numeric_class: String,
    /// The machine that the run was started on.
    pub machine: Machine,
}

impl Provenance {
    /// Creates the provenance of a run on this machine. `recipe` is the digest of the settings,
    /// `data` has the digests of the data set, and `kernels` maps each kernel to its digest.
    pub fn new(
        config: &Config,
        recipe: &str,
        data: Option<&DataDigest>,
        kernels: BTreeMap<String, String>,
        numeric_class: &str,
    ) -> Self {
        Self {
            source: config.data.source.clone(),
            data: data.cloned().unwrap_or_default(),
            recipe: recipe.to_owned(),
            kernels,
            eciton: ECITON_VERSION.to_owned(),
            contract: CONTRACT.to_owned(),
            numeric_class: numeric_class.to_owned(),
            machine: Machine::here(),
        }
    }
}

/// Returns the SHA-256 of the settings of a run, in hexadecimal. Settings that depend on the
/// machine are excluded, namely paths, the executor, and the numbers of threads and bytes. The data
/// set is excluded too, because it has its own digest.
///
/// # Errors
/// Returns an error if the configuration cannot be written as a recipe.
pub fn recipe_digest(config: &Config) -> Result<String, eciton_recipe::Error> {
    Ok(hex(&Sha256::digest(portable(config).to_toml()?)))
}

/// Returns a copy of the configuration in which all settings that [`recipe_digest`] excludes have
/// default values.
fn portable(config: &Config) -> Config {
    let mut own = config.clone();
    own.run_here();
    let usual = Config::default();
    (own.executor, own.emulator) = (usual.executor, usual.emulator);
    (own.data.source, own.data.name) = (String::new(), None);
    (own.run.threads, own.run.memory_bytes, own.run.numeric_class) = (None, None, None);
    own.paths_mut().for_each(String::clear);
    own
}

/// Returns a line for each setting whose value in `then` differs from that in `wanted`, for
/// instance `run.epochs is 100 there and 200 here`. Settings that only one side has are skipped.
pub fn other_settings(then: &Config, wanted: &Config) -> Result<Vec<String>, eciton_recipe::Error> {
    let (then, wanted) = (portable(then).to_toml()?, portable(wanted).to_toml()?);
    let then: BTreeMap<String, &str> = keys(&then).collect();
    let differs = |(key, wanted): (String, &str)| {
        let found = *then.get(&key)?;
        (found != wanted).then(|| format!("{key} is {found} in the run, but {wanted} in the settings"))
    };
    Ok(keys(&wanted).filter_map(differs).collect())
}

/// Returns an iterator over the entries of a TOML text. An item is the key with its section, for
/// instance `run.epochs`, and the text of the value.
fn keys(text: &str) -> impl Iterator<Item = (String, &str)> {
    let mut section = String::new();
    text.lines().filter_map(move |line| {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_owned();
            return None;
        }
        let (key, value) = line.split_once(" = ")?;
        Some((if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }, value))
    })
}

/// Adds a warning to the notes if the data set `now` differs from the one that the model of `run`
/// was trained on (`then`). The split is compared only if `own_split` is true, which means that the
/// caller requested no other split. Names are not compared.
pub fn warn_of_other_data(
    run: &Path,
    (source, own_split): (&str, bool),
    then: Option<&DataDigest>,
    now: Option<&DataDigest>,
) {
    let (Some(then), Some(now)) = (then, now) else { return };
    let differences = then.differences(now, |part| part != Part::Names && (own_split || part != Part::Split));
    if !differences.is_empty() {
        eciton_input::notes::warn(format!(
            "{}: `{source}` is not the data that the model was trained on: {}; ignore this warning if you \
             use other data on purpose",
            run.display(),
            differences.join("; ")
        ));
    }
}

/// Returns `bytes` as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn settings_about_the_machine_do_not_count() {
        let config = Config::default();
        let mut other = config.clone();
        (other.run.threads, other.run.memory_bytes) = (Some(1), Some(1 << 30));
        other.data.source = "elsewhere".to_owned();
        other.run_on_lambda();
        assert_eq!(recipe_digest(&config).unwrap(), recipe_digest(&other).unwrap());
        other.optimiser.lr *= 2.0;
        other.run.seed = 7;
        assert_ne!(recipe_digest(&config).unwrap(), recipe_digest(&other).unwrap());
        let told = other_settings(&config, &other).unwrap().join("; ");
        assert_eq!(
            told,
            "optimiser.lr is 0.01 in the run, but 0.02 in the settings; run.seed is 0 in the run, but 7 in the settings"
        );
    }

    #[test]
    fn parts_that_differ_are_named_with_both_digests() {
        let data = eciton_formats::builtin("cora").unwrap();
        let mut other = data.clone();
        other.split.test.pop();
        let (then, now) = (DataDigest::compute(&data), DataDigest::compute(&other));
        assert_ne!(then.all, now.all);
        let told = then.differences(&now, |_| true);
        let wanted = format!("the digest of the data's split was {} and is now {}", then.split, now.split);
        assert_eq!(told, [wanted]);
        assert!(then.differences(&now, |part| part == Part::Labels).is_empty());
        let machine = Machine::here();
        assert!(machine.cores > 0 && !machine.processor.is_empty() && !machine.os.is_empty());
    }
}

//! The command `eciton doctor`, which reports the capabilities of this machine and installation.

mod audit;
mod system;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use eciton_author::{Clang, Toolchain, component_digest};
use eciton_kernel::Limits;
use serde_json::{Value, json};

use self::audit::Tested;
use self::system::SystemLimit;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::{bytes, counted, grouped, limit};

/// Arguments of `eciton doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Test arithmetic and memory of this machine for a number of seconds. Repeated trainings on
    /// all processors must be bit-identical
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=604_800))]
    audit: Option<u32>,
}

/// Returns the names of this machine's processor features that Eciton or compiled kernels may use.
#[cfg(target_arch = "x86_64")]
fn processor_features() -> Vec<&'static str> {
    macro_rules! found {
        ($($name:tt),*) => {
            [$(($name, std::arch::is_x86_feature_detected!($name))),*]
        };
    }
    let all = found!(
        "sse4.2",
        "avx",
        "avx2",
        "fma",
        "bmi2",
        "f16c",
        "avx512f",
        "avx512bw",
        "avx512dq",
        "avx512vl",
        "avx512bf16"
    );
    all.into_iter().filter(|(_, found)| *found).map(|(name, _)| name).collect()
}

#[cfg(target_arch = "aarch64")]
fn processor_features() -> Vec<&'static str> {
    macro_rules! found {
        ($($name:tt),*) => {
            [$(($name, std::arch::is_aarch64_feature_detected!($name))),*]
        };
    }
    let all = found!("neon", "fp16", "dotprod", "bf16", "sve");
    all.into_iter().filter(|(_, found)| *found).map(|(name, _)| name).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn processor_features() -> Vec<&'static str> {
    Vec::new()
}

/// Returns the total memory of this machine in bytes, or `None` if the system does not report it.
fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// State of the folder in which compiled kernels are cached.
struct Cache {
    folder: PathBuf,
    /// Path of the key that authenticates compiled kernels in the cache.
    key: PathBuf,
    /// Reason why the folder is not writable, or `None` if it is writable.
    fault: Option<String>,
    /// Number of compiled kernels in the folder.
    files: u64,
    /// Total size of the compiled kernels, in bytes.
    bytes: u64,
}

impl Cache {
    /// Examines the folder in which compiled kernels are cached. Returns `None` if the user has no
    /// home folder.
    fn look() -> Option<Self> {
        let (folder, key) = eciton_train::kernels::cache_paths()?;
        let fault = fault(&folder);
        let (mut files, mut bytes) = (0, 0);
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let artefact = entry.path().extension().is_some_and(|extension| extension == "cwasm");
            if let Ok(metadata) = entry.metadata().as_ref().map_err(drop)
                && artefact
            {
                files += 1;
                bytes += metadata.len();
            }
        }
        Some(Self { folder, key, fault, files, bytes })
    }

    /// Returns a text that says whether the key exists and can be used.
    fn key_state(&self) -> String {
        match eciton_kernel::cache::Cache::look_at_key(&self.key) {
            Ok(true) => "present".to_owned(),
            Ok(false) => "created at the first run".to_owned(),
            Err(eciton_kernel::Error::Cache { source, .. }) => {
                format!("NOT used ({source}); kernels are compiled at every start")
            }
            Err(error) => error.to_string(),
        }
    }
}

/// Returns the reason why `folder` is not writable, or `None` if it is. A test file is written to
/// `folder`, or to its nearest existing ancestor, and removed.
fn fault(folder: &Path) -> Option<String> {
    let existing = folder.ancestors().find(|path| path.exists())?;
    let probe = existing.join(format!(".eciton-doctor-{}", std::process::id()));
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(&probe);
    let written = made.and_then(|mut file| {
        // A full disk still accepts a file without content.
        let written = file.write_all(&[0; 4096]);
        std::fs::remove_file(&probe).and(written)
    });
    written.err().map(|error| format!("{}: {error}", existing.display()))
}

/// Returns the default limits of kernels, each with its name, value and unit.
fn limits() -> Vec<(&'static str, u64, &'static str)> {
    let limits: Limits = eciton_train::kernels::limits(&eciton_recipe::Config::default());
    let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    vec![
        ("guest_memory_bytes", limits.guest_memory_bytes, "bytes"),
        ("matrix_bytes", limits.matrix_bytes, "bytes"),
        ("handles", u64::from(limits.handles), "handles"),
        ("call_bytes", limits.call_bytes, "bytes"),
        ("call_work", limits.call_work, "multiply-adds"),
        ("task_ms", ms(limits.task_time), "ms"),
        ("wait_ms", ms(limits.arrival), "ms"),
    ]
}

/// Examines this machine and the installation, and prints the results. With `--audit`, only the
/// audit is run.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().ok().map(usize::from);
    if let Some(seconds) = arguments.audit {
        return tested(&audit::run(seconds, cores.unwrap_or(1), memory())?, arguments.json, output);
    }
    let cache = Cache::look();
    let toolchain = Toolchain::find(Path::new("."));
    let clang = Clang::find();
    if arguments.json {
        output.json(&report(cores, cache.as_ref(), &toolchain, &clang));
        return Ok(());
    }
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<15} {text}"));
    row("eciton", env!("CARGO_PKG_VERSION").to_owned());
    let (oldest, newest) = (eciton_author::OLDEST, eciton_author::VERSION);
    row("contract", format!("eciton:kernel@{newest}; accepts {oldest} to {newest}"));
    row(
        "aws",
        match eciton_exec::functions::check_lambda() {
            Ok(()) => "in this build".to_owned(),
            Err(error) => format!("not in this build: {error}"),
        },
    );
    row("numeric class", eciton_tensor::numeric_class().to_owned());
    row("processor", format!("{}: {}", std::env::consts::ARCH, processor_features().join(" ")));
    row("cores", cores.map_or("unknown".to_owned(), |cores| cores.to_string()));
    row("memory", memory().map_or("unknown".to_owned(), bytes));
    match &cache {
        None => row(
            "kernel cache",
            "none, because HOME is not an absolute path; kernels are compiled at every start".to_owned(),
        ),
        Some(cache) => {
            let state = match &cache.fault {
                None => "writable".to_owned(),
                Some(fault) => format!("NOT writable ({fault}); kernels are compiled at every start"),
            };
            let held = format!("{}, {}", counted(cache.files, "artefact"), bytes(cache.bytes));
            row("kernel cache", format!("{}: {state}, {held}", cache.folder.display()));
            row("cache key", format!("{}: {}", cache.key.display(), cache.key_state()));
        }
    }
    for (at, kernel) in eciton_train::kernels::builtin().iter().enumerate() {
        let size = grouped(kernel.component.len() as u64);
        let digest = component_digest(kernel.component);
        row(if at == 0 { "kernels" } else { "" }, format!("{:<14} {size:>7} bytes  {digest}", kernel.name));
    }
    match &toolchain {
        Ok(found) => row("wasm toolchain", found.describe()),
        Err(error) => {
            row("wasm toolchain", "none; required only for `eciton kernel build`".to_owned());
            for line in error.to_string().lines() {
                row("", line.to_owned());
            }
        }
    }
    match &clang {
        Ok(found) => row("C for kernels", found.describe()),
        Err(error) => {
            row("C for kernels", "none; required only for `eciton kernel build` of kernels in C".to_owned());
            for line in error.to_string().lines() {
                row("", line.to_owned());
            }
        }
    }
    for (at, (name, value, unit)) in limits().into_iter().enumerate() {
        let figure = if unit == "bytes" { limit(value) } else { format!("{} {unit}", grouped(value)) };
        row(if at == 0 { "limits" } else { "" }, format!("{name:<18} {figure}"));
    }
    let set = SystemLimit::all();
    if set.is_empty() {
        row("system limits", "none".to_owned());
    }
    for (at, limit) in set.iter().enumerate() {
        row(if at == 0 { "system limits" } else { "" }, limit.describe());
    }
    Ok(())
}

/// Prints the results of `eciton doctor --audit`.
///
/// # Errors
/// Returns [`Failure::Failed`] if any training had a different model, or any byte of memory had a
/// wrong value.
fn tested(found: &Tested, as_json: bool, output: &mut Output) -> Result<(), Failure> {
    let Tested { trainings, wrong, bytes: filled, wrong_bytes } = *found;
    if as_json {
        output.json(&json!({
            "event": "audit",
            "trainings": trainings,
            "wrong_trainings": wrong,
            "memory_bytes": filled,
            "wrong_bytes": wrong_bytes,
        }));
    } else {
        output.line(format_args!(
            "{:<15} {}, {} with a different model",
            "trainings",
            grouped(trainings),
            grouped(wrong)
        ));
        output.line(format_args!(
            "{:<15} {} tested, {} read back wrong",
            "memory",
            bytes(filled),
            bytes(wrong_bytes)
        ));
    }
    match wrong + wrong_bytes {
        0 => Ok(()),
        _ => Err(Failure::Failed(
            "this machine computes or stores data incorrectly; do not train on it, and check its memory and cooling"
                .to_owned(),
        )),
    }
}

/// Returns the report of `eciton doctor` as JSON.
fn report(
    cores: Option<usize>,
    cache: Option<&Cache>,
    toolchain: &Result<Toolchain, eciton_author::Error>,
    clang: &Result<Clang, eciton_author::Error>,
) -> Value {
    let kernels: Vec<Value> = eciton_train::kernels::builtin()
        .iter()
        .map(|kernel| {
            json!({
                "name": kernel.name,
                "bytes": kernel.component.len(),
                "digest": component_digest(kernel.component),
            })
        })
        .collect();
    json!({
        "event": "doctor",
        "version": env!("CARGO_PKG_VERSION"),
        "contract": eciton_author::VERSION,
        "contract_oldest": eciton_author::OLDEST,
        "aws": eciton_exec::functions::check_lambda().is_ok(),
        "numeric_class": eciton_tensor::numeric_class(),
        "architecture": std::env::consts::ARCH,
        "processor_features": processor_features(),
        "cores": cores,
        "memory_bytes": memory(),
        "cache": cache.map(|cache| json!({
            "folder": cache.folder.to_string_lossy(),
            "writable": cache.fault.is_none(),
            "fault": cache.fault,
            "artefacts": cache.files,
            "bytes": cache.bytes,
            "key": cache.key.to_string_lossy(),
            "key_state": cache.key_state(),
        })),
        "kernels": kernels,
        "wasm_toolchain": toolchain.as_ref().ok().map(Toolchain::describe),
        "wasm_toolchain_missing": toolchain.as_ref().err().map(ToString::to_string),
        "c_toolchain": clang.as_ref().ok().map(Clang::describe),
        "c_toolchain_missing": clang.as_ref().err().map(ToString::to_string),
        "system_limits": SystemLimit::all().iter().map(|limit| (limit.key.to_owned(), json!({
            "value": limit.value,
            "fault": limit.fault,
        }))).collect::<serde_json::Map<_, _>>(),
        "limits": limits().into_iter().map(|(name, value, _)| (name.to_owned(), Value::from(value))).collect::<serde_json::Map<_, _>>(),
    })
}

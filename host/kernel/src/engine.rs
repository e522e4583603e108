//! Setup of the WebAssembly engine. The same settings are used to compile kernels and to run them.
//!
//! An engine can load code only if both have the same settings. So the settings must not depend on
//! the machine or on the features of this build.

use sha2::{Digest, Sha256};
use wasmtime::{Config, Engine, ModuleVersionStrategy};

use crate::artefact::Baseline;
use crate::error::{Error, Result};

/// Engine settings that affect compiled code. The function [`id`] hashes their debug output.
#[derive(Debug)]
struct Settings {
    /// Full version of wasmtime, for instance `48.0.8`. By default, wasmtime compares only the
    /// major version of an engine with that of the code.
    wasmtime: &'static str,
    epoch_interruption: bool,
    /// True if relaxed SIMD instructions are enabled. They are not part of the numeric contract,
    /// because two processors may compute different bits.
    relaxed_simd: bool,
    tail_call: bool,
    memory_init_cow: bool,
    /// Reserved address space per linear memory, in bytes. It equals the default memory limit of a
    /// guest, so that a memory never moves below the limit. A reservation of 4 GiB would avoid
    /// bounds checks. But batch systems may limit address space to less, and a usual arm64 kernel
    /// has only 512 GiB.
    memory_reservation: u64,
    /// Additional address space, in bytes, that a memory gets when it outgrows its reservation and
    /// is moved.
    memory_reservation_for_growth: u64,
    /// Unmapped guard region after each linear memory, in bytes.
    memory_guard: u64,
}

const SETTINGS: Settings = Settings {
    wasmtime: "48.0.8",
    epoch_interruption: true,
    relaxed_simd: false,
    tail_call: false,
    memory_init_cow: true,
    memory_reservation: 256 << 20,
    memory_reservation_for_growth: 64 << 20,
    memory_guard: 32 << 20,
};

/// Hint that is appended to type errors. wasmtime names the types that differ but not the function.
const CHECK: &str = "\n`eciton kernel check FILE` lists every function that differs";

/// Maximum stack size of a guest, in bytes.
const STACK_BYTES: usize = 1 << 20;

/// Returns a wasmtime configuration with the settings that affect compiled code.
fn config() -> Result<Config> {
    let mut config = Config::new();
    let version = ModuleVersionStrategy::Custom(SETTINGS.wasmtime.to_owned());
    config.module_version(version).map_err(error("naming its version"))?;
    config.epoch_interruption(SETTINGS.epoch_interruption);
    config.wasm_relaxed_simd(SETTINGS.relaxed_simd);
    config.wasm_tail_call(SETTINGS.tail_call);
    config.memory_init_cow(SETTINGS.memory_init_cow);
    config.memory_reservation(SETTINGS.memory_reservation);
    config.memory_reservation_for_growth(SETTINGS.memory_reservation_for_growth);
    config.memory_guard_size(SETTINGS.memory_guard);
    #[cfg(feature = "compiler")]
    config.cranelift_opt_level(wasmtime::OptLevel::Speed);
    Ok(config)
}

/// Creates the engine that compiles and runs kernels on this machine.
pub(crate) fn local() -> Result<Engine> {
    let mut config = config()?;
    config.max_wasm_stack(STACK_BYTES);
    #[cfg(feature = "compiler")]
    config.parallel_compilation(threads_start());
    Engine::new(&config).map_err(error("starting"))
}

/// Returns true if the operating system lets this process start one thread per processor. Parallel
/// compilation panics if a thread cannot start.
#[cfg(feature = "compiler")]
fn threads_start() -> bool {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let gate = std::sync::RwLock::new(());
    std::thread::scope(|scope| {
        let _closed = gate.write();
        let wait = || drop(gate.read());
        (0..count).all(|_| std::thread::Builder::new().spawn_scoped(scope, wait).is_ok())
    })
}

/// Creates an engine that only compiles, for a named processor level and never for this machine's
/// processor.
#[cfg(feature = "compiler")]
pub(crate) fn foreign(baseline: Baseline) -> Result<Engine> {
    let mut config = config()?;
    // With a target given, wasmtime takes no feature from this machine.
    config.target(baseline.triple()).map_err(error("choosing a target"))?;
    for flag in baseline.flags() {
        // SAFETY: the flag says that the code may use these instructions. The code is loaded only
        // where wasmtime finds them.
        #[allow(unsafe_code)]
        unsafe {
            config.cranelift_flag_enable(flag);
        }
    }
    Engine::new(&config).map_err(error("starting"))
}

/// Returns the engine id, which is a SHA-256 digest of the settings, the target triple and the
/// instruction-set flags of `baseline`. An engine loads only code with its own id.
pub(crate) fn id(baseline: Baseline) -> [u8; 32] {
    let text = format!("{SETTINGS:?} {} {:?}", baseline.triple(), baseline.flags());
    Sha256::digest(text).into()
}

/// Converts the error of linking or instantiating the component `kernel`. The result is an engine
/// error if a system call failed, and a contract error otherwise.
pub(crate) fn unfit(kernel: &str, e: &wasmtime::Error) -> Error {
    // wasmtime passes on system-call errors only as text.
    if e.root_cause().to_string().contains("(os error ") {
        let causes: Vec<String> = e.chain().map(ToString::to_string).collect();
        let reason = format!(
            "{}: the system gives this process no more memory, address space or files; `eciton doctor` lists \
             its limits",
            causes.join(": ")
        );
        return Error::Engine { doing: "allocating memory for a kernel", reason };
    }
    Error::Contract { kernel: kernel.to_owned(), differences: format!("{e:#}{CHECK}") }
}

pub(crate) fn error(doing: &'static str) -> impl Fn(wasmtime::Error) -> Error {
    move |e| Error::Engine { doing, reason: format!("{e:#}") }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_built() {
        let lock = include_str!("../../../Cargo.lock");
        let after = lock.split("name = \"wasmtime\"\nversion = \"").nth(1).unwrap();
        assert_eq!(after.split('"').next().unwrap(), SETTINGS.wasmtime, "set SETTINGS.wasmtime to this");
    }
}

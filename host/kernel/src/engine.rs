//! How the WebAssembly engine is set up: one list, read where kernels are compiled and where they run.
//!
//! Code fits only an engine whose settings equal those that it was compiled under, so nothing here
//! may depend on the machine or on the features of this build.

use sha2::{Digest, Sha256};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, ModuleVersionStrategy, PoolingAllocationConfig};

use crate::artefact::Baseline;
use crate::error::{Error, Result};
use crate::limits::Limits;

/// What compiled code depends on. [`id`] hashes this list as it is printed.
#[derive(Debug)]
struct Settings {
    /// The version of wasmtime, whole: by itself it would compare the major version alone.
    wasmtime: &'static str,
    epoch_interruption: bool,
    relaxed_simd_deterministic: bool,
    memory_init_cow: bool,
    /// Address space of one memory, bytes: as much as 32 bits reach, so that no access is checked.
    memory_reservation: u64,
    /// Unmapped address space behind one memory, bytes.
    memory_guard: u64,
}

const SETTINGS: Settings = Settings {
    wasmtime: "48.0.8",
    epoch_interruption: true,
    relaxed_simd_deterministic: true,
    memory_init_cow: true,
    memory_reservation: 4 << 30,
    memory_guard: 32 << 20,
};

/// Bytes of a guest's stack.
const STACK_BYTES: usize = 1 << 20;
/// Elements of one table.
const TABLE_ELEMENTS: usize = 20_000;

/// The settings that compiled code depends on, as wasmtime takes them.
fn config() -> Result<Config> {
    let mut config = Config::new();
    let version = ModuleVersionStrategy::Custom(SETTINGS.wasmtime.to_owned());
    config.module_version(version).map_err(error("naming its version"))?;
    config.epoch_interruption(SETTINGS.epoch_interruption);
    config.relaxed_simd_deterministic(SETTINGS.relaxed_simd_deterministic);
    config.memory_init_cow(SETTINGS.memory_init_cow);
    config.memory_reservation(SETTINGS.memory_reservation);
    config.memory_guard_size(SETTINGS.memory_guard);
    #[cfg(feature = "compiler")]
    config.cranelift_opt_level(wasmtime::OptLevel::Speed);
    Ok(config)
}

/// The engine of this machine, for at most `instances` instances at once.
pub(crate) fn local(limits: &Limits, instances: u32) -> Result<Engine> {
    let mut config = config()?;
    config.max_wasm_stack(STACK_BYTES);
    let mut pool = PoolingAllocationConfig::default();
    // A component has one core instance of its own and a few small ones that adapt calls. One of
    // componentize-py is linked of 38; their number alone costs nothing.
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(64))
        .total_memories(instances)
        .total_tables(instances.saturating_mul(4))
        .max_memory_size(usize::try_from(limits.guest_memory_bytes).unwrap_or(usize::MAX))
        .table_elements(TABLE_ELEMENTS);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config).map_err(error("starting"))
}

/// An engine that only compiles, for a named level and never for this machine.
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

/// What an engine and code must have in common: SHA-256 over the list and the level's flags.
pub(crate) fn id(baseline: Baseline) -> [u8; 32] {
    let text = format!("{SETTINGS:?} {} {:?}", baseline.triple(), baseline.flags());
    Sha256::digest(text).into()
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

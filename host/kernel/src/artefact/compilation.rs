//! Ahead-of-time compilation of a component to a signed artefact.

use super::{Baseline, Heading, Signer, seal};
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::{Limits, Runtime, Settings, cache, engine};

/// Compiles the component `component` for a processor level and signs the code. The result does not
/// depend on the processor of this machine.
///
/// # Errors
/// Returns [`Error::TooLarge`], [`Error::Contract`] or [`Error::Compile`] in the same cases as
/// [`Runtime::load`]. Returns [`Error::Artefact`] if the code is larger than [`super::MAX_BYTES`].
pub fn compile(name: &str, component: &[u8], baseline: Baseline, signer: &Signer) -> Result<Vec<u8>> {
    compile_once(name, component, baseline, signer, None)
}

/// Compiles a component like [`compile`], but reuses the compiled code if `cache` has it. New code
/// is written to the cache.
///
/// # Errors
/// Returns the errors of [`compile`].
pub fn compile_once(
    name: &str,
    component: &[u8],
    baseline: Baseline,
    signer: &Signer,
    cache: Option<&Cache>,
) -> Result<Vec<u8>> {
    crate::compile::measure(name, component)?;
    let digest = cache::digest(component);
    let engine = super::engine_id(baseline).first_chunk().map_or(0, |id| u64::from_le_bytes(*id));
    let code = match cache.and_then(|cache| cache.get(engine, &digest)) {
        Some(code) => code,
        None => {
            let code = engine::foreign(baseline)?
                .precompile_component(component)
                .map_err(|e| Error::Compile { kernel: name.to_owned(), reason: format!("{e:#}") })?;
            if let Some(cache) = cache {
                // If the code cannot be cached, the next call compiles it again.
                let _ = cache.put(engine, &digest, &code);
            }
            code
        }
    };
    let sealed = seal(&Heading::new(baseline, digest), &code, signer)
        .map_err(|source| Error::Artefact { kernel: name.to_owned(), source })?;
    // A runtime checks the contract. If this machine cannot run the code, it compiles its own.
    let settings = Settings { limits: Limits::default(), cache: None };
    let runtime = Runtime::new(settings)?;
    match baseline.missing().is_empty() {
        true => runtime.load_artefact(name, &digest, &sealed, &signer.verifier())?,
        false => runtime.load(name, component)?,
    };
    Ok(sealed)
}

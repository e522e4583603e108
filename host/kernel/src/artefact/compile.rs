//! From a component to signed code.

use super::{Baseline, Heading, Signer, seal};
use crate::error::{Error, Result};
use crate::{Limits, Runtime, Settings, cache, engine};

/// Compiles a component for a level of processors, never for this machine, and signs the code.
///
/// # Errors
/// [`Error::TooLarge`], [`Error::Contract`] and [`Error::Compile`] as [`Runtime::load`] gives them; [`Error::Artefact`]
/// where the code is larger than [`super::MAX_BYTES`].
pub fn compile(name: &str, component: &[u8], baseline: Baseline, signer: &Signer) -> Result<Vec<u8>> {
    crate::compile::measure(name, component)?;
    let code = engine::foreign(baseline)?
        .precompile_component(component)
        .map_err(|e| Error::Compile { kernel: name.to_owned(), reason: format!("{e:#}") })?;
    let digest = cache::digest(component);
    let sealed = seal(&Heading::new(baseline, digest), &code, signer)
        .map_err(|source| Error::Artefact { kernel: name.to_owned(), source })?;
    // The contract is checked as a runtime does it. A machine that cannot run the code runs its own.
    let settings = Settings { limits: Limits::default(), cache: None, instances: 1 };
    let runtime = Runtime::new(settings)?;
    match baseline.missing().is_empty() {
        true => runtime.load_artefact(name, &digest, &sealed, &signer.verifier())?,
        false => runtime.load(name, component)?,
    };
    Ok(sealed)
}

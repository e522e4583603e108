//! Loads a component as a kernel, with this machine's compiler or from its cache.
#![allow(unsafe_code)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::cache;
use crate::engine;
use crate::error::{Error, Result};
use crate::runtime::{Kernel, Runtime};

impl Runtime {
    /// Compiles a component, or reads its code from the cache.
    ///
    /// # Errors
    /// [`Error::TooLarge`] and [`Error::Compile`] before or during compilation,
    /// [`Error::Contract`], and [`Error::Trap`] if the kernel does not start.
    pub fn load(&self, name: &str, component: &[u8]) -> Result<Arc<Kernel>> {
        self.load_vetted(name, component, |_| Ok(()))
    }

    /// Loads a component like [`Runtime::load`]. `vet` may refuse a component before it is
    /// compiled.
    ///
    /// # Errors
    /// The errors of [`Runtime::load`] and of `vet`.
    pub fn load_vetted(
        &self,
        name: &str,
        component: &[u8],
        vet: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Arc<Kernel>> {
        let digest = cache::digest(component);
        let fingerprint = fingerprint(self.engine());
        let kept = self.cache().and_then(|c| c.get(fingerprint, &digest));
        // SAFETY: the MAC proves that this user's runtime wrote this code for this engine.
        let loaded = kept.and_then(|code| unsafe { Component::deserialize(self.engine(), code) }.ok());
        tracing::debug!(kernel = name, cached = loaded.is_some(), "kernel code");
        let compiled = match loaded {
            Some(component) => component,
            None => {
                measure(name, component)?;
                vet(component)?;
                self.compile(name, component, fingerprint, &digest)?
            }
        };
        self.kernel(name, digest, &compiled)
    }

    /// Returns a component's code with this machine's instructions, unsigned. Tests use it as code
    /// that must be refused.
    #[doc(hidden)]
    pub fn machine_code(&self, name: &str, component: &[u8]) -> Result<Vec<u8>> {
        let code = self.engine().precompile_component(component);
        code.map_err(|e| Error::Compile { kernel: name.to_owned(), reason: format!("{e:#}") })
    }

    fn compile(&self, name: &str, bytes: &[u8], fingerprint: u64, digest: &[u8; 32]) -> Result<Component> {
        let compiled = Component::from_binary(self.engine(), bytes);
        let compiled =
            compiled.map_err(|e| Error::Compile { kernel: name.to_owned(), reason: format!("{e:#}") })?;
        crate::check::contract(name, self.engine(), &compiled)?;
        if let Some(cache) = self.cache() {
            let code = compiled.serialize().map_err(engine::error("serialising a kernel"))?;
            // A full disk must not stop a run that has its code already.
            if let Err(error) = cache.put(fingerprint, digest, &code) {
                self.cache_failed(error);
            }
        }
        Ok(compiled)
    }
}

/// Returns a hash of the settings that cached code must have been compiled under. They are
/// wasmtime's own settings and this machine's instructions.
fn fingerprint(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// Refuses bytes that are no component, and a component that is too large to be compiled.
pub(crate) fn measure(name: &str, bytes: &[u8]) -> Result<()> {
    is_component(name, bytes)?;
    crate::size::check(name, bytes)
}

/// Refuses bytes whose start is not that of a component.
fn is_component(name: &str, bytes: &[u8]) -> Result<()> {
    let found = match bytes {
        [b'\0', b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            "a core module, not a component; `eciton kernel build` wraps one"
        }
        [b'\0', b'a', b's', b'm', ..] => return Ok(()),
        _ => "no WebAssembly at all; `eciton kernel build` makes a component",
    };
    Err(Error::Contract { kernel: name.to_owned(), differences: format!("it is {found}") })
}

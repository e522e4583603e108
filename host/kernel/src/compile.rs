//! From a component to a kernel, by this machine's compiler or from its cache.
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
    /// Compiles a component, or takes its code from the cache.
    ///
    /// # Errors
    /// [`Error::TooLarge`] and [`Error::Compile`] before anything is compiled or while it is,
    /// [`Error::Contract`], and [`Error::Trap`] where it does not start.
    pub fn load(&self, name: &str, component: &[u8]) -> Result<Arc<Kernel>> {
        self.load_vetted(name, component, |_| Ok(()))
    }

    /// As [`Runtime::load`]; `vet` may refuse a component that is about to be compiled.
    ///
    /// # Errors
    /// The same, and `vet`'s.
    pub fn load_vetted(
        &self,
        name: &str,
        component: &[u8],
        vet: impl FnOnce(&[u8]) -> Result<()>,
    ) -> Result<Arc<Kernel>> {
        let digest = cache::digest(component);
        let fingerprint = fingerprint(self.engine());
        let kept = self.cache().and_then(|c| c.get(fingerprint, &digest));
        // SAFETY: the MAC says that this user's runtime wrote this code for this engine.
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

    /// A component's code with this machine's instructions, unsigned; for tests of what must be refused.
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

/// What code of the cache must have been compiled under: wasmtime's own settings, with this machine's
/// instructions.
fn fingerprint(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// Refuses what is no component, and one that is too large to be compiled.
pub(crate) fn measure(name: &str, bytes: &[u8]) -> Result<()> {
    is_component(name, bytes)?;
    crate::size::check(name, bytes)
}

/// Refuses what is something else by its first bytes.
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

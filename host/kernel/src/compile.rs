//! Loading of components, which compiles them for this machine or reads their code from the cache.
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
    /// Loads a component as a kernel with the name `name`. Its code is read from the cache if
    /// possible, and compiled otherwise.
    ///
    /// # Errors
    /// Returns [`Error::TooLarge`] if the component exceeds a limit of compilation, and
    /// [`Error::Compile`] if it cannot be compiled. Returns [`Error::Contract`] if it does not
    /// fulfil the contract, and [`Error::Trap`] if the kernel does not start.
    pub fn load(&self, name: &str, component: &[u8]) -> Result<Arc<Kernel>> {
        self.load_vetted(name, component, |_| Ok(()))
    }

    /// Loads a component like [`Runtime::load`]. The function `vet` can reject the component before
    /// it is compiled. It is not called if the cache has the component's code.
    ///
    /// # Errors
    /// Returns the errors of [`Runtime::load`] and of `vet`.
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

    /// Returns the code of a component compiled for this machine, without a signature. Tests use it
    /// as an example of code that must be refused.
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
            // The run has its code, so a full disk must not stop it.
            if let Err(error) = cache.put(fingerprint, digest, &code) {
                self.cache_failed(error);
            }
        }
        Ok(compiled)
    }
}

/// Returns a hash of wasmtime's settings and this machine's instruction set. Cached code is used
/// only if it was compiled under the same hash.
fn fingerprint(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

/// Returns an error if `bytes` is not a component or exceeds a limit of compilation.
pub(crate) fn measure(name: &str, bytes: &[u8]) -> Result<()> {
    is_component(name, bytes)?;
    crate::size::check(name, bytes)
}

/// Returns an error if `bytes` does not start with the header of a component.
fn is_component(name: &str, bytes: &[u8]) -> Result<()> {
    let found = match bytes {
        [b'\0', b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            "a core module, not a component: build a component with `eciton kernel build`"
        }
        [b'\0', b'a', b's', b'm', ..] => return Ok(()),
        _ => "not WebAssembly: build a component with `eciton kernel build`",
    };
    Err(Error::Contract { kernel: name.to_owned(), differences: format!("it is {found}") })
}

//! Keys that sign kernels for functions, and storage of the signed kernels.
//!
//! A kernel that functions already have needs no key. It is in their package, or it is in the
//! bucket with a valid signature. Only a new kernel must be signed, with the key that the functions
//! trust. The functions would reject a kernel with another signature, which would replace a valid
//! kernel of all users.

use std::path::Path;

use eciton_kernel::artefact::{self, Baseline, Signer, Verifier};
use eciton_kernel::cache::Cache;
use eciton_transport::{Condition, Key, Store};

use crate::deployment::Deployment;
use crate::error::{Error, at_store};

/// Public key that functions trust, with the private key that signs new kernels if this machine has
/// it.
#[derive(Debug)]
pub struct KernelKeys {
    stack: String,
    trusted: Verifier,
    /// The private key, or the reason why this machine cannot sign kernels.
    signer: Result<Signer, String>,
    /// Object keys of the kernels in the functions' package, in the form that
    /// [`artefact::store_key`] returns.
    packaged: Vec<String>,
    /// Cache of the kernels that were compiled for functions, if any.
    pub cache: Option<Cache>,
}

impl KernelKeys {
    /// Creates the keys of emulated functions, which trust `signer`.
    #[must_use]
    pub fn from_signer(signer: Signer) -> Self {
        let trusted = signer.verifier();
        Self { stack: "emulated".to_owned(), trusted, signer: Ok(signer), packaged: Vec::new(), cache: None }
    }

    /// Reads the keys of a deployment. The private key may be missing, because it exists only on
    /// the machine that deployed the stack.
    ///
    /// # Errors
    /// Returns an [`Error`] if the deployment's public key is not valid, or if the file of the
    /// private key cannot be read.
    pub fn from_deployment(deployment: &Deployment) -> Result<Self, Error> {
        let trusted = Verifier::parse(&deployment.verifying_key)?;
        let path = &deployment.signing_key;
        let signer = match Signer::existing(path)? {
            Some(signer) if signer.verifier() == trusted => Ok(signer),
            found => Err(refusal(path, found.as_ref(), &trusted)),
        };
        let packaged = deployment.packaged.clone();
        Ok(Self { stack: deployment.stack.clone(), trusted, signer, packaged, cache: None })
    }

    /// Returns the reason why functions would reject the stored kernel `sealed`, or `None` if they
    /// accept it.
    fn objection(&self, sealed: &[u8], baseline: Baseline) -> Option<String> {
        match artefact::open(sealed, &self.trusted) {
            Err(refusal) => Some(format!("its file in the bucket is not valid ({refusal})")),
            Ok(verified) if verified.heading().engine != artefact::engine_id(baseline) => {
                Some("the bucket has it for another version of Eciton only".to_owned())
            }
            Ok(_) => None,
        }
    }

    /// Compiles and signs a kernel, and writes it to the functions' package in the folder `root`.
    /// The kernel is given by its name and its WebAssembly component.
    ///
    /// # Errors
    /// Returns an [`Error`] if this machine has no valid private key, if the kernel cannot be
    /// compiled, or if the file cannot be written.
    pub fn package(
        &self,
        root: &Path,
        baseline: Baseline,
        (name, component): (&str, &[u8]),
    ) -> Result<(), Error> {
        let signer = self.signer.as_ref().map_err(|why| Error::Choice(why.clone()))?;
        let sealed = artefact::compile_once(name, component, baseline, signer, self.cache.as_ref())?;
        let place = root.join(artefact::store_key(&eciton_kernel::cache::digest(component), baseline));
        std::fs::write(&place, sealed).map_err(Error::file(&place, "written"))
    }

    /// Compiles and signs a kernel, and writes it to the object store. Does nothing if the
    /// functions already have the kernel.
    ///
    /// # Errors
    /// Returns an [`Error`] if the object store fails, if this machine has no valid private key, or
    /// if the kernel cannot be compiled.
    pub async fn store(
        &self,
        store: &dyn Store,
        baseline: Baseline,
        name: &str,
        digest: &[u8; 32],
        component: &[u8],
    ) -> Result<(), Error> {
        let place = artefact::store_key(digest, baseline);
        if self.packaged.contains(&place) {
            return Ok(());
        }
        let key = Key::new(place).map_err(at_store(format!("store kernel `{name}` for functions")))?;
        let found = match store.get(&key, None).await {
            Ok(kept) => match self.objection(&kept, baseline) {
                None => return Ok(()),
                Some(found) => found,
            },
            Err(eciton_transport::Error::NotFound { .. }) => "the bucket does not contain it".to_owned(),
            Err(error) => return Err(at_store(format!("look up kernel `{name}` in the bucket"))(error)),
        };
        let signer = self.signer.as_ref().map_err(|why| Error::Unsigned {
            kernel: name.to_owned(),
            stack: self.stack.clone(),
            found,
            key: why.clone(),
        })?;
        let sealed = artefact::compile_once(name, component, baseline, signer, self.cache.as_ref())?;
        let put = store.put(&key, sealed.into(), Condition::Always).await;
        put.map_err(at_store(format!("store kernel `{name}` for functions")))?;
        Ok(())
    }
}

/// Returns the reason why this machine cannot sign kernels for a deployment. `found` is the key in
/// the file at `path`, if there is one.
fn refusal(path: &Path, found: Option<&Signer>, trusted: &Verifier) -> String {
    let path = path.display();
    match found {
        None => format!("its signing key {path} does not exist on this machine or cannot be read"),
        Some(other) => {
            let own = other.verifier();
            format!(
                "{path} is not the signing key of the stack (its public key is {own}, but the functions trust \
                 {trusted})"
            )
        }
    }
}

#[cfg(test)]
mod tests;

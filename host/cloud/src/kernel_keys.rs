//! Storage and signing of the kernels that functions load.
//!
//! No key is needed for a kernel that functions already have. It is in their package, or in the
//! bucket with a signature of the deployment's key. A new kernel must be signed with the key that
//! the functions trust. A kernel with another signature would be rejected, and would replace a
//! valid one for all users.

use std::path::Path;

use eciton_kernel::artefact::{self, Baseline, Signer, Verifier};
use eciton_kernel::cache::Cache;
use eciton_transport::{Condition, Key, Store};

use crate::deployment::Deployment;
use crate::error::{Error, at_store};

/// The public key that functions trust, and the private key that signs new kernels, if this machine
/// has it.
#[derive(Debug)]
pub struct KernelKeys {
    stack: String,
    trusted: Verifier,
    /// The signing key, or the reason why there is none.
    signer: Result<Signer, String>,
    /// Object keys of the kernels in the functions' package, in the form of
    /// [`artefact::store_key`].
    packaged: Vec<String>,
    /// Cache of code that was compiled for functions.
    pub cache: Option<Cache>,
}

impl KernelKeys {
    /// Creates the keys of functions that trust this signer.
    #[must_use]
    pub fn from_signer(signer: Signer) -> Self {
        let trusted = signer.verifier();
        Self { stack: "emulated".to_owned(), trusted, signer: Ok(signer), packaged: Vec::new(), cache: None }
    }

    /// Creates the keys of a deployment. The signing key may be on another machine, so no key is
    /// generated.
    ///
    /// # Errors
    /// Returns an [`Error`] if the verifying key or the file of the signing key cannot be read.
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

    /// Returns the reason why functions would reject a stored kernel. Returns `None` if they accept
    /// it.
    fn objection(&self, sealed: &[u8], baseline: Baseline) -> Option<String> {
        match artefact::open(sealed, &self.trusted) {
            Err(refusal) => Some(format!("of what the bucket has, {refusal}")),
            Ok(verified) if verified.heading().engine != artefact::engine_id(baseline) => {
                Some("the bucket has it for another version of Eciton".to_owned())
            }
            Ok(_) => None,
        }
    }

    /// Compiles and signs a kernel, and writes it into the folder `kernels` of a functions'
    /// package.
    ///
    /// # Errors
    /// Returns an [`Error`] if there is no signing key, the kernel cannot be compiled, or the file
    /// cannot be written.
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

    /// Compiles, signs and stores a kernel, unless the functions already have it.
    ///
    /// # Errors
    /// Returns an [`Error`] if the store fails, there is no signing key, or the kernel cannot be
    /// compiled.
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
        let key = Key::new(place).map_err(at_store(format!("storing kernel `{name}` for functions")))?;
        let found = match store.get(&key, None).await {
            Ok(kept) => match self.objection(&kept, baseline) {
                None => return Ok(()),
                Some(found) => found,
            },
            Err(eciton_transport::Error::NotFound { .. }) => "the bucket does not have it".to_owned(),
            Err(error) => return Err(at_store(format!("looking for kernel `{name}`"))(error)),
        };
        let signer = self.signer.as_ref().map_err(|why| Error::Unsigned {
            kernel: name.to_owned(),
            stack: self.stack.clone(),
            found,
            key: why.clone(),
        })?;
        let sealed = artefact::compile_once(name, component, baseline, signer, self.cache.as_ref())?;
        let put = store.put(&key, sealed.into(), Condition::Always).await;
        put.map_err(at_store(format!("storing kernel `{name}` for functions")))?;
        Ok(())
    }
}

/// Returns the reason why kernels of a deployment cannot be signed on this machine.
fn refusal(path: &Path, found: Option<&Signer>, trusted: &Verifier) -> String {
    let path = path.display();
    match found {
        None => format!("its signing key {path} is not on this machine, or not yours to read"),
        Some(other) => {
            let own = other.verifier();
            format!(
                "{path} is another key than its deployer's: its public half is {own}, the functions trust {trusted}"
            )
        }
    }
}

#[cfg(test)]
mod tests;

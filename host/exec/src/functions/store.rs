//! Kernels in the store that functions take them from.

use eciton_kernel::artefact::{self, Baseline, Signer};
use eciton_transport::{Condition, Key, Store};

use super::{Error, Wanted};

/// An error of the object store, in doing something.
pub(crate) fn at_store(doing: impl Into<String>) -> impl FnOnce(eciton_transport::Error) -> Error {
    let doing = doing.into();
    move |source| Error::Store { doing, source: Box::new(source) }
}

impl Wanted {
    /// Compiles, signs and stores every kernel that is not in the store yet.
    pub(crate) async fn store_kernels(
        &self,
        store: &dyn Store,
        baseline: Baseline,
        signer: &Signer,
    ) -> Result<(), Error> {
        let failed = |name: &str| at_store(format!("storing kernel `{name}` for functions"));
        for (kernel, component) in &self.kernels {
            let name = kernel.name();
            let key = Key::new(artefact::store_key(kernel.digest(), baseline)).map_err(failed(name))?;
            // One that another key signed, or an older engine, would be refused by every worker.
            if let Ok(kept) = store.get(&key, None).await
                && let Ok(verified) = artefact::open(&kept, &signer.verifier())
                && verified.heading().engine == artefact::engine_id(baseline)
            {
                continue;
            }
            let sealed = artefact::compile(name, component, baseline, signer)?;
            store.put(&key, sealed.into(), Condition::Always).await.map_err(failed(name))?;
        }
        Ok(())
    }
}

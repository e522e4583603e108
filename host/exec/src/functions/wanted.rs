//! Requirements of a run on its executor of functions or workers.

use std::sync::Arc;

use eciton_cloud::{Architecture, ConcurrencyLimit, Cut, Host};
use eciton_kernel::{Kernel, Limits};
use eciton_recipe::{Executor, FunctionCount, RowFormat};
use eciton_tensor::frame::Encoding;
use eciton_tensor::signs::Planes;
#[cfg(feature = "aws")]
use {
    eciton_cloud::Error, eciton_cloud::kernel_keys::KernelKeys, eciton_kernel::artefact::Baseline,
    eciton_transport::Store,
};

use crate::local::LocalPool;
use crate::remote::RemoteSettings;

/// Requirements of a run on its executor of functions or workers: kernels, settings and limits.
#[derive(Debug)]
pub struct Wanted {
    /// Pool of threads of this machine, which runs the jobs that neither a function nor a worker
    /// takes.
    pub local: LocalPool,
    /// Kernels that tasks call, each with its WebAssembly component, from which the code for
    /// functions is compiled.
    pub kernels: Vec<(Arc<Kernel>, Arc<[u8]>)>,
    /// The settings in the section `[executor]` of the recipe.
    pub executor: Executor,
    /// Limits on the memory and time of a task.
    pub limits: Limits,
    /// Number of intervals of the graph (ranges of vertices with their own tasks).
    pub intervals: u32,
    /// Maximum number of weight versions that tasks may read at the same time.
    pub weight_versions: u32,
}

impl Wanted {
    /// Returns the storage format of rows in frames.
    #[must_use]
    pub fn rows(&self) -> Encoding {
        match self.executor.rows {
            RowFormat::F32 => Encoding::F32,
            RowFormat::Bf16 => Encoding::Bf16,
            RowFormat::Bits => Encoding::Bits(Planes::default()),
        }
    }

    /// Returns the settings of a remote pool for the run named `run`. `most` limits the number of
    /// concurrent functions. `host` is the location of this machine, or `None` if nothing is
    /// charged.
    pub(crate) fn settings(
        &self,
        run: String,
        architecture: Option<Architecture>,
        most: &ConcurrencyLimit,
        host: Option<Host>,
    ) -> RemoteSettings {
        RemoteSettings {
            run,
            transport: self.executor.transport,
            rows: self.rows(),
            stream: self.executor.stream,
            most: match self.executor.functions {
                FunctionCount::Fixed(count) => count.min(most.count),
                FunctionCount::Auto => self.intervals.min(most.count),
            },
            weight_versions: self.weight_versions,
            limits: self.limits.clone(),
            intervals: self.intervals,
            architecture,
            host,
            cut: Cut::find(self.executor.functions, self.intervals, most),
            audit: self.executor.audit,
        }
    }
}

#[cfg(feature = "aws")]
impl Wanted {
    /// Compiles, signs and stores every kernel that is not in the store yet.
    pub(crate) async fn store_kernels(
        &self,
        store: &dyn Store,
        baseline: Baseline,
        keys: &KernelKeys,
    ) -> Result<(), Error> {
        for (kernel, component) in &self.kernels {
            keys.store(store, baseline, kernel.name(), kernel.digest(), component).await?;
        }
        Ok(())
    }
}

/// Returns a new unique name for a run. It consists of the time, the process id, and 64 random
/// bits.
#[must_use]
pub fn run_name() -> String {
    use std::hash::{BuildHasher as _, Hasher as _};
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let seconds = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.as_secs());
    format!("{seconds:x}-{:x}-{random:016x}", std::process::id())
}

//! Start of the functions that compute a run's tasks, and the facts about them that are known in
//! advance.

mod wanted;

use eciton_cloud::deployment::{DEFAULT_STACK, Deployment};
use eciton_cloud::{ConcurrencyLimit, Host};
use eciton_recipe::executor::ExecutorKind;
use eciton_recipe::{Emulator, Executor};
use serde::{Deserialize, Serialize};

pub use eciton_cloud::{Cut, Error, Result};
pub use wanted::{Wanted, run_name};

/// Facts about the cloud functions of a run, known before the first task. They are the location of
/// the host and the limit on the number of functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlook {
    /// Location of this host, which determines the price of its data transfer.
    pub host: Host,
    /// The limit that reduced the number of functions, or `None` if the run gets the requested
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

impl Outlook {
    /// Returns the facts about a run whose graph has `intervals` intervals (ranges of vertices with
    /// their own tasks). Returns `None` if the executor charges nothing. A missing deployment sets
    /// no limit.
    #[must_use]
    pub fn for_executor(executor: &Executor, emulator: &Emulator, intervals: u32) -> Option<Self> {
        let cut = |most: &ConcurrencyLimit| Cut::find(executor.functions, intervals, most);
        match executor.kind {
            ExecutorKind::Emulated => {
                let most = ConcurrencyLimit::of_emulator(emulator);
                Some(Self { host: Host::of_emulated(executor.host), cut: cut(&most) })
            }
            ExecutorKind::Lambda => {
                let name = executor.deployment.as_deref().unwrap_or(DEFAULT_STACK);
                let deployment = Deployment::load(name).ok();
                let region = deployment.as_ref().map(|deployment| deployment.region.as_str());
                let zone = deployment.as_ref().and_then(|deployment| deployment.zone.as_deref());
                let host = Host::find(executor.host, region, zone);
                Some(Self { host, cut: deployment.and_then(|deployment| cut(&deployment.most())) })
            }
            _ => None,
        }
    }
}

/// Checks that this build contains the executor `kind`.
///
/// # Errors
/// Returns [`Error::NoAws`] for AWS Lambda and for emulated functions if the build lacks the
/// feature `aws`.
pub fn check(kind: ExecutorKind) -> Result<(), Error> {
    match kind {
        #[cfg(not(feature = "aws"))]
        ExecutorKind::Emulated => Err(eciton_cloud::NoAws("--executor emulated").into()),
        #[cfg(not(feature = "aws"))]
        ExecutorKind::Lambda => Err(eciton_cloud::NoAws("--executor lambda").into()),
        _ => Ok(()),
    }
}

/// Checks that this build contains the executor for AWS Lambda.
///
/// # Errors
/// Returns [`Error::NoAws`] if the build lacks the feature `aws`.
pub fn check_lambda() -> Result<(), Error> {
    check(ExecutorKind::Lambda)
}

/// Returns the numeric class that the deployment requires of its functions, if any. Machines of one
/// numeric class compute results with the same bits. Returns `None` for executors other than AWS
/// Lambda, and if the deployment cannot be read.
#[must_use]
pub fn numeric_class(executor: &Executor) -> Option<String> {
    if executor.kind != ExecutorKind::Lambda {
        return None;
    }
    Deployment::load(executor.deployment.as_deref().unwrap_or(DEFAULT_STACK)).ok()?.numeric_class
}

/// Starts the executor that `wanted` describes. Its functions are those of a deployment, emulated
/// functions, or threads of this process.
///
/// # Errors
/// Returns [`Error::NoAws`] if this build lacks the executor. Returns another [`Error`] if the
/// functions cannot be started.
pub fn start(wanted: Wanted, emulator: &Emulator) -> Result<Box<dyn crate::executor::Executor>, Error> {
    check(wanted.executor.kind)?;
    Ok(match wanted.executor.kind {
        #[cfg(feature = "aws")]
        ExecutorKind::Emulated => Box::new(crate::emulated::Emulated::start(wanted, emulator)?),
        #[cfg(feature = "aws")]
        ExecutorKind::Lambda => Box::new(crate::lambda::start(wanted)?),
        _ => Box::new(crate::loopback::start(wanted, emulator)?),
    })
}

#[cfg(test)]
mod tests {
    use eciton_recipe::FunctionCount;

    use super::*;

    #[test]
    fn what_is_known_before_a_run_is_told() {
        let mut executor = Executor { functions: FunctionCount::Fixed(9), ..Executor::default() };
        let emulator = Emulator { account_concurrency: 4, ..Default::default() };
        assert_eq!(Outlook::for_executor(&executor, &emulator, 2), None, "nothing is charged");
        executor.kind = ExecutorKind::Emulated;
        let outlook = Outlook::for_executor(&executor, &emulator, 2);
        let cut = outlook.and_then(|outlook| outlook.cut).map(|cut| cut.to_string());
        assert_eq!(cut.as_deref(), Some("9 requested, 4 available: emulator.account_concurrency is 4"));
    }
}

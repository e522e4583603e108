//! Functions of a run: their start, and the facts that are known before the first task.

mod wanted;

use eciton_cloud::deployment::{DEFAULT_STACK, Deployment};
use eciton_cloud::{ConcurrencyLimit, Host};
use eciton_recipe::Executor;
use eciton_recipe::executor::ExecutorKind;
use serde::{Deserialize, Serialize};

pub use eciton_cloud::{Cut, Error, Result};
pub use wanted::{Wanted, run_name};

/// Facts of a run's functions that are known before its first task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outlook {
    /// This machine's place.
    pub host: Host,
    /// The limit that lowered their number, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
}

impl Outlook {
    /// Returns the outlook of a run on this number of intervals, or `None` if nothing is charged. A
    /// deployment that does not exist sets no limit.
    #[must_use]
    pub fn of(executor: &Executor, emulator: &eciton_recipe::Emulator, intervals: u32) -> Option<Self> {
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

/// Refuses an executor that this build leaves out.
///
/// # Errors
/// AWS's functions, or their stand-in, in a build without the feature `aws`.
pub fn check(kind: ExecutorKind) -> Result<(), Error> {
    match kind {
        #[cfg(not(feature = "aws"))]
        ExecutorKind::Emulated => Err(eciton_cloud::NoAws("--executor emulated").into()),
        #[cfg(not(feature = "aws"))]
        ExecutorKind::Lambda => Err(eciton_cloud::NoAws("--executor lambda").into()),
        _ => Ok(()),
    }
}

/// Refuses AWS Lambda in a build without it.
///
/// # Errors
/// A build without the feature `aws`.
pub fn check_lambda() -> Result<(), Error> {
    check(ExecutorKind::Lambda)
}

/// The numeric class that a deployment's functions are pinned to; `None` where nothing says so.
#[must_use]
pub fn numeric_class(executor: &Executor) -> Option<String> {
    if executor.kind != ExecutorKind::Lambda {
        return None;
    }
    Deployment::load(executor.deployment.as_deref().unwrap_or(DEFAULT_STACK)).ok()?.numeric_class
}

/// The functions of a run: a deployment's, emulated ones, or this process.
///
/// # Errors
/// As [`check`]; whatever keeps the functions from starting.
pub fn start(
    wanted: Wanted,
    emulator: &eciton_recipe::Emulator,
) -> Result<Box<dyn crate::executor::Executor>, Error> {
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
        let emulator = eciton_recipe::Emulator { account_concurrency: 4, ..Default::default() };
        assert_eq!(Outlook::of(&executor, &emulator, 2), None, "nothing is charged");
        executor.kind = ExecutorKind::Emulated;
        let outlook = Outlook::of(&executor, &emulator, 2);
        let cut = outlook.and_then(|outlook| outlook.cut).map(|cut| cut.to_string());
        assert_eq!(cut.as_deref(), Some("9 asked for, 4 given: emulator.account_concurrency is 4"));
    }
}

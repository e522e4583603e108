//! Errors of reproductions.

/// Error of a reproduction. The same input fails again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The search for fitted parameters did not converge.
    #[error(
        "the fit on {what} is still {percent:.2} % off after {steps} steps; check the machines and functions of the price list",
        percent = .off * 100.0
    )]
    Fit {
        /// Name of the published result to which the parameters were fitted.
        what: &'static str,
        /// Largest relative error of a fitted value, as a share.
        off: f64,
        /// Number of steps of the search.
        steps: u32,
    },
    /// The price list cannot be read, or lacks a machine.
    #[error(transparent)]
    Prices(#[from] eciton_recipe::Error),
    /// No plan fits.
    #[error(transparent)]
    Plan(#[from] eciton_planner::Error),
    /// The simulator refused its settings, or the simulated run failed.
    #[error(transparent)]
    Simulate(#[from] eciton_simulate::Error),
    /// The program of a shape is not valid.
    #[error(transparent)]
    Program(#[from] eciton_program::Error),
    /// The result cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

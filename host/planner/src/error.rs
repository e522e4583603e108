//! Errors of plans and placements.

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate. None is worth a retry, because the same input fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings that exclude each other, or an input file with impossible values.
    #[error(transparent)]
    Recipe(#[from] eciton_recipe::Error),
    /// A program that cannot be built.
    #[error(transparent)]
    Program(eciton_program::Error),
    /// A model that no plan fits on a machine.
    #[error(
        "no plan fits into memory: {what} needs {} but has {} ({} too little); {remedy}",
        bytes(*.need), bytes(*.have), bytes(need.saturating_sub(*.have))
    )]
    Short {
        /// Memory that is too small, in the plan that lacks the least.
        what: String,
        /// Bytes that the plan needs there.
        need: u64,
        /// Bytes that are available there.
        have: u64,
        /// Advice that the message ends with.
        remedy: &'static str,
    },
}

impl From<eciton_program::Error> for Error {
    fn from(error: eciton_program::Error) -> Self {
        match error {
            eciton_program::Error::Recipe(recipe) => Self::Recipe(recipe),
            other => Self::Program(other),
        }
    }
}

/// Formats a number of bytes, with a unit.
fn bytes(of: u64) -> String {
    match of {
        1_000_000_000.. => format!("{:.3} GB", of as f64 / 1e9),
        1_000_000.. => format!("{:.3} MB", of as f64 / 1e6),
        _ => format!("{of} bytes"),
    }
}

//! Errors of plans and placements.

/// Result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate. None is worth a retry, because the same input fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings exclude each other, or an input file has impossible values.
    #[error(transparent)]
    Recipe(#[from] eciton_recipe::Error),
    /// The program for the plan cannot be built.
    #[error(transparent)]
    Program(eciton_program::Error),
    /// No plan for the model fits into the memory of the machine.
    #[error(
        "no plan fits into memory: {what} needs {} but has {} ({} too little); {remedy}",
        bytes(*.need), bytes(*.have), bytes(need.saturating_sub(*.have))
    )]
    Short {
        /// Name of the lane or host whose memory is too small, in the plan that lacks the least
        /// memory.
        what: String,
        /// Number of bytes that the plan needs there.
        need: u64,
        /// Number of bytes that are available there.
        have: u64,
        /// Advice to the user: an imperative sentence that ends the message.
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

/// Returns a number of bytes as text with a unit.
fn bytes(of: u64) -> String {
    match of {
        1_000_000_000.. => format!("{:.3} GB", of as f64 / 1e9),
        1_000_000.. => format!("{:.3} MB", of as f64 / 1e6),
        1 => "1 byte".to_owned(),
        _ => format!("{of} bytes"),
    }
}

//! Errors of stage programs and kernel signatures.

use eciton_types::Layer;

/// The result of a function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate. None is worth a retry, because the same input fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Settings or data that no program can be built for.
    #[error(transparent)]
    Recipe(#[from] eciton_recipe::Error),
    /// Initial values of a parameter that the model does not have.
    #[error("`{key}` names the parameter {name:?}, which is not there: leave it out, or take one of {known}")]
    NoParameter {
        /// Key of the setting.
        key: String,
        /// Name of the parameter.
        name: String,
        /// Names of the model's parameters.
        known: String,
    },
    /// A layer that does not fit its position in a chain of convolutions.
    #[error("layer {layer} of the chain {found}, but needs {wanted}")]
    Chain {
        /// Index of the layer, from 0.
        layer: usize,
        /// Description of the layer.
        found: String,
        /// Layers that would fit.
        wanted: String,
    },
    /// A model whose images cannot be split into strips.
    #[error("{found}, but must have {allowed}")]
    Strips {
        /// Description of the model.
        found: String,
        /// Models that can be split.
        allowed: &'static str,
    },
    /// A kernel that refused its inputs or attributes, and returned no signature.
    #[error("kernel `{kernel}` (layer {layer}) refused its inputs or attributes")]
    Signature {
        /// The kernel's name.
        kernel: String,
        /// The layer that it was opened for.
        layer: Layer,
        /// Error of the kernel, or of its host.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A kernel's signature that does not fit the kernel's position in the program.
    #[error(
        "kernel `{kernel}` (layer {layer}): {what} {found}, but its place in the program needs {expected}"
    )]
    SignatureMismatch {
        /// The kernel's name.
        kernel: String,
        /// The layer that it was opened for.
        layer: Layer,
        /// Part of the signature that does not fit.
        what: &'static str,
        /// Value in the signature.
        found: String,
        /// Value that the program needs.
        expected: String,
    },
    /// Rows that cannot be cut, or partial sums that do not fit.
    #[error(transparent)]
    Rows(#[from] eciton_types::Error),
}

//! Errors of stage programs and kernel signatures.

use eciton_types::Layer;

/// The result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error type of this crate. No error is worth a retry, because the same input fails again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No program can be built for these settings or this data set.
    #[error(transparent)]
    Recipe(#[from] eciton_recipe::Error),
    /// The settings give initial values for a parameter that the model does not have.
    #[error("`{key}` names the parameter {name:?}, which does not exist: remove it, or use one of {known}")]
    NoParameter {
        /// Key of the setting that names the parameter.
        key: String,
        /// Name of the parameter in the setting.
        name: String,
        /// Names of the model's parameters, separated by commas.
        known: String,
    },
    /// A layer does not fit its position in a chain of convolutions.
    #[error("layer {layer} of the chain {found}, but it needs {wanted}")]
    Chain {
        /// Index of the layer in the chain, from 0.
        layer: usize,
        /// Description of the layer.
        found: String,
        /// Description of the layers that would fit.
        wanted: String,
    },
    /// The images of the model cannot be split into strips of rows.
    #[error("{found}, but must have {allowed}")]
    Strips {
        /// Description of the model.
        found: String,
        /// Description of the models that can be split.
        allowed: &'static str,
    },
    /// A kernel refused its inputs or attributes, and returned no signature.
    #[error("kernel `{kernel}` (layer {layer}) refused its inputs or attributes")]
    Signature {
        /// Name of the kernel.
        kernel: String,
        /// Layer for which the kernel was opened.
        layer: Layer,
        /// Error of the kernel, or of the host that opened it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The signature of a kernel does not fit the kernel's position in the program.
    #[error("kernel `{kernel}` (layer {layer}): {what} {found}, but the model needs {expected}")]
    SignatureMismatch {
        /// Name of the kernel.
        kernel: String,
        /// Layer for which the kernel was opened.
        layer: Layer,
        /// Part of the signature that does not fit.
        what: &'static str,
        /// Value in the signature.
        found: String,
        /// Value that the program needs.
        expected: String,
    },
    /// Rows cannot be divided, or partial sums do not fit.
    #[error(transparent)]
    Rows(#[from] eciton_types::Error),
}

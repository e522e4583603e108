//! Table of the Python globals that a pickle may use.

/// Python function or class that a pickle may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Global {
    /// `numpy.core.multiarray._reconstruct`, which creates an array without cells.
    Reconstruct,
    /// `numpy.ndarray`.
    Array,
    /// `numpy.dtype`.
    Dtype,
    /// `numpy.core.multiarray.scalar`, which creates a single number.
    Scalar,
    /// `scipy.sparse.csr_matrix`, including its historical module names.
    Csr,
    /// `collections.defaultdict`, which is read as a dictionary.
    DefaultDict,
    /// `list`.
    List,
    /// `object`, which is allowed as an argument only.
    Object,
    /// `_codecs.encode` for latin-1 text. Python 3 uses it to write bytes for Python 2.
    Encode,
    /// `copy_reg._reconstructor`, with which protocols 0 and 1 create an instance.
    Reconstructor,
    /// `copyreg.__newobj__`, with which protocol 2 creates an instance if it cannot use its own
    /// opcode.
    NewObject,
}

impl Global {
    /// Returns the global with this module and name. Returns `None` for all others, which are
    /// rejected.
    pub fn find(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => Self::Reconstruct,
            ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Self::Scalar,
            ("numpy", "ndarray") => Self::Array,
            ("numpy", "dtype") => Self::Dtype,
            ("scipy.sparse.csr" | "scipy.sparse._csr" | "scipy.sparse", "csr_matrix" | "csr_array") => {
                Self::Csr
            }
            ("collections", "defaultdict") => Self::DefaultDict,
            ("__builtin__" | "builtins", "list") => Self::List,
            ("__builtin__" | "builtins", "object") => Self::Object,
            ("_codecs", "encode") => Self::Encode,
            ("copy_reg" | "copyreg", "_reconstructor") => Self::Reconstructor,
            ("copy_reg" | "copyreg", "__newobj__") => Self::NewObject,
            _ => return None,
        })
    }
}

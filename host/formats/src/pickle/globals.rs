//! The table of harmless globals.

/// A global that a pickle may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Global {
    /// `numpy.core.multiarray._reconstruct`: an array without cells yet.
    Reconstruct,
    /// `numpy.ndarray`.
    Array,
    /// `numpy.dtype`.
    Dtype,
    /// `numpy.core.multiarray.scalar`: one number.
    Scalar,
    /// `scipy.sparse.csr_matrix` under its historical module names.
    Csr,
    /// `collections.defaultdict`, read as a dictionary.
    DefaultDict,
    /// `list`.
    List,
    /// `object`, as an argument only.
    Object,
    /// `_codecs.encode`, of latin-1 text: how Python 3 writes bytes for Python 2.
    Encode,
    /// `copy_reg._reconstructor`: how protocols 0 and 1 make an instance.
    Reconstructor,
    /// `copyreg.__newobj__`: how protocol 2 makes one where it cannot use its own opcode.
    NewObject,
}

impl Global {
    /// The global that `module` and `name` stand for; none for all others, which are refused.
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

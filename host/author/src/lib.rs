//! Kernel authoring. This crate finds a compiler for `wasm32-unknown-unknown`, and builds a kernel
//! crate as a WebAssembly component. It compares components with the contract `eciton:kernel`. It
//! also maintains the built-in kernels, and records which of the user's own components may run.
//!
//! This is a separate crate, so that the runtime, which also runs inside functions, contains no
//! build tools. This crate prints nothing. Its functions return results, which the command line
//! shows.
//!
//! ```no_run
//! use eciton_author::{Build, Toolchain, check};
//! # fn main() -> Result<(), eciton_author::Error> {
//! let dir = std::path::Path::new("my-kernel");
//! let toolchain = Toolchain::find(dir)?;
//! let built = Build::new(&toolchain, dir)
//!     .on_line(|line| eprintln!("{line}"))
//!     .run(&dir.join("my-kernel.wasm"))?;
//! println!("{} bytes, {}", built.bytes_len, built.digest);
//!
//! let component = std::fs::read(&built.path).unwrap_or_default();
//! for difference in check(&component)? {
//!     println!("{difference}");
//! }
//! # Ok(()) }
//! ```

mod builtin;
mod c;
mod compile;
mod contract;
mod difference;
mod digest;
mod entries;
mod error;
mod file;
mod lock;
mod outline;
mod pins;
pub mod starter;
mod strip;
mod text;
mod toolchain;

pub use builtin::{BUILTIN, Builtin, Comparison, build_builtin, check_builtin, update_builtin};
pub use c::{Clang, build_c, is_c, write_bindings};
pub use compile::{Build, Built, build};
pub use contract::{CONTRACT, MAX_COMPONENT_BYTES, OLDEST, VERSION, World, check, check_module, version};
pub use difference::{Difference, Side};
pub use digest::{MAX_SOURCE_BYTES, MAX_SOURCE_FILES, component_digest, source_digest};
pub use error::{Error, Result};
pub use lock::{Entry, Lock, Reason, Stale};
pub use outline::{Interface, outline};
pub use pins::{Pin, Pins};
pub use toolchain::{StandardLibrary, Toolchain};

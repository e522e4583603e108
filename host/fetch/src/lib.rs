//! Public data sets by name. The crate has a catalogue with checksums, a cache on disk, and
//! downloads.
//!
//! [`catalogue`] lists the data sets with the addresses and checksums of their files. A
//! [`cache::Cache`] stores files whose checksums were correct when they were written. Training
//! finds a data set with [`cache::Cache::find`]. Files are fetched from the addresses in the
//! catalogue, from a mirror (`download`), or from a folder of the user ([`local`]). All three ways
//! check length and SHA-256.
//!
//! The crate prints nothing, and only the module `download` opens network connections.
//!
//! ```
//! let set = eciton_fetch::catalogue::find("citeseer")?;
//! assert_eq!((set.folder, set.files.len()), ("planetoid", 8));
//! # Ok::<(), eciton_fetch::error::Error>(())
//! ```

pub mod cache;
pub mod catalogue;
#[cfg(feature = "http")]
pub mod download;
pub mod error;
pub mod local;

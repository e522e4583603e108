//! Public data sets by name: a catalogue with checksums, a cache on disk, and downloads.
//!
//! [`catalogue`] lists the data sets with the addresses and checksums of their files. A
//! [`cache::Cache`] stores files whose checksum was right when they were written. Training looks a
//! data set up with [`cache::Cache::find`]. Files come from the addresses of the catalogue, from a
//! mirror (`download`), or from a folder of the user ([`local`]). All three check length and
//! SHA-256.
//!
//! This crate prints nothing, and only the module `download` opens connections.
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

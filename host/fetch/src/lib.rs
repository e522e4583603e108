//! Public data sets by name: a catalogue with checksums, a cache on disk, and ways into it.
//!
//! [`catalogue`] knows what is published where. A [`cache::Cache`] holds files whose checksum was
//! right when they came; whoever trains looks there ([`cache::Cache::find`]). Files come from where
//! they are published or from a mirror (`download`), or from a folder of the user's own
//! ([`local`]): the way is another, the check is the same.
//!
//! Nothing here prints, and only `download` opens connections.
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

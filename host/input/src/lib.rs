//! Checked input from users, namely files, memory limits, and text that is safe to print.
//!
//! * [`file`]: the only module that opens files. It opens regular files only, never blocks, and
//!   limits the number of bytes.
//! * [`budget`]: the memory budget that all readers of the process share.
//! * [`mapped`]: memory-mapped files. A file that changes while it is mapped is reported with its
//!   name.
//! * [`memory`]: the memory that the process may use, limited by the machine and by control groups.
//! * [`notes`]: the reading report, which lists the readers' decisions about ambiguous input.
//! * [`processor`]: the processor time that the process has used.
//! * [`threads`]: worker threads, with a fallback to the calling thread if no thread can be
//!   started.
//! * [`text`]: escaping and shortening of users' text before it is printed.
//!
//! ```
//! use eciton_input::{notes, text};
//! notes::add("cities.csv: the first line was read as a header");
//! let report = notes::take();
//! assert_eq!(report[0].to_string(), "note: cities.csv: the first line was read as a header");
//! // Escape sequences of a terminal are spelled out.
//! assert!(!text::clean("a\x1b[2J").contains('\x1b'));
//! ```

pub mod budget;
pub mod file;
pub mod mapped;
pub mod memory;
pub mod notes;
pub mod processor;
pub mod text;
pub mod threads;

//! Input from outside: whatever a user, a data set, a store, a cache or a kernel gives.
//!
//! * [`file`]: the one place that opens files. Regular files only, never blocking, bytes bounded.
//! * [`budget`]: the memory that reading may take, over all readers of the process.
//! * [`mapped`]: mapped files that change while they are read, reported with their names.
//! * [`memory`]: the memory that the process may hold, by machine and control groups.
//! * [`notes`]: what readers decided where an input left a doubt.
//! * [`processor`]: the processor time of the process.
//! * [`threads`]: threads for pieces of work, where the system gives some.
//! * [`text`]: text from outside, cleaned and cut before it is printed.

pub mod budget;
pub mod file;
pub mod mapped;
pub mod memory;
pub mod notes;
pub mod processor;
pub mod text;
pub mod threads;

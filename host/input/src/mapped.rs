//! Detection of memory-mapped files that change while they are mapped.
//!
//! Reading a mapped page beyond the end of a truncated file raises SIGBUS. Values that another
//! process writes into the file are used unchecked, and may cause an invalid memory access
//! (SIGSEGV). [`watch`] records length, inode and modification time of each mapped file, and
//! [`changed`] compares them with the current values.
//!
//! A signal handler checks whether the fault address is in a mapped file, or a mapped file has
//! changed. In these cases it prints the path of the file and exits with code 1. It passes all
//! other faults to the handler that was installed before.
#![allow(unsafe_code)]

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// File metadata that reveals a change of the content, namely length, modification time and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    bytes: u64,
    modified: (i64, i64),
    file: (u64, u64),
}

impl Stamp {
    #[cfg(unix)]
    fn from_metadata(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self {
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            file: (metadata.dev(), metadata.ino()),
        }
    }

    #[cfg(not(unix))]
    fn from_metadata(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok();
        let since =
            modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok()).unwrap_or_default();
        let modified = (since.as_secs() as i64, i64::from(since.subsec_nanos()));
        Self { bytes: metadata.len(), modified, file: (0, 0) }
    }
}

/// Registration of a mapped file. The file is watched until the value is dropped.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    file: File,
    stamp: Stamp,
    #[cfg(unix)]
    slot: Option<signal::Slot>,
}

/// Kind of change of a mapped file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The length or modification time has changed, so the mapped bytes may differ from those that
    /// were checked when the file was mapped.
    Content {
        /// Path of the mapped file.
        path: PathBuf,
        /// Length of the file in bytes when it was mapped, followed by its current length.
        bytes: [u64; 2],
    },
    /// Another file now has the same path. The mapped bytes are unchanged.
    Replaced {
        /// Path of the mapped file.
        path: PathBuf,
    },
}

static ALL: Mutex<Vec<Weak<Watched>>> = Mutex::new(Vec::new());

/// Starts watching `file`. `bytes` is the memory mapping of its whole content, and `path` is the
/// name that messages show.
///
/// # Errors
/// Returns the error of the operating system if the metadata of the file cannot be read.
pub fn watch(file: File, path: &Path, bytes: &[u8]) -> std::io::Result<Arc<Watched>> {
    let stamp = Stamp::from_metadata(&file.metadata()?);
    #[cfg(unix)]
    let slot = signal::watch(&file, path, bytes, stamp);
    #[cfg(not(unix))]
    let _ = bytes;
    let watched = Arc::new(Watched {
        path: path.to_owned(),
        file,
        stamp,
        #[cfg(unix)]
        slot,
    });
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|other| other.strong_count() > 0);
    all.push(Arc::downgrade(&watched));
    Ok(watched)
}

/// Returns a change of one of the watched files, or `None` if nothing has changed. Changed content
/// is reported before replaced files.
#[must_use]
pub fn changed() -> Option<Change> {
    let all: Vec<Arc<Watched>> =
        ALL.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect();
    let content = all.iter().find_map(|watched| watched.content_changed());
    content.or_else(|| all.iter().find_map(|watched| watched.replaced()))
}

impl Watched {
    fn content_changed(&self) -> Option<Change> {
        let now = Stamp::from_metadata(&self.file.metadata().ok()?);
        let bytes = [self.stamp.bytes, now.bytes];
        (now != self.stamp).then(|| Change::Content { path: self.path.clone(), bytes })
    }

    fn replaced(&self) -> Option<Change> {
        let now = Stamp::from_metadata(&std::fs::metadata(&self.path).ok()?);
        (now.file != self.stamp.file).then(|| Change::Replaced { path: self.path.clone() })
    }
}

#[cfg(unix)]
impl Drop for Watched {
    fn drop(&mut self) {
        // The table entry is cleared before the file is closed and the message is freed.
        drop(self.slot.take());
    }
}

#[cfg(unix)]
mod signal {
    //! Signal handler for SIGBUS and SIGSEGV, with its fixed-size table of mapped files.

    use std::cell::UnsafeCell;
    use std::fs::File;
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd as _;
    use std::path::Path;
    use std::sync::Once;
    use std::sync::atomic::{AtomicBool, AtomicI64, AtomicPtr, AtomicUsize, Ordering};

    use super::Stamp;

    /// Maximum number of mapped files in the signal handler's table. Faults in further mapped files
    /// are not reported.
    const MAX_FILES: usize = 256;
    /// Exit code of the process after the signal handler has printed its message.
    const EXIT_CODE: libc::c_int = 1;

    /// Record of one mapped file in the signal handler's table. The handler skips an entry whose
    /// `end` is 0.
    struct Entry {
        taken: AtomicBool,
        start: AtomicUsize,
        end: AtomicUsize,
        descriptor: AtomicI64,
        bytes: AtomicI64,
        seconds: AtomicI64,
        nanoseconds: AtomicI64,
        message: AtomicPtr<u8>,
        message_bytes: AtomicUsize,
    }

    impl Entry {
        const fn new() -> Self {
            Self {
                taken: AtomicBool::new(false),
                start: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                descriptor: AtomicI64::new(-1),
                bytes: AtomicI64::new(0),
                seconds: AtomicI64::new(0),
                nanoseconds: AtomicI64::new(0),
                message: AtomicPtr::new(std::ptr::null_mut()),
                message_bytes: AtomicUsize::new(0),
            }
        }

        /// Returns whether the file has changed since it was mapped. This is safe to call from a
        /// signal handler.
        fn has_changed(&self) -> bool {
            let mut stat = MaybeUninit::<libc::stat>::uninit();
            let descriptor = self.descriptor.load(Ordering::Relaxed) as libc::c_int;
            // SAFETY: `fstat` may be called in a signal handler, and it writes only to this
            // structure.
            if unsafe { libc::fstat(descriptor, stat.as_mut_ptr()) } != 0 {
                return false;
            }
            // SAFETY: fstat has filled the structure.
            let stat = unsafe { stat.assume_init() };
            stat.st_size != self.bytes.load(Ordering::Relaxed)
                || stat.st_mtime != self.seconds.load(Ordering::Relaxed)
                || stat.st_mtime_nsec != self.nanoseconds.load(Ordering::Relaxed)
        }
    }

    static ENTRIES: [Entry; MAX_FILES] = [const { Entry::new() }; MAX_FILES];

    /// Index of a mapped file's entry in the signal handler's table. Dropping the value clears the
    /// entry.
    #[derive(Debug)]
    pub(super) struct Slot {
        at: usize,
        _message: Box<[u8]>,
    }

    impl Drop for Slot {
        fn drop(&mut self) {
            if let Some(entry) = ENTRIES.get(self.at) {
                entry.end.store(0, Ordering::SeqCst);
                entry.taken.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Adds a mapped file to the signal handler's table, and installs the handler at the first
    /// call. Returns `None` if the table is full.
    pub(super) fn watch(file: &File, path: &Path, bytes: &[u8], stamp: Stamp) -> Option<Slot> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let path = crate::text::shown(&path.display().to_string());
        let message = format!(
            "error: {path}: the file was changed or shortened while a run read it (the operating system reported \
             a memory fault); do not change data during a run: restore the file, then continue with `eciton \
             resume`, or start again\n"
        );
        let mut message = message.into_bytes().into_boxed_slice();
        let free = |entry: &Entry| {
            entry.taken.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        let at = ENTRIES.iter().position(free)?;
        let entry = ENTRIES.get(at)?;
        entry.start.store(bytes.as_ptr().addr(), Ordering::Relaxed);
        entry.descriptor.store(file.as_raw_fd().into(), Ordering::Relaxed);
        entry.bytes.store(stamp.bytes as i64, Ordering::Relaxed);
        entry.seconds.store(stamp.modified.0, Ordering::Relaxed);
        entry.nanoseconds.store(stamp.modified.1, Ordering::Relaxed);
        entry.message.store(message.as_mut_ptr(), Ordering::Relaxed);
        entry.message_bytes.store(message.len(), Ordering::Relaxed);
        // `end` is stored last, because the handler reads an entry only if `end` is not 0.
        entry.end.store(bytes.as_ptr().addr() + bytes.len(), Ordering::SeqCst);
        Some(Slot { at, _message: message })
    }

    /// Handlers of SIGBUS and SIGSEGV that were installed before this one. They are written once,
    /// before the new handler is installed.
    struct Before(UnsafeCell<[MaybeUninit<libc::sigaction>; 2]>);

    // SAFETY: only `Once::call_once` writes the cell. The handler that reads it is installed
    // afterwards.
    unsafe impl Sync for Before {}

    static BEFORE: Before = Before(UnsafeCell::new([const { MaybeUninit::uninit() }; 2]));
    const SIGNALS: [libc::c_int; 2] = [libc::SIGBUS, libc::SIGSEGV];

    fn install() {
        // SAFETY: the structures contain only numbers, for which zero is valid. `sigaction` reads
        // the new one and writes the old one.
        unsafe {
            let before = BEFORE.0.get();
            for (at, signal) in SIGNALS.into_iter().enumerate() {
                libc::sigaction(signal, std::ptr::null(), (*before)[at].as_mut_ptr());
            }
            for signal in SIGNALS {
                let mut action: libc::sigaction = std::mem::zeroed();
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
                action.sa_sigaction = handler as libc::sighandler_t;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }

    /// Handles SIGBUS and SIGSEGV. Prints a message and exits if the fault address is in a mapped
    /// file, or if a mapped file has changed. Otherwise passes the fault to the earlier handler.
    extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the operating system passes a valid structure to the handler.
        let address = unsafe { (*info).si_addr() }.addr();
        for entry in &ENTRIES {
            let (start, end) = (entry.start.load(Ordering::Relaxed), entry.end.load(Ordering::SeqCst));
            if end == 0 || !((start..end).contains(&address) || entry.has_changed()) {
                continue;
            }
            let message = entry.message.load(Ordering::Relaxed);
            let bytes = entry.message_bytes.load(Ordering::Relaxed);
            // SAFETY: the message lives while the `end` of its entry is not 0. `write` and `_exit`
            // may be called in a signal handler.
            unsafe {
                libc::write(libc::STDERR_FILENO, message.cast(), bytes);
                libc::_exit(EXIT_CODE);
            }
        }
        let at = usize::from(signal != libc::SIGBUS);
        // SAFETY: `install` has written both structures before this handler was installed. An
        // earlier handler is called as the system would call it. Without one, the default action is
        // restored, and the instruction faults again.
        unsafe {
            let before = (*BEFORE.0.get())[at].assume_init_ref();
            match before.sa_sigaction {
                libc::SIG_DFL | libc::SIG_IGN => {
                    libc::sigaction(signal, before, std::ptr::null_mut());
                }
                handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                }
                handler => {
                    let handler: extern "C" fn(libc::c_int) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::Write as _;

    use super::*;

    /// A single test, because the watched files belong to the process.
    #[test]
    fn changes_of_content_and_of_the_file_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, b"12345678").unwrap();
        let watched = watch(File::open(&path).unwrap(), &path, b"12345678").unwrap();
        assert_eq!(changed(), None);
        let other = folder.path().join("b");
        std::fs::write(&other, b"12345678").unwrap();
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        assert_eq!(changed(), None, "a path without a file is no other file");
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(changed(), Some(Change::Replaced { path: path.clone() }));
        let mut old = File::options().append(true).open(folder.path().join("old")).unwrap();
        old.write_all(b"9").unwrap();
        assert_eq!(changed(), Some(Change::Content { path: path.clone(), bytes: [8, 9] }));
        drop(watched);
        assert_eq!(changed(), None);
    }
}

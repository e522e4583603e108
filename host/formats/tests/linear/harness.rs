//! Measures whether the work of a reader is linear in its input.
//!
//! A case makes files of a size and reads them. Files of 32 times the size may cost at most 400
//! times the processor time. A reader whose work grows with the square of the size costs 1,024
//! times. The base is doubled until it takes a millisecond, and the best of several readings
//! counts.
//!
//! `.ci/campaign linear` counts instructions instead, of which 32 times the input may cost 40
//! times. It calls each case in three modes (`ECITON_LINEAR`): `make` writes the files of
//! `ECITON_LINEAR_SCALE` times the smallest base into `ECITON_LINEAR_FOLDER`, `read` reads them,
//! and `start` does nothing.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Growth of the input.
const GROWTH: usize = 32;
/// Maximum growth of the processor time. It lies between linear work, which took up to 187 times as
/// long where the grown input left the caches and its pages were new, and work that grows with the
/// square of the size. The campaign finds what lies between.
const MOST: u32 = 400;
/// Processor time that the reading of the base takes at least.
const LEAST: Duration = Duration::from_millis(1);
/// Readings of the base, of which the best counts.
const REPEATS: usize = 5;
/// Attempts at the grown input before a case fails.
const ATTEMPTS: usize = 3;

/// Clock of processor time.
#[allow(dead_code, reason = "each program that includes this file uses one of them")]
#[derive(Clone, Copy)]
pub(crate) enum Clock {
    /// Time of the calling thread.
    Thread,
    /// Time of all threads that the process has had.
    Process,
}

impl Clock {
    #[allow(unsafe_code)]
    fn now(self) -> Duration {
        let clock = match self {
            Self::Thread => libc::CLOCK_THREAD_CPUTIME_ID,
            Self::Process => libc::CLOCK_PROCESS_CPUTIME_ID,
        };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes to the structure alone.
        let outcome = unsafe { libc::clock_gettime(clock, &raw mut time) };
        assert_eq!(outcome, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// Files by name.
pub(crate) type Files = Vec<(&'static str, Vec<u8>)>;

/// Lets the C library use memory of an earlier reading again at every size. By default it returns
/// pieces of 32 MB and more to the system, so that large inputs pay for new pages at each reading
/// and small ones do not.
#[allow(unsafe_code)]
fn memory_is_used_again() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the calls set numbers of the allocator, and read no memory of the program.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
}

/// One reader in one dimension.
pub(crate) struct Case {
    pub(crate) clock: Clock,
    /// Smallest base and largest one.
    pub(crate) sizes: [usize; 2],
    pub(crate) make: fn(usize) -> Files,
    pub(crate) read: fn(&Path),
}

impl Case {
    fn write(&self, folder: &Path, size: usize) {
        for (name, bytes) in (self.make)(size) {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    /// Processor time of the best of `repeats` measurements, each of `times` readings of files of a
    /// size.
    fn time(&self, size: usize, repeats: usize, times: u32) -> Duration {
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory).unwrap(),
            false => tempfile::tempdir().unwrap(),
        };
        self.write(folder.path(), size);
        let once = || {
            let before = self.clock.now();
            (0..times).for_each(|_| (self.read)(folder.path()));
            let time = self.clock.now() - before;
            eciton_input::notes::take();
            time
        };
        (0..repeats).map(|_| once()).min().unwrap()
    }

    /// Fails if the work is not linear.
    pub(crate) fn check(&self, name: &str) {
        let [least, most] = self.sizes;
        if let Ok(mode) = std::env::var("ECITON_LINEAR") {
            let folder = std::env::var("ECITON_LINEAR_FOLDER").unwrap();
            let scale: usize = std::env::var("ECITON_LINEAR_SCALE").unwrap().parse().unwrap();
            match &mode[..] {
                "make" => self.write(Path::new(&folder), least * scale),
                "read" => (self.read)(Path::new(&folder)),
                _ => {}
            }
            return;
        }
        // One case at a time: the time is that of the process.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        memory_is_used_again();
        let mut size = least;
        let mut base = self.time(size, REPEATS, 1);
        while base < LEAST && 2 * size <= most {
            size *= 2;
            base = self.time(size, REPEATS, 1);
        }
        // The input cannot grow further: it is read several times.
        let times = LEAST.as_nanos().div_ceil(base.as_nanos().max(1)).clamp(1, 1000) as u32;
        if times > 1 {
            base = self.time(size, REPEATS, times);
        }
        let mut grown = Duration::MAX;
        for _ in 0..ATTEMPTS {
            grown = grown.min(self.time(GROWTH * size, 1, times));
            // Reading for the first time, the system still has to provide the memory.
            if grown <= base * MOST / 2 {
                break;
            }
        }
        let ratio = grown.as_secs_f64() / base.as_secs_f64();
        println!("{name}: {size} in {base:?}, {GROWTH} times as much in {grown:?}: ratio {ratio:.1}");
        assert!(grown <= base * MOST, "{name}: ratio {ratio:.0} for {GROWTH} times the input of size {size}");
    }
}

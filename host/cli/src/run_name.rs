//! Default names of run folders, which have the form `runs/DATASET-MODEL-YYYYMMDD-HHMMSS` with the
//! time in UTC.

use std::fs::{create_dir, create_dir_all};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use eciton_recipe::{Config, Layers};
use eciton_train::checkpoint::{discard_empty, folder};

use crate::interrupt::unfinished;

/// Maximum length of the data set's part and of the model's part in the name of a run folder, in
/// characters.
const MAX_PART: usize = 40;
/// Maximum number of run folders with the same time stamp, that is, of runs that start within one
/// second.
const MAX_SUFFIX: u32 = 10_000;
/// Maximum number of attempts to create a folder whose parent other processes may remove.
const TRIES: usize = 100;

/// A reserved name of a run folder. While this value exists, no other process chooses the same
/// name.
///
/// The checkpoint folder of the run serves as the reservation. It is created by a single system
/// call. If several processes start within the same second, only one of them gets the name.
pub(crate) struct RunName {
    path: PathBuf,
    /// True if this value created the checkpoint folder.
    reserved: bool,
}

impl RunName {
    /// Reserves a name in the folder `runs` of the working directory, from the data set, the model
    /// and the current time.
    pub(crate) fn choose(config: &Config) -> Self {
        let name = format!("{}-{}-{}", data_part(config), model_part(config), stamp(now()));
        Self::reserve(Path::new("runs"), &name)
    }

    /// Reserves the first free name of NAME, NAME-2, NAME-3 and so on. Names of runs in progress
    /// are not free. If no folder can be created, the name is returned without a reservation, and
    /// the run reports the error.
    fn reserve(parent: &Path, name: &str) -> Self {
        let names = (2..MAX_SUFFIX).map(|suffix| format!("{name}-{suffix}"));
        for name in std::iter::once(name.to_owned()).chain(names) {
            let path = parent.join(name);
            if is_taken(&path) {
                continue;
            }
            let checkpoints = folder(&path);
            // A failed run of another process may remove the empty parent in between.
            let made = (0..TRIES).find_map(|_| {
                match create_dir_all(parent).and_then(|()| create_dir(&checkpoints)) {
                    Err(error) if error.kind() == ErrorKind::NotFound => None,
                    made => Some(made),
                }
            });
            match made {
                // Another process's run may have ended between the check and the reservation.
                Some(Ok(())) if is_run(&path) => drop(Self { path, reserved: true }),
                Some(Ok(())) => return Self { path, reserved: true },
                Some(Err(error)) if error.kind() == ErrorKind::AlreadyExists => {}
                // The run itself reports the reason why nothing can be written there.
                _ => return Self { path, reserved: false },
            }
        }
        Self { path: parent.join(name), reserved: false }
    }

    /// Returns the path of the run folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RunName {
    fn drop(&mut self) {
        if self.reserved {
            discard_empty(&self.path);
            // This fails if the folder is not empty.
            let _ = self.path.parent().map(std::fs::remove_dir);
        }
    }
}

/// Returns true if a run folder of this name exists, or if another process has reserved the name.
fn is_taken(path: &Path) -> bool {
    is_run(path) || folder(path).exists()
}

/// Returns true if the run folder at `path` exists or is being written.
fn is_run(path: &Path) -> bool {
    path.symlink_metadata().is_ok() || !unfinished(path).is_empty()
}

/// Returns the part of a run folder's name that identifies the data set.
fn data_part(config: &Config) -> String {
    let source = Path::new(&config.data.source);
    let last = || source.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    part(config.data.name.clone().or_else(last).as_deref(), "data")
}

/// Returns the part of a run folder's name that identifies the model. It is the kind of the model,
/// or the kernels of its layers.
fn model_part(config: &Config) -> String {
    match &config.model.layers {
        Layers::Count(_) => config.model.kind.name().to_owned(),
        Layers::List(layers) => {
            let mut kinds: Vec<&str> = layers.iter().map(|layer| layer.kernel.as_str()).collect();
            kinds.dedup();
            part(Some(&kinds.join("-")), "model")
        }
    }
}

/// Converts a text to a part of a folder name, with at most [`MAX_PART`] characters in lower case.
/// Characters other than letters, digits and `_` are replaced by `-`. If the result is empty,
/// `otherwise` is returned.
fn part(text: Option<&str>, otherwise: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '-' };
    let text: String = text.unwrap_or_default().chars().take(MAX_PART).map(plain).collect();
    let text = text.trim_matches('-').to_lowercase();
    if text.is_empty() { otherwise.to_owned() } else { text }
}

/// Returns the current Unix time, in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Formats a Unix time in seconds as `YYYY-MM-DDTHH:MM:SSZ`, in UTC.
pub(crate) fn iso(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Formats a Unix time in seconds as `YYYYMMDD-HHMMSS`, in UTC.
pub(crate) fn stamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Converts a number of days since 1970-01-01 to (year, month, day) in the Gregorian calendar. The
/// algorithm uses years that begin on 1 March, so that a leap day is the last day of a year (H.
/// Hinnant, "chrono-compatible low-level date algorithms").
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(stamp(0), "19700101-000000");
        assert_eq!(stamp(951_782_400), "20000229-000000");
        assert_eq!(stamp(951_868_799), "20000229-235959");
        assert_eq!(stamp(951_868_800), "20000301-000000");
        assert_eq!(stamp(1_735_689_599), "20241231-235959");
        assert_eq!(stamp(4_107_542_400), "21000301-000000");
    }

    #[test]
    fn names_say_data_and_model() {
        let mut config = Config::default();
        assert_eq!((data_part(&config), model_part(&config)), ("cora".to_owned(), "gcn".to_owned()));
        config.data.source = "../some where/Amazon Photo.npz".to_owned();
        assert_eq!(data_part(&config), "amazon-photo");
        config.data.source = "..".to_owned();
        assert_eq!(data_part(&config), "data");
        config.data.name = Some("PubMed".to_owned());
        assert_eq!(data_part(&config), "pubmed");
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let dir = tempfile::tempdir().unwrap();
        // The file keeps the folder when a name is released.
        std::fs::write(dir.path().join("other"), "").unwrap();
        let path = |name: &str| dir.path().join(name);
        let reserve = || RunName::reserve(dir.path(), "x");
        assert_eq!(reserve().path(), path("x"), "given back at once");
        std::fs::create_dir(path("x")).unwrap();
        assert_eq!(reserve().path(), path("x-2"));
        std::fs::create_dir(path(".x-2.partial-a1")).unwrap();
        assert_eq!(reserve().path(), path("x-3"));
        std::fs::create_dir(path("x-3.checkpoint")).unwrap();
        let held = reserve();
        assert_eq!(held.path(), path("x-4"));
        assert_eq!(reserve().path(), path("x-5"));
        drop(held);
        assert_eq!(reserve().path(), path("x-4"));
    }

    #[test]
    fn names_that_are_chosen_at_once_differ() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path().join("runs");
        let names: Vec<RunName> = std::thread::scope(|scope| {
            let one = || scope.spawn(|| RunName::reserve(&parent, "x"));
            let all: Vec<_> = (0..16).map(|_| one()).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut paths: Vec<_> = names.iter().map(|name| name.path().to_owned()).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 16);
        drop(names);
        assert!(!parent.exists());
    }
}

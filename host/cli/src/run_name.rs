//! The folder of a run that was given none: `runs/DATASET-MODEL-YYYYMMDD-HHMMSS`, in UTC.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use eciton_plan::{Config, Layers};

use crate::interrupt::unfinished;

/// Longest name of a data set or model that is taken over, in characters.
const MAX_PART: usize = 40;
/// Most runs of one second.
const MAX_SUFFIX: u32 = 10_000;

/// A folder that does not exist yet, under `runs` of the current folder.
pub(crate) fn choose(config: &Config) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let name = format!("{}-{}-{}", data_part(config), model_part(config), stamp(now));
    free(Path::new("runs"), &name)
}

/// The first of NAME, NAME-2, NAME-3 ... that is free, also of a run under way.
fn free(parent: &Path, name: &str) -> PathBuf {
    let taken = |name: &str| {
        let path = parent.join(name);
        let checkpoints = eciton_train::checkpoint::folder(&path);
        path.symlink_metadata().is_ok() || checkpoints.exists() || !unfinished(&path).is_empty()
    };
    let names = (2..MAX_SUFFIX).map(|suffix| format!("{name}-{suffix}"));
    let chosen = std::iter::once(name.to_owned()).chain(names).find(|name| !taken(name));
    parent.join(chosen.unwrap_or_else(|| name.to_owned()))
}

fn data_part(config: &Config) -> String {
    let source = Path::new(&config.data.source);
    let last = || source.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    part(config.data.name.clone().or_else(last).as_deref(), "data")
}

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

/// Letters, digits, `_` and `-` only; `otherwise` if nothing is left.
fn part(text: Option<&str>, otherwise: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '-' };
    let text: String = text.unwrap_or_default().chars().take(MAX_PART).map(plain).collect();
    let text = text.trim_matches('-').to_lowercase();
    if text.is_empty() { otherwise.to_owned() } else { text }
}

/// Seconds since 1970 as `YYYYMMDD-HHMMSS`, UTC.
fn stamp(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// Days since 1970-01-01 as a Gregorian date. Counted in eras of 400 years that begin on 1 March, so
/// that the leap day is the last of a year (H. Hinnant, "chrono-compatible low-level date algorithms").
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
        let path = |name: &str| dir.path().join(name);
        assert_eq!(free(dir.path(), "x"), path("x"));
        std::fs::create_dir(path("x")).unwrap();
        assert_eq!(free(dir.path(), "x"), path("x-2"));
        std::fs::create_dir(path(".x-2.partial-a1")).unwrap();
        assert_eq!(free(dir.path(), "x"), path("x-3"));
        std::fs::create_dir(path("x-3.checkpoint")).unwrap();
        assert_eq!(free(dir.path(), "x"), path("x-4"));
    }
}

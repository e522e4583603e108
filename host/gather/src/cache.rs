//! Sizes of the processor's caches, from which gathers choose their block sizes.

use std::sync::OnceLock;

/// Sizes of the processor's caches in bytes. Cores have their own second level, and share the last
/// level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caches {
    /// Size of one core's second-level cache in bytes. 1 MiB if the system does not report it.
    pub second: usize,
    /// Size of the last-level cache in bytes. 16 MiB if the system does not report it.
    pub last: usize,
}

/// Cache sizes that are assumed if the system reports none. They are those of a small server core.
const FALLBACK: Caches = Caches { second: 1 << 20, last: 16 << 20 };
/// Smallest and largest plausible size of the second-level cache. Other sizes are ignored, because
/// virtual machines may report wrong values.
const SECOND: (usize, usize) = (128 << 10, 16 << 20);
const LAST: usize = 1 << 30;

impl Caches {
    /// Returns the cache sizes of this machine, which are read once per process. They come from the
    /// folder `/sys/devices/system/cpu/cpu0/cache` of Linux.
    pub fn here() -> Self {
        static HERE: OnceLock<Caches> = OnceLock::new();
        *HERE.get_or_init(|| {
            Self::from_entries(|index, what| {
                let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
                std::fs::read_to_string(path).ok()
            })
        })
    }

    /// Determines the cache sizes from the entries `index0` to `index9`. `read` returns the content
    /// of the file `level`, `type` or `size` of an entry.
    fn from_entries(read: impl Fn(usize, &str) -> Option<String>) -> Self {
        let (mut second, mut last) = (None, None);
        for index in 0..10 {
            let Some((level, size)) = read(index, "level").zip(read(index, "size")) else { break };
            let (Ok(level), Some(size)) = (level.trim().parse::<u32>(), bytes(size.trim())) else { continue };
            if read(index, "type").is_some_and(|t| t.trim() == "Instruction") {
                continue;
            }
            match level {
                2 => second = Some(size),
                3.. => last = Some(size),
                _ => {}
            }
        }
        let second = second.filter(|s| (SECOND.0..=SECOND.1).contains(s)).unwrap_or(FALLBACK.second);
        let last = last.filter(|&l| l >= second && l <= LAST).unwrap_or(FALLBACK.last.max(second));
        Self { second, last }
    }
}

/// Parses a size such as `1024K`, `32M` or a plain number of bytes. Returns `None` for other texts.
fn bytes(text: &str) -> Option<usize> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    /// Returns the cache sizes of a system with these entries (level, type, size).
    fn system(entries: &[(&str, &str, &str)]) -> Caches {
        Caches::from_entries(|index, what| {
            let (level, kind, size) = entries.get(index)?;
            let text = match what {
                "level" => level,
                "type" => kind,
                _ => size,
            };
            Some(format!("{text}\n"))
        })
    }

    #[test]
    fn sizes_are_read_and_doubtful_ones_are_not_believed() {
        let first = [("1", "Data", "32K"), ("1", "Instruction", "32K")];
        let all = [first[0], first[1], ("2", "Unified", "2048K"), ("3", "Unified", "32M")];
        assert_eq!(system(&all), Caches { second: 2 << 20, last: 32 << 20 });
        assert_eq!(system(&[]), FALLBACK);
        assert_eq!(system(&first), FALLBACK);
        for size in ["0K", "64K", "17M", "K", "", "99999999999999999999M", "18446744073709551615M"] {
            assert_eq!(system(&[("2", "Unified", size)]), FALLBACK, "{size}");
            assert_eq!(system(&[("3", "Unified", size)]).second, FALLBACK.second, "{size}");
        }
        let here = Caches::here();
        assert!(here.second >= SECOND.0 && here.last >= here.second);
    }
}

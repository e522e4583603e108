//! Resource limits that the operating system sets for this process. Batch systems and containers
//! often lower them.

use crate::text::{bytes, grouped};

/// A resource limit of the operating system that `eciton doctor` reports.
struct Known {
    /// Name of the limit in `/proc/self/limits` of Linux.
    system: &'static str,
    /// Key of the limit in the JSON output.
    key: &'static str,
    /// Name of the limit in the printed report.
    shown: &'static str,
    /// Smallest value with which typical runs succeed, and the reason that is printed for a lower
    /// value.
    least: (u64, &'static str),
}

const KNOWN: [Known; 5] = [
    Known {
        system: "Max address space",
        key: "address_space_bytes",
        shown: "address space",
        least: (2 << 30, "a small graph takes 1.5 GB on two threads, plus about 1 GB per additional thread"),
    },
    Known {
        system: "Max data size",
        key: "data_bytes",
        shown: "data",
        least: (2 << 30, "a small graph takes 1.5 GB on two threads, plus about 1 GB per additional thread"),
    },
    Known {
        system: "Max processes",
        key: "processes",
        shown: "processes",
        least: (64, "threads count as processes; reduce run.threads"),
    },
    Known {
        system: "Max open files",
        key: "open_files",
        shown: "open files",
        least: (64, "each kernel and each mapped file of a data set takes one"),
    },
    Known {
        system: "Max file size",
        key: "file_bytes",
        shown: "file size",
        least: (64 << 20, "models and checkpoints above it cannot be written"),
    },
];

/// A resource limit of this process, with its current value.
pub(super) struct SystemLimit {
    /// Key of the limit in the JSON output.
    pub(super) key: &'static str,
    shown: &'static str,
    pub(super) value: u64,
    /// Reason why typical runs fail with this limit. `None` if the limit is high enough.
    pub(super) fault: Option<&'static str>,
}

impl SystemLimit {
    /// Returns the limits of this process, without those that are `unlimited`. The list is empty if
    /// the system does not report limits.
    pub(super) fn all() -> Vec<Self> {
        parse(&std::fs::read_to_string("/proc/self/limits").unwrap_or_default())
    }

    /// Returns the name and value of the limit for users, and the reason if the limit is too low.
    pub(super) fn describe(&self) -> String {
        let value = if self.key.ends_with("_bytes") { bytes(self.value) } else { grouped(self.value) };
        let fault = self.fault.map_or(String::new(), |fault| format!("; LOW: {fault}"));
        format!("{:<18} {value}{fault}", self.shown)
    }
}

/// Parses the content of `/proc/self/limits`, and returns the limits that `eciton doctor` reports.
fn parse(text: &str) -> Vec<SystemLimit> {
    let find = |known: &'static Known| {
        let line = text.lines().find_map(|line| line.strip_prefix(known.system))?;
        let value: u64 = line.split_whitespace().next()?.parse().ok()?;
        let fault = (value < known.least.0).then_some(known.least.1);
        Some(SystemLimit { key: known.key, shown: known.shown, value, fault })
    };
    KNOWN.iter().filter_map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_are_set_are_listed_and_low_ones_named() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max file size             unlimited            unlimited            bytes     \n\
                    Max processes             20                   96364                processes \n\
                    Max address space         8192000000           unlimited            bytes     \n";
        let found = parse(text);
        let described: Vec<String> = found.iter().map(SystemLimit::describe).collect();
        assert_eq!(described.len(), 2, "{described:?}");
        assert!(described[0].starts_with("address space") && !described[0].contains("LOW"), "{described:?}");
        assert!(described[1].starts_with("processes          20; LOW: threads"), "{described:?}");
        assert!(parse("").is_empty());
    }
}

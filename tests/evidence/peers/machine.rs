//! The machine that figures were taken on, and what was run there, in words.

use std::path::Path;
use std::process::Command;

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The value of a `key : value` line.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':').map(str::trim))
}

/// Caches of the first core: `L1d 32K, L2 1024K, L3 32768K`.
fn caches() -> String {
    let folder = "/sys/devices/system/cpu/cpu0/cache";
    let cache = |index: u32| {
        let of = |name: &str| read(&format!("{folder}/index{index}/{name}"));
        let kind = match of("type")?.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some(format!("L{}{kind} {}", of("level")?, of("size")?))
    };
    (0..8).map_while(cache).collect::<Vec<_>>().join(", ")
}

/// Cores, model, caches, memory, system, and the load at this moment.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let processor = read("/proc/cpuinfo").unwrap_or_default();
    let model = value(&processor, "model name").unwrap_or("unknown processor");
    let memory = read("/proc/meminfo").unwrap_or_default();
    let kib: f64 = value(&memory, "MemTotal")
        .and_then(|v| v.split_whitespace().next()?.parse().ok())
        .unwrap_or(f64::NAN);
    let system = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let load = read("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().take(3).collect::<Vec<_>>().join(", ");
    let caches = caches();
    let gib = kib / f64::from(1 << 20);
    format!("{cores} cores of {model} ({caches}), {gib:.1} GiB, Linux {system}; load before {load}")
}

/// Standard output of a command that ended well.
fn output(command: &mut Command) -> Option<String> {
    let ran = command.output().ok().filter(|ran| ran.status.success())?;
    Some(String::from_utf8_lossy(&ran.stdout).trim().to_owned())
}

/// `eciton --version`, and the source tree's revision where there is one.
///
/// # Errors
/// In words if the program does not run.
pub(crate) fn own_version(eciton: &Path) -> Result<String, String> {
    let version = output(Command::new(eciton).arg("--version")).ok_or_else(|| {
        format!("{} does not run; cargo build --release makes it, --eciton names another", eciton.display())
    })?;
    let git = |arguments: &[&str]| {
        output(Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR")]).args(arguments))
    };
    let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) else { return Ok(version) };
    let changed = git(&["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty());
    Ok(format!("{version}, revision {revision}{}", if changed { " with changes" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::value;

    #[test]
    fn keys_are_found() {
        let text = "processor\t: 0\nmodel name\t: A: B\nMemTotal:  123 kB\n";
        assert_eq!(value(text, "model name"), Some("A: B"));
        assert_eq!(value(text, "MemTotal"), Some("123 kB"));
        assert_eq!(value(text, "model"), None);
    }
}

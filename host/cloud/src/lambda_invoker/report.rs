//! The `REPORT` line at the end of a function's log, which contains the charge.

use base64::Engine as _;

use crate::invoker::Charge;

/// Returns the charge in `tail`, the end of a log in Base64. Returns `None` if it contains no valid
/// `REPORT` line.
pub(super) fn from_base64(tail: &str) -> Option<Charge> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(tail).ok()?;
    parse(&String::from_utf8_lossy(&bytes))
}

/// Returns the charge in the last `REPORT` line of a log. The fields of the line are separated by
/// tabs, for instance `REPORT RequestId: ID\tDuration: 1.23 ms\tBilled Duration: 2 ms\tMemory Size:
/// 128 MB`.
fn parse(log: &str) -> Option<Charge> {
    let line = log.lines().rev().find(|line| line.starts_with("REPORT "))?;
    let value = |name: &str, unit: &str| {
        let field = line.split('\t').map(str::trim).find_map(|f| f.strip_prefix(name)?.strip_prefix(':'))?;
        field.trim().strip_suffix(unit)?.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0)
    };
    Some(Charge {
        billed_ms: value("Billed Duration", "ms")? as u64,
        duration_ms: value("Duration", "ms")?,
        init_ms: value("Init Duration", "ms"),
        memory_mb: value("Memory Size", "MB")? as u32,
        used_mb: value("Max Memory Used", "MB").unwrap_or(0.0) as u32,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_line_that_the_service_writes() {
        let log = "START RequestId: 8f50 Version: $LATEST\nhello\nEND RequestId: 8f50\nREPORT RequestId: 8f50\tDuration: 1.53 ms\tBilled Duration: 24 ms\tMemory Size: 1769 MB\tMax Memory Used: 31 MB\tInit Duration: 21.70 ms\t\n";
        let charge = parse(log).unwrap();
        let expected =
            Charge { billed_ms: 24, duration_ms: 1.53, init_ms: Some(21.7), memory_mb: 1769, used_mb: 31 };
        assert_eq!(charge, expected);
        assert_eq!(parse(&log.replace("\tInit Duration: 21.70 ms", "")).unwrap().init_ms, None);
        assert!(parse("END RequestId: 8f50\n").is_none());
        assert!(parse("REPORT RequestId: 8f50\tDuration: x ms\tBilled Duration: -1 ms").is_none());
    }
}

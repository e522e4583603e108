//! Log messages on standard error, which `-v` and the variable `RUST_LOG` enable.
//!
//! Messages are events of the crate `tracing`. `-v` shows the work of the run (data, kernels,
//! memory, files). `-vv` adds each evaluation and cache access, and `-vvv` each step. Without `-v`,
//! `RUST_LOG` sets log levels by crate, for instance `eciton_train=debug,aws_smithy_runtime=info`.
//! The AWS clients emit messages as well.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::ProgressBar;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::time::uptime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;

/// Environment variable that sets log levels by crate.
const VARIABLE: &str = "RUST_LOG";
/// Prefix of the crates whose messages `-v` shows.
const OWN: &str = "eciton";

/// Progress bar on standard error. It is hidden while a message is printed.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Sets the progress bar that log messages must not overwrite.
pub(crate) fn set_bar(bar: &ProgressBar) {
    *BAR.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
}

/// Starts logging on standard error. `verbose` is the number of `-v` flags. If it is 0, `RUST_LOG`
/// sets the log levels. The function must be called once per process.
///
/// # Errors
/// Returns [`Failure::Usage`] if `RUST_LOG` cannot be parsed.
pub(crate) fn start(verbose: u8) -> Result<(), Failure> {
    let typed = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty());
    let Some(targets) = targets(verbose, typed.as_deref())? else { return Ok(()) };
    let layer = tracing_subscriber::fmt::layer().with_timer(uptime()).with_ansi(false).with_writer(|| Lines);
    // A program that embeds this library may have a subscriber of its own, which is not replaced.
    let _ = tracing_subscriber::registry().with(layer.with_filter(targets)).try_init();
    Ok(())
}

/// Returns the log level of each crate. Returns `None` if `verbose` is 0 and `typed`, the value of
/// `RUST_LOG`, is not set.
fn targets(verbose: u8, typed: Option<&str>) -> Result<Option<Targets>, Failure> {
    let level = match (verbose, typed) {
        (0, None) => return Ok(None),
        (0, Some(text)) => {
            let parsed = text.parse::<Targets>().map_err(|error| {
                Failure::Usage(format!(
                    "{VARIABLE}={text}: {error}; expected a level (error, warn, info, debug, trace) or levels by crate, \
                     such as eciton_train=debug,aws_smithy_runtime=info"
                ))
            })?;
            return Ok(Some(parsed));
        }
        (1, _) => LevelFilter::INFO,
        (2, _) => LevelFilter::DEBUG,
        (3.., _) => LevelFilter::TRACE,
    };
    Ok(Some(Targets::new().with_target(OWN, level)))
}

/// Writer of log messages. It prints each message on standard error, above the progress bar.
struct Lines;

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let shown = || crate::output::tell(text.trim_end());
        match &*BAR.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(bar) => bar.suspend(shown),
            None => shown(),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tracing::Level;

    #[test]
    fn levels_are_those_that_are_asked_for() {
        assert!(targets(0, None).unwrap().is_none());
        let of = |verbose, typed| targets(verbose, typed).unwrap().unwrap();
        assert!(of(1, None).would_enable("eciton_train::session", &Level::INFO));
        assert!(!of(1, None).would_enable("eciton_train", &Level::DEBUG));
        assert!(!of(3, Some("info")).would_enable("hyper", &Level::ERROR));
        let typed = of(0, Some("eciton_exec=trace,hyper=warn"));
        assert!(typed.would_enable("eciton_exec::lambda", &Level::TRACE));
        assert!(
            typed.would_enable("hyper", &Level::WARN) && !typed.would_enable("eciton_train", &Level::WARN)
        );
        let refused = targets(0, Some("eciton=loud")).unwrap_err().into_text();
        assert!(refused.starts_with("RUST_LOG=eciton=loud: ") && refused.contains("debug"), "{refused}");
    }
}

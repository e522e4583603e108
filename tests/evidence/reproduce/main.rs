//! Prints tables of published systems next to the results of the simulation.
//!
//! `cargo run --release -p eciton-tests --example reproduce -- SYSTEM [--json]`. The systems are
//! `dorylus`, `pipedream-2bw`, `graphpipe`, `bapipe`, `bamboo` and `dpfp`. Published values are quoted from
//! memory. A few parameters are fitted to one row of a table, and the simulator of `eciton simulate`
//! predicts the other rows. `docs/research/published-systems.md` lists the fitted parameters and
//! explains the errors. Prices and times come from `infra/cloud.toml`, or from the file that
//! `ECITON_CLOUD` names.

mod dorylus;
mod error;
mod pipelines;
mod receptive;

use std::io::{self, Write as _};
use std::process::ExitCode;

use eciton_recipe::Prices;
use error::Error;

const USAGE: &str = "\
usage: reproduce SYSTEM [--json]

Prints the published tables of a system next to the results of the simulation.
With --json, prints one JSON object. Equal inputs give identical bytes, except for times of planning.
";

/// Function that simulates a system's tables at the given prices. It returns them as text or, if the
/// flag is true, as JSON.
type Reproduce = fn(&Prices, bool) -> Result<String, Error>;

/// Published systems, each with the function that reproduces its tables.
const SYSTEMS: [(&str, Reproduce); 6] = [
    ("dorylus", dorylus::text::reproduced),
    ("pipedream-2bw", |_, json| pipelines::text("pipedream-2bw", pipelines::two_buffers()?, json)),
    ("graphpipe", |_, json| pipelines::text("graphpipe", pipelines::branches()?, json)),
    ("bapipe", |_, json| pipelines::text("bapipe", pipelines::balanced()?, json)),
    ("bamboo", |_, json| pipelines::text("bamboo", pipelines::preempted(pipelines::HOURS)?, json)),
    ("dpfp", |_, json| receptive::reproduced(json)),
];

/// Returns the tables of the system that the arguments name, or a message and an exit status.
fn run(arguments: &[String]) -> Result<String, (String, u8)> {
    let names = SYSTEMS.map(|(name, _)| name).join(", ");
    let usage = |found: String| (format!("{found}; expected one of {names}, and --json at most"), 2);
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(format!("{USAGE}\nSystems: {names}\n"));
    }
    let (flags, systems): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|argument| argument.starts_with('-'));
    if let Some(flag) = flags.iter().find(|flag| **flag != "--json") {
        return Err(usage(format!("unknown flag {flag}")));
    }
    let [wanted] = systems[..] else {
        return Err(usage(format!("found {} systems, expected 1", systems.len())));
    };
    let Some((_, reproduce)) = SYSTEMS.iter().find(|(name, _)| name == wanted) else {
        return Err(usage(format!("unknown system {wanted}")));
    };
    let failed = |error: &dyn std::error::Error| (error.to_string(), 1);
    let prices = eciton_exec::prices().map_err(|error| failed(&error))?;
    reproduce(&prices, !flags.is_empty()).map_err(|error| failed(&error))
}

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    match run(&arguments) {
        Ok(text) => match io::stdout().lock().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err((message, status)) => {
            eprintln!("reproduce: {message}");
            ExitCode::from(status)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refused(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        let (message, status) = run(&arguments).unwrap_err();
        assert_eq!(status, 2);
        message
    }

    #[test]
    fn a_wrong_argument_is_named() {
        assert!(refused(&["dorilus"]).contains("unknown system dorilus; expected one of dorylus, "));
        assert!(refused(&[]).contains("found 0 systems"));
        assert!(refused(&["dpfp", "--jsn"]).contains("unknown flag --jsn"));
    }

    #[test]
    fn a_table_is_printed_as_text_and_as_json() {
        let both = [false, true].map(|json| receptive::reproduced(json).unwrap());
        assert!(both[0].starts_with("system    dpfp: Li"));
        let object: serde_json::Value = serde_json::from_str(&both[1]).unwrap();
        assert_eq!((&object["system"], object["rows"].as_array().unwrap().len()), (&"dpfp".into(), 16));
    }
}

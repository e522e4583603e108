//! `eciton reproduce`: tables of published systems, next to the results of the simulation.

mod dorylus;
mod pipelines;
mod receptive;

use eciton_exec::Prices;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::nearest;

const AFTER_HELP: &str = "\
Systems:\n\
\x20 dorylus        Thorpe et al. 2021\n\
\x20 pipedream-2bw  Narayanan et al. 2021\n\
\x20 graphpipe      Jeon et al. 2025\n\
\x20 bamboo         Thorpe et al. 2023\n\
\x20 dpfp           Li et al. 2022\n\n\
Published values are quoted from memory. A few parameters are fitted to one row\n\
of a table; the simulator of `eciton simulate` predicts the other rows.\n\
docs/research/published-systems.md lists the fitted parameters and explains the\n\
errors. Prices and times come from infra/cloud.toml, or from the file that\n\
ECITON_CLOUD names.\n\n\
Examples:\n\
\x20 eciton reproduce dorylus\n\
\x20 eciton reproduce dorylus --json";

/// Arguments of `eciton reproduce`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Published system: dorylus, pipedream-2bw, graphpipe, bamboo or dpfp
    #[arg(value_name = "SYSTEM")]
    system: String,
    /// Print one JSON object; equal inputs give identical bytes
    #[arg(long)]
    json: bool,
}

/// Function that simulates a system's tables at the given prices, and prints them as text or, if
/// the flag is true, as JSON.
type Reproduce = fn(&Prices, bool, &mut Output) -> Result<(), Failure>;

/// Published systems, each with the function that reproduces its tables.
const SYSTEMS: [(&str, Reproduce); 5] = [
    ("dorylus", dorylus::run),
    ("pipedream-2bw", pipelines::two),
    ("graphpipe", pipelines::graph),
    ("bamboo", pipelines::spot),
    ("dpfp", receptive::run),
];

/// Finds the system and prints its tables.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let wanted = arguments.system.as_str();
    let Some((_, reproduce)) = SYSTEMS.iter().find(|(name, _)| *name == wanted) else {
        let known = SYSTEMS.iter().map(|(name, _)| *name);
        let all = known.clone().collect::<Vec<_>>().join(", ");
        let near = nearest(wanted, known).map_or_else(String::new, |near| format!("; did you mean {near}?"));
        return Err(Failure::Usage(format!("unknown system {wanted}; expected one of {all}{near}")));
    };
    reproduce(&eciton_exec::prices()?, arguments.json, output)
}

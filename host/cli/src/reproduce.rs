//! `eciton reproduce`: tables of published systems, next to the results of the simulation.

mod dorylus;
mod pipelines;
mod receptive;

use eciton_exec::Prices;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::nearest;

const AFTER_HELP: &str = "\
Systems: dorylus (Thorpe et al. 2021), pipedream-2bw (Narayanan et al. 2021), graphpipe (Jeon et al. 2025),\n\
bamboo (Thorpe et al. 2023), dpfp (Li et al. 2022).\n\
Published figures are as recalled. A few figures are fitted on one row, the others are predicted by the simulator of\n\
`eciton simulate`, errors included. docs/research/published-systems.md lists the fitted figures and the causes of the errors.\n\
Prices and times come from infra/cloud.toml, or the file that ECITON_CLOUD names.\n\n\
Examples:  eciton reproduce dorylus\n\
\x20          eciton reproduce dorylus --json";

/// Arguments of `eciton reproduce`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// A published system: dorylus, pipedream-2bw, graphpipe, bamboo, dpfp
    #[arg(value_name = "SYSTEM")]
    system: String,
    /// One object for programs; the same input gives the same bytes
    #[arg(long)]
    json: bool,
}

/// Function that reproduces a system's tables at the given prices, and prints them, as JSON if
/// asked.
type Reproduce = fn(&Prices, bool, &mut Output) -> Result<(), Failure>;

/// Systems by name.
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
        return Err(Failure::Usage(format!("reproduce {wanted}: known are {all}{near}")));
    };
    reproduce(&eciton_exec::prices()?, arguments.json, output)
}

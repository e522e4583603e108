//! The command `eciton clean`, which removes the objects that a run has left in its deployment's
//! bucket.

use eciton_deploy::clean;
use eciton_exec::{DEFAULT_STACK, Deployment};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::counted;

/// Arguments of `eciton clean`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A run removes its objects when it ends. The bucket deletes the objects of a\nkilled run after one day."
)]
pub(crate) struct Arguments {
    /// Identifier of the run, as printed in its summary
    run: String,
    /// Name or file of the deployment on which it ran
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_STACK)]
    deployment: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Removes the objects of the run from the deployment's bucket, and prints their number.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let deployment = Deployment::load(&arguments.deployment)?;
    let objects = clean(&deployment, &arguments.run)?;
    if arguments.json {
        output.json(&json!({ "event": "cleaned", "run": arguments.run, "bucket": deployment.bucket, "objects": objects }));
    } else {
        output.line(format_args!(
            "removed {} of run {} from bucket {}",
            counted(objects, "object"),
            arguments.run,
            deployment.bucket
        ));
    }
    Ok(())
}

//! The command `eciton destroy`, which removes a stack (the AWS resources of a deployment) and the
//! objects in its bucket.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use eciton_deploy::{Target, destroy};
use eciton_exec::DEFAULT_STACK;
use serde_json::json;

use crate::deploy::show;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::counted;

/// Arguments of `eciton destroy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the stack, or its deployment file
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_STACK)]
    stack: String,
    /// AWS region [default: the region of the deployment]
    #[arg(long)]
    region: Option<String>,
    /// Profile in ~/.aws with the credentials [default: the profile of the deployment]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Asks for confirmation, removes the stack, and prints the resources that were removed.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let target = Target::find(&arguments.stack, arguments.region.clone(), arguments.profile.clone())?;
    if !arguments.yes && !agreed(&target)? {
        return Err(Failure::Failed(format!(
            "cancelled: the answer was not `{}`, so nothing was removed",
            target.stack
        )));
    }
    let done = destroy(&target, &mut show)?;
    if arguments.json {
        output.json(&json!({ "event": "destroyed", "stack": target.stack, "result": done }));
        return Ok(());
    }
    if !done.stack {
        output.line(format_args!("Stack `{}` did not exist.", target.stack));
    }
    let objects = done.objects + done.package_objects;
    output.line(format_args!("Removed {}; verified to be absent:", counted(objects, "object")));
    for what in &done.gone {
        output.line(format_args!("  {what}"));
    }
    output.line("The signing key was not removed, because other stacks may use it.");
    Ok(())
}

/// Asks the user to confirm the removal by typing the stack's name. Returns true if the answer is
/// that name.
fn agreed(target: &Target) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "cannot ask for confirmation to remove stack `{}`, because standard input is no terminal{}; add --yes to \
             remove the stack and everything in its bucket without confirmation",
            target.stack,
            if target.file.is_some() { "" } else { " (this machine has no deployment file of that stack)" }
        )));
    }
    let place = target.region.as_deref().map_or(String::new(), |region| format!(" in {region}"));
    let question = format!(
        "This removes the stack `{0}`{place} and everything in its bucket. Type {0} to confirm: ",
        target.stack
    );
    let _ = std::io::stderr().lock().write_all(question.as_bytes());
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == target.stack)
}

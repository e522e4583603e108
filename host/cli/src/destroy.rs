//! `eciton destroy`: removes a stack and all that belongs to it.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use eciton_deploy::{Target, destroy};
use eciton_exec::DEFAULT_STACK;
use serde_json::json;

use crate::deploy::show;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::counted;

/// `eciton destroy`
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The stack, or its deployment's file
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_STACK)]
    stack: String,
    /// The region [default: the deployment's]
    #[arg(long)]
    region: Option<String>,
    /// A named set of credentials of ~/.aws [default: the deployment's]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Asks for confirmation, removes the stack, and prints the removed resources.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let target = Target::find(&arguments.stack, arguments.region.clone(), arguments.profile.clone())?;
    if !arguments.yes && !agreed(&target)? {
        return Err(Failure::Failed(format!("nothing was removed: `{}` was not typed", target.stack)));
    }
    let done = destroy(&target, &mut show)?;
    if arguments.json {
        output.json(&json!({ "event": "destroyed", "stack": target.stack, "result": done }));
        return Ok(());
    }
    if !done.stack {
        output.line(format_args!("There was no stack `{}`.", target.stack));
    }
    let objects = done.objects + done.package_objects;
    output.line(format_args!("Gone, looked for one by one, with {}:", counted(objects, "object")));
    for what in &done.gone {
        output.line(format_args!("  {what}"));
    }
    output.line("The signing key stays: other stacks may trust it.");
    Ok(())
}

/// Asks the user to type the stack's name. Returns true if the answer is this name.
fn agreed(target: &Target) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "standard input is no terminal, so the question whether to remove stack `{}` cannot be asked{}; \
             give --yes to remove it and everything in its bucket without a question",
            target.stack,
            if target.file.is_some() { "" } else { ", and this machine knows of no such deployment" }
        )));
    }
    let place = target.region.as_deref().map_or(String::new(), |region| format!(" in {region}"));
    let question = format!(
        "This removes the stack `{0}`{place} and everything in its bucket. Type {0} to go on: ",
        target.stack
    );
    let _ = std::io::stderr().lock().write_all(question.as_bytes());
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(line.trim() == target.stack)
}

//! The command `eciton kernel new`, which creates a kernel from a template, and a model file that
//! uses the kernel.

use std::path::PathBuf;

use eciton_author::starter::{self, Starter};

use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `eciton kernel new`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the kernel: lower-case letters, digits, - and _
    name: String,
    /// Parent folder of the new kernel
    #[arg(long, value_name = "DIR", default_value = ".")]
    r#in: PathBuf,
    /// Create a kernel with only a forward pass; gradients are derived automatically
    #[arg(long, conflicts_with_all = ["edge", "c"])]
    derived: bool,
    /// Create an edge kernel, which computes a row per vertex from its edges and neighbours
    #[arg(long)]
    edge: bool,
    /// Create a kernel in C: the layer y = x w + b
    #[arg(long, conflicts_with = "edge")]
    c: bool,
}

/// A next step for the user, as a command line and its purpose.
type Step = (String, &'static str);

/// Creates the kernel, and prints the next steps for the user.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let starter = match (arguments.derived, arguments.edge) {
        (true, _) => Starter::Derived,
        (false, true) => Starter::Edges,
        (false, false) => Starter::Rows,
    };
    let (name, folder) = (&arguments.name, &arguments.r#in);
    let made = match arguments.c {
        true => starter::create_c(name, folder)?,
        false => starter::create(name, folder, starter)?,
    };
    let shown = made.strip_prefix(".").unwrap_or(&made).display();
    let component = format!("{shown}/{name}.wasm");
    let what = match starter {
        _ if arguments.c => "kernel in C, the layer y = x w + b",
        Starter::Rows => "kernel that can replace `linear`",
        Starter::Derived => "kernel with a forward pass (a gated unit) and derived gradients",
        Starter::Edges => "edge kernel, a gated sum over neighbours",
    };
    output.line(format_args!("created {shown}: {what}. Next steps:"));
    let mut next: Vec<Step> = Vec::new();
    if !arguments.c {
        next.push((
            format!("(cd {shown} && cargo test)"),
            "Check the gradients against finite differences, natively",
        ));
    }
    next.push((format!("eciton kernel build {shown}"), "Compile the component"));
    let inputs = match starter {
        Starter::Rows | Starter::Derived => "--inputs 16 --set out-features=8",
        Starter::Edges => "--inputs 16,16",
    };
    let check = format!("eciton kernel check {component} {inputs}");
    next.push((check, "Check the component against the contract, and its gradients numerically"));
    next.push((
        format!("eciton train --model {shown}/model.toml"),
        "Train a model that uses the kernel as a layer",
    ));
    if starter == Starter::Rows && !arguments.c {
        let train = format!("eciton train --kernel linear={component}");
        next.push((train, "Train a model with the kernel in place of `linear`"));
    }
    for (command, why) in next {
        output.line(format_args!("  # {why}\n  {command}"));
    }
    Ok(())
}

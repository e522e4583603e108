//! `eciton kernel new`: creates a kernel to start from, and a model that trains with it.

use std::path::PathBuf;

use eciton_author::starter::{self, Starter};

use crate::failure::Failure;
use crate::output::Output;

/// `eciton kernel new`
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kernel's name: lower-case letters, digits, - and _
    name: String,
    /// The folder to make it in
    #[arg(long, value_name = "DIR", default_value = ".")]
    r#in: PathBuf,
    /// Make a kernel of a forward pass alone, whose gradients are derived: the shortest way to a layer
    #[arg(long, conflicts_with_all = ["edge", "c"])]
    derived: bool,
    /// Make an edge kernel: a row of each vertex from its edges and the rows at their other ends
    #[arg(long)]
    edge: bool,
    /// Make it in C, from the layer y = x w + b
    #[arg(long, conflicts_with = "edge")]
    c: bool,
}

/// Next step for the user: a command, and its purpose.
type Step = (String, &'static str);

/// Creates the kernel, and prints the next steps.
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
        _ if arguments.c => "a kernel in C, the layer y = x w + b",
        Starter::Rows => "a kernel that can take the place of `linear`",
        Starter::Derived => "a kernel of a forward pass, a gated unit; its gradients are derived",
        Starter::Edges => "an edge kernel, a gated sum over neighbours",
    };
    output.line(format_args!("{shown}: {what}; next:"));
    let mut next: Vec<Step> = Vec::new();
    if !arguments.c {
        next.push((format!("(cd {shown} && cargo test)"), "its gradients against differences, natively"));
    }
    next.push((format!("eciton kernel build {shown}"), "compiles the component"));
    let inputs = match starter {
        Starter::Rows | Starter::Derived => "--inputs 16 --set out-features=8",
        Starter::Edges => "--inputs 16,16",
    };
    let check = format!("eciton kernel check {component} {inputs}");
    next.push((check, "compares it with the contract, its gradients with differences"));
    next.push((format!("eciton train --model {shown}/model.toml"), "trains with it, as a layer"));
    if starter == Starter::Rows && !arguments.c {
        let train = format!("eciton train --kernel linear={component}");
        next.push((train, "trains with it, in the place of `linear`"));
    }
    for (command, why) in next {
        output.line(format_args!("  # {why}\n  {command}"));
    }
    Ok(())
}

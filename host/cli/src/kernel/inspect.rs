//! The command `eciton kernel inspect`, which prints the interfaces, attributes and signature of a
//! component.

use eciton_author::{Interface, Side, component_digest, version};
use eciton_input::text::MAX_LIST;
use eciton_types::Signature;
use eciton_types::signature::{AttributeSpec, Initialiser, ParameterSpec, RowsSpec, TargetKind};
use serde::Serialize;

use super::layer;
use crate::failure::Failure;
use crate::output::Output;
use crate::text::bytes;

/// Arguments of `eciton kernel inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    layer: layer::Arguments,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Description of a component, which `eciton kernel inspect --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    file: &'a str,
    /// One-line description of a built-in kernel. Empty for other components.
    #[serde(skip_serializing_if = "str::is_empty")]
    does: &'static str,
    bytes: usize,
    digest: String,
    contract: &'static str,
    imports: Vec<Listed<'a>>,
    exports: Vec<Listed<'a>>,
    attributes: &'a [AttributeSpec],
    signature: Option<&'a Signature>,
}

/// An interface that a component imports or exports, with the names of its functions.
#[derive(Serialize)]
struct Listed<'a> {
    interface: &'a str,
    functions: Vec<&'a str>,
}

/// Returns the interfaces that a component imports, or those that it exports, depending on `side`.
fn listed(all: &[Interface], side: Side) -> Vec<Listed<'_>> {
    all.iter()
        .filter(|interface| interface.side == side)
        .map(|interface| Listed {
            interface: &interface.name,
            functions: interface.functions.iter().map(|(name, _)| &name[..]).collect(),
        })
        .collect()
}

/// Opens the component in the same way as a run, and prints its description.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let opened = arguments.layer.open()?;
    let (component, kernel, layer) = (&opened.component, &opened.kernel, &opened.layer);
    let interfaces = eciton_author::outline(component);
    let file = arguments.layer.file.display().to_string();
    let built_in = eciton_train::kernels::builtin().iter().find(|known| known.component == *component);
    let known =
        built_in.and_then(|found| eciton_author::BUILTIN.iter().find(|known| known.name == found.name));
    let line = Line {
        event: "kernel",
        file: &file,
        does: known.map_or("", |known| known.does),
        bytes: component.len(),
        digest: component_digest(component),
        contract: version(component),
        imports: listed(&interfaces, Side::Import),
        exports: listed(&interfaces, Side::Export),
        attributes: kernel.attributes(),
        signature: layer.as_ref().map(|layer| layer.signature()),
    };
    if arguments.json {
        output.json(&line);
    } else {
        print(&line, output);
    }
    Ok(())
}

fn print(line: &Line<'_>, output: &mut Output) {
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<12} {text}"));
    row("file", format!("{}, {}", line.file, bytes(line.bytes as u64)));
    if !line.does.is_empty() {
        row("built in", line.does.to_owned());
    }
    row("digest", line.digest.clone());
    row("contract", format!("eciton:kernel@{}", line.contract));
    for (name, all) in [("imports", &line.imports), ("exports", &line.exports)] {
        for (at, listed) in all.iter().enumerate() {
            let short = listed.interface.trim_start_matches("eciton:kernel/").split('@').next();
            let functions = match &listed.functions[..] {
                [] => "types".to_owned(),
                functions => functions.join(", "),
            };
            row(if at == 0 { name } else { "" }, format!("{}: {functions}", short.unwrap_or_default()));
        }
    }
    for (at, spec) in line.attributes.iter().enumerate() {
        let default = spec.default.as_ref().map_or("required".to_owned(), ToString::to_string);
        row(
            if at == 0 { "attributes" } else { "" },
            format!("{:<20} {default:<12} {}", plain(&spec.name), plain(&spec.meaning)),
        );
    }
    if line.attributes.is_empty() {
        row("attributes", "none".to_owned());
    }
    let Some(signature) = line.signature else {
        row("signature", "depends on --inputs and --set".to_owned());
        return;
    };
    row("inputs", rows(&signature.inputs));
    row("parameters", list(&signature.parameters, parameter));
    row("outputs", rows(&signature.outputs));
    row("stashed", rows(&signature.kept));
    if let Some(edges) = &signature.edges {
        row("works on", "edges; the inputs belong to the source and the target of an edge".to_owned());
        return row("passed", rows(std::slice::from_ref(&edges.passed)));
    }
    let needs = signature.backward_needs;
    let needs: Vec<&str> = [(needs.inputs, "inputs"), (needs.outputs, "outputs")]
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect();
    row(
        "backward",
        match &needs[..] {
            [] => "reads gradients and stashed values".to_owned(),
            names => format!("also reads {}", names.join(" and ")),
        },
    );
    let loss = match signature.loss {
        None => "none",
        Some(TargetKind::Classes) => "over classes; computes forward, loss and backward together",
        Some(TargetKind::Values) => "over values; computes forward, loss and backward together",
    };
    row("loss", loss.to_owned());
}

/// Returns a text that comes from a kernel without control characters, cut to a maximum length.
fn plain(text: &str) -> String {
    eciton_input::text::shown(text)
}

/// Formats the first [`MAX_LIST`] items with `shown`, and joins them with commas. Returns `none` if
/// there are no items.
fn list<T>(all: &[T], shown: impl Fn(&T) -> String) -> String {
    match all {
        [] => "none".to_owned(),
        all => {
            let first = all.iter().take(MAX_LIST).map(shown).collect::<Vec<_>>().join(", ");
            match all.len().saturating_sub(MAX_LIST) {
                0 => first,
                more => format!("{first} and {more} more"),
            }
        }
    }
}

/// Formats the inputs or outputs of a kernel, each with its name and the extents of its rows.
fn rows(all: &[RowsSpec]) -> String {
    list(all, |spec| format!("{} {:?} per row", plain(&spec.name), spec.extents))
}

/// Formats a parameter of a kernel with its name, shape and initialiser.
fn parameter(spec: &ParameterSpec) -> String {
    let first = match spec.initialiser {
        Initialiser::Zeros => "zeros".to_owned(),
        Initialiser::Constant(value) => format!("constant {value}"),
        Initialiser::GlorotUniform => "Glorot uniform".to_owned(),
        Initialiser::Uniform(bound) => format!("uniform, bound {bound}"),
        Initialiser::Normal(deviation) => format!("normal, standard deviation {deviation}"),
        Initialiser::Orthogonal(gain) => format!("orthogonal, gain {gain}"),
    };
    format!("{} {:?} ({first})", plain(&spec.name), spec.shape)
}

//! `eciton kernel inspect`: what a component says of itself.

use std::path::PathBuf;
use std::str::FromStr;

use eciton_author::{Interface, Side, VERSION, component_digest};
use eciton_exec::Clock;
use eciton_kernel::{Runtime, Settings};
use eciton_plan::signature::{AttributeSpec, Initialiser, ParameterSpec, RowsSpec};
use eciton_plan::{Attribute, Signature, Value};
use serde::Serialize;

use super::{read, refuse};
use crate::failure::Failure;
use crate::output::Output;
use crate::text::bytes;

/// `eciton kernel inspect`
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// What a row of each input has, for the layer's signature: 16, or 16,4x8 where it reads two
    #[arg(long, value_name = "EXTENTS,...", value_delimiter = ',')]
    inputs: Vec<Extents>,
    /// An attribute of the layer; what is left out has the kernel's default
    #[arg(long, value_name = "NAME=VALUE", requires = "inputs")]
    set: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Extents of a row, as `4x8`.
#[derive(Clone, Debug, PartialEq)]
struct Extents(Vec<u32>);

impl FromStr for Extents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |part: &str| part.parse().map_err(|_| "write extents as 16, or as 4x8".to_owned());
        text.split('x').map(one).collect::<Result<_, _>>().map(Self)
    }
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    file: &'a str,
    bytes: usize,
    digest: String,
    contract: &'static str,
    imports: Vec<Listed<'a>>,
    exports: Vec<Listed<'a>>,
    attributes: &'a [AttributeSpec],
    signature: Option<&'a Signature>,
}

#[derive(Serialize)]
struct Listed<'a> {
    interface: &'a str,
    functions: Vec<&'a str>,
}

fn listed(all: &[Interface], side: Side) -> Vec<Listed<'_>> {
    all.iter()
        .filter(|interface| interface.side == side)
        .map(|interface| Listed {
            interface: &interface.name,
            functions: interface.functions.iter().map(|(name, _)| &name[..]).collect(),
        })
        .collect()
}

/// Opens the component as a run would, and prints what it says.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let component = read(&arguments.file)?;
    refuse(&arguments.file, &component)?;
    let runtime = Runtime::new(Settings::default())?;
    // A kernel that loops is ended.
    let _clock = Clock::start(&runtime)?;
    let name = arguments.file.file_stem().map_or_else(|| "kernel".into(), |name| name.to_string_lossy());
    let kernel = runtime.load(&name, &component)?;
    let layer = match &arguments.inputs[..] {
        [] => None,
        inputs => {
            let inputs: Vec<Vec<u32>> = inputs.iter().map(|extents| extents.0.clone()).collect();
            let given = arguments.set.iter().map(|text| attribute(text, kernel.attributes()));
            Some(kernel.open(&inputs, &given.collect::<Result<Vec<_>, _>>()?)?)
        }
    };
    let interfaces = eciton_author::outline(&component);
    let file = arguments.file.display().to_string();
    let line = Line {
        event: "kernel",
        file: &file,
        bytes: component.len(),
        digest: component_digest(&component),
        contract: VERSION,
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

/// An attribute as typed, of the kind that its default has; where there is none, of the kind that it looks
/// like.
fn attribute(text: &str, specs: &[AttributeSpec]) -> Result<Attribute, Failure> {
    let usage = |what: &str| Failure::Usage(format!("--set {text}: {what}"));
    let (name, typed) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| usage("write NAME=VALUE, for instance out-features=16"))?;
    let integer = || typed.parse().map(Value::Integer).ok();
    let number = || typed.parse().map(Value::Number).ok();
    let flag = || typed.parse().map(Value::Flag).ok();
    let words = || Some(Value::Text(typed.to_owned()));
    let default = specs.iter().find(|spec| spec.name == name).and_then(|spec| spec.default.as_ref());
    let (value, wanted) = match default {
        Some(Value::Integer(_)) => (integer(), "a whole number"),
        Some(Value::Number(_)) => (number(), "a number"),
        Some(Value::Flag(_)) => (flag(), "true or false"),
        Some(Value::Text(_)) => (words(), "words"),
        None => (flag().or_else(integer).or_else(number).or_else(words), "a value"),
    };
    let value = value.ok_or_else(|| usage(&format!("`{name}` takes {wanted}")))?;
    Ok(Attribute::new(name, value))
}

fn print(line: &Line<'_>, output: &mut Output) {
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<12} {text}"));
    row("file", format!("{}, {}", line.file, bytes(line.bytes as u64)));
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
        let default = spec.default.as_ref().map_or("to be given".to_owned(), ToString::to_string);
        row(
            if at == 0 { "attributes" } else { "" },
            format!("{:<20} {default:<12} {}", plain(&spec.name), plain(&spec.meaning)),
        );
    }
    if line.attributes.is_empty() {
        row("attributes", "none".to_owned());
    }
    let Some(signature) = line.signature else {
        row("signature", "follows from --inputs and --set".to_owned());
        return;
    };
    row("inputs", rows(&signature.inputs));
    row("parameters", list(&signature.parameters, parameter));
    row("outputs", rows(&signature.outputs));
    row("kept", rows(&signature.kept));
    let needs = signature.backward_needs;
    let needs: Vec<&str> = [(needs.inputs, "inputs"), (needs.outputs, "outputs")]
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect();
    row(
        "backward",
        match &needs[..] {
            [] => "reads gradients and what was kept".to_owned(),
            names => format!("reads {}, too", names.join(" and ")),
        },
    );
    row("loss", if signature.has_loss { "forward, loss and backward in one" } else { "none" }.to_owned());
}

/// A kernel's words, without what would steer a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn list<T>(all: &[T], shown: impl Fn(&T) -> String) -> String {
    match all {
        [] => "none".to_owned(),
        all => all.iter().map(shown).collect::<Vec<_>>().join(", "),
    }
}

fn rows(all: &[RowsSpec]) -> String {
    list(all, |spec| format!("{} {:?} a row", plain(&spec.name), spec.extents))
}

fn parameter(spec: &ParameterSpec) -> String {
    let first = match spec.initialiser {
        Initialiser::Zeros => "zeros".to_owned(),
        Initialiser::Constant(value) => format!("all {value}"),
        Initialiser::GlorotUniform => "Glorot's uniform".to_owned(),
        Initialiser::Uniform(bound) => format!("uniform to {bound}"),
    };
    format!("{} {:?} ({first})", plain(&spec.name), spec.shape)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn attributes_are_of_the_kind_of_their_default() {
        let spec = |name: &str, default| AttributeSpec { name: name.into(), meaning: String::new(), default };
        let specs = [
            spec("rate", Some(Value::Number(0.5))),
            spec("word", Some(Value::Text("relu".into()))),
            spec("out", None),
            spec("bias", Some(Value::Flag(true))),
        ];
        let value = |text: &str| attribute(text, &specs).unwrap().value;
        assert_eq!(value("rate=1"), Value::Number(1.0));
        assert_eq!(value("word=1"), Value::Text("1".into()));
        assert_eq!((value("out=8"), value("out=true")), (Value::Integer(8), Value::Flag(true)));
        assert_eq!((value("out=0.5"), value("out=a=b")), (Value::Number(0.5), Value::Text("a=b".into())));
        for bad in ["rate=much", "bias=1", "rate", "=3"] {
            assert!(attribute(bad, &specs).is_err(), "{bad}");
        }
    }

    #[test]
    fn extents_of_rows() {
        assert_eq!("16".parse(), Ok(Extents(vec![16])));
        assert_eq!("4x8".parse(), Ok(Extents(vec![4, 8])));
        for bad in ["", "x", "4x", "-1", "1e3", "5000000000"] {
            assert!(bad.parse::<Extents>().is_err(), "{bad}");
        }
    }
}

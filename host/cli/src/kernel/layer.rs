//! The common arguments of `eciton kernel inspect`, `check` and `bench`. They name a component, and
//! open it as a layer.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use eciton_exec::Clock;
use eciton_kernel::{Kernel, Layer, Runtime, Settings};
use eciton_types::signature::AttributeSpec;
use eciton_types::{Attribute, Value};

use super::{check_contract, read};
use crate::failure::Failure;

/// Arguments that name a component, the extents of its inputs, and its attributes.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Component, or name of a built-in kernel
    #[arg(value_name = "FILE.wasm|NAME")]
    pub(super) file: PathBuf,
    /// Extents of one row of each input: 16 for one input, 16,4x8 for two. An edge kernel has two
    /// inputs, for source and target
    #[arg(long, value_name = "EXTENTS,...", value_delimiter = ',')]
    inputs: Vec<Extents>,
    /// Set an attribute of the layer [default: the kernel's default]
    #[arg(long, value_name = "NAME=VALUE", requires = "inputs")]
    set: Vec<String>,
}

/// A component that fulfils the kernel contract, loaded in the same way as in a run.
pub(super) struct Opened {
    pub(super) component: Vec<u8>,
    pub(super) kernel: Arc<Kernel>,
    /// The component opened as a layer with the inputs of `--inputs`. `None` without `--inputs`.
    pub(super) layer: Option<Arc<Layer>>,
    /// Clock that interrupts the kernel if it exceeds its time limit.
    _clock: Clock,
}

impl Arguments {
    /// Loads the component. With `--inputs`, also opens it as a layer.
    ///
    /// # Errors
    /// Returns a failure if the component cannot be read or does not fulfil the contract, or if it
    /// rejects the inputs or attributes.
    pub(super) fn open(&self) -> Result<Opened, Failure> {
        let component = component(&self.file)?;
        check_contract(&self.file, &component)?;
        let runtime = Runtime::new(Settings::default())?;
        let clock = Clock::start(&runtime)?;
        let name = self.file.file_stem().map_or_else(|| "kernel".into(), |name| name.to_string_lossy());
        let kernel = runtime.load(&name, &component)?;
        let layer = match &self.inputs[..] {
            [] => None,
            inputs => {
                let inputs: Vec<Vec<u32>> = inputs.iter().map(|extents| extents.0.clone()).collect();
                let given = self.set.iter().map(|text| attribute(text, kernel.attributes()));
                Some(kernel.open(&inputs, &given.collect::<Result<Vec<_>, _>>()?)?)
            }
        };
        Ok(Opened { component, kernel, layer, _clock: clock })
    }
}

/// Returns the bytes of a component. If no file `file` exists, it is taken as the name of a
/// built-in kernel.
fn component(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut known = eciton_train::kernels::builtin().iter();
    match known.find(|known| file == Path::new(known.name)) {
        Some(known) if file.symlink_metadata().is_err() => Ok(known.component.to_vec()),
        _ => read(file),
    }
}

/// Extents of one row of an input, written as numbers with `x` between them, for instance `4x8`.
#[derive(Clone, Debug, PartialEq)]
struct Extents(Vec<u32>);

impl FromStr for Extents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |part: &str| part.parse().map_err(|_| "expected extents such as 16 or 4x8".to_owned());
        text.split('x').map(one).collect::<Result<_, _>>().map(Self)
    }
}

/// Parses the argument of `--set`, which has the form `NAME=VALUE`. The value has the type of the
/// attribute's default. If the attribute has no default, the type is inferred from the text.
fn attribute(text: &str, specs: &[AttributeSpec]) -> Result<Attribute, Failure> {
    let usage = |what: &str| Failure::Usage(format!("--set {text}: {what}"));
    let (name, typed) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| usage("expected NAME=VALUE, for instance out-features=16"))?;
    let integer = || typed.parse().map(Value::Integer).ok();
    let number = || typed.parse().map(Value::Number).ok();
    let flag = || typed.parse().map(Value::Flag).ok();
    let words = || Some(Value::Text(typed.to_owned()));
    let default = specs.iter().find(|spec| spec.name == name).and_then(|spec| spec.default.as_ref());
    let (value, wanted) = match default {
        Some(Value::Integer(_)) => (integer(), "a whole number"),
        Some(Value::Number(_)) => (number(), "a number"),
        Some(Value::Flag(_)) => (flag(), "true or false"),
        Some(Value::Text(_)) => (words(), "text"),
        None => (flag().or_else(integer).or_else(number).or_else(words), "a value"),
    };
    let value = value.ok_or_else(|| usage(&format!("expected {wanted} for `{name}`")))?;
    Ok(Attribute::new(name, value))
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

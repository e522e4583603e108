//! Inspection of kernel components. A component is checked and loaded in the same way as in a run.

use std::io::Read as _;
use std::path::PathBuf;

use eciton_author::{component_digest, version};
use eciton_exec::Clock;
use eciton_input::text::{causes, message};
use eciton_kernel::{Runtime, Settings};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::process;

/// Maximum size of a kernel component, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Returns the digest of a component, the version of its kernel contract, and its attributes. Each
/// attribute is a triple of name, default and meaning.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a list of triples")]
pub(crate) fn inspect(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<(String, &'static str, Vec<(String, Option<String>, String)>)> {
    process::check()?;
    let text = |reason: String| message(&format!("{}: {reason}", path.display())).into_owned();
    let refused = |error: &dyn std::error::Error| PyValueError::new_err(text(causes(error)));
    let unread = |error: std::io::Error| PyOSError::new_err(text(error.to_string()));
    let mut component = Vec::new();
    let file = eciton_input::file::open(&path).map_err(unread)?;
    file.take(MAX_BYTES + 1).read_to_end(&mut component).map_err(unread)?;
    if component.len() as u64 > MAX_BYTES {
        return Err(PyValueError::new_err(text(format!(
            "larger than {MAX_BYTES} bytes, the maximum size of a component"
        ))));
    }
    let name = path.file_stem().map_or_else(|| "kernel".into(), |name| name.to_string_lossy());
    let kernel = py.detach(|| -> Result<_, Box<dyn std::error::Error + Send + Sync>> {
        let differences = eciton_author::check(&component)?;
        if !differences.is_empty() {
            let listed: Vec<String> = differences.iter().map(ToString::to_string).collect();
            let contract = version(&component);
            return Err(
                format!("does not implement kernel contract {contract}: {}", listed.join("; ")).into()
            );
        }
        let runtime = Runtime::new(Settings::default())?;
        let _clock = Clock::start(&runtime)?;
        Ok(runtime.load(&name, &component)?)
    });
    let kernel = kernel.map_err(|error| refused(&*error))?;
    let attribute = |spec: &eciton_types::signature::AttributeSpec| {
        (spec.name.clone(), spec.default.as_ref().map(ToString::to_string), spec.meaning.clone())
    };
    let attributes = kernel.attributes().iter().map(attribute).collect();
    Ok((component_digest(&component), version(&component), attributes))
}

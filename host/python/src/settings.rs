//! The settings of a run, made of the words of a command line.

use eciton_input::text::message;
use eciton_recipe::Config;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::data::Data;

/// A configuration.
#[pyclass(frozen, module = "eciton._eciton")]
pub(crate) struct Settings(pub(crate) Config);

#[pymethods]
impl Settings {
    /// Reads the settings of `eciton train WORDS`, for `data` instead of the data set that the
    /// words name.
    #[new]
    fn new(words: Vec<String>, data: &Data) -> PyResult<Self> {
        // Settings have no flags here: a refusal names the key.
        let named = |text: String| message(&text.replace("--set ", "")).into_owned();
        let mut config = eciton_cli::configure(words).map_err(|text| PyValueError::new_err(named(text)))?;
        let asked = config.data.self_loops;
        data.place(&mut config.data);
        if asked.is_some_and(|asked| Some(asked) != config.data.self_loops) {
            return Err(PyValueError::new_err(
                "data.self_loops: the graph has been read already; give self_loops to eciton.graph",
            ));
        }
        eciton_cli::usual_model(&mut config);
        Ok(Self(config))
    }

    /// The configuration as a recipe, defaults included.
    fn to_toml(&self) -> PyResult<String> {
        self.0.to_toml().map_err(|error| PyValueError::new_err(message(&error.to_string()).into_owned()))
    }

    /// Returns whether links are predicted.
    #[getter]
    fn predicts_links(&self) -> bool {
        self.0.predicts_links()
    }
}

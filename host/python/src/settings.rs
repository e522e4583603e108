//! Settings of a run from the arguments of `eciton.train`.

use eciton_cli::{Request, Setting};
use eciton_input::text::message;
use eciton_recipe::Config;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::data::Data;

/// Configuration of a run.
#[pyclass(frozen, module = "eciton._eciton")]
pub(crate) struct Settings(pub(crate) Config);

/// Data set or recipe file, name of the data set, model of a recommended recipe, and model.
type Start = (Option<String>, Option<String>, Option<String>, Option<String>);

#[pymethods]
impl Settings {
    /// Creates the settings of a run on `data`. `settings` are pairs of recipe key and TOML value.
    /// `kernels` are pairs of built-in kernel name and component path.
    ///
    /// # Errors
    /// Raises `ValueError` if a setting is invalid or has no effect.
    #[new]
    fn new(
        start: Start,
        kernels: Vec<(String, String)>,
        settings: Vec<(String, String)>,
        data: &Data,
    ) -> PyResult<Self> {
        let (source, name, recipe, model) = start;
        let settings = settings.into_iter().map(|(key, value)| {
            let shown = format!("{key}={value}");
            Setting { key, value, shown }
        });
        let settings = settings.collect();
        let request = Request { data: source, name, recipe, model, kernels, settings, ..Request::default() };
        let refuse = |text: String| PyValueError::new_err(message(&text).into_owned());
        let mut config = eciton_cli::configure(&request).map_err(refuse)?;
        let asked = config.data.self_loops;
        data.place(&mut config.data);
        if asked.is_some_and(|asked| Some(asked) != config.data.self_loops) {
            return Err(PyValueError::new_err(
                "data.self_loops: the graph has already been read; pass self_loops to eciton.graph instead",
            ));
        }
        eciton_cli::usual_model(&mut config);
        Ok(Self(config))
    }

    /// Returns the configuration as the TOML text of a recipe, including defaults.
    fn to_toml(&self) -> PyResult<String> {
        self.0.to_toml().map_err(|error| PyValueError::new_err(message(&error.to_string()).into_owned()))
    }

    /// True if the task is link prediction.
    #[getter]
    fn predicts_links(&self) -> bool {
        self.0.predicts_links()
    }
}

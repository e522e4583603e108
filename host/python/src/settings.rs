//! Conversion of the arguments of `eciton.train` to the configuration of a run.

use eciton_cli::{Request, Setting};
use eciton_input::text::message;
use eciton_recipe::Config;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::data::Data;

/// Validated configuration of a run.
#[pyclass(frozen, module = "eciton._eciton")]
pub(crate) struct Settings(pub(crate) Config);

/// Optional arguments that select the initial configuration. They are a data set or recipe file,
/// the data set's name within it, the model of a recommended recipe, and a model.
type Start = (Option<String>, Option<String>, Option<String>, Option<String>);

#[pymethods]
impl Settings {
    /// Creates the configuration of a run on `data`. `settings` has pairs of recipe key and TOML
    /// value. `kernels` has pairs of a built-in kernel's name and the path of the component that
    /// replaces it.
    ///
    /// # Errors
    /// Raises `ValueError` if a setting is invalid or would have no effect.
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
        let asked = config.data.clone();
        let now = &mut config.data;
        data.place(now);
        let differs = |asked: &Option<String>, now: &Option<String>| asked.is_some() && asked != now;
        for (differs, key, argument) in [
            (
                asked.self_loops.is_some() && asked.self_loops != now.self_loops,
                "data.self_loops",
                "self_loops",
            ),
            (differs(&asked.label, &now.label), "data.label", "y=COLUMN"),
            (differs(&asked.edge_label, &now.edge_label), "data.edge_label", "edge_labels=COLUMN"),
        ] {
            if differs {
                let text = format!(
                    "{key}: the graph has already been read; pass {argument} to eciton.graph instead"
                );
                return Err(PyValueError::new_err(text));
            }
        }
        eciton_cli::usual_model(&mut config);
        Ok(Self(config))
    }

    /// Returns the configuration with all defaults, as the TOML text of a recipe.
    fn to_toml(&self) -> PyResult<String> {
        self.0.to_toml().map_err(|error| PyValueError::new_err(message(&error.to_string()).into_owned()))
    }

    /// True if the task of the run is link prediction.
    #[getter]
    fn predicts_links(&self) -> bool {
        self.0.predicts_links()
    }
}

//! Observer of a run that calls a Python listener. A signal, or an exception of the listener, stops
//! the run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_train::{Ask, EpochReport, Observer, Resumed, SeedReport, Started, Stop};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::to_string;

/// Minimum time between two epochs that are reported to the Python listener. It does not apply if
/// the listener receives every epoch. Signals are checked whenever the listener is called.
const EVERY: Duration = Duration::from_millis(100);

/// Observer of a run that calls a Python object with the methods `started`, `epoch`, `seed`,
/// `resumed`, `warning` and `log`.
pub(crate) struct Listener {
    object: Py<PyAny>,
    /// True if the Python object receives every epoch, instead of at most one per [`EVERY`].
    each: bool,
    /// Time at which the Python object last received an epoch.
    told: Option<Instant>,
    stop: Arc<Stop>,
    /// First exception that the Python object raised, or that a signal handler raised.
    raised: Option<PyErr>,
}

impl Listener {
    pub(crate) fn new(object: Py<PyAny>, each: bool, stop: Arc<Stop>) -> Self {
        Self { object, each, told: None, stop, raised: None }
    }

    /// Returns the first exception that the Python object or a signal handler raised, if any.
    pub(crate) fn raised(self) -> Option<PyErr> {
        self.raised
    }

    /// Calls the Python object with `call`, unless an earlier call raised an exception. If `call`
    /// returns true or raises an exception, the run stops after the current epoch.
    fn tell(&mut self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<bool>) {
        if self.raised.is_some() {
            return;
        }
        let answer = Python::attach(|py| {
            py.check_signals()?;
            let stop = call(self.object.bind(py))?;
            py.check_signals()?;
            Ok(stop)
        });
        match answer {
            Ok(false) => {}
            Ok(true) => self.stop.ask(Ask::Finish),
            Err(raised) => {
                self.raised = Some(raised);
                self.stop.ask(Ask::Finish);
            }
        }
    }

    /// Calls the named method of the Python object with a JSON text.
    fn tell_text(&mut self, method: &str, text: Result<String, serde_json::Error>) {
        self.tell(|object| {
            let text = text.map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
            object.call_method1(method, (text,)).map(|_| false)
        });
    }
}

/// Returns the report of an epoch as a Python dictionary.
fn epoch<'py>(py: Python<'py>, report: &EpochReport) -> PyResult<Bound<'py, PyDict>> {
    let metrics = report.metrics;
    let found = PyDict::new(py);
    found.set_item("seed", report.seed)?;
    found.set_item("epoch", report.epoch)?;
    found.set_item("step", report.step)?;
    found.set_item("loss", report.loss)?;
    found.set_item("train", metrics.and_then(|metrics| metrics.train))?;
    found.set_item("val", metrics.and_then(|metrics| metrics.validation))?;
    found.set_item("test", metrics.and_then(|metrics| metrics.test))?;
    found.set_item("metric", metrics.map(|metrics| metrics.metric.name()))?;
    found.set_item("seconds", report.seconds)?;
    found.set_item("rows_per_second", report.rows_per_second)?;
    found.set_item("lr", report.lr)?;
    found.set_item("gradient_norm", report.gradient_norm)?;
    Ok(found)
}

impl Observer for Listener {
    fn started(&mut self, started: &Started) {
        self.tell_text("started", to_string(started));
    }

    fn resumed(&mut self, resumed: &Resumed) {
        self.tell_text("resumed", to_string(resumed));
    }

    fn epoch(&mut self, report: &EpochReport) {
        let due = self.told.is_none_or(|told| told.elapsed() >= EVERY);
        if self.each || due {
            self.told = Some(Instant::now());
            self.tell(|object| object.call_method1("epoch", (epoch(object.py(), report)?,))?.is_truthy());
        }
    }

    fn seed(&mut self, report: &SeedReport) {
        self.tell_text("seed", to_string(report));
    }

    fn stalled(&mut self, _seconds: u64, _waits_for: &[String]) {
        self.tell(|_| Ok(false));
    }

    fn warning(&mut self, text: &str) {
        let text = eciton_input::text::clean(text).into_owned();
        self.tell(|object| object.call_method1("warning", (text,)).map(|_| false));
    }

    fn log(&mut self, kernel: &str, line: &str) {
        let line = eciton_input::text::clean(line).into_owned();
        self.tell(|object| object.call_method1("log", (kernel, line)).map(|_| false));
    }
}

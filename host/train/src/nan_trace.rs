//! Trace of the first value of a round that is not finite: the layer, the kernel and the row.

use std::fmt;

/// Larger magnitudes overflow in a product or two: the weights have grown, whatever the kernel does.
const LARGE: f32 = 1e15;

/// Location of the first value that is not finite.
#[derive(Debug, Clone, PartialEq)]
pub struct NanTrace {
    /// The layer, from 0.
    pub layer: u32,
    /// The kernel: its name, or of the user's own the path of its component; of the host's own work its name.
    pub kernel: String,
    /// The component that takes the kernel's place, or the kernel itself, where it is the user's own.
    pub own: Option<String>,
    /// `forward`, `loss` or `backward`.
    pub function: &'static str,
    /// The value that was written.
    pub written: Written,
    /// NaN or infinity.
    pub value: f32,
    /// The largest magnitude in the row that the function read; `None` where it reads others' rows alone.
    pub largest: Option<f32>,
}

/// The value that was written.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// A row, by what the user calls it, and a column of it.
    Row {
        /// The row's name, for instance `17`, or `paper-17 (row 17)`.
        row: String,
        /// The column, from 0.
        column: usize,
    },
    /// The gradient of a parameter.
    Gradient {
        /// The parameter.
        parameter: String,
    },
    /// The loss alone.
    Loss,
}

impl fmt::Display for NanTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, kernel, own, function, written, value, largest } = self;
        write!(f, "; the first such value is {value} in layer {layer} (from 0), kernel `")?;
        match own {
            Some(path) if path != kernel => write!(f, "{kernel}` ({path})")?,
            _ => write!(f, "{kernel}`")?,
        }
        match written {
            Written::Row { row, column } => write!(f, ", {function}, row {row}, column {column}")?,
            Written::Gradient { parameter } => write!(f, ", {function}, the gradient of `{parameter}`")?,
            Written::Loss => write!(f, ", the loss")?,
        }
        let row = matches!(written, Written::Row { .. });
        match largest.filter(|_| row) {
            Some(0.0) => f.write_str("; the row that was read is all zeros"),
            Some(size) => write!(f, "; the largest magnitude in the row that was read is {size:e}"),
            None => Ok(()),
        }
    }
}

/// The remedy for a value that is not finite.
pub(crate) fn remedy(first: Option<&NanTrace>) -> String {
    match first {
        Some(NanTrace { own: Some(path), largest, .. }) if largest.is_none_or(|size| size < LARGE) => {
            format!(
                "look at the kernel: `eciton kernel check {path} --inputs ...` tries rows of zeros and large values"
            )
        }
        _ => "lower the learning rate (optimiser.lr), or look at the features with `eciton data stat`"
            .to_owned(),
    }
}

/// Returns the text of a trace, or an empty text if there is none.
pub(crate) fn told(first: Option<&NanTrace>) -> String {
    first.map_or_else(String::new, ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_names_the_remedy() {
        let mut found = NanTrace {
            layer: 1,
            kernel: "agnn.wasm".to_owned(),
            own: Some("agnn.wasm".to_owned()),
            function: "forward",
            written: Written::Row { row: "17".to_owned(), column: 3 },
            value: f32::NAN,
            largest: Some(0.0),
        };
        let text = found.to_string();
        assert!(
            text.contains("NaN in layer 1 (from 0), kernel `agnn.wasm`, forward, row 17, column 3"),
            "{text}"
        );
        assert!(text.ends_with("the row that was read is all zeros"), "{text}");
        assert!(remedy(Some(&found)).contains("eciton kernel check agnn.wasm"));
        found.largest = Some(1e30);
        assert!(found.to_string().ends_with("is 1e30"), "{found}");
        assert!(remedy(Some(&found)).contains("optimiser.lr") && remedy(None).contains("optimiser.lr"));
    }
}

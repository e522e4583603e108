//! The origin of NaN and infinite values: the first such value in a round, and the step that wrote
//! it.

use std::fmt;

/// Absolute value from which on numbers are likely to overflow in one or two products. The likely
/// cause is then growing weights, and not the kernel.
const LARGE: f32 = 1e15;

/// Location and description of the first NaN or infinite value in a round.
#[derive(Debug, Clone, PartialEq)]
pub struct NanTrace {
    /// Index of the layer that wrote the value, from 0.
    pub layer: u32,
    /// Kernel that wrote the value. It is the name of a built-in kernel or host operation, or the
    /// path of a user's component.
    pub kernel: String,
    /// Path of the user's component if one wrote the value. `None` for built-in kernels and host
    /// operations.
    pub own: Option<String>,
    /// Function of the kernel that wrote the value: `forward`, `loss` or `backward`.
    pub function: &'static str,
    /// Position of the value in the output of this function.
    pub written: Written,
    /// The value, which is NaN or infinite.
    pub value: f32,
    /// Largest absolute value in the row that the function read. `None` if the function only reads
    /// rows of other vertices.
    pub largest: Option<f32>,
}

/// Position of a value in the output of a kernel function.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// The value is in a row of the output.
    Row {
        /// Name of the row, for instance `17`, or `paper-17 (row 17)` if the data set has ids.
        row: String,
        /// Index of the column, from 0.
        column: usize,
    },
    /// The value is in the gradient of a parameter.
    Gradient {
        /// Name of the parameter.
        parameter: String,
    },
    /// The value is the loss. All rows are finite.
    Loss,
}

impl fmt::Display for NanTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { layer, kernel, own, function, written, value, largest } = self;
        write!(f, "; the first such value is {value} in layer {layer} (counted from 0), kernel `")?;
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

/// Returns advice for the user: to check the user's kernel, or to lower the learning rate.
pub(crate) fn remedy(first: Option<&NanTrace>) -> String {
    match first {
        Some(NanTrace { own: Some(path), largest, .. }) if largest.is_none_or(|size| size < LARGE) => {
            format!(
                "test the kernel with `eciton kernel check {path} --inputs ...`, which runs it on rows of \
                 zeros and large values"
            )
        }
        _ => "reduce the learning rate (optimiser.lr), or check the features with `eciton data stat`"
            .to_owned(),
    }
}

/// Returns the trace as the continuation of an error message. Returns an empty string for `None`.
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
            text.contains("NaN in layer 1 (counted from 0), kernel `agnn.wasm`, forward, row 17, column 3"),
            "{text}"
        );
        assert!(text.ends_with("the row that was read is all zeros"), "{text}");
        assert!(remedy(Some(&found)).contains("eciton kernel check agnn.wasm"));
        found.largest = Some(1e30);
        assert!(found.to_string().ends_with("is 1e30"), "{found}");
        assert!(remedy(Some(&found)).contains("optimiser.lr") && remedy(None).contains("optimiser.lr"));
    }
}

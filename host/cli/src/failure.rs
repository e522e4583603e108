//! Failures of a command, and their exit codes.

use std::error::Error;

use crate::output::tell;

/// Failure of a command, ready to be printed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for something impossible: exit code 2.
    Usage(String),
    /// The command failed: exit code 1.
    Failed(String),
    /// The command failed for now, and may succeed later: exit code 75, `EX_TEMPFAIL`.
    Temporary(String),
    /// A signal ended the command in an orderly way. The text and the exit code report it.
    Stopped {
        /// Text with the next step for the user.
        text: String,
        /// Exit code: 130 or 143.
        code: u8,
    },
    /// The reader of standard output went away. Only the exit code, 141, reports it.
    OutputClosed,
}

impl Failure {
    /// Returns the text of an error with its causes, each once.
    pub(crate) fn text(error: &dyn Error) -> String {
        eciton_input::text::causes(error)
    }

    /// Returns a failure whose cause is the command line.
    pub(crate) fn usage(error: &dyn Error) -> Self {
        Self::Usage(Self::text(error))
    }

    /// Returns the failure of an attempt, which is temporary if only the store of jobs failed.
    pub(crate) fn attempt(error: &eciton_train::Error) -> Self {
        let text = Self::text(error);
        if error.is_retryable() { Self::Temporary(text) } else { Self::Failed(text) }
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(self) -> u8 {
        let (text, code) = match self {
            Self::Usage(text) => (text, 2),
            Self::Failed(text) => (text, 1),
            Self::Temporary(text) => (text, 75),
            Self::Stopped { text, code } => {
                tell(text);
                return code;
            }
            Self::OutputClosed => return 141,
        };
        tell(format_args!("error: {text}"));
        code
    }

    /// Returns the text of the failure.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Usage(text) | Self::Failed(text) | Self::Temporary(text) | Self::Stopped { text, .. } => {
                text
            }
            Self::OutputClosed => "the reader of standard output went away",
        }
    }

    /// Converts the failure into its text.
    pub(crate) fn into_text(self) -> String {
        self.words().to_owned()
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(Self::text(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        #[derive(Debug)]
        struct Outer(&'static str, std::fmt::Error);
        impl std::fmt::Display for Outer {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.0)
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.1)
            }
        }
        let cause = std::fmt::Error.to_string();
        assert_eq!(Failure::text(&Outer("it broke", std::fmt::Error)), format!("it broke: {cause}"));
        let told: &'static str = Box::leak(format!("it broke, {cause}").into_boxed_str());
        assert_eq!(Failure::text(&Outer(told, std::fmt::Error)), told);
    }
}

//! Failures of commands, and their exit codes.

use std::error::Error;

use crate::output::tell;

/// Failure of a command, with the message for the user. The variant determines the exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a setting is invalid. The exit code is 2.
    Usage(String),
    /// The command failed, and would fail again in the same way. The exit code is 1.
    Failed(String),
    /// The command failed for a temporary reason, so that the same command may succeed later. The
    /// exit code is 75 (`EX_TEMPFAIL`).
    Temporary(String),
    /// The command failed, with the message and the exit code.
    Ended(String, u8),
    /// A signal stopped the command, after results or a checkpoint were written.
    Stopped {
        /// Message for the user, which names the next step.
        text: String,
        /// Exit code: 130 for SIGINT, 143 for SIGTERM.
        code: u8,
    },
    /// Another process reports the failure. Nothing is printed.
    Silent(u8),
    /// The reader of standard output has closed it. Nothing is printed, and the exit code is 141.
    OutputClosed,
}

impl Failure {
    /// Returns the message of an error, followed by the messages of its causes. A cause that is
    /// already contained in an outer message is not repeated.
    pub(crate) fn text(error: &dyn Error) -> String {
        eciton_input::text::causes(error)
    }

    /// Returns the failure for an error in the command line, which has exit code 2.
    pub(crate) fn usage(error: &dyn Error) -> Self {
        Self::Usage(Self::text(error))
    }

    /// Returns the failure for an error of a job. It is [`Failure::Temporary`] if another attempt
    /// may succeed, for instance after a network failure, and otherwise [`Failure::Failed`].
    pub(crate) fn attempt(error: &eciton_train::Error) -> Self {
        let text = Self::text(error);
        if error.is_retryable() { Self::Temporary(text) } else { Self::Failed(text) }
    }

    /// Prints the failure on standard error, and returns the exit code.
    pub(crate) fn report(self) -> u8 {
        let (text, code) = match self {
            Self::Usage(text) => (text, 2),
            Self::Failed(text) => (text, 1),
            Self::Temporary(text) => (text, 75),
            Self::Ended(text, code) => (text, code),
            Self::Stopped { text, code } => {
                tell(text);
                return code;
            }
            Self::Silent(code) => return code,
            Self::OutputClosed => return 141,
        };
        tell(format_args!("error: {text}"));
        code
    }

    /// Returns the message of the failure.
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Usage(text)
            | Self::Failed(text)
            | Self::Temporary(text)
            | Self::Ended(text, _)
            | Self::Stopped { text, .. } => text,
            Self::Silent(_) => "another host has failed",
            Self::OutputClosed => "standard output was closed",
        }
    }

    /// Converts the failure into its message.
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
    fn causes_are_printed_once() {
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

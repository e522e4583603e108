//! The command-line program `eciton`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(eciton_cli::run(std::env::args_os()))
}

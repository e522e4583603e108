//! The binary, run in a folder.

use std::path::Path;
use std::process::{Command, Stdio};

/// The exit code, standard output and standard error.
pub(crate) fn eciton(folder: &Path, line: &[&str]) -> (Option<i32>, String, String) {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    command.env("ECITON_CACHE_DIR", cache);
    let output = command.args(line).current_dir(folder).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Standard output of what must work.
#[track_caller]
pub(crate) fn works(folder: &Path, line: &[&str]) -> String {
    let (code, out, err) = eciton(folder, line);
    assert_eq!(code, Some(0), "{line:?}: {err}");
    out
}

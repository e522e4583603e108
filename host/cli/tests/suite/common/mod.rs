//! The binary, run in a folder.

use std::io::{BufRead as _, BufReader};
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

/// Runs the binary and kills it once it has printed so many lines.
pub(crate) fn killed_after(folder: &Path, line: &[&str], lines: usize) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    command.args(line).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines();
    told.take(lines).for_each(|line| drop(line.unwrap()));
    child.kill().unwrap();
    child.wait().unwrap();
}

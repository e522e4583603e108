//! Limits of batch systems (address space, processes, files), other users, and many starts at once.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{eciton, works};

const SMALL: &str = "train --epochs 2 --hidden 4 --threads 2 --json";

/// Runs a line of the shell, in which `eciton` is the binary, in `folder`.
fn shell(folder: &Path, line: &str) -> Output {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("eciton() {{ \"$ECITON\" \"$@\"; }}; {line}")]);
    command.env("ECITON", env!("CARGO_BIN_EXE_eciton")).env("ECITON_CACHE_DIR", cache);
    command.current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The digest of a run that a line of the shell ends with.
#[track_caller]
fn digest(output: &Output) -> String {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{:?}\n{out}{err}", output.status);
    let summary: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    summary["model_digest"].as_str().unwrap().to_owned()
}

#[test]
fn runs_start_under_a_limit_of_address_space() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = digest(&shell(folder.path(), &format!("eciton {SMALL} --no-out")));
    for threads in ["--set run.threads=1", "--set run.threads=4 --intervals 4"] {
        let line = format!("ulimit -v 8000000; eciton {SMALL} --no-out {threads}");
        assert_eq!(digest(&shell(folder.path(), &line)), wanted, "{threads}");
    }
    // Too little is an error that names the system, not the kernel.
    let ended = shell(folder.path(), &format!("ulimit -v 700000; eciton {SMALL} --no-out"));
    let said = text(&ended.stderr);
    assert!(!ended.status.success() && !said.contains("panicked") && !said.contains("contract"), "{said}");
    assert!(said.contains("eciton doctor") || said.contains("memory"), "{said}");
}

#[test]
fn too_few_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let ended = shell(folder.path(), &format!("ulimit -n 5; eciton {SMALL} --no-out"));
    let said = text(&ended.stderr);
    assert!(!ended.status.success() && !said.contains("panicked") && !said.contains("contract"), "{said}");
    assert!(said.contains("os error 24"), "{said}");
}

/// Another user runs it, because root has no limit of processes.
#[test]
fn a_user_without_a_home_trains_with_few_processes() {
    let id = Command::new("id").arg("-u").output().unwrap();
    if text(&id.stdout).trim() != "0" || Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("skipped: becoming another user takes root and setpriv");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("eciton");
    std::fs::copy(env!("CARGO_BIN_EXE_eciton"), &program).unwrap();
    shell(folder.path(), "chmod 755 . eciton; mkdir out; chmod 777 out");
    let run = |limits: &str, more: &str| {
        let line = format!(
            "ulimit -v 8000000; {limits}; cd out; env -u ECITON_CACHE_DIR -u XDG_CACHE_HOME HOME=/nonexistent \
             setpriv --reuid=65534 --regid=65534 --clear-groups ../eciton {SMALL} {more}"
        );
        shell(folder.path(), &line)
    };
    let wanted = digest(&shell(folder.path(), &format!("eciton {SMALL} --no-out")));
    assert_eq!(digest(&run("true", "--out r")), wanted);
    // Threads count, of all processes of this user.
    for most in [1, 2, 3, 5, 8] {
        let ended = run(&format!("ulimit -u {most}"), "--no-out");
        let said = text(&ended.stderr);
        assert!(!said.contains("panicked"), "{most} processes: {said}");
        assert!(ended.status.success() || said.contains("error: "), "{most} processes: {said}");
    }
}

#[test]
fn runs_that_start_at_once_get_folders_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("for n in 1 2 3 4; do eciton {SMALL} > $n.txt 2>&1 & done; wait; cat ?.txt");
    let said = text(&shell(folder.path(), &line).stdout);
    assert_eq!(said.matches("\"event\":\"summary\"").count(), 4, "{said}");
    let runs: Vec<_> =
        std::fs::read_dir(folder.path().join("runs")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(runs.len(), 4, "{runs:?}");
    assert!(runs.iter().all(|run| run.join("summary.json").is_file()), "{runs:?}");
}

#[test]
fn a_start_that_fails_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, said) = eciton(folder.path(), &["train", "nothing-of-this-name.npz"]);
    assert_ne!(code, Some(0), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn output_files_that_are_pipes_do_not_block() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    let small: Vec<&str> = SMALL.split(' ').collect();
    for flag in ["--trace", "--profile", "--record-events"] {
        let (code, _, said) = eciton(folder.path(), &[&small[..], &["--no-out", flag, "pipe"]].concat());
        assert_eq!(code, Some(1), "{flag}: {said}");
        assert!(said.contains("a pipe without a reader"), "{flag}: {said}");
    }
    works(folder.path(), &[&small[..], &["--out", "run"]].concat());
    let (code, _, said) = eciton(folder.path(), &["report", "run", "--out", "pipe"]);
    assert!(code == Some(1) && said.contains("a pipe without a reader"), "{said}");
    // Read, it takes what a file takes.
    let line = format!("cat pipe > read & eciton {SMALL} --no-out --trace pipe > /dev/null; wait");
    assert!(shell(folder.path(), &line).status.success());
    assert!(std::fs::read_to_string(folder.path().join("read")).unwrap().starts_with("[\n"));
}

#[test]
fn a_pipe_as_the_key_and_a_relative_home_harm_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let line = "mkdir cache; mkfifo cache.key; export ECITON_CACHE_DIR=$PWD/cache; timeout 10 \"$ECITON\" doctor | grep 'cache key'";
    let said = text(&shell(folder.path(), line).stdout);
    assert!(said.contains("a pipe, not a regular file"), "{said}");
    let line = format!(
        "unset ECITON_CACHE_DIR XDG_CACHE_HOME XDG_STATE_HOME; HOME=here; export HOME; eciton {SMALL} --no-out; ls -A > list"
    );
    digest(&shell(folder.path(), &line));
    let list = std::fs::read_to_string(folder.path().join("list")).unwrap();
    assert!(!list.contains("here"), "{list}");
}

#[test]
fn doctor_lists_the_limits_of_the_system() {
    let folder = tempfile::tempdir().unwrap();
    let said = text(&shell(folder.path(), "ulimit -v 3000000; ulimit -n 20; eciton doctor").stdout);
    for words in ["system limits", "address space", "open files", "20; LOW: each kernel"] {
        assert!(said.contains(words), "no {words:?} in:\n{said}");
    }
}

#[test]
fn a_wrong_cut_of_lanes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.txt"), "a rose is a rose is a rose. ".repeat(40)).unwrap();
    let line = "train t.txt --recipe char-lm --epochs 1 --no-out --set lanes.count=2 --set lanes.cut=[0,200]";
    let (code, _, said) = eciton(folder.path(), &line.split(' ').collect::<Vec<_>>());
    assert!(code == Some(1) && said.contains("`lanes.cut` is [0, 200]"), "{said}");
}

//! Runs that are stopped: by SIGTERM, by Ctrl-C, at any moment, and by a disk that is full.
#![cfg(unix)]
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use eciton_graph::random::SplitMix64;
use serde_json::Value;

use super::checkpoint::{LINE, PATIENCE, digests, eciton, fails, newest, partial, run, scene, text, works};

/// Processes that are stopped at moments that are drawn.
const STOPS: u32 = 12;

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Waits until `there` is true of a process that goes on meanwhile.
fn wait_for(child: &mut Child, what: &str, there: impl Fn() -> bool) {
    let begun = Instant::now();
    while !there() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before {what}");
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::yield_now();
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A run of some seconds in `graph`, which no test waits for; checkpoints as it says.
const LONG: [&str; 9] =
    ["train", "graph", "--json", "--epochs", "100000000", "--out", "r", "--set", "checkpoint.seconds=3600"];

/// Sends it a signal once it has trained for some epochs: exit code, standard output and error.
fn stopped(folder: &Path, name: &str) -> (Option<i32>, String, String) {
    let mut child = eciton(folder, &LONG).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let (mut out, mut err) = (String::new(), String::new());
    for _ in 0..20 {
        assert!(reader.read_line(&mut out).unwrap() > 0, "it ended: {out}");
    }
    signal(&child, name);
    reader.read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (child.wait().unwrap().code(), out, err)
}

/// The first epochs of that run, unbroken.
fn unbroken(folder: &Path, epochs: u64) -> Vec<String> {
    let epochs = epochs.to_string();
    digests(
        works(folder, &["train", "graph", "--json", "--epochs", &epochs, "--out", "unbroken"])
            .last()
            .unwrap(),
    )
}

/// Makes the run end soon, as it would have ended had it been asked for so many epochs.
fn shorten(folder: &Path, epochs: u64) {
    for place in ["r.checkpoint", "r"] {
        let path = folder.join(place).join("config.toml");
        if let Ok(text) = std::fs::read_to_string(&path) {
            std::fs::write(&path, text.replace("epochs = 100000000", &format!("epochs = {epochs}"))).unwrap();
        }
    }
}

#[test]
fn sigterm_leaves_a_checkpoint_and_the_run_goes_on() {
    let dir = scene();
    let folder = dir.path();
    let (code, out, said) = stopped(folder, "TERM");
    assert_eq!(code, Some(143), "{said}");
    let (_, epoch) = newest(folder).expect("a checkpoint, though none was due");
    assert_eq!(entries(folder), ["graph", "r.checkpoint"]);
    let told = format!("stopped on request after epoch {epoch} of seed 0; continue with `eciton resume r`");
    assert!(said.contains(&told) && !said.contains("error"), "{said}");
    // No epoch that was told of is lost. The last one is not told of if its evaluation was skipped.
    let told: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert!([epoch, epoch - 1].contains(&told["epoch"].as_u64().unwrap()), "{told}");
    let wanted = unbroken(folder, epoch + 20);
    shorten(folder, epoch + 20);
    let lines = works(folder, &["resume", "r", "--json", "--force"]);
    assert_eq!(digests(lines.last().unwrap()), wanted);
    assert_eq!(entries(folder), ["graph", "r", "unbroken"]);
}

#[test]
fn ctrl_c_writes_the_results_and_the_run_goes_on_all_the_same() {
    let dir = scene();
    let folder = dir.path();
    let (code, out, said) = stopped(folder, "INT");
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("the run was stopped; `eciton resume r` resumes it"), "{said}");
    assert_eq!(entries(folder), ["graph", "r", "r.checkpoint"]);
    let summary: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let (_, epoch) = newest(folder).unwrap();
    assert_eq!(
        (&summary["stopped"], &summary["seeds"][0]["epochs"]),
        (&Value::Bool(true), &Value::from(epoch))
    );
    assert_eq!(works(folder, &["eval", "r", "--json"])[0]["reproduced"], true);
    let wanted = unbroken(folder, epoch + 20);
    shorten(folder, epoch + 20);
    let lines = works(folder, &["resume", "r", "--json", "--force"]);
    assert_eq!(digests(lines.last().unwrap()), wanted);
    assert_eq!(lines.last().unwrap()["stopped"], false);
    assert_eq!(works(folder, &["eval", "r", "--json"])[0]["reproduced"], true);
    // What was written in between is replaced, and finished now.
    assert_eq!(entries(folder), ["graph", "r", "unbroken"]);
    let again = run(folder, &["resume", "r"]);
    assert!(
        again.status.success() && text(&again.stderr).contains("r is complete; nothing to resume"),
        "{}",
        text(&again.stderr)
    );
}

#[test]
fn runs_that_are_stopped_at_any_moment_end_as_if_they_had_not_been() {
    let seed =
        std::env::var("ECITON_STOP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
        });
    println!("ECITON_STOP_SEED={seed}");
    let mut random = SplitMix64::new(seed);
    let dir = scene();
    let folder = dir.path();
    let wanted = digests(works(folder, &[LINE, &["--out", "unbroken"]].concat()).last().unwrap());
    let (mut stops, mut whole) = (0, 0);
    while stops < STOPS || whole == 0 {
        let resumable = newest(folder).is_some();
        let line = if resumable { vec!["resume", "r", "--json"] } else { [LINE, &["--out", "r"]].concat() };
        let mut child = eciton(folder, &line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let name = ["TERM", "INT", "KILL"][random.below(3) as usize];
        let (looks, before) = (random.below(20_000), newest(folder));
        for _ in 0..looks {
            let _ = newest(folder);
        }
        let alive = stops < STOPS && child.try_wait().unwrap().is_none();
        if alive {
            signal(&child, name);
            stops += 1;
        }
        let ended = child.wait_with_output().unwrap();
        let said = text(&ended.stderr);
        println!(
            "{stops}: {} {name} after {looks} looks: {:?}, {before:?} to {:?}",
            line[0],
            ended.status.code(),
            newest(folder)
        );
        assert!(!said.contains("error") && !said.contains("not used"), "{said}");
        match ended.status.code() {
            // Ended before the signal came, or before it looked again.
            Some(0) => {
                whole += 1;
                let lines = works(folder, &["resume", "r", "--json"]);
                assert_eq!(digests(lines.last().unwrap()), wanted);
                assert_eq!(entries(folder), ["graph", "r", "unbroken"], "nothing is left");
                std::fs::remove_dir_all(folder.join("r")).unwrap();
            }
            // Killed, or so early that it did not listen yet.
            None => {}
            Some(code) => assert_eq!(code, if name == "TERM" { 143 } else { 130 }, "{said}"),
        }
        // Nothing that was written down is lost.
        let gone = ended.status.code() == Some(0);
        assert!(gone || newest(folder) >= before || folder.join("r/summary.json").exists(), "{before:?}");
        // A kill after the move of a whole run leaves only checkpoints to be removed.
        if !gone && newest(folder).is_none() && folder.join("r").exists() {
            let lines = works(folder, &["resume", "r", "--json"]);
            assert_eq!(digests(lines.last().unwrap()), wanted);
            std::fs::remove_dir_all(folder.join("r")).unwrap();
        }
    }
}

/// A section of a component or a module.
fn section(id: u8, content: &[u8]) -> Vec<u8> {
    [&[id], &leb(content.len())[..], content].concat()
}

fn leb(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        bytes.push(if value == 0 { low } else { low | 0x80 });
        if value == 0 {
            return bytes;
        }
    }
}

/// A section with a core module of so many functions, which do nothing.
fn module(functions: usize) -> Vec<u8> {
    let count = leb(functions);
    let types = section(1, &[1, 0x60, 0, 0]);
    let declared = section(3, &[&count[..], &vec![0; functions]].concat());
    let bodies = section(10, &[&count[..], &[2, 0, 0x0b].repeat(functions)].concat());
    section(1, &[b"\0asm\x01\0\0\0", &types[..], &declared, &bodies].concat())
}

/// `linear`, which works, with such a module that nothing uses.
fn padded(functions: usize) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let linear = std::fs::read(root.join("guest-kernels/prebuilt/linear.wasm")).unwrap();
    [linear, module(functions)].concat()
}

#[test]
fn the_first_signal_ends_what_does_not_train_yet() {
    let dir = scene();
    let folder = dir.path();
    std::fs::write(folder.join("slow.wasm"), padded(40_000)).unwrap();
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        let line = ["train", "graph", "--kernel", "linear=slow.wasm", "--out", "r"];
        // Compiling it takes seconds, from the moment on that the folder is there.
        let mut child = eciton(folder, &line).spawn().unwrap();
        wait_for(&mut child, "the folder", || partial(folder).is_some());
        signal(&child, name);
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(code), "{}", text(&ended.stderr));
        assert_eq!(entries(folder), ["graph", "slow.wasm"]);
    }
}

#[test]
fn a_component_that_takes_long_to_compile_is_refused_before() {
    let dir = scene();
    let folder = dir.path();
    std::fs::write(folder.join("works-200k.wasm"), padded(200_000)).unwrap();
    let begun = Instant::now();
    for line in [
        &["train", "graph", "--kernel", "linear=works-200k.wasm", "--no-out"][..],
        &["kernel", "check", "works-200k.wasm"],
    ] {
        let error = fails(folder, line);
        assert!(error.contains("limit functions: 200") && error.contains("50000 allowed"), "{error}");
    }
    assert!(begun.elapsed().as_secs_f64() < 10.0, "{:?}", begun.elapsed());
    // As many as one may have still train, if slowly the first time.
    std::fs::write(folder.join("many.wasm"), padded(20_000)).unwrap();
    works(folder, &["train", "graph", "--kernel", "linear=many.wasm", "--epochs", "1", "--no-out", "--json"]);
}

#[test]
fn a_component_without_an_end_is_not_read_to_it() {
    let dir = scene();
    let folder = dir.path();
    let large = std::fs::File::create(folder.join("large.wasm")).unwrap();
    large.set_len((64 << 20) + 1).unwrap();
    let error = fails(folder, &["train", "graph", "--kernel", "linear=large.wasm", "--no-out"]);
    assert!(error.contains("large.wasm") && error.contains("more than 67108864 bytes"), "{error}");
}

/// What `kernel check` refuses in no time: not compiled, though that would take seconds.
#[test]
fn a_run_compares_a_component_with_the_contract_before_it_compiles_it() {
    let dir = scene();
    let folder = dir.path();
    let component = [b"\0asm\x0d\0\x01\0", &module(49_000)[..]].concat();
    std::fs::write(folder.join("none.wasm"), component).unwrap();
    let begun = Instant::now();
    let error = fails(folder, &["train", "graph", "--kernel", "linear=none.wasm", "--no-out"]);
    assert!(error.contains("does not fit the contract") && error.contains("vertex"), "{error}");
    assert!(begun.elapsed().as_secs_f64() < 2.0, "it was compiled: {:?}", begun.elapsed());
}

#[test]
fn a_file_that_may_not_grow_is_told_in_words() {
    let dir = scene();
    let folder = dir.path();
    let binary = env!("CARGO_BIN_EXE_eciton");
    let line = format!("ulimit -f 64; exec {binary} train graph --epochs 3 --hidden 512 --out r");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
    let mut command = Command::new("sh");
    let ended =
        command.args(["-c", &line]).current_dir(folder).env("ECITON_CACHE_DIR", cache).output().unwrap();
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "not 153, by SIGXFSZ: {said}");
    assert!(
        said.contains("model.safetensors: cannot be written") && said.contains("File too large"),
        "{said}"
    );
    assert_eq!(entries(folder), ["graph"]);
}

/// Runs a script in a folder `small`, which is a disk of so many KiB; `None`, with a word, where the
/// system mounts none.
pub(super) fn on_a_small_disk(folder: &Path, kib: u32, script: &str) -> Option<String> {
    std::fs::create_dir_all(folder.join("small")).unwrap();
    let binary = env!("CARGO_BIN_EXE_eciton");
    let mount = format!("mount -t tmpfs -o size={kib}k none small");
    let namespace = |script: &str| {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script]).current_dir(folder);
        command.env("ECITON_CACHE_DIR", cache).output()
    };
    if !namespace(&mount).is_ok_and(|mounted| mounted.status.success()) {
        println!("not tested: this system lets no disk be mounted in a namespace of one's own (unshare)");
        return None;
    }
    let ran = namespace(&format!("{mount} && eciton() {{ {binary} \"$@\"; }}\n{script}")).unwrap();
    Some(text(&ran.stdout) + &text(&ran.stderr))
}

#[test]
fn a_full_disk_at_the_end_costs_the_predictions_and_not_the_model() {
    let dir = scene();
    let folder = dir.path();
    let made = ["--vertices", "40000", "--edges", "40000", "--json"];
    works(folder, &[&["data", "generate", "block-model", "many"], &made[..]].concat());
    let script = "eciton train many --epochs 3 --out small/r > /dev/null; echo code $?; ls -A small small/r;
        eciton predict small/r --out again.npz; echo code $?; eciton resume small/r; echo code $?";
    let Some(said) = on_a_small_disk(folder, 480, script) else { return };
    for words in [
        "small/r/predictions.npz: cannot be written: No space left on device",
        "small/r has the files that were written: config.toml, curve.svg, metrics.jsonl, model.safetensors, schema.json, summary.json, versions.json",
        "write predictions with `eciton predict`",
        "small/r is complete; nothing to resume",
    ] {
        assert!(said.contains(words), "{words:?} is missing in:\n{said}");
    }
    let codes: Vec<&str> = said.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!(codes, ["code 1", "code 0", "code 0"], "{said}");
    assert!(folder.join("again.npz").exists());
}

#[test]
fn a_full_disk_at_a_checkpoint_does_not_end_the_training() {
    let dir = scene();
    let folder = dir.path();
    // The model fits, with the room that is kept for it; a checkpoint, three times as large, does not.
    let script = "eciton train graph --epochs 30 --hidden 512 --set checkpoint.every=2 --json --out small/r; echo code $?; ls -A small";
    let Some(said) = on_a_small_disk(folder, 480, script) else { return };
    let told = said.matches("warning: no checkpoint was written: ").count();
    assert_eq!(told, 1, "told once, though fifteen were due:\n{said}");
    assert!(
        said.contains("No space left on device")
            && said.contains("the run continues (no earlier checkpoint exists)"),
        "{said}"
    );
    assert!(said.contains("\"event\":\"summary\"") && said.contains("code 0\nr\n"), "{said}");
}

/// A run whose settings are damaged was said to be one that `resume` goes on with (L5).
#[test]
fn what_cannot_be_gone_on_with_is_not_promised() {
    let dir = scene();
    let folder = dir.path();
    assert_eq!(stopped(folder, "TERM").0, Some(143));
    std::fs::write(folder.join("r.checkpoint/config.toml"), "[run\n").unwrap();
    let said = fails(folder, &["resume", "r"]);
    assert!(said.contains("config.toml") && !said.contains("newest checkpoint"), "{said}");
}

//! One door for files: the host's sources open files through `eciton_input::file` alone.

use std::path::{Path, PathBuf};

/// Calls that open or read a file.
const OPENS: [&str; 4] = ["File::open(", "fs::read(", "fs::read_to_string(", "OpenOptions::new()"];

/// Sources that open files in another way, and why each may.
const OTHERS: [(&str, &str); 22] = [
    ("input/src/file.rs", "the door"),
    ("input/src/memory.rs", "files of /proc and /sys"),
    ("gather/src/cache.rs", "files of /sys"),
    ("cli/src/doctor.rs", "files of /proc, and a probe of its own"),
    ("emulator/src/instance.rs", "files of /proc"),
    ("train/src/train.rs", "files of /proc"),
    ("runs/src/provenance.rs", "files of /proc"),
    ("cli/src/doctor/system.rs", "files of /proc"),
    ("emulator/src/owner.rs", "files of /proc"),
    ("kernel/src/secret.rs", "/dev/urandom"),
    ("cloud/src/emulated_account.rs", "/dev/urandom"),
    ("cloud/src/trainers/record.rs", "a file of its own, to append to it"),
    ("emulator/src/processor.rs", "files of /proc"),
    ("connect/src/folder.rs", "a folder, to lock it"),
    ("connect/src/secret.rs", "a token that this process writes, to a file that must be new"),
    ("graph/src/build/spill.rs", "files that this process has just written"),
    ("graph/src/store/writer.rs", "files that this process has just written"),
    ("runs/src/run_folder.rs", "folders and files of its own, to sync them"),
    ("runs/src/durable.rs", "folders and files of its own, to sync and to cut them"),
    ("train/src/checkpoint/place.rs", "a lock in a folder of its own"),
    ("cli/src/data/generate.rs", "a store that this process has just written"),
    ("author/src/c.rs", "headers that this process writes"),
];

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
            into.push(path);
        }
    }
}

#[test]
fn files_are_opened_in_one_place() {
    let host = eciton_tests::root().join("host");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&host).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut found);
    }
    assert!(found.len() > 200);
    let mut used = vec![false; OTHERS.len()];
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let own = text.split("mod tests {").next().unwrap();
        let name = path.strip_prefix(&host).unwrap().display().to_string();
        for (number, line) in (1..).zip(own.lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            let opens =
                OPENS.iter().any(|call| line.contains(call)) && !line.contains("eciton_input::file::");
            if opens {
                let at = OTHERS.iter().position(|(other, _)| *other == name);
                let at = at
                    .unwrap_or_else(|| panic!("{name}, line {number}: opens a file: use eciton_input::file"));
                used[at] = true;
            }
        }
    }
    for ((name, why), used) in OTHERS.iter().zip(used) {
        assert!(used, "{name} ({why}) opens no file any more: take it off the list");
    }
}

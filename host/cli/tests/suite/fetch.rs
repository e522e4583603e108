//! `eciton data fetch`, against a server on this machine and from folders. Real files are used where
//! `../shared/data` stands beside the repository; all else needs none.
#![cfg(unix)]
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

/// A folder with a cache of its own.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, line: &[&str], mirror: Option<&str>) -> Ran {
        let kernels = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
        let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
        command.args(line).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("ECITON_CACHE_DIR", kernels).env("ECITON_DATA", self.0.path().join("cache"));
        for name in ["ECITON_MIRROR", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            command.env_remove(name);
        }
        if let Some(mirror) = mirror {
            command.env("ECITON_MIRROR", mirror);
        }
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn works(&self, line: &[&str]) -> Vec<Value> {
        let ran = self.run(line, None);
        assert_eq!(ran.code, Some(0), "{line:?}: {}", ran.err);
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn fails(&self, line: &[&str], code: i32, words: &[&str]) {
        let ran = self.run(line, None);
        assert_eq!(ran.code, Some(code), "{line:?}: {}", ran.err);
        for word in words {
            assert!(ran.err.contains(word), "{line:?}: {} does not contain {word}", ran.err);
        }
    }
}

/// Serves the files of a folder, and 404 for all else, until the test ends.
fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let path = line.split_whitespace().nth(1).unwrap_or("/").trim_start_matches('/').to_owned();
            while !line.trim_end().is_empty() {
                line.clear();
                reader.read_line(&mut line).unwrap();
            }
            let (status, body) = match std::fs::read(folder.join(path)) {
                Ok(body) => ("200 OK", body),
                Err(_) => ("404 Not Found", Vec::new()),
            };
            let head =
                format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // A client that refuses the head goes away before the body.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    url
}

#[test]
fn the_catalogue_is_listed() {
    let place = Place::new();
    let listed = place.works(&["data", "fetch", "--list", "--json"]);
    assert_eq!(listed.len(), 9);
    assert!(
        listed.iter().all(|set| set["present"] == false && set["bytes"].as_u64() > Some(0)),
        "{listed:?}"
    );
    let text = place.run(&["data", "fetch", "--list"], None).out;
    assert!(text.contains("amazon-photo") && text.contains("ECITON_DATA"), "{text}");
    assert!(!place.0.path().join("cache").exists());
}

#[test]
fn failures_say_what_to_do_and_leave_nothing() {
    let place = Place::new();
    place.fails(&["data", "fetch"], 2, &["NAME"]);
    place.fails(&["data", "fetch", "citeser"], 2, &["did you mean `citeseer`?"]);
    place.fails(&["data", "fetch", "cora", "--from", ".", "--mirror", "http://a"], 2, &["--mirror"]);
    place.fails(&["data", "fetch", "cora", "--mirror", "a"], 1, &["`a` is not a web address"]);
    let url = ["raw.githubusercontent.com", "minesweeper.npz", "heterophilous"];
    place.fails(&["data", "fetch", "minesweeper", "--from", "."], 1, &url);
    let server = serve(place.0.path().to_owned());
    let remedy = ["answered 404", "eciton data fetch minesweeper --from FOLDER"];
    place.fails(&["data", "fetch", "minesweeper", "--mirror", &server], 1, &remedy);
    // Another file at that place, asked for by way of the variable.
    std::fs::create_dir(place.0.path().join("heterophilous")).unwrap();
    std::fs::write(place.0.path().join("heterophilous/minesweeper.npz"), vec![0; 135_045]).unwrap();
    let ran = place.run(&["data", "fetch", "minesweeper"], Some(&server));
    assert!(ran.code == Some(1) && ran.err.contains("SHA-256"), "{}", ran.err);
    place.fails(&["data", "fetch", "minesweeper", "--from", "."], 1, &["SHA-256", "was not stored"]);
    place.fails(&["train", "minesweeper"], 1, &["run `eciton data fetch minesweeper`"]);
    place.fails(&["data", "stat", "minesweper"], 1, &["did you mean `minesweeper`?"]);
    let left = std::fs::read_dir(place.0.path().join("cache/heterophilous")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn what_was_fetched_is_found_by_name() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    if !data.join("planetoid").is_dir() {
        println!("skipped: no data at {}", data.display());
        return;
    }
    let place = Place::new();
    let server = serve(data.clone());
    let line = ["data", "fetch", "minesweeper", "Amazon_Photo", "--mirror", &server, "--json"];
    let fetched = place.works(&line);
    assert_eq!(
        (fetched.len(), &fetched[1]["brought"], &fetched[1]["name"]),
        (2, &1.into(), &"amazon-photo".into())
    );
    assert_eq!(place.works(&line)[0]["brought"], 0);
    let from = ["data", "fetch", "citeseer", "facebook", "--from", data.to_str().unwrap(), "--json"];
    assert_eq!(place.works(&from)[0]["brought"], 8);
    for (name, vertices) in
        [("minesweeper", 10_000), ("amazon-photo", 7_650), ("CITESEER", 3_327), ("facebook", 22_470)]
    {
        assert_eq!(place.works(&["data", "stat", name, "--json"])[0]["vertices"], vertices, "{name}");
    }
    let present = |set: &&Value| set["present"] == true;
    assert_eq!(place.works(&["data", "fetch", "--list", "--json"]).iter().filter(present).count(), 4);
    let summary = place.works(&["train", "citeseer", "--epochs", "2", "--json", "--no-out"]).pop().unwrap();
    assert_eq!(summary["model"], "gcn 3703-16-6");
    let ran = place.run(&["data", "fetch", "citeseer", "--from", "."], None);
    assert!(ran.out.contains("all in the cache already") && ran.out.contains("Yang"), "{}", ran.out);
}

//! `eciton job` and `eciton sweep --executor jobs` against the emulator's S3: the bits of runs
//! here, one answer whatever fails, and exit codes that a batch system can act on.
#![cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use eciton_graph::order::{Order, Permutation};
use eciton_graph::store::Partition;
use eciton_transport::{Condition, Credentials, Key, S3Settings, S3Store, Secret, Store as _};
use serde_json::Value;

use crate::common::works;

const BUCKET: &str = "mine";
const STORE: &str = "s3://mine/some/prefix";

/// An S3-compatible service, and a folder to work in.
struct Place {
    runtime: tokio::runtime::Runtime,
    cloud: eciton_emulator::Emulator,
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let settings = eciton_emulator::Settings {
            buckets: vec![BUCKET.to_owned()],
            access_key: "batch".to_owned(),
            secret_key: "secret".to_owned(),
            ..eciton_emulator::Settings::default()
        };
        let cloud = runtime.block_on(eciton_emulator::Emulator::start(settings)).unwrap();
        Self { runtime, cloud, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The environment of a container: where the store is, and who asks.
    fn environment(&self) -> [(&'static str, String); 5] {
        [
            ("AWS_ENDPOINT_URL_S3", self.cloud.s3_endpoint()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "batch".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ]
    }

    /// A program with this environment alone.
    fn program(&self, program: &Path, line: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.environment()).args(line).current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn eciton(&self, line: &[&str]) -> Command {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
        let mut command = self.program(Path::new(env!("CARGO_BIN_EXE_eciton")), line);
        command.env("ECITON_CACHE_DIR", cache);
        command
    }

    /// `eciton job --json`.
    fn job(&self, rest: &[&str]) -> Command {
        self.eciton(&[&["job", "--json", "--store", STORE], rest].concat())
    }

    /// A sweep of jobs: its exit code, its lines, and standard error.
    fn sweep(&self, rest: &[&str]) -> (Option<i32>, Vec<Value>, String) {
        let line =
            ["sweep", "tries.toml", "--json", "--executor", "jobs", "--store", STORE, "--out", "there"];
        let ran = self.eciton(&[&line[..], rest].concat()).output().unwrap();
        let lines = text(&ran.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (ran.status.code(), lines, text(&ran.stderr))
    }

    /// Writes the jobs of a sweep. Returns the list and its size.
    #[track_caller]
    fn listed(&self, rest: &[&str]) -> (String, u64) {
        let (code, lines, err) = self.sweep(rest);
        assert_eq!(code, Some(0), "{err}");
        let found = lines.iter().find(|line| line["event"] == "jobs").unwrap_or_else(|| panic!("{lines:?}"));
        let size = found["size"].as_u64().unwrap();
        let missing = &lines.last().unwrap()["missing"];
        assert_eq!((&missing["list"], &missing["size"]), (&found["list"], &found["size"]));
        let list = found["list"].as_str().unwrap();
        assert!(list.starts_with("jobs/") && list.ends_with(".list"), "{list}");
        let command = found["command"].as_array().unwrap();
        assert_eq!(command[..2], ["eciton", "job"]);
        assert_eq!(command.last().unwrap(), list);
        (list.to_owned(), size)
    }

    fn puts(&self) -> u64 {
        self.cloud.bill().s3.puts
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.runtime.block_on(self.cloud.stop());
    }
}

/// Starts `eciton`, and waits until it has printed `line` on standard error.
fn until(mut command: Command, line: &str) -> std::process::Child {
    use std::io::BufRead as _;
    let mut child = command.spawn().unwrap();
    let errors = std::io::BufReader::new(child.stderr.take().unwrap());
    assert!(errors.lines().map_while(Result::ok).any(|found| found.contains(line)), "{line}");
    child
}

#[test]
fn hosts_meet_in_a_bucket() {
    let place = Place::new();
    let meet = "s3://mine/hosts";
    let line = ["train", "cora", "--epochs", "5", "--no-out", "--json", "--hosts", "2", "--rendezvous", meet];
    let listen = ["--set", "hosts.listen=127.0.0.1:0"];
    let first = || place.eciton(&[&line[..], &listen].concat());
    // The address of a run that was killed stays in the bucket, and a later run replaces it.
    let mut killed = until(first(), "host 0 waits for the hosts 1 at s3://mine/hosts");
    killed.kill().unwrap();
    killed.wait().unwrap();
    let guest = until(place.eciton(&["host", "--connect", meet]), "waiting for host 0 at s3://mine/hosts");
    let done = first().output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(guest.wait_with_output().unwrap().status.success());
    let alone = place.eciton(&["train", "cora", "--epochs", "5", "--no-out", "--json"]).output().unwrap();
    let digest = |bytes: &[u8]| {
        let last: Value = serde_json::from_str(text(bytes).lines().last().unwrap()).unwrap();
        last["model_digest"].as_str().unwrap().to_owned()
    };
    assert_eq!(digest(&done.stdout), digest(&alone.stdout));
    // The secret of the run is not left in the bucket.
    let waits = place.eciton(&["host", "--connect", meet, "--wait", "1"]).output().unwrap();
    assert_eq!(waits.status.code(), Some(1));
    assert!(text(&waits.stderr).contains("it is not there yet"), "{}", text(&waits.stderr));
}

#[test]
fn hosts_read_only_their_rows_from_a_bucket() {
    let place = Place::new();
    let made = [
        "data",
        "generate",
        "block-model",
        "made",
        "--vertices",
        "6000",
        "--edges",
        "90000",
        "--features",
        "40",
    ];
    assert!(place.eciton(&made).output().unwrap().status.success());
    let data = eciton_graph::store::open(&place.path().join("made")).unwrap();
    let order = Permutation::compute(&data.graph, Order::Rabbit);
    let partition = Partition { piece_bytes: 4096, ..Partition::equal(&data, order, 2).unwrap() };
    let folder = place.path().join("parts");
    partition.write(&folder, &data).unwrap();
    let settings = S3Settings {
        endpoint: Some(place.cloud.s3_endpoint()),
        credentials: Credentials::Keys {
            access_key_id: "batch".to_owned(),
            secret_access_key: Secret::new("secret"),
            session_token: None,
        },
        ..S3Settings::new(BUCKET, "us-east-1")
    };
    let bucket = S3Store::new(settings).unwrap();
    let (mut large, mut small) = (0, 0);
    for file in std::fs::read_dir(&folder).unwrap() {
        let file = file.unwrap();
        let (name, bytes) = (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap());
        *if ["neighbours.u32", "features.f32"].contains(&&*name) { &mut large } else { &mut small } +=
            bytes.len() as u64;
        let key = Key::new(format!("graphs/parts/{name}")).unwrap();
        place.runtime.block_on(bucket.put(&key, bytes.into(), Condition::Always)).unwrap();
    }
    let digest = |ran: Output| {
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        let printed = text(&ran.stdout);
        let last: Value = serde_json::from_str(printed.lines().last().unwrap()).unwrap();
        last["model_digest"].as_str().unwrap().to_owned()
    };
    let run = |source: &str, rest: &[&str]| {
        let line = ["train", source, "--epochs", "3", "--no-out", "--json"];
        digest(place.eciton(&[&line[..], rest].concat()).output().unwrap())
    };
    let there = "s3://mine/graphs/parts";
    let before = place.cloud.bill().s3.bytes_out;
    let found = run(there, &["--hosts", "2"]);
    let sent = place.cloud.bill().s3.bytes_out - before;
    // Each host reads the small files, and whole pieces at both ends of its part of two large ones.
    assert!(
        sent >= large + 2 * small - 4096 && sent <= large + 2 * small + 2 * 2 * 2 * 4096,
        "{sent}: {large}, {small}"
    );
    let whole = run("parts", &[]);
    assert_eq!((&found, &run(there, &[])), (&whole, &whole));
    let absent = place.eciton(&["train", "s3://mine/none", "--no-out"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(1));
    assert!(text(&absent.stderr).contains("s3://mine/none/store.json"), "{}", text(&absent.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The line of a job that was done.
#[track_caller]
fn done(ran: &Output) -> Value {
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let line: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(line["event"], "job");
    line
}

fn results(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("results.json")).unwrap()).unwrap()
}

/// Settings, state, rung, metric and digest of each trial.
fn table(folder: &Path) -> Vec<[String; 5]> {
    let keys = ["choice", "state", "rung", "test_metric", "model_digest"];
    let results = results(folder);
    results["rows"].as_array().unwrap().iter().map(|row| keys.map(|key| row[key].to_string())).collect()
}

fn tries(place: &Place, text: &str) {
    std::fs::write(place.path().join("tries.toml"), text).unwrap();
}

fn here(place: &Place, rest: &[&str]) {
    works(place.path(), &[&["sweep", "tries.toml", "--out", "here"], rest].concat());
}

/// The command of a container in the manifest for Kubernetes, for this store and list.
fn kubernetes(list: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/jobs/kubernetes.yaml");
    let manifest = std::fs::read_to_string(path).unwrap();
    let commands: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.trim().strip_prefix("command: [")?.strip_suffix(']'))
        .collect();
    let [command] = commands[..] else { panic!("{commands:?}") };
    let words = command.split(',').map(|word| word.trim().trim_matches('"'));
    words.map(|word| word.replace("s3://BUCKET/PREFIX", STORE).replace("jobs/SWEEPID.list", list)).collect()
}

/// Makes a root folder that has the program, its libraries and an empty `/tmp`, and nothing else.
fn root(place: &Place) -> PathBuf {
    let root = place.path().join("root");
    std::fs::create_dir_all(root.join("tmp")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_eciton"));
    std::fs::copy(program, root.join("eciton")).unwrap();
    let ran = Command::new("ldd").arg(program).output().unwrap();
    for library in text(&ran.stdout).split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(library, to).unwrap();
    }
    root
}

#[test]
fn jobs_of_a_manifest_and_in_an_empty_root_have_the_digests_of_runs_here() {
    let place = Place::new();
    works(place.path(), &["data", "convert", "cora", "store"]);
    tries(&place, "recipe = \"cora/gcn\"\ndata = \"store\"\n[grid]\n\"model.hidden\" = [8, 16, 32]\n");
    let epochs = ["--set", "run.epochs=5"];
    here(&place, &epochs);
    let (list, size) = place.listed(&epochs);
    assert_eq!(size, 3);
    // The data set, three descriptions and their list are stored once.
    assert_eq!(place.puts(), 5);
    assert_eq!(place.listed(&epochs), (list.clone(), 3));
    assert_eq!(place.puts(), 5);

    let command = kubernetes(&list);
    let words: Vec<&str> = command.iter().map(|word| &word[..]).collect();
    assert_eq!(words[0], "eciton");
    let ran = place.eciton(&words[1..]).env("JOB_COMPLETION_INDEX", "0").output().unwrap();
    assert!(ran.status.success() && text(&ran.stdout).contains("completed in"), "{}", text(&ran.stderr));
    // Done before.
    let ran = place.eciton(&words[1..]).env("JOB_COMPLETION_INDEX", "0").output().unwrap();
    assert!(ran.status.success() && text(&ran.stdout).contains("already answered"), "{}", text(&ran.stderr));

    let chroot = ["/usr/sbin/chroot", "/usr/bin/chroot", "/sbin/chroot"].map(Path::new);
    let chroot = chroot.into_iter().find(|path| path.exists());
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    match chroot.filter(|_| is_root) {
        Some(chroot) => {
            let root = root(&place);
            let line = [root.to_str().unwrap(), "/eciton", "job", "--json", "--store", STORE, &list];
            let ran = place.program(chroot, &line).env("AWS_BATCH_JOB_ARRAY_INDEX", "1").output().unwrap();
            assert_eq!(done(&ran)["found"], false);
            assert!(root.join("tmp").read_dir().unwrap().next().is_none(), "a job removes its files");
        }
        None => {
            eprintln!("skipped: a job in an empty root; chroot needs root");
            assert_eq!(done(&place.job(&[&list, "--index", "1"]).output().unwrap())["found"], false);
        }
    }
    // A part of the answers: the rest is a list of its own. A job writes its predictions and its answer.
    let (rest, size) = place.listed(&epochs);
    assert_eq!(size, 1);
    let line = done(&place.job(&[&rest]).env("SLURM_ARRAY_TASK_ID", "0").output().unwrap());
    assert!(line["files_bytes"].as_u64().unwrap() > 0 && line["store"]["puts"] == 2, "{line}");
    let (code, lines, err) = place.sweep(&[&epochs[..], &["--wait", "5"]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(lines.last().unwrap()["missing"], Value::Null);
    assert_eq!(table(&place.path().join("there")), table(&place.path().join("here")));
    // A run folder has this machine's paths.
    works(place.path(), &["eval", "there/trials/00001"]);
}

#[test]
fn a_halved_sweep_of_jobs_has_the_table_of_one_here() {
    let place = Place::new();
    let text = "recipe = \"cora/gcn\"\n[grid]\n\"model.hidden\" = [4, 8]\n\"optimiser.lr\" = [0.005, 0.08]\n\
                [halving]\neta = 2\nepochs = 3\n";
    tries(&place, text);
    let epochs = ["--set", "run.epochs=12"];
    here(&place, &epochs);
    for wanted in [4, 2, 1] {
        let (list, size) = place.listed(&epochs);
        assert_eq!(size, wanted);
        for index in 0..size {
            done(&place.job(&[&list, "--index", &index.to_string()]).output().unwrap());
        }
    }
    let (code, lines, err) = place.sweep(&epochs);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(lines.last().unwrap()["missing"], Value::Null);
    assert_eq!(table(&place.path().join("there")), table(&place.path().join("here")));
}

#[test]
fn a_killed_job_and_two_at_once_leave_one_answer() {
    let place = Place::new();
    tries(&place, "recipe = \"cora/gcn\"\nseeds = 1\n[grid]\n\"model.hidden\" = [16]\n");
    let epochs = ["--set", "run.epochs=400"];
    here(&place, &epochs);
    let (list, size) = place.listed(&epochs);
    assert_eq!(size, 1);
    let before = place.puts();

    let temporary = place.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut killed = place.job(&[&list, "--index", "0"]).env("TMPDIR", &temporary).spawn().unwrap();
    let begun = Instant::now();
    // The folder of the run appears with the first epoch.
    while !is_training(&temporary) {
        assert!(begun.elapsed() < Duration::from_secs(15) && killed.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    killed.kill().unwrap();
    assert_eq!(killed.wait().unwrap().code(), None, "it was killed before its end");
    assert_eq!(place.puts(), before, "a killed job leaves nothing");

    let both = [0, 1].map(|_| place.job(&[&list, "--index", "0"]).spawn().unwrap());
    let found = both.map(|child| done(&child.wait_with_output().unwrap())["found"].as_bool().unwrap());
    assert!(!found[0] || !found[1], "one of them wrote the answer");
    assert_eq!(done(&place.job(&[&list, "--index", "0"]).output().unwrap())["found"], true);
    let (code, _, err) = place.sweep(&epochs);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(table(&place.path().join("there")), table(&place.path().join("here")));
}

/// Returns whether a run folder is being written below a folder.
fn is_training(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(".run.partial-") || path.is_dir() && is_training(&path)
    })
}

#[test]
fn exit_codes_say_whether_another_attempt_is_worth_it() {
    let place = Place::new();
    tries(&place, "recipe = \"cora/gcn\"\n[grid]\n\"run.memory_bytes\" = [1000, 4000000000]\n");
    let epochs = ["--set", "run.epochs=2"];
    let (list, _) = place.listed(&epochs);
    let ended = |mut command: Command| {
        let ran = command.output().unwrap();
        (ran.status.code(), text(&ran.stderr))
    };
    let is = |found: (Option<i32>, String), code: i32, words: &str| {
        assert!(found.0 == Some(code) && found.1.contains(words), "{words}: {found:?}");
    };
    // The command line.
    is(ended(place.job(&[&list])), 2, "AWS_BATCH_JOB_ARRAY_INDEX");
    is(ended(place.job(&["jobs/a.json", "--index", "1"])), 2, "not a job list");
    is(ended(place.eciton(&["job", "--store", "mine", "jobs/a.json"])), 2, "s3://BUCKET/PREFIX");
    let sweep = ["sweep", "tries.toml"];
    is(ended(place.eciton(&[&sweep[..], &["--executor", "jobs"]].concat())), 2, "add --store");
    is(ended(place.eciton(&[&sweep[..], &["--store", STORE]].concat())), 2, "requires --executor jobs");
    // The same at another attempt.
    is(ended(place.job(&["jobs/a.json"])), 1, "does not exist");
    is(ended(place.job(&[&list, "--index", "2"])), 1, "has 2 lines, but the index is 2");
    is(ended(place.job(&["JOBS"])), 1, "object key");
    let mut stranger = place.job(&[&list, "--index", "1"]);
    stranger.env("AWS_SECRET_ACCESS_KEY", "another");
    assert_eq!(ended(stranger).0, Some(1));
    // Worth another attempt: nothing listens there.
    let refused = place.job(&[&list, "--index", "1", "--endpoint", "http://127.0.0.1:1"]);
    is(ended(refused), 75, "cannot look up object");
    is(
        ended(
            place.eciton(
                &[&sweep[..], &["--executor", "jobs", "--store", STORE, "--endpoint", "http://127.0.0.1:1"]]
                    .concat(),
            ),
        ),
        75,
        "cannot look up object",
    );
    // Waited for in vain.
    let (code, _, err) = place.sweep(&[&epochs[..], &["--wait", "1"]].concat());
    is((code, err), 75, "2 jobs");
    // A training that fails is recorded, and told by the sweep.
    is(ended(place.job(&[&list, "--index", "0"])), 1, "memory");
    done(&place.job(&[&list, "--index", "1"]).output().unwrap());
    let (code, lines, err) = place.sweep(&epochs);
    is((code, err), 1, "1 trial of 2 failed");
    let failed = &lines.last().unwrap()["rows"][0];
    let reason = failed["error"].as_str().unwrap();
    assert!(
        failed["state"] == "failed" && reason.contains("memory") && reason.contains(".failed`"),
        "{reason}"
    );
}

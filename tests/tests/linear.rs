//! Work that is linear in the input, for the readers of recipes, records, weights, frames and messages.
//!
//! The readers of data have their cases in `host/formats/tests/linear`, whose harness this program uses.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use eciton_connect::{Certificate, Hello, Message};
use eciton_kernel::Finished;
use eciton_kernel::wire::{Answer, AnswerMeta, Request, VERSION};
use eciton_program::Profile;
use eciton_recipe::{Cloud, Config, ModelSettings, Sweep};
use eciton_tensor::frame::{Encoding, Frame, Writer};
use eciton_tensor::{Matrix, SparseRows, View};
use eciton_train::run_folder::{self, Run};
use eciton_train::{Options, Silent, job};
use eciton_transport::{Carrier, Invocation, Reply};
use eciton_types::{ParameterId, TensorKey, Version};
use serde_json::{Value, json};

#[path = "../../host/formats/tests/linear/harness.rs"]
mod harness;

use harness::{Case, Clock, Files};

/// Declares cases: name, smallest and largest base, files by size, reading.
macro_rules! cases {
    ($($name:ident $sizes:expr, $make:expr, $read:expr;)*) => {
        $(
            #[test]
            fn $name() {
                let clock = Clock::Process;
                Case { clock, sizes: $sizes, make: $make, read: $read }.check(stringify!($name));
            }
        )*
    };
}

/// Returns one file of these bytes.
fn one(bytes: impl Into<Vec<u8>>) -> Files {
    vec![("in", bytes.into())]
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path.join("in")).unwrap()
}

fn text(path: &Path) -> String {
    String::from_utf8(bytes(path)).unwrap()
}

/// Returns what `each` writes for 0 to `count`, one after the other.
fn repeat(count: usize, each: impl Fn(usize, &mut String)) -> String {
    let mut text = String::new();
    (0..count).for_each(|at| each(at, &mut text));
    text
}

fn list(count: usize, value: &str) -> String {
    vec![value; count].join(",")
}

/// Reads a recipe, which must be one.
fn recipe(path: &Path) {
    Config::parse(&text(path), "recipe").unwrap();
}

/// Reads a recipe that must be refused.
fn no_recipe(path: &Path) {
    Config::parse(&text(path), "recipe").unwrap_err();
}

/// Beginning of a sweep's file.
const SWEEP: &str = "recipe=\"r\"\n";

/// Reads a sweep, which must be one.
fn sweep(path: &Path) {
    Sweep::parse(&text(path)).unwrap();
}

/// Reads a sweep that must be refused.
fn no_sweep(path: &Path) {
    Sweep::parse(&text(path)).unwrap_err();
}

/// Returns the files of a stored run folder, with other content in the file `name`.
fn run(name: &'static str, content: Vec<u8>) -> Files {
    let folder = eciton_tests::root().join("tests/compatibility/runs/0.1.0/gcn");
    let mut files: Files = ["summary.json", "config.toml", "versions.json", "model.safetensors"]
        .into_iter()
        .map(|file| (file, fs::read(folder.join(file)).unwrap()))
        .collect();
    files.retain(|(file, _)| *file != name);
    files.push((name, content));
    files
}

/// Opens a run folder, which must be one.
fn opens(path: &Path) {
    Run::open(path).unwrap();
}

/// Opens a run folder whose weights must be read and have another digest.
fn other_weights(path: &Path) {
    let error = Run::open(path).unwrap_err().to_string();
    assert!(error.contains("digest"), "{error}");
}

fn schema(fields: &str) -> Files {
    let text = format!("{{\"version\":1,\"task\":\"classification\",{fields}}}");
    run("schema.json", text.into_bytes())
}

/// Returns a safetensors file with `tensors` tensors of one value and this metadata.
fn safetensors(tensors: usize, name: &str, metadata: &Value) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".to_owned(), metadata.clone());
    for at in 0..tensors {
        let offsets = [4 * at, 4 * at + 4];
        let info = json!({ "dtype": "F32", "shape": [1], "data_offsets": offsets });
        header.insert(format!("{name}{at}"), info);
    }
    let header = serde_json::to_vec(&header).unwrap();
    let values = 1.0f32.to_le_bytes().repeat(tensors);
    [&(header.len() as u64).to_le_bytes(), &header[..], &values].concat()
}

fn metadata() -> Value {
    json!({ "eciton": "0.1.0", "digest": "0" })
}

/// Returns the stored checkpoints of a run, the newest of which has other bytes.
fn checkpoint(point: Vec<u8>) -> Files {
    let folder = eciton_tests::root().join("tests/compatibility/runs/0.1.0/gcn-part.checkpoint");
    let mut files = Files::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let content = match name.ends_with(".safetensors") {
            true => point.clone(),
            false => fs::read(entry.path()).unwrap(),
        };
        files.push((format!("run.checkpoint/{name}").leak(), content));
    }
    files
}

/// Resumes a run, whose checkpoint must be read and refused.
fn damaged_checkpoint(path: &Path) {
    let resumed = eciton_train::resume(&path.join("run"), false, &Options::default(), &mut Silent);
    let error = resumed.unwrap_err().to_string();
    assert!(error.contains("the SHA-256 of its `digest` and `mark`"), "{error}");
}

/// Returns a frame of this meta and one part for each matrix.
fn frame(meta: &[u8], matrices: &[Matrix]) -> Files {
    let mut writer = Writer::new(meta.to_vec());
    for matrix in matrices {
        writer.matrix(matrix, Encoding::F32).unwrap();
    }
    one(writer.finish().unwrap())
}

/// Returns a frame with dense rows.
fn rows(rows: usize, columns: usize, encoding: Encoding) -> Files {
    let values = vec![1.5; rows * columns];
    let mut writer = Writer::new(b"{}".to_vec());
    writer.view(View::new(&values, rows, columns), encoding).unwrap();
    one(writer.finish().unwrap())
}

fn sparse(rows: usize, stored: usize) -> Matrix {
    let offsets: Vec<u64> = (0..=rows).map(|row| (row * stored) as u64).collect();
    let indices: Vec<u32> = (0..rows).flat_map(|_| 0..stored as u32).collect();
    let values = vec![1.0; rows * stored];
    std::sync::Arc::new(SparseRows::new(stored as u32, offsets, indices, values).unwrap()).into()
}

/// Reads a frame with all of its parts.
fn decode(path: &Path) {
    let bytes = bytes(path);
    let frame = Frame::parse(&bytes).unwrap();
    (0..frame.header().parts.len() as u32).for_each(|part| drop(frame.part(part).unwrap()));
}

/// Address of a tensor.
const KEY: TensorKey = TensorKey::Weight { parameter: ParameterId(7), version: Version(9) };

/// Returns a message as it follows its length on the wire.
fn wired(message: &Message) -> Files {
    let (start, body) = message.encode().unwrap();
    one([&start[4..], &body].concat())
}

fn message(path: &Path) {
    Message::decode(bytes(path).into()).unwrap();
}

/// Returns a call of one matrix of five rows, with `change` applied.
fn call(change: impl FnOnce(&mut Value)) -> Value {
    let mut made = json!({
        "kernel": { "name": "k", "digest": "0".repeat(64) }, "inputs_extents": [[4]], "attributes": [],
        "kind": "forward", "seed": 0, "epoch": 0, "layer": 0, "training": false,
        "grid": [{ "level": 0, "ends": [5], "closes": [0] }], "row_numbers": { "from": 0 },
        "inputs": [matrix()], "outputs": [], "kept": [], "parameters": [], "gradients": [],
        "output_count": 1, "rows_out": [{ "slot": 0, "extents": [4] }], "sums_out": [], "labelled": null
    });
    change(&mut made);
    made
}

/// Returns a request of calls, with `change` applied.
fn several(calls: Vec<Value>, change: impl FnOnce(&mut Value)) -> Files {
    let limits = json!({
        "guest_memory_bytes": 1 << 20, "task_time_ms": 1000, "matrix_bytes": 1 << 30, "handles": 9,
        "call_bytes": 1 << 20, "call_work": 1 << 20, "arrival_ms": 1000, "log_bytes": 99
    });
    let slot = json!({ "rows": 5, "columns": 4, "half": false });
    let mut made = json!({
        "version": VERSION, "run": "r", "key": { "round": 1, "stage": 0, "interval": 0, "attempt": 0 },
        "limits": limits, "encoding": "f32", "objects": [], "slots": vec![slot; calls.len()], "outs": [],
        "steps": calls.into_iter().map(|call| json!({ "kernel": call })).collect::<Value>()
    });
    change(&mut made);
    one(serde_json::to_vec(&made).unwrap())
}

fn matrix() -> Value {
    json!({ "source": { "object": null, "part": 0 }, "extents": [4], "encoding": null })
}

fn request(change: impl FnOnce(&mut Value)) -> Files {
    several(vec![call(change)], |_| {})
}

fn requested(path: &Path) {
    Request::parse(&bytes(path)).unwrap();
}

/// Returns the frame of an answer, with `change` applied to its meta.
fn answer(change: impl FnOnce(&mut Value)) -> Files {
    let key = json!({ "round": 1, "stage": 0, "interval": 0, "attempt": 0 });
    let meta = AnswerMeta::new(serde_json::from_value(key).unwrap(), &Ok(Finished::default()));
    let mut meta = serde_json::to_value(meta).unwrap();
    change(&mut meta);
    frame(&serde_json::to_vec(&meta).unwrap(), &[])
}

fn answered(path: &Path) {
    Answer::parse(bytes(path)).unwrap().verify().unwrap();
}

cases! {
    recipe_keys [200, 2_000],
        |n| one("[kernels]\n".to_owned() + &repeat(n, |at, t| writeln!(t, "k{at}=\"a\"").unwrap())), recipe;
    recipe_keys_of_one_line [200, 2_000],
        |n| one(format!("kernels={{{}b=\"a\"}}", repeat(n, |at, t| write!(t, "k{at}=\"a\",").unwrap()))), recipe;
    recipe_unknown_keys [200, 2_000],
        |n| one("[data]\n".to_owned() + &repeat(n, |at, t| writeln!(t, "k{at}=\"a\"").unwrap())), no_recipe;
    recipe_section_name [500, 15_000],
        |n| {
            let keys = repeat(n / 10, |at, t| writeln!(t, "k{at}=1").unwrap());
            one(format!("[{}]\n{keys}", "a".repeat(n)))
        }, no_recipe;
    recipe_list [1_000, 15_000], |n| one(format!("[data]\nsource=[{}]\n", list(n, "1"))), no_recipe;
    recipe_list_of_layers [10, 3_000],
        |n| one(format!("[lanes]\ncut=[{}]\n", list(n, "1"))), |path| drop(Config::parse(&text(path), "r"));
    recipe_text [1_000, 30_000], |n| one(format!("[data]\nsource=\"{}\"\n", "a".repeat(n))), recipe;
    recipe_escapes [500, 10_000], |n| one(format!("[data]\nsource=\"{}\"\n", "\\n".repeat(n))), recipe;
    recipe_comments [500, 10_000], |n| one("# a\n".repeat(n / 2) + "[run]\nepochs=3\n"), recipe;
    recipe_blanks [1_000, 30_000], |n| one("[run]\nepochs = 3".to_owned() + &" ".repeat(n)), recipe;
    recipe_nested_lists [500, 15_000],
        |n| one(format!("[data]\nsource={}{}\n", "[".repeat(n), "]".repeat(n))), no_recipe;
    recipe_nested_tables [500, 8_000],
        |n| one(format!("[data]\nsource={}1{}\n", "{a=".repeat(n / 2), "}".repeat(n / 2))), no_recipe;
    recipe_nested_sections [500, 4_000], |n| one(format!("[a{}]\nb=1\n", ".a".repeat(n))), no_recipe;
    recipe_nested_keys [500, 4_000], |n| one(format!("a{}=1\n", ".a".repeat(n))), no_recipe;
    recipe_layers [2, 8],
        |n| one("[[model.layers]]\nkernel=\"linear\"\nwidth=4\n".repeat(n)), recipe;
    model_file_layers [2, 8],
        |n| one("[[layers]]\nkernel=\"linear\"\nwidth=4\n".repeat(n)), |path| {
            ModelSettings::parse(&text(path), "model").unwrap();
        };
    sweep_values [4, 300], |n| one(format!("{SWEEP}[grid]\n\"model.hidden\"=[{}]\n", list(n, "4"))), sweep;
    sweep_keys [200, 2_000],
        |n| one(format!("{SWEEP}[grid]\n") + &repeat(n, |at, t| writeln!(t, "k{at}=[1]").unwrap())), no_sweep;
    sweep_nested_keys [500, 4_000], |n| one(format!("{SWEEP}[grid]\na{}=[1]\n", ".a".repeat(n))), no_sweep;
    sweep_text [1_000, 30_000],
        |n| one(format!("recipe=\"{}\"\n[grid]\n\"model.hidden\"=[4]\n", "a".repeat(n))), sweep;
    cloud_machines [10, 100],
        |n| {
            let list = fs::read_to_string(eciton_tests::root().join("infra/cloud.toml")).unwrap();
            let machine = "{ hour = 1.0, vcpus = 1, gib = 1, gbits = 1 }";
            let more = repeat(n, |at, t| writeln!(t, "m{at} = {machine}").unwrap());
            let table = "[regions.us-east-1.ec2]\n";
            one(list.replace(table, &format!("{table}{more}")))
        }, |path| {
            Cloud::parse(&text(path)).unwrap();
        };
    profile_stages [100, 1_000],
        |n| {
            let pace = json!({ "seconds_per_flop": 1e-9, "seconds_per_edge_value": 1e-9, "seconds_per_byte": 1e-9,
                "seconds_per_value_added": 1e-9, "seconds_per_step": 1e-6 });
            let function = json!({ "seconds_per_flop": 1e-9, "seconds_per_step": 1e-6 });
            let program: Vec<String> = (0..n).map(|at| format!("stage {at}")).collect();
            let profile = json!({ "version": 1, "source": "s", "host": pace, "function": function, "program": program });
            one(serde_json::to_vec(&profile).unwrap())
        }, |path| {
            serde_json::from_slice::<Profile>(&bytes(path)).unwrap().check().unwrap();
        };

    schema_columns [500, 16_000],
        |n| {
            let columns = repeat(n, |at, t| write!(t, "{{\"name\":\"c{at}\"}},").unwrap());
            schema(&format!("\"features\":{{\"columns\":[{columns}{{}}]}},\"outputs\":{{}}"))
        }, opens;
    schema_classes [500, 16_000],
        |n| {
            let names = repeat(n, |at, t| write!(t, "\"c{at}\",").unwrap());
            schema(&format!("\"features\":{{}},\"outputs\":{{\"names\":[{names}\"\"]}}"))
        }, opens;
    schema_name [5_000, 100_000],
        |n| schema(&format!("\"features\":{{}},\"outputs\":{{\"names\":[\"{}\"]}}", "a".repeat(n))), opens;
    schema_tokens [500, 16_000],
        |n| {
            let symbols = repeat(n, |at, t| write!(t, "{},", at + 32).unwrap());
            let tokens = format!("{{\"tokens\":\"characters\",\"symbols\":[{symbols}{}]}}", n + 32);
            schema(&format!("\"features\":{{}},\"outputs\":{{}},\"tokens\":{tokens}"))
        }, opens;
    schema_nesting [1_000, 20_000],
        |n| schema(&format!("\"other\":{}{},\"features\":{{}},\"outputs\":{{}}", "[".repeat(n), "]".repeat(n))),
        opens;
    summary_fields [500, 8_000],
        |n| {
            let folder = eciton_tests::root().join("tests/compatibility/runs/0.1.0/gcn/summary.json");
            let whole = fs::read_to_string(folder).unwrap();
            let more = repeat(n, |at, t| write!(t, "\"more{at}\":1,").unwrap());
            run("summary.json", whole.replacen('{', &format!("{{{more}"), 1).into_bytes())
        }, opens;
    metrics_lines [50, 2_000],
        |n| {
            let folder = eciton_tests::root().join("tests/compatibility/runs/0.1.0/gcn/metrics.jsonl");
            let line = fs::read_to_string(folder).unwrap().lines().next().unwrap().to_owned() + "\n";
            vec![("metrics.jsonl", line.repeat(n).into_bytes())]
        }, |path| {
            run_folder::epochs(path).unwrap();
        };
    weights_tensors [8, 128], |n| run("model.safetensors", safetensors(n, "t", &metadata())), other_weights;
    weights_name [500, 30_000],
        |n| run("model.safetensors", safetensors(1, &"a".repeat(n), &metadata())), other_weights;
    weights_metadata [500, 8_000],
        |n| {
            let mut metadata = metadata();
            (0..n / 10).for_each(|at| metadata[format!("k{at}")] = "v".into());
            run("model.safetensors", safetensors(1, "t", &metadata))
        }, other_weights;
    weights_values [2_000, 32_000],
        |n| {
            let header = json!({ "__metadata__": metadata(),
                "t": { "dtype": "F32", "shape": [n], "data_offsets": [0, 4 * n] } });
            let header = serde_json::to_vec(&header).unwrap();
            let length = (header.len() as u64).to_le_bytes();
            run("model.safetensors", [&length[..], &header, &vec![0; 4 * n]].concat())
        }, other_weights;
    checkpoint_tensors [8, 128], |n| checkpoint(safetensors(n, "values/t", &metadata())), damaged_checkpoint;
    checkpoint_name [500, 30_000],
        |n| checkpoint(safetensors(1, &"a".repeat(n), &metadata())), damaged_checkpoint;
    checkpoint_mark [500, 30_000],
        |n| checkpoint(safetensors(1, "values/t", &json!({ "mark": "a".repeat(n) }))), damaged_checkpoint;

    frame_meta [5_000, 100_000], |n| frame(&vec![b'a'; n], &[]), decode;
    frame_parts [4, 128], |n| frame(b"{}", &vec![sparse(1, 1); n]), decode;
    frame_rows [1_000, 30_000], |n| rows(n, 3, Encoding::F32), decode;
    frame_columns [1_000, 30_000], |n| rows(3, n, Encoding::Bf16), decode;
    frame_ids [2_000, 64_000],
        |n| {
            let mut writer = Writer::new(Vec::new());
            writer.ids((0..n as u32).collect::<Vec<_>>()).unwrap();
            one(writer.finish().unwrap())
        }, decode;
    frame_sparse_rows [1_000, 30_000], |n| frame(b"{}", &[sparse(n, 2)]), decode;
    frame_sparse_columns [1_000, 30_000], |n| frame(b"{}", &[sparse(2, n)]), decode;

    message_task [5_000, 200_000],
        |n| wired(&Message::Task { number: 7, frame: vec![1; n].into() }), message;
    message_answer [5_000, 200_000],
        |n| wired(&Message::Answer { number: 7, frame: vec![1; n].into(), passed: 9 }), message;
    message_request [5_000, 200_000],
        |n| wired(&Message::Instruction { number: 7, frame: vec![1; n].into() }), message;
    message_object [5_000, 200_000],
        |n| wired(&Message::Object { key: KEY, bytes: vec![1; n].into() }), message;
    message_kernel [500, 1_000],
        |n| wired(&Message::Kernel { digest: "a".repeat(n), bytes: vec![1; n].into() }), message;
    message_forget [30, 100], |n| wired(&Message::Forget(vec![KEY; n])), message;
    message_missing [30, 100],
        |n| wired(&Message::Missing { number: 7, keys: vec![KEY; n] }), message;
    message_hello [100, 400],
        |n| wired(&Message::Hello(Hello {
            version: 4,
            token: 1,
            has_others: false,
            proof: "ab".to_owned(),
            numeric_classes: vec!["avx2".to_owned(); n],
            pid: 1,
            keeps_bytes: 9,
            memory_bytes: None,
        })), message;
    message_bye [500, 1_500], |n| wired(&Message::Bye { reason: "\n".repeat(n), again: false }), message;
    message_refused [500, 1_500],
        |n| wired(&Message::Refused { reason: "a".repeat(n), again: true }), message;
    message_door [1, 8],
        |n| {
            let token = Certificate::new().unwrap().token(1).unwrap();
            wired(&Message::Door { address: "127.0.0.1:9".to_owned(), tokens: vec![token; n] })
        }, message;

    request_inputs [4, 16], |n| request(|call| call["inputs"] = vec![matrix(); n].into()), requested;
    request_objects [4, 32], |n| several(vec![call(|_| {})], |whole| whole["objects"] = vec!["o"; n].into()), requested;
    request_atoms [4, 128],
        |n| request(|call| {
            call["grid"][0]["ends"] = (1..=n).collect();
            call["grid"][0]["closes"] = vec![0; n].into();
        }), |path| drop(Request::parse(&bytes(path)));
    request_attributes [2, 32],
        |n| request(|call| {
            call["attributes"] = (0..n).map(|at| json!({ "name": format!("a{at}"), "value": { "integer": 1 } })).collect();
        }), |path| drop(Request::parse(&bytes(path)));
    request_steps [2, 8], |n| several(vec![call(|_| {}); n], |_| {}), requested;
    request_nesting [1_000, 20_000],
        |n| one(format!("{{\"version\":{}{}}}", "[".repeat(n), "]".repeat(n))), |path| {
            Request::parse(&bytes(path)).unwrap_err();
        };
    answer_log [500, 16_000], |n| answer(|meta| meta["log"] = vec!["line"; n].into()), answered;
    answer_line [1_000, 60_000], |n| answer(|meta| meta["log"] = json!(["a".repeat(n)])), answered;
    answer_failure [1_000, 60_000],
        |n| answer(|meta| meta["outcome"] = json!({ "failed": {
            "kind": "host", "detail": "", "kernel": "", "place": "", "message": "a".repeat(n)
        } })), answered;
    function_event [5_000, 100_000],
        |n| {
            let frame = Carrier::Inline(vec![7; n].into());
            let event = Invocation { frame, answer_key: None, max_inline_bytes: 9, stream: true };
            one(event.to_json().unwrap())
        }, |path| {
            Invocation::from_json(&bytes(path)).unwrap();
        };
    function_reply [5_000, 100_000],
        |n| {
            let frame = Carrier::Inline(vec![7; n].into());
            one(Reply { frame, send_us: 0, existed: false }.to_json().unwrap())
        }, |path| {
            Reply::from_json(&bytes(path)).unwrap();
        };
    job_files [10, 100],
        |n| {
            let folder = tempfile::tempdir().unwrap();
            (0..n).for_each(|at| fs::write(folder.path().join(format!("f{at}")), "a").unwrap());
            one(job::pack(folder.path(), "").unwrap())
        }, |path| job::unpack(&bytes(path), &path.join("out"), 1 << 20).unwrap();
    job_bytes [5_000, 200_000],
        |n| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), vec![1; n]).unwrap();
            one(job::pack(file.path(), "name").unwrap())
        }, |path| job::unpack(&bytes(path), &path.join("out"), 1 << 30).unwrap();
}

//! NumPy reads what is written.

use super::*;
use std::process::Command;

/// Code of docs/reference/run-folder.md for reading a run with NumPy, with additional checks.
const SCRIPT: &str = r#"
import hashlib, json, struct, sys
import numpy as np

predictions = np.load(sys.argv[1] + "/predictions.npz", allow_pickle=False)
for key in ["ids", "scores", "embeddings", "predicted", "labels", "parts", "classes"]:
    array = predictions[key]
    print(key, array.dtype.str, list(array.shape), array.flags["C_CONTIGUOUS"], array.tolist())
probabilities = predictions["probabilities"]
print("probabilities", probabilities.dtype.str, list(probabilities.shape), probabilities[0].round(4).tolist())

with open(sys.argv[1] + "/model.safetensors", "rb") as f:
    header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    assert f.tell() % 8 == 0
    data = f.read()
meta = header.pop("__metadata__")
digest = hashlib.sha256()
for name, info in header.items():
    begin, end = info["data_offsets"]
    array = np.frombuffer(data[begin:end], "<f4").reshape(info["shape"])
    print(name, array.tolist())
    digest.update(struct.pack("<Q", len(name)) + name.encode())
    digest.update(struct.pack("<Q", array.ndim) + b"".join(struct.pack("<Q", e) for e in array.shape))
    digest.update(array.tobytes())
print("digest", digest.hexdigest() == meta["digest"])
try:
    from safetensors.numpy import load_file
    loaded = load_file(sys.argv[1] + "/model.safetensors")
    assert {n: list(a.shape) for n, a in loaded.items()} == {n: i["shape"] for n, i in header.items()}
except ImportError:
    print("skipped: no package safetensors", file=sys.stderr)
"#;

/// A Python with NumPy, if there is one.
fn python() -> Option<String> {
    let python = std::env::var("ECITON_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", "import numpy"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    eprintln!("skipped: {python} cannot import numpy; ECITON_PYTHON names another");
    None
}

fn read(python: &str, path: &Path) -> Vec<String> {
    let output = Command::new(python).arg("-c").arg(SCRIPT).arg(path).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    eprint!("{errors}");
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn numpy_reads_a_run() {
    let Some(python) = python() else { return };
    let words = ["x", "two words", "\u{e9}\u{1f41c}"].map(str::to_owned).to_vec();
    let cases = [
        (VertexIds::Dense, "ids <i8 [3] True [0, 1, 2]"),
        (
            VertexIds::Numbers(vec![31336, 1, 9_007_199_254_740_993]),
            "ids <i8 [3] True [31336, 1, 9007199254740993]",
        ),
        (VertexIds::Numbers(vec![u64::MAX, 0, 1]), "ids <u8 [3] True [18446744073709551615, 0, 1]"),
        (VertexIds::Words(words), "ids <U9 [3] True ['x', 'two words', '\u{e9}\u{1f41c}']"),
    ];
    for (at, (ids, expected)) in cases.into_iter().enumerate() {
        let dir = scratch();
        let path = written(&dir.path().join(format!("run {at}")), &[1], &ids).finish().unwrap();
        let lines = read(&python, &path);
        assert_eq!(lines[0], expected);
        assert_eq!(lines[1], "scores <f4 [3, 2] True [[0.5, -1.0], [2.0, inf], [9.99994610111476e-41, 3.0]]");
        assert_eq!(lines[2], "embeddings <f4 [3, 1] True [[7.0], [8.0], [9.0]]");
        assert_eq!(lines[3], "predicted <U4 [3] True ['ant', 'wasp', 'wasp']");
        assert_eq!(lines[4], "labels <U4 [3] True ['wasp', 'ant', '']");
        assert_eq!(lines[5], "parts <U5 [3] True ['train', 'test', '']");
        assert_eq!(lines[6], "classes <U4 [2] True ['ant', 'wasp']");
        assert!(lines[7].starts_with("probabilities <f4 [3, 2] [0.81"), "{}", lines[7]);
        assert_eq!(lines[8], "layer1.weight [[1.0, 1.125], [1.25, 1.375], [1.5, 1.625]]");
        assert_eq!(lines[11], "digest True");
        assert_eq!(lines.len(), 12);
    }
}

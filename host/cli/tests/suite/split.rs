//! `eciton predict --split`: images in strips have the scores of whole images, to the last bit.

use crate::common::{eciton, works};

const STRIDES: &str = r#"
hidden = 16
dropout = 0.2

[[layers]]
kernel = "slice"
inputs = ["features"]
count = 64

[[layers]]
kernel = "conv2d"
name = "wide"
image = [16, 4, 1]
channels = 6
kernel_size = 5
padding = 2
activation = "gelu"

[[layers]]
kernel = "conv2d"
stride = 2
padding = 2
dilation = 2
channels = 5
bias = false

[[layers]]
kernel = "conv2d"
name = "last"
channels = 7
padding = 1

[[layers]]
kernel = "linear"
inputs = ["last"]

[[layers]]
kernel = "linear"
"#;

#[test]
fn strips_have_the_scores_of_whole_images_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("strides.toml"), STRIDES).unwrap();
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let mut halos = Vec::new();
    for model in [&["--recipe", "cnn"][..], &["--model", "strides.toml", "--batch", "128"]] {
        let out = ["--epochs", "1", "--eval-every", "0", "--out", "run"];
        works(folder, &[&["train", "digits"][..], model, &out].concat());
        works(folder, &["predict", "run", "--out", "whole.npz", "--embeddings"]);
        for strips in ["1", "2", "3", "4"] {
            let line = ["predict", "run", "--out", "split.npz", "--embeddings", "--split", strips];
            let (code, _, told) = eciton(folder, &line);
            assert_eq!(code, Some(0), "{told}");
            assert!(told.contains(&format!("{strips} strip")) && told.contains("bytes of halos"), "{told}");
            // One block of all layers reads its halos from the image, which all have.
            halos.push((strips, !told.contains("; 0 bytes")));
            assert!(read("whole.npz") == read("split.npz"), "{model:?} {strips}");
            std::fs::remove_file(folder.join("split.npz")).unwrap();
        }
        for strips in ["2", "4"] {
            let line =
                ["predict", "run", "--out", "over.npz", "--embeddings", "--split", strips, "--workers", "2"];
            let (code, _, told) = eciton(folder, &line);
            assert_eq!(code, Some(0), "{told}");
            assert!(read("whole.npz") == read("over.npz"), "{model:?} {strips} over workers");
            let tasks = |worker: &str| -> u64 {
                let traffic = told.split(worker).nth(1).unwrap_or_default().trim_start();
                traffic.split(' ').next().unwrap_or_default().parse().unwrap_or(0)
            };
            assert!(tasks("worker 0:") > 0 && tasks("worker 1:") > 0, "each has done a part: {told}");
            std::fs::remove_file(folder.join("over.npz")).unwrap();
        }
        std::fs::remove_dir_all(folder.join("run")).unwrap();
    }
    assert!(
        halos.iter().all(|(strips, halos)| *strips != "1" || !halos),
        "one strip has no neighbour: {halos:?}"
    );
}

#[test]
fn what_cannot_be_split_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    works(folder, &["train", "--epochs", "1", "--out", "gcn"]);
    let fails = |line: &[&str], code: i32, words: &str| {
        let (found, _, told) = eciton(folder, line);
        assert!(found == Some(code) && told.contains(words), "{found:?} {told}");
    };
    fails(&["predict", "gcn", "--split", "2"], 1, "no layer whose image rows can be split");
    fails(&["predict", "gcn", "--split", "0"], 2, "--split");
    fails(&["predict", "gcn", "--workers", "0"], 2, "--workers");
    fails(&["predict", "gcn", "--workers", "2", "--listen", "127.0.0.1:0"], 2, "--tokens");
    fails(&["predict", "gcn", "--workers", "2", "--as-task", "emulated"], 2, "cannot be used with");
    fails(&["predict", "gcn", "--split", "2", "--as-task", "emulated"], 2, "cannot be used with");
    works(
        folder,
        &["train", "digits", "--recipe", "cnn", "--epochs", "1", "--eval-every", "0", "--out", "run"],
    );
    fails(&["predict", "run", "--split", "9"], 1, "9 strips of an image of");
}

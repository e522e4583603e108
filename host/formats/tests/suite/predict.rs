//! Data for a trained model: columns by name, labels that may be missing, and masks of splits.
use std::fs;
use std::path::{Path, PathBuf};

use eciton_formats::{open, open_expecting};
use eciton_graph::dataset::{Dataset, Labels, NO_LABEL};
use eciton_graph::expected::Expected;
use eciton_graph::random::SplitMix64;
use eciton_input::notes::{self, Level};

use crate::rows::{floats, npy};

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|&name| name.to_owned()).collect()
}

fn model() -> Expected {
    Expected {
        features: names(&["height", "weight"]),
        feature_count: 2,
        target: names(&["label"]),
        classes: names(&["cat", "dog"]),
        classification: true,
        ..Expected::default()
    }
}

fn unnamed() -> Expected {
    Expected { features: Vec::new(), target: Vec::new(), ..model() }
}

fn numbered() -> Expected {
    Expected { classes: Vec::new(), ..model() }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            fs::write(folder.path(name), text).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn table(text: &str, expected: &Expected) -> Result<Dataset, String> {
    let folder = Folder::new(&[("t.csv", text)]);
    open_expecting(&folder.path("t.csv"), None, expected).map_err(|error| error.to_string())
}

fn rows(set: &Dataset) -> Vec<f32> {
    let width = set.features.columns() as usize;
    let mut all = vec![0.0; set.vertices() as usize * width];
    for (row, out) in all.chunks_exact_mut(width).enumerate() {
        set.features.copy_row(row, out);
    }
    all
}

#[test]
fn a_table_needs_no_labels_for_predictions() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/predict-unlabelled");
    for (file, labels, found) in [
        ("empty.csv", [NO_LABEL; 4], &[][..]),
        ("none.csv", [NO_LABEL; 4], &[]),
        ("one.csv", [0, NO_LABEL, NO_LABEL, NO_LABEL], &["dog"]),
        ("subset.csv", [0; 4], &["dog"]),
    ] {
        for expected in [model(), unnamed()] {
            let set = open_expecting(&cases.join(file), None, &expected).unwrap();
            assert_eq!(rows(&set), [5.0, 0.0, 5.0, 0.0, 0.0, 5.0, 0.0, 5.0], "{file}");
            assert_eq!(set.labels.as_classes().unwrap(), labels, "{file}");
            assert_eq!(set.names.labels, found, "{file}");
            assert_eq!(set.ids.name(3), "d", "{file}");
        }
    }
    assert_eq!(open(&cases.join("train.csv"), None).unwrap().names.target, ["label"]);
}

#[test]
fn columns_are_chosen_by_name_and_others_are_reported() {
    drop(notes::take());
    let set = table("weight,colour,id,label,height\n1,red,a,dog,5\n2,blue,b,cat,6\n", &model()).unwrap();
    assert_eq!(rows(&set), [5.0, 1.0, 6.0, 2.0]);
    assert_eq!(
        (set.names.features, set.names.labels),
        (names(&["height", "weight"]), names(&["cat", "dog"]))
    );
    let lines = notes::take();
    assert!(
        lines.iter().any(|n| n.level == Level::Note && n.text.contains("not trained on them): colour")),
        "{lines:?}"
    );
    let text = table("height,label\n5,dog\n", &model()).unwrap_err();
    for words in ["weight", "height, label", "2 feature columns"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Another case, and a feature that is called like labels.
    assert_eq!(rows(&table("Weight,HEIGHT\n1,5\n", &model()).unwrap()), [5.0, 1.0]);
    let odd = Expected { features: names(&["x", "y"]), target: names(&["kind"]), ..model() };
    let set = table("y,x,kind\n1,5,cat\n", &odd).unwrap();
    assert_eq!((rows(&set), set.names.labels), (vec![5.0, 1.0], names(&["cat"])));
}

#[test]
fn columns_without_names_are_chosen_by_position() {
    for expected in [model(), unnamed()] {
        let labelled = table("5,1,dog\n6,2,cat\n", &expected).unwrap();
        assert_eq!((rows(&labelled), labelled.labels.known(0)), (vec![5.0, 1.0, 6.0, 2.0], true));
        let bare = table("5,1\n6,2\n", &expected).unwrap();
        assert_eq!((rows(&bare), bare.labels.known(0)), (vec![5.0, 1.0, 6.0, 2.0], false));
        let text = table("5,1,2,dog\n6,2,3,cat\n", &expected).unwrap_err();
        assert!(text.contains("2 feature columns"), "{text}");
    }
    let set = table("id,a,b\nr,5,1\n", &unnamed()).unwrap();
    assert_eq!((rows(&set), set.ids.name(0)), (vec![5.0, 1.0], "r".to_owned()));
    let one = Expected { feature_count: 1, ..unnamed() };
    assert_eq!(rows(&table("5\n6\n", &one).unwrap()), [5.0, 6.0]);
}

/// A table in any order of its columns, with further ones, gives the model the same rows.
#[test]
fn permuted_columns_give_the_same_rows() {
    let seed = 434;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for _ in 0..100 {
        let count = 1 + random.below(6) as usize;
        let features: Vec<String> = (0..count).map(|at| format!("f{at}")).collect();
        let expected = Expected { features: features.clone(), feature_count: count as u32, ..model() };
        let mut columns: Vec<String> = features.clone();
        if random.below(2) == 0 {
            columns.push("label".to_owned());
        }
        if random.below(2) == 0 {
            columns.push("id".to_owned());
        }
        columns.push("other".to_owned());
        for at in (1..columns.len()).rev() {
            columns.swap(at, random.below(at as u64 + 1) as usize);
        }
        let mut text = columns.join(",") + "\n";
        let mut wanted = Vec::new();
        for row in 0..3 {
            let field = |column: &String| match column.as_str() {
                "label" => ["cat", "dog", ""][row].to_owned(),
                "id" => format!("r{row}"),
                "other" => "word".to_owned(),
                feature => format!("{row}{}", &feature[1..]),
            };
            text += &(columns.iter().map(field).collect::<Vec<_>>().join(",") + "\n");
            wanted.extend((0..count).map(|at| format!("{row}{at}").parse::<f32>().unwrap()));
        }
        assert_eq!(rows(&table(&text, &expected).unwrap()), wanted, "{text}");
    }
}

#[test]
fn labels_are_what_the_model_was_trained_on() {
    let of = |labels: &str, expected: &Expected| {
        let text: String = labels.split(' ').map(|label| format!("5,1,{label}\n")).collect();
        let set = table(&format!("height,weight,label\n{text}"), expected).unwrap();
        (set.labels, set.names.labels)
    };
    // Numbers keep their values, and -1 stays no label.
    assert_eq!(of("3 -1 1", &numbered()).0, Labels::classes(vec![3, NO_LABEL, 1], 4));
    assert_eq!(of("1 -1 1", &numbered()).0, Labels::classes(vec![1, NO_LABEL, 1], 2));
    // Names are returned as they were found.
    let signs = Expected { classes: names(&["-1", "1"]), ..model() };
    assert_eq!(of("1 1.0 1", &signs), (Labels::classes(vec![0, 0, 0], 1), names(&["1"])));
    assert_eq!(of("-1 -1", &signs), (Labels::classes(vec![0, 0], 1), names(&["-1"])));
    assert_eq!(
        of("dog ape nan", &model()),
        (Labels::classes(vec![1, 0, NO_LABEL], 2), names(&["ape", "dog"]))
    );
    // Numbers to predict stay numbers, also where all are whole.
    let regression = Expected { classification: false, classes: Vec::new(), ..model() };
    let (labels, _) = of("40 2700010 nan", &regression);
    let values = labels.as_values().unwrap();
    assert!(values.row(0) == [40.0] && values.row(1) == [2_700_010.0] && values.row(2)[0].is_nan());
    let folder = Folder::new(&[
        ("edges.csv", "source,target\na,b\nb,c\n"),
        ("features.csv", "id,height,weight\na,1,2\nb,3,4\nc,5,6\n"),
        ("labels.csv", "id,label\na,40\nb,2700010\nc,\n"),
    ]);
    let set = open_expecting(folder.0.path(), None, &regression).unwrap();
    assert_eq!(set.labels.as_values().unwrap().row(1), [2_700_010.0]);
}

#[test]
fn a_folder_needs_no_labels_and_has_columns_by_name() {
    let edges = ("edges.csv", "source,target,lanes,km\na,b,2,0.5\nb,c,1,1.5\n");
    let features = ("features.csv", "id,weight,extra,height\na,1,9,5\nb,2,9,6\nc,3,9,7\n");
    let labels = ("labels.csv", "id,comment,label\na,old,dog\nb,new,\n");
    let expected = Expected { edge_features: names(&["km"]), ..model() };
    for files in [&[edges, features][..], &[edges, features, labels]] {
        let folder = Folder::new(files);
        let set = open_expecting(folder.0.path(), None, &expected).unwrap();
        assert_eq!(rows(&set), [5.0, 1.0, 6.0, 2.0, 7.0, 3.0]);
        assert_eq!(set.names.edge_features, ["km"]);
        assert_eq!(set.labels.known(0), files.len() == 3);
        assert_eq!(set.names.labels, if files.len() == 3 { names(&["dog"]) } else { Vec::new() });
    }
    let rows_alone = Folder::new(&[features]);
    assert_eq!(open_expecting(rows_alone.0.path(), None, &expected).unwrap().vertices(), 3);
    let other = Folder::new(&[("edges.csv", "source,target,lanes\na,b,2\n"), features]);
    let text = open_expecting(other.0.path(), None, &expected).unwrap_err().to_string();
    assert!(text.contains("edge feature columns") && text.contains("km"), "{text}");
    let several = Expected { classification: false, target: names(&["chess", "go"]), ..expected };
    let flags = ("labels.csv", "id,go,draughts,chess\na,1,1,0\nb,0,1,1\nc,,1,0\n");
    let folder = Folder::new(&[edges, features, flags]);
    let set = open_expecting(folder.0.path(), None, &several).unwrap();
    let values = set.labels.as_values().unwrap();
    assert!(values.row(0) == [0.0, 1.0] && values.row(2)[1].is_nan());
    assert_eq!(set.names.target, ["chess", "go"]);
}

#[test]
fn arrays_need_no_labels_for_predictions() {
    let folder = Folder::new(&[]);
    let x = npy("<f4", "(3, 2)", &floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    fs::write(folder.path("x.npy"), &x).unwrap();
    let set = open_expecting(folder.0.path(), None, &numbered()).unwrap();
    assert_eq!((set.vertices(), set.labels.known(0)), (3, false));
    assert!(open(folder.0.path(), None).is_err());
    crate::rows::archive(&folder.path("a.npz"), &[("x", x)]);
    assert_eq!(open_expecting(&folder.path("a.npz"), None, &numbered()).unwrap().vertices(), 3);
}

#[test]
fn arrays_of_minus_one_and_one_are_two_classes() {
    let folder = Folder::new(&[]);
    fs::write(folder.path("x.npy"), npy("<f4", "(3, 1)", &floats(&[1.0, 2.0, 3.0]))).unwrap();
    for y in [npy("|i1", "(3,)", &[1, 255, 1]), npy("<f4", "(3,)", &floats(&[1.0, -1.0, 1.0]))] {
        fs::write(folder.path("y.npy"), &y).unwrap();
        let set = open(folder.0.path(), None).unwrap();
        assert_eq!((set.labels, set.names.labels), (Labels::classes(vec![1, 0, 1], 2), names(&["-1", "1"])));
        let set =
            open_expecting(folder.0.path(), None, &Expected { feature_count: 1, ..numbered() }).unwrap();
        assert_eq!(set.labels, Labels::classes(vec![1, NO_LABEL, 1], 2));
    }
}

/// A mask in any type, in place of row numbers: of booleans it is read, of 0 and 1 it is an error.
#[test]
fn masks_of_splits_are_read_or_refused() {
    let seed = 435;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for _ in 0..40 {
        let rows = 6 + random.below(20) as usize;
        let folder = Folder::new(&[]);
        let features: Vec<f32> = (0..rows).map(|row| row as f32).collect();
        fs::write(folder.path("x.npy"), npy("<f4", &format!("({rows}, 1)"), &floats(&features))).unwrap();
        let labels: Vec<u8> = (0..rows).map(|row| (row % 2) as u8).collect();
        let shape = format!("({rows},)");
        fs::write(folder.path("y.npy"), npy("|i1", &shape, &labels)).unwrap();
        let mask: Vec<u8> = (0..rows).map(|row| u8::from(row < 2 || random.below(3) == 0)).collect();
        fs::write(folder.path("train.npy"), npy("|b1", &shape, &mask)).unwrap();
        let wanted: Vec<u32> = (0..).zip(&mask).filter(|(_, flag)| **flag == 1).map(|(row, _)| row).collect();
        assert_eq!(open(folder.0.path(), None).unwrap().split.train, wanted);
        let numbers: Vec<u8> = wanted.iter().map(|&row| row as u8).collect();
        fs::write(folder.path("train.npy"), npy("|u1", &format!("({},)", numbers.len()), &numbers)).unwrap();
        assert_eq!(open(folder.0.path(), None).unwrap().split.train, wanted);
        for element in ["|u1", "|i1"] {
            fs::write(folder.path("train.npy"), npy(element, &shape, &mask)).unwrap();
            let text = open(folder.0.path(), None).unwrap_err().to_string();
            assert!(text.contains("train.npy") && text.contains("numpy.flatnonzero"), "{text}");
        }
    }
}

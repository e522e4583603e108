//! Names that files give, and what is said where they do not fit together.
use std::fs;

use eciton_formats::open;
use eciton_graph::dataset::{Dataset, Labels, NO_LABEL};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            fs::write(folder.0.path().join(name), text).unwrap();
        }
        folder
    }

    /// The data set and the notes about it.
    fn open(&self) -> (Dataset, String) {
        drop(eciton_input::notes::take());
        let found = open(self.0.path(), None).unwrap();
        (found, eciton_input::notes::take().into_iter().map(|note| note.text).collect::<Vec<_>>().join("; "))
    }

    fn refusal(&self) -> String {
        open(self.0.path(), None).unwrap_err().to_string()
    }
}

const EDGES: (&str, &str) =
    ("edges.csv", "from,to,kind,km,lanes\na,b,road,0.5,2\nb,c,road,4,2\nc,a,path,2,1\n");

#[test]
fn headers_name_columns_and_words_name_classes() {
    let folder = Folder::new(&[
        EDGES,
        ("features.csv", "id,age,posts\na,1,2\nb,3,4\nc,5,6\n"),
        ("labels.csv", "id,kind\na,wasp\nb,ant\nc,wasp\n"),
    ]);
    let names = folder.open().0.names;
    assert_eq!(
        (names.labels, names.features),
        (vec!["ant".to_owned(), "wasp".into()], vec!["age".into(), "posts".into()])
    );
    assert_eq!(names.edge_features, ["km", "lanes"]);
    assert!(names.split.contains("drawn from seed 0"), "{}", names.split);
    let several = Folder::new(&[EDGES, ("labels.csv", "id,chess,go\na,1,0\nb,0,1\nc,1,1\n")]);
    assert_eq!(several.open().0.names.labels, ["chess", "go"]);
    // Two columns of one name have none.
    let twice = Folder::new(&[EDGES, ("labels.csv", "id,x,x\na,1,0\nb,0,1\nc,1,1\n")]);
    assert!(twice.open().0.names.labels.is_empty());
}

#[test]
fn whole_numbers_with_a_point_are_classes() {
    let classes = |labels: &str| {
        let (found, notes) = Folder::new(&[EDGES, ("labels.csv", labels)]).open();
        (found.labels, found.names.labels.len(), notes)
    };
    let (labels, names, _) = classes("id,y\na,0.0\nb,1.0\nc,\n");
    assert_eq!((labels, names), (Labels::classes(vec![0, 1, NO_LABEL], 2), 0));
    assert_eq!(classes("id,y\na,2\nb,nan\nc,-1.0\n").0, Labels::classes(vec![2, NO_LABEL, NO_LABEL], 3));
    let (labels, _, notes) = classes("id,y\na,0.5\nb,1\nc,2\n");
    assert!(matches!(labels, Labels::Numbers(_)) && notes.contains("read as numbers"), "{notes}");
}

#[test]
fn a_split_is_of_rows_with_labels() {
    let split = ("split.csv", "id,part\na,train\nb,val\nc,test\n");
    let (found, notes) = Folder::new(&[EDGES, split, ("labels.csv", "id,y\na,x\nb,\nc,y\n")]).open();
    assert_eq!(
        (&found.split.train[..], found.split.validation.len(), found.split.test.len()),
        (&[0][..], 0, 1)
    );
    assert!(notes.contains("split.csv: 1 line names a vertex without a label (b)"), "{notes}");
    let (found, notes) = Folder::new(&[EDGES, split]).open();
    assert!(found.split.train.is_empty() && notes.contains("split.csv is not used"), "{notes}");
    assert!(notes.contains("labels.csv"), "{notes}");
}

#[test]
fn an_unknown_id_is_no_edge() {
    let features = ("features.csv", "id,age\na,1\nb,3\nc,5\n");
    let unknown = Folder::new(&[EDGES, features, ("labels.csv", "id,y\na,x\nq-9,z\n")]).refusal();
    assert!(unknown.contains("labels.csv, line 3") && unknown.contains("q-9"), "{unknown}");
    assert!(unknown.contains("one of the 3 vertices") && !unknown.contains("an edge"), "{unknown}");
    let index = Folder::new(&[EDGES, features, ("labels.csv", ",id,y\n0,a,x\n1,b,z\n")]).refusal();
    assert!(index.contains("pandas") && index.contains("index=False"), "{index}");
    // An index of ids is what it should be.
    let (found, _) = Folder::new(&[EDGES, features, ("labels.csv", ",y\na,x\nb,z\n")]).open();
    assert_eq!((found.vertices(), found.names.labels), (3, vec!["x".to_owned(), "z".into()]));
    let (found, _) = Folder::new(&[EDGES, ("labels.csv", ",y\na,x\nb,z\n")]).open();
    assert_eq!(found.vertices(), 3);
}

#[test]
fn the_edges_alone_are_no_data_set() {
    let folder = Folder::new(&[EDGES]);
    let refused = open(&folder.0.path().join("edges.csv"), None).unwrap_err().to_string();
    let name = folder.0.path().display().to_string();
    assert!(
        refused.contains(&format!("the folder `{name}`")) && refused.contains("give the folder"),
        "{refused}"
    );
}

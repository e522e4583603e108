//! Tables of a folder: headers by what the other lines are, and what is refused in words.

use std::path::Path;

use eciton_formats::open;
use eciton_graph::dataset::{Dataset, VertexIds};

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The data set, and the notes that reading it made.
fn read(files: &[(&str, &str)]) -> (Dataset, Vec<String>) {
    let folder = folder(files);
    drop(eciton_input::notes::take());
    let set = open(folder.path(), None).unwrap();
    let lines = eciton_input::notes::take().into_iter();
    let lines = lines.filter(|note| note.level > eciton_input::notes::Level::Fact);
    (set, lines.map(|note| note.text).collect())
}

#[track_caller]
fn refused(files: &[(&str, &str)], said: &str) {
    let error = open(folder(files).path(), None).unwrap_err().to_string();
    assert!(error.contains(said), "{error} does not contain {said}");
}

fn names(set: &Dataset) -> Vec<String> {
    match &set.ids {
        VertexIds::Words(words) => words.clone(),
        other => (0..set.vertices()).map(|vertex| other.name(vertex)).collect(),
    }
}

/// `origin,Destination,airlines` became two vertices, and its third column was lost as a feature of edges.
#[test]
fn a_header_of_unknown_words_became_vertices() {
    let edges = "origin,Destination,airlines\nJFK,LAX,3\nLAX,SFO,2\nSFO,JFK,5\n";
    let labels = "airport,type\nJFK,big\nLAX,big\nSFO,small\n";
    let (set, notes) = read(&[("edges.csv", edges), ("labels.csv", labels)]);
    assert_eq!(names(&set), ["JFK", "LAX", "SFO"]);
    assert_eq!((set.graph.edges(), set.labels.width()), (6, 2));
    assert_eq!(set.edge_features.as_ref().map(|rows| rows.columns()), Some(1));
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes
            .iter()
            .any(|n| n.contains("edges.csv, line 1: \"origin, Destination, airlines\" was read as a header"))
    );
    assert!(
        notes.iter().any(|n| n.contains("labels.csv, line 1: \"airport, type\" was read as a header")),
        "{notes:?}"
    );
    // The same beside features, whose ids say what is a vertex.
    let features = "name,x\nJFK,1\nLAX,2\nSFO,3\n";
    let (other, notes) = read(&[("edges.csv", edges), ("labels.csv", labels), ("features.csv", features)]);
    assert_eq!((names(&other), other.graph.edges(), other.labels.width()), (names(&set), 6, 2));
    assert!(notes.iter().any(|n| n.contains("a word stands above a column of numbers")), "{notes:?}");
}

#[test]
fn a_first_edge_that_is_one_stays_one() {
    // Every id occurs once: the first line is like the others, and said to be data.
    let (set, notes) = read(&[("edges.csv", "a,b\nc,d\ne,f\n")]);
    assert_eq!((set.vertices(), set.graph.edges()), (6, 6));
    assert!(notes[0].contains("was read as data"), "{notes:?}");
    // An isolated pair whose vertices have labels.
    let (set, notes) = read(&[("edges.csv", "a,b\nc,d\nd,e\n"), ("labels.csv", "a,x\nb,x\nc,y\nd,y\ne,y\n")]);
    assert_eq!((set.vertices(), notes.len()), (5, 0), "{notes:?}");
    // Numbers are no header.
    let (set, notes) = read(&[("edges.csv", "7,9\n1,2\n2,1\n")]);
    assert_eq!((set.vertices(), notes.len()), (4, 0));
    // A word above numbers is one without a doubt.
    let (set, notes) =
        read(&[("edges.csv", "start,end\n1,2\n2,1\n"), ("labels.csv", "who,class\n1,0\n2,1\n")]);
    assert_eq!((set.vertices(), set.labels.width(), notes.len()), (2, 2, 0));
    // A split tells by its part.
    let split = "picture,part\na,train\nb,val\nc,test\n";
    let (set, _) =
        read(&[("edges.csv", "a,b\nb,c\n"), ("labels.csv", "a,0\nb,1\nc,0\n"), ("split.csv", split)]);
    assert_eq!(set.split.train, [0]);
}

#[test]
fn a_first_line_that_is_data_was_lost() {
    // A number in another spelling makes words of all ids.
    let (set, _) = read(&[("edges.csv", "007,8\n8,9\n9,8\n")]);
    assert_eq!(names(&set), ["007", "8", "9"]);
    let (set, _) = read(&[("edges.csv", "8,9\n9,8\n"), ("labels.csv", "07,0\n8,1\n9,0\n")]);
    assert_eq!(names(&set), ["07", "8", "9"]);
    // A class by a word above classes by numbers, of a vertex that there is.
    let files = [("edges.csv", "ann,bob\nbob,cy\n"), ("labels.csv", "ann,red\nbob,3\ncy,4\n")];
    assert_eq!((read(&files).0.labels.width(), read(&files).0.vertices()), (3, 3));
    let features = ("features.csv", "ann,1\nbob,2\ncy,3\n");
    assert_eq!(read(&[files[0], files[1], features]).0.labels.width(), 3);
    // A vertex whose name begins headers elsewhere.
    let features = ("features.csv", "id,x\nu,1\nv,2\n");
    assert_eq!(read(&[("edges.csv", "u,v\n"), features]).0.graph.edges(), 2);
    // An id of more than 32 bits before a word.
    let (set, _) = read(&[("edges.csv", "1,4294967300\n4294967300,a\na,1\n")]);
    assert_eq!(names(&set), ["1", "4294967300", "a"]);
}

#[test]
fn ids_beyond_32_bits_are_numbers() {
    let big = u64::from(u32::MAX) + 5;
    let (set, _) = read(&[("edges.csv", &format!("source,target\n3,{big}\n{big},9\n"))]);
    assert_eq!(set.ids, VertexIds::Numbers(vec![3, 9, big]));
    assert_eq!(set.graph.edges(), 4);
}

/// 0 edges, and not a word (M3).
#[test]
fn a_table_without_lines_trained_without_edges() {
    let features = ("features.csv", "id,x\na,1\nb,2\n");
    refused(
        &[features, ("edges.csv", "source,target\ra,b\r")],
        "line 1: expected lines that end with LF or CR LF",
    );
    refused(&[features, ("edges.csv", "")], "edges.csv: expected at least one record, found none");
    refused(&[features, ("edges.csv", "# nothing\n")], "edges.csv: expected at least one record, found none");
    refused(&[features, ("edges.csv", "a;b\n")], "fields separated by commas, found ; between them");
    refused(&[("edges.csv", "a,b\n"), ("labels.csv", "")], "labels.csv: expected at least one record");
    // A header of known words says that there are none.
    assert_eq!(read(&[features, ("edges.csv", "source,target\n")]).0.graph.edges(), 0);
    let list = folder(&[("g.txt", "1 2\r2 3\r3 1\r")]);
    let error = open(&list.path().join("g.txt"), None).unwrap_err().to_string();
    assert!(error.contains("not CR alone"), "{error}");
}

#[test]
fn an_infinite_label_became_a_class() {
    let edges = ("edges.csv", "0,1\n1,2\n2,0\n");
    refused(
        &[edges, ("labels.csv", "0,0.5\n1,0\n2,inf\n")],
        "labels.csv, line 3: expected a finite number as label 1",
    );
    refused(
        &[edges, ("labels.csv", "0,0\n1,1\n2,18446744073709551616\n")],
        "line 3: expected a class below 1048576",
    );
    // As one word among others it is one.
    assert_eq!(read(&[edges, ("labels.csv", "0,inf\n1,nf\n2,sup\n")]).0.labels.width(), 3);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_was_passed_over() {
    use std::os::unix::fs::symlink;
    for name in ["features.npy", "edge_features.npy", "labels.csv", "labels.npy", "split.csv", "graphs.csv"] {
        let set = folder(&[("edges.csv", "0,1\n1,2\n")]);
        let path = set.path().join(name);
        let makes: [&dyn Fn(&Path); 4] = [
            &|path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success()),
            &|path| std::fs::create_dir(path).unwrap(),
            &|path| symlink("nowhere", path).unwrap(),
            &|path| symlink("/dev/zero", path).unwrap(),
        ];
        for make in makes {
            make(&path);
            let error = open(set.path(), None).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("cannot be read"), "{error}");
            if path.is_dir() {
                std::fs::remove_dir(&path).unwrap()
            } else {
                std::fs::remove_file(&path).unwrap()
            }
        }
    }
}

#[test]
fn a_name_that_chooses_nothing_was_ignored() {
    let set = folder(&[("edges.csv", "0,1\n"), ("g.txt", "0 1\n")]);
    for path in [set.path().to_owned(), set.path().join("g.txt")] {
        let error = open(&path, Some("../../etc")).unwrap_err().to_string();
        assert!(error.contains("the name \"../../etc\" is not needed"), "{error}");
    }
}

//! The reading report: inputs in `tests/cases` that were read wrongly without a message, and variants.
use std::fs;
use std::path::{Path, PathBuf};

use eciton_formats::open;
use eciton_graph::dataset::{Dataset, Labels, NO_LABEL, VertexIds};
use eciton_graph::random::SplitMix64;
use eciton_input::notes::{self, Level};

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// The data set, and the lines above facts of its reading report.
#[track_caller]
fn read(path: &Path) -> (Dataset, Vec<(Level, String)>) {
    drop(notes::take());
    let set = open(path, None).unwrap();
    let lines = notes::take().into_iter().filter(|note| note.level > Level::Fact);
    (set, lines.map(|note| (note.level, note.text)).collect())
}

/// All lines of the reading report.
fn report(path: &Path) -> Vec<String> {
    drop(notes::take());
    drop(open(path, None).unwrap());
    notes::take().into_iter().map(|note| note.text).collect()
}

fn refusal(path: &Path) -> String {
    open(path, None).unwrap_err().to_string()
}

#[track_caller]
fn has(lines: &[(Level, String)], level: Level, words: &str) {
    assert!(lines.iter().any(|(found, text)| *found == level && text.contains(words)), "{words}: {lines:?}");
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

    fn read(&self) -> (Dataset, Vec<(Level, String)>) {
        read(self.0.path())
    }

    fn refusal(&self) -> String {
        refusal(self.0.path())
    }
}

fn links(set: &Dataset) -> (u32, u64) {
    (set.vertices(), set.graph.edges() / 2)
}

#[test]
fn ids_that_do_not_join_are_an_error() {
    let text = refusal(&case("ids-that-do-not-join"));
    for words in ["labels.csv", "60 ids, none of which", "\"0\"", "0.0", "pandas writes whole numbers as 1.0"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn ids_that_join_in_part_are_a_warning_with_examples() {
    let edges = ("edges.csv", "source,target\na,b\nb,c\nc,a\n");
    let (set, lines) = Folder::new(&[edges, ("labels.csv", "id,class\na,x\nb,y\nC,x\nd,y\n")]).read();
    assert_eq!(set.vertices(), 5);
    has(&lines, Level::Warning, "2 of 4 ids are in no edge, for instance \"C\", \"d\"");
    has(&lines, Level::Warning, "upper and lower case");
    // All join: a fact alone.
    let folder = Folder::new(&[edges, ("labels.csv", "id,class\na,x\nb,y\n")]);
    assert!(folder.read().1.is_empty(), "{:?}", folder.read().1);
    assert!(report(folder.0.path()).iter().any(|text| text.contains("2 ids, of which 2 are in")));
    // With features, which say what a vertex is, isolated vertices are plain.
    let features = ("features.csv", "id,x\na,1\nb,2\nc,3\nd,4\n");
    let (_, lines) = Folder::new(&[edges, features, ("labels.csv", "id,class\na,x\nd,y\n")]).read();
    assert!(lines.is_empty(), "{lines:?}");
    let (_, lines) = Folder::new(&[edges, features, ("labels.csv", "id,class\nd,y\n")]).read();
    has(&lines, Level::Warning, "1 of 1 ids are in no edge");
    let text = Folder::new(&[("edges.csv", "1.0,2.0\n"), ("features.csv", "id,x\n1,1\n2,2\n")]).refusal();
    assert!(text.contains("pandas writes whole numbers as 1.0"), "{text}");
}

/// Spellings of ids that are no longer the ids of the edges.
#[test]
fn respelled_ids_never_join_in_silence() {
    let seed = 431;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for _ in 0..60 {
        let count = 3 + random.below(20);
        let spell: fn(u64) -> String = match random.below(4) {
            0 => |id| format!("{id}.0"),
            1 => |id| format!("n{id}"),
            2 => |id| format!("000{id}"),
            _ => |id| format!("N_{id}"),
        };
        let mut edges = "source,target\n".to_owned();
        let mut labels = "id,class\n".to_owned();
        for id in 0..count {
            edges += &format!("{},{}\n", id + 10, (id + 1) % count + 10);
            labels += &format!("{},{}\n", spell(id + 10), if id % 2 == 0 { "a" } else { "b" });
        }
        let text = Folder::new(&[("edges.csv", &edges), ("labels.csv", &labels)]).refusal();
        assert!(text.contains("none of which occurs there") && text.contains("different ids"), "{text}");
    }
}

#[test]
fn an_index_of_pandas_is_an_error_in_every_table() {
    let text = refusal(&case("pandas-index/index.csv"));
    for words in ["line 1", "a column without a name that counts the rows", "index=False", "name it id"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let edges = ("edges.csv", "source,target\n0,1\n1,2\n2,0\n");
    for (name, text) in [
        ("edges.csv", ",source,target\n0,0,1\n1,1,2\n"),
        ("edges.csv", "Unnamed: 0,source,target\n0,0,1\n1,1,2\n"),
        ("features.csv", ",x\n0,1\n1,2\n2,3\n"),
        ("features.csv", "\"\",x\n1,1\n2,2\n3,3\n"),
        ("labels.csv", ",y\n0,a\n1,b\n2,a\n"),
        ("split.csv", ",id,part\n0,0,train\n1,1,test\n"),
        ("graphs.csv", ",id,graph\n0,0,a\n1,1,a\n"),
    ] {
        let found = Folder::new(&[edges, ("labels.csv", "id,y\n0,a\n1,b\n2,a\n"), (name, text)]).refusal();
        assert!(found.contains("as pandas writes its index") && found.contains(name), "{name}: {found}");
    }
    // Ids below an empty name, as pandas writes an index of words, are read.
    let (set, _) = Folder::new(&[edges, ("labels.csv", ",y\n2,a\n0,b\n")]).read();
    assert_eq!(set.vertices(), 3);
    let table = Folder::new(&[("t.csv", ",a,label\n7,0.5,x\n3,0.25,y\n9,0.5,x\n")]);
    let (set, _) = read(&table.path("t.csv"));
    assert_eq!((set.features.columns(), set.ids.name(1)), (1, "3".to_owned()));
    // Under another name it counts the rows all the same.
    let table = Folder::new(&[("t.csv", "index,a,label\n0,0.5,x\n1,0.25,y\n2,0.5,x\n")]);
    has(&read(&table.path("t.csv")).1, Level::Warning, "counts the rows from 0");
}

#[test]
fn a_header_of_numbers_is_one() {
    let (table, lines) = read(&case("header-of-numbers/table.csv"));
    assert_eq!((table.vertices(), table.labels.width(), table.features.columns()), (12, 2, 3));
    assert_eq!(table.names.features, ["0", "1", "2"]);
    has(&lines, Level::Note, "was read as a header");
    let (folder, lines) = read(&case("header-of-numbers/folder"));
    assert_eq!(links(&folder), (4, 4));
    has(&lines, Level::Note, "edges.csv, line 1: \"0, 1\" was read as a header");
    let (pairs, lines) = read(&case("header-of-numbers/pairs"));
    assert_eq!((pairs.vertices(), pairs.labels.rows()), (4, 4));
    has(&lines, Level::Note, "labels.csv, line 1: \"0, 1\" was read as a header");
}

/// Columns in another order have a header whose numbers do not ascend.
#[test]
fn a_header_of_numbers_in_any_order_is_one() {
    let body = "1,2,x,3\n4,5,y,6\n7,8,x,9\n";
    for (head, features) in [
        ("2,0,target,1", ["2", "0", "1"]),
        ("12,7,label,40", ["12", "7", "40"]),
        ("2021,2019,class,2020", ["2021", "2019", "2020"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, format!("{head}\n{body}")).unwrap();
        let (set, lines) = read(&path);
        assert_eq!(
            (set.vertices(), &set.names.features[..]),
            (3, &features.map(str::to_owned)[..]),
            "{head}"
        );
        has(&lines, Level::Note, "was read as a header");
    }
    // A class that is called so, and occurs again, is data.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "2,0,class\n4,5,other\n7,8,class\n").unwrap();
    assert_eq!(read(&path).0.vertices(), 3);
}

#[test]
fn a_first_line_of_numbers_that_is_data_stays_data() {
    for files in [
        &[("edges.csv", "0,1\n1,2\n2,0\n")][..],
        &[("edges.csv", "0,1\n1,2\n2,0\n"), ("labels.csv", "0,1\n1,0\n2,1\n")],
        &[("edges.csv", "0,1\n2,1\n2,0\n"), ("features.csv", "0,1\n1,2\n2,5\n")],
    ] {
        let (set, lines) = Folder::new(files).read();
        assert_eq!((links(&set), lines.len()), ((3, 3), 0), "{files:?}: {lines:?}");
    }
    // The number of a graph is the id of no vertex.
    let files = [("edges.csv", "2,3\n"), ("graphs.csv", "0,1\n1,0\n2,1\n3,1\n")];
    assert_eq!(Folder::new(&files).read().0.vertices(), 4);
    // Nothing decides: data, with a warning that names the other reading.
    let (set, lines) = Folder::new(&[("edges.csv", "0,1\n2,3\n3,4\n4,2\n")]).read();
    assert_eq!(links(&set), (5, 4));
    has(&lines, Level::Warning, "header=False");
    let table = Folder::new(&[("t.csv", "0,1,2\n5,7,0\n8,9,1\n")]);
    let (set, lines) = read(&table.path("t.csv"));
    assert_eq!(set.vertices(), 3);
    has(&lines, Level::Warning, "was read as data");
}

/// Files of `pandas.DataFrame(array).to_csv(index=False)`, with and without a column of labels.
#[test]
fn tables_with_headers_of_numbers_have_their_rows() {
    let seed = 432;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for _ in 0..60 {
        let (rows, columns) = (3 + random.below(20), 2 + random.below(5));
        let first = if random.below(2) == 0 { 0 } else { 1990 };
        let names: Vec<String> = (first..first + columns).map(|name| name.to_string()).collect();
        let words = random.below(2) == 0;
        let mut text = names.join(",");
        text += &match words {
            true => ",label\n".to_owned(),
            false => format!(",{}\n", first + columns),
        };
        for row in 0..rows {
            for _ in 0..columns {
                text += &format!("{:.2},", random.below(1000) as f64 / 100.0);
            }
            text +=
                if words { ["spam\n", "ham\n"][row as usize % 2] } else { ["0\n", "1\n"][row as usize % 2] };
        }
        let folder = Folder::new(&[("t.csv", &text)]);
        let (set, _) = read(&folder.path("t.csv"));
        assert_eq!((u64::from(set.vertices()), set.labels.width()), (rows, 2), "{text}");
        assert_eq!(set.names.features, names);
    }
}

#[test]
fn features_with_headers_of_numbers_have_their_rows() {
    let edges = ("edges.csv", "source,target\na,b\nb,c\n");
    for header in ["who,0,1", "0,1,2", ",0,1"] {
        let features = format!("{header}\na,1,2\nb,3,4\nc,5,6\n");
        let (set, _) = Folder::new(&[edges, ("features.csv", &features)]).read();
        assert_eq!((set.vertices(), set.features.columns()), (3, 2), "{header}");
    }
    let weights = ("edges.csv", "0,1,2\n3,4,0.5\n4,5,0.25\n5,3,1.5\n");
    let (set, _) = Folder::new(&[weights, ("labels.csv", "id,y\n3,a\n4,b\n5,a\n")]).read();
    assert_eq!((links(&set), set.edge_features.map(|rows| rows.columns())), ((3, 3), Some(1)));
    let named = ("edges.csv", "ann,bob,km\nbob,cy,3\ncy,ann,4\n");
    let (set, lines) = Folder::new(&[named]).read();
    assert_eq!((links(&set), set.names.edge_features), ((3, 2), vec!["km".to_owned()]));
    has(&lines, Level::Note, "a word stands above a column of numbers");
}

#[test]
fn a_word_that_opens_two_tables_is_a_header() {
    let edges = ("edges.csv", "airport,other\nJFK,LAX\nLAX,SFO\n");
    let labels = ("labels.csv", "airport,type\nJFK,big\nLAX,big\nSFO,small\n");
    let (set, lines) = Folder::new(&[edges, labels]).read();
    assert_eq!((links(&set), set.labels.width()), ((3, 2), 2));
    assert_eq!(set.names.target, ["type"]);
    has(&lines, Level::Note, "is also the first field of another table");
    // An id that happens to stand first in both stays one.
    let (set, _) =
        Folder::new(&[("edges.csv", "ann,bob\nbob,ann\n"), ("labels.csv", "ann,x\nbob,y\n")]).read();
    assert_eq!((links(&set), set.labels.width()), ((2, 1), 2));
}

#[test]
fn lines_with_other_fields_than_the_first_are_refused() {
    let text = refusal(&case("first-edge-decides/neighbours.txt"));
    for words in ["line 2", "2 fields", "adjacency list"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = refusal(&case("first-edge-decides/weights.txt"));
    assert!(text.contains("line 2") && text.contains("1 2 0.5"), "{text}");
    let text = refusal(&case("first-edge-decides/folder"));
    assert!(text.contains("edges.csv, line 2") && text.contains("column 3"), "{text}");
    let edges = ("edges.csv", "source,target\na,b\nb,c\n");
    for (name, content, line) in [
        ("edges.csv", "source,target\na,b\nb,c,1\n", 3),
        ("edges.csv", "source,target\na,b,1\nb,c,2\n", 2),
        ("labels.csv", "id,class\na,x\nb,y,z\n", 3),
        ("features.csv", "id,x\na,1,2\nb,1,2\n", 2),
        ("features.csv", "id,x\na,1\nb,1,2\nc,1\n", 3),
        ("split.csv", "id,part\na,train\nb,test,1\n", 3),
    ] {
        let text =
            Folder::new(&[edges, ("labels.csv", "id,class\na,x\nb,y\nc,x\n"), (name, content)]).refusal();
        assert!(text.contains(&format!("{name}, line {line}")) && text.contains("fields"), "{text}");
    }
    let table = Folder::new(&[("t.csv", "a,b,label\n1,2,x\n1,2,3,y\n")]);
    let text = refusal(&table.path("t.csv"));
    assert!(text.contains("line 3: expected 3 fields, as in line 1, found 4 fields"), "{text}");
}

#[test]
fn columns_of_edges_are_decided_by_all_records() {
    let (set, lines) =
        Folder::new(&[("edges.csv", "source,target,kind,km\na,b,road,1\nb,c,path,2\n")]).read();
    assert_eq!(set.edge_features.map(|rows| rows.columns()), Some(1));
    has(&lines, Level::Note, "column not used (edge features are columns of numbers): kind");
    let (_, lines) = Folder::new(&[("edges.csv", "source,target,km\na,b,far\nb,c,2\nc,d,3\nd,a,4\n")]).read();
    has(&lines, Level::Warning, "a number in 3 records, but a word in 1");
    for missing in ["", "nan", "NA"] {
        let edges = format!("source,target,km\na,b,1\nb,c,{missing}\n");
        let text = Folder::new(&[("edges.csv", &edges)]).refusal();
        assert!(text.contains("edges.csv, line 3") && text.contains("column 3"), "{text}");
    }
    let list = Folder::new(&[("g.txt", "1 2 {}\n2 3 {}\n")]);
    has(&read(&list.path("g.txt")).1, Level::Note, "field 3 of each edge is not used");
    let list = Folder::new(&[("g.txt", "1 2 nan\n2 3 0.5\n")]);
    has(&read(&list.path("g.txt")).1, Level::Warning, "it is one in 1 other edges");
}

#[test]
fn ids_may_start_with_the_sign_of_comments() {
    let (set, lines) = read(&case("hash-ids"));
    assert_eq!((links(&set), set.labels.rows()), ((5, 5), 5));
    assert!((0..5).all(|vertex| set.labels.known(vertex)) && lines.is_empty(), "{lines:?}");
    let VertexIds::Words(words) = &set.ids else { panic!("words") };
    assert!(words.contains(&"#dog".to_owned()));
    // Before the first record the sign starts a comment, which may be a lost record.
    let (set, lines) = Folder::new(&[("edges.csv", "#cat,#dog\n#dog,pets\npets,#dog\n")]).read();
    assert_eq!(set.vertices(), 2);
    has(&lines, Level::Warning, "has the same number of fields as a record");
    let (_, lines) = Folder::new(&[("edges.csv", "# made by me, today\n#source,target\na,b\nb,a\n")]).read();
    assert!(lines.is_empty(), "{lines:?}");
    let list = Folder::new(&[("g.txt", "#FromNodeId\tToNodeId\n1\t2\n2\t3\n")]);
    assert!(read(&list.path("g.txt")).1.is_empty());
    // Edge lists have comments anywhere, which are counted.
    let list = Folder::new(&[("g.txt", "# a\n1 2\n# b\n2 3\n% c\n")]);
    has(&read(&list.path("g.txt")).1, Level::Warning, "2 lines that start with # or %");
}

#[test]
fn a_missing_id_is_an_error_with_its_line() {
    let edges = ("edges.csv", "source,target\na,b\nb,c\n");
    for (name, text, line) in [
        ("edges.csv", "source,target\na,b\n,c\n", 3),
        ("edges.csv", "source,target\n1,2\n2,\n", 3),
        ("labels.csv", "id,class\na,x\n,y\n", 3),
        ("features.csv", "id,x\na,1\n,2\n", 3),
        ("split.csv", "id,part\n,train\n", 2),
    ] {
        let found = Folder::new(&[edges, ("labels.csv", "id,class\na,x\n"), (name, text)]).refusal();
        assert!(
            found.contains(&format!("{name}, line {line}")) && found.contains("an empty field"),
            "{found}"
        );
    }
    let (_, lines) = Folder::new(&[("edges.csv", "source,target\na,b\nb,nan\n")]).read();
    has(&lines, Level::Warning, "\"nan\", a word for a missing value");
}

#[test]
fn a_line_of_counts_is_a_warning() {
    let (set, lines) = read(&case("count-line/five.txt"));
    assert_eq!(links(&set), (6, 5));
    has(&lines, Level::Warning, "5 vertices and 4 edges");
    for (text, doubtful) in [
        ("4 5\n0 1\n1 2\n2 3\n3 4\n", true),
        ("3 3\n0 1\n1 2\n2 0\n", false),
        ("0 1\n1 2\n2 3\n", false),
        ("3 2\n0 1\n1 2\n", true),
    ] {
        let folder = Folder::new(&[("g.txt", text)]);
        let lines = read(&folder.path("g.txt")).1;
        assert_eq!(
            lines.iter().any(|(_, text)| text.contains("line of counts")),
            doubtful,
            "{text}: {lines:?}"
        );
        let table = Folder::new(&[("edges.txt", text)]);
        let lines = table.read().1;
        assert_eq!(
            lines.iter().any(|(_, text)| text.contains("line of counts")),
            doubtful,
            "{text}: {lines:?}"
        );
    }
}

#[test]
fn labels_of_minus_one_and_one_are_two_classes() {
    let (set, lines) = read(&case("labels-plus-minus-one/pm.csv"));
    assert_eq!((set.labels.width(), &set.names.labels[..]), (2, &["-1".to_owned(), "1".to_owned()][..]));
    assert!((0..set.labels.rows()).all(|row| set.labels.known(row)));
    has(&lines, Level::Note, "-1 or 1 were read as two classes");
    let edges = ("edges.csv", "0,1\n1,2\n2,0\n");
    for spelling in ["-1", "-1.0"] {
        let labels = format!("id,y\n0,{spelling}\n1,1\n2,\n");
        let (set, _) = Folder::new(&[edges, ("labels.csv", &labels)]).read();
        assert_eq!(set.labels, Labels::classes(vec![0, 1, NO_LABEL], 2));
        assert_eq!(set.names.labels, ["-1", "1"]);
    }
    // Among other numbers, or without any 1, -1 is no label.
    let (set, lines) = Folder::new(&[edges, ("labels.csv", "id,y\n0,-1\n1,1\n2,0\n")]).read();
    assert_eq!((set.labels, lines.len()), (Labels::classes(vec![NO_LABEL, 1, 0], 2), 0));
    let (set, _) = Folder::new(&[edges, ("labels.csv", "id,y\n0,\n1,1\n2,1\n")]).read();
    assert_eq!(set.labels, Labels::classes(vec![NO_LABEL, 1, 1], 2));
    let (set, _) = Folder::new(&[edges, ("labels.csv", "id,y\n0,-1\n1,-1\n2,-1\n")]).read();
    assert_eq!(set.labels, Labels::classes(vec![NO_LABEL; 3], 0));
}

#[test]
fn words_for_a_missing_label_are_no_classes() {
    let (set, lines) = read(&case("nan-is-a-class"));
    assert_eq!(
        (set.names.labels, set.labels),
        (vec!["p".to_owned(), "q".into()], Labels::classes(vec![0, NO_LABEL, 1, 0, NO_LABEL], 2))
    );
    has(&lines, Level::Note, "2 labels are words for a missing value (nan, None)");
    let (set, lines) = read(&case("nan-is-a-class/t.csv"));
    assert_eq!(
        (set.names.labels, set.labels),
        (vec!["p".to_owned(), "q".into()], Labels::classes(vec![0, NO_LABEL, 1, NO_LABEL, NO_LABEL], 2))
    );
    has(&lines, Level::Note, "(nan, NA)");
}

/// A missing label in any of the spellings of pandas, among words and among numbers.
#[test]
fn missing_labels_are_unknown_in_every_spelling() {
    let seed = 433;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let spellings = ["", "nan", "NaN", "None", "NA", "N/A", "null", "NULL", "<NA>", "#N/A", "n/a"];
    for _ in 0..100 {
        let words = random.below(2) == 0;
        let (mut table, mut labels, mut expected) = ("x,label\n".to_owned(), "id,y\n".to_owned(), Vec::new());
        for row in 0..4 + random.below(12) {
            let class = random.below(3);
            let known = random.below(3) > 0 || row < 2;
            let class = if row < 2 { row } else { class };
            let field = match (known, words) {
                (false, _) => spellings[random.below(spellings.len() as u64) as usize].to_owned(),
                (true, true) => ["ant", "bee", "cow"][class as usize].to_owned(),
                (true, false) => class.to_string(),
            };
            table += &format!("0.{row},{field}\n");
            labels += &format!("{row},{field}\n");
            expected.push(if known { class as u32 } else { NO_LABEL });
        }
        let rows = expected.len();
        let edges: String = (0..rows).map(|row| format!("{row},{}\n", (row + 1) % rows)).collect();
        let folder = Folder::new(&[("edges.csv", &edges), ("labels.csv", &labels), ("t.csv", &table)]);
        let of = |set: Dataset| set.labels.as_classes().unwrap().to_vec();
        assert_eq!(of(folder.read().0), expected, "{labels}");
        assert_eq!(of(read(&folder.path("t.csv")).0), expected, "{table}");
    }
}

#[test]
fn numbers_beyond_all_classes_are_numbers_to_predict() {
    let table = Folder::new(&[("t.csv", "x,price\n1.5,2700010\n2.5,1500000\n")]);
    let (set, lines) = read(&table.path("t.csv"));
    assert!(matches!(set.labels, Labels::Numbers(_)));
    has(&lines, Level::Warning, "2700010 is above the limit");
}

#[test]
fn files_that_are_not_used_are_reported() {
    let edges = ("edges.csv", "0,1\n1,2\n2,0\n");
    let (_, lines) = Folder::new(&[edges, ("g.mtx", ""), ("README.md", ""), ("extra.csv", "")]).read();
    has(&lines, Level::Warning, "the graph file g.mtx is not used, because edges.csv is read");
    has(&lines, Level::Warning, "files not used: extra.csv");
    assert_eq!(lines.len(), 2, "{lines:?}");
    let rows = [("features.csv", "id,x\na,1\nb,2\n"), ("labels.csv", "id,y\na,p\nb,q\n")];
    let text = Folder::new(&[rows[0], rows[1], ("g.edges", "1 2\n")]).refusal();
    assert!(text.contains("features.csv, line 2: expected the id of one of the 2 vertices"), "{text}");
    let (set, lines) = Folder::new(&[rows[0], rows[1], ("notes.txt", "an x\n"), ("z.json", "{}")]).read();
    assert_eq!(set.graph.edges(), 0);
    has(&lines, Level::Warning, "files not used: notes.txt, z.json");
    let (_, lines) = Folder::new(&[edges, ("edges.tsv", "0\t1\n")]).read();
    has(&lines, Level::Warning, "edges.tsv");
}

#[test]
fn a_table_may_have_columns_that_are_called_like_those_of_edges() {
    let table = Folder::new(&[
        ("t.csv", "u,v,w,label\n1,2,3,a\n2,3,4,b\n"),
        ("t.tsv", "u\tv\tlabel\n1\t2\ta\n2\t3\tb\n"),
    ]);
    assert_eq!(read(&table.path("t.csv")).0.names.features, ["u", "v", "w"]);
    assert_eq!(read(&table.path("t.tsv")).0.names.features, ["u", "v"]);
}

#[test]
fn an_edge_list_of_words_says_where_words_are_read() {
    for text in ["a b\nb c\n", "source target\n1 2\n", "1.0 2.0\n"] {
        let list = Folder::new(&[("g.edges", text)]);
        let found = refusal(&list.path("g.edges"));
        assert!(found.contains("edges.csv in a folder") && found.contains("line 1"), "{found}");
    }
    let list = Folder::new(&[("g.edges", "\u{feff}1 2\n2 3\n")]);
    assert_eq!(links(&read(&list.path("g.edges")).0), (3, 2));
}

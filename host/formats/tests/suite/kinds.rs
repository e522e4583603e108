//! Tables whose columns have kinds of their own.

use std::path::PathBuf;

use eciton_formats::folder::describe;
use eciton_formats::{Request, open, open_with};
use eciton_graph::dataset::{Dataset, Labels, VertexIds};
use eciton_graph::encoding::{Cells, Kind};
use eciton_graph::expected::Expected;
use eciton_graph::random::SplitMix64;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            std::fs::write(folder.path(name), text).unwrap();
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self) -> Dataset {
        open(self.0.path(), None).unwrap()
    }

    fn refusal(&self) -> String {
        open(self.0.path(), None).unwrap_err().to_string()
    }
}

fn row(set: &Dataset, at: usize) -> Vec<f32> {
    let mut row = vec![0.0; set.features.columns() as usize];
    set.features.copy_row(at, &mut row);
    row
}

const TABLE: &str = "person,age,city,remote,joined,note,team,split\n\
    ann,40,Berlin,True,1970-01-02,n1,a,train\n\
    bob,,Paris,False,1970-01-03,n2,b,train\n\
    cyn,50,NA,yes,,n3,a,train\n\
    dan,60,Rome,no,1970-01-05T12:00,n4,,\n";

#[test]
fn words_gaps_dates_and_truth_values_become_features() {
    let folder = Folder::new(&[("t.csv", &TABLE.replace("team", "label"))]);
    let set = open(&folder.path("t.csv"), None).unwrap();
    assert_eq!(set.ids, VertexIds::Words(["ann", "bob", "cyn", "dan"].map(str::to_owned).to_vec()));
    let names = "age|age is missing|city=Berlin|city=Paris|city is missing|remote|joined|joined is missing|\
                 note=n1|note=n2|note=n3";
    assert_eq!(set.names.features.join("|"), names);
    assert_eq!(row(&set, 0), [40., 0., 1., 0., 0., 1., 1., 0., 1., 0., 0.]);
    assert_eq!(row(&set, 1), [45., 1., 0., 1., 0., 0., 2., 0., 0., 1., 0.]);
    assert_eq!(row(&set, 2), [50., 0., 0., 0., 1., 1., 1.5, 1., 0., 0., 1.]);
    // Rome is no value of a training row.
    assert_eq!(row(&set, 3), [60., 0., 0., 0., 0., 0., 4.5, 0., 0., 0., 0.]);
    let encoded = set.encoded.unwrap();
    assert_eq!(encoded.unseen[0].values, ["Rome"]);

    // New rows for the model: other columns, another order, no labels.
    let expected =
        Expected { encoders: encoded.encoders.to_vec(), classification: true, ..Expected::default() };
    let new = "city,age,extra,note,remote,joined\nRome,,1,n2,1,1970-01-11\n";
    let folder = Folder::new(&[("new.csv", new)]);
    let set = open_with(&folder.path("new.csv"), None, Some(&expected).into()).unwrap();
    assert_eq!(row(&set, 0), [45., 1., 0., 0., 0., 1., 10., 0., 0., 1., 0.]);
    let text = new.replace(",1,1970-01-11", ",perhaps,1970-01-11");
    let folder = Folder::new(&[("new.csv", &text)]);
    let error = open_with(&folder.path("new.csv"), None, Some(&expected).into()).unwrap_err().to_string();
    assert!(error.contains("new.csv, line 2: expected true or false in column remote"), "{error}");
    let folder = Folder::new(&[("new.csv", "city,age\nRome,1\n")]);
    let error = open_with(&folder.path("new.csv"), None, Some(&expected).into()).unwrap_err().to_string();
    assert!(error.contains("no single column remote, joined, note"), "{error}");
}

#[test]
fn a_mistake_among_numbers_or_dates_is_an_error_with_its_line() {
    for (column, words) in [
        ("1\n2\n4O\n", "line 4: expected a number in column x, as in 2 of its 3 fields"),
        ("1\n2\ninf\n", "line 4: expected a finite number in column x"),
        ("1\n1e99\n2\n", "line 3: expected a finite number in column x"),
        ("2020-01-01\n2020-02-30\n2020-03-01\n", "line 3: expected a date in column x, as in 2 of its 3"),
    ] {
        let rows: String = column.lines().map(|field| format!("{field},a\n")).collect();
        let folder = Folder::new(&[("t.csv", &format!("x,label\n{rows}"))]);
        let error = open(&folder.path("t.csv"), None).unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("data.toml"), "{error}");
    }
}

#[test]
fn tables_of_nodes_and_edges_have_any_names() {
    let nodes = TABLE.replace(",split\n", ",part\n");
    let edges = "from,to,hours\nann,bob,1\nbob,cyn,2\ncyn,dan,3\n";
    for (nodes_name, edges_name) in
        [("nodes.csv", "edges.csv"), ("staff.csv", "contacts.csv"), ("vertices.csv", "links.csv")]
    {
        let folder = Folder::new(&[(nodes_name, &nodes), (edges_name, edges)]);
        let request = Request { label: Some("team"), ..Request::default() };
        let set = open_with(folder.0.path(), None, request).unwrap();
        assert_eq!((set.vertices(), set.graph.edges()), (4, 6));
        assert_eq!(set.labels.as_classes().unwrap(), [0, 1, 0, u32::MAX]);
        assert_eq!(set.names.target, ["team"]);
        assert_eq!(set.names.edge_features, ["hours"]);
        assert!(set.encoded.is_some());
    }
    // Without names of ends, the ids of the nodes tell which table holds edges.
    let folder = Folder::new(&[
        ("a.csv", "p,q\nann,bob\nbob,cyn\n"),
        ("b.csv", "who,team\nann,x\nbob,y\ncyn,x\ndan,y\n"),
    ]);
    let set = folder.read();
    assert_eq!((set.vertices(), set.graph.edges(), set.labels.width()), (4, 4, 2));
    let two = Folder::new(&[("a.csv", "source,target\n1,2\n"), ("b.csv", "source,target\n1,2\n")]);
    let text = two.refusal();
    assert!(text.contains("several candidates: a.csv, b.csv") && text.contains("data.toml"), "{text}");
    let unknown =
        Folder::new(&[("edges.csv", "source,target\nann,eve\n"), ("nodes.csv", "id,label\nann,x\n")]);
    assert!(unknown.refusal().contains("an edge names vertex eve"), "{}", unknown.refusal());
}

#[test]
fn columns_of_edges_are_found_by_their_names() {
    let folder = Folder::new(&[
        ("edges.csv", "weight,target,source\n2,b,a\n3,c,b\n"),
        ("labels.csv", "id,class\na,x\nb,y\nc,x\n"),
    ]);
    let set = folder.read();
    assert_eq!(set.names.edge_features, ["weight"]);
    assert_eq!(set.edge_features.unwrap().values(), [2.0, 2.0, 3.0, 3.0]);
    let index = Folder::new(&[("edges.csv", ",source,target\n0,a,b\n1,b,c\n")]);
    assert!(index.refusal().contains("as pandas writes its index"), "{}", index.refusal());
}

#[test]
fn data_toml_sets_kinds_and_roles() {
    let edges = "who,whom,hours,day\nann,bob,1,3\nbob,cyn,2,4\n";
    let nodes = "name,zip,team,extra\nann,10115,a,1\nbob,10115,b,2\ncyn,20095,a,3\n";
    let files = [("people.csv", nodes), ("contacts.csv", edges)];
    let settings = "[nodes]\nfile = \"people.csv\"\n[nodes.columns]\nname = \"id\"\nzip = \"category\"\n\
                    team = \"label\"\nextra = \"ignore\"\n[edges]\nfile = \"contacts.csv\"\n[edges.columns]\n\
                    who = \"source\"\nwhom = \"target\"\nday = \"ignore\"\n";
    let folder = Folder::new(&[files[0], files[1], ("data.toml", settings)]);
    let set = folder.read();
    // One row trains, so the features have one category.
    assert_eq!(set.names.features, ["zip=10115"]);
    assert_eq!(set.encoded.as_ref().unwrap().table.columns[0].kind, Kind::Category);
    assert_eq!(set.names.edge_features, ["hours"]);
    assert_eq!(set.labels.as_classes().unwrap(), [0, 1, 0]);
    for (from, to, words) in [
        ("\"category\"", "\"word\"", "expected one of id, label, split, number"),
        ("zip =", "zap =", "expected a column \"zap\", which data.toml names, found the columns name, zip"),
        ("people.csv", "other.csv", "the name of a file in the same folder"),
        ("[nodes]", "[nodes", "expected TOML"),
        ("[edges]", "[ties]", "expected the tables [nodes] and [edges]"),
        ("team = \"label\"", "team = \"id\"", "one column for each role"),
    ] {
        let folder = Folder::new(&[files[0], files[1], ("data.toml", &settings.replace(from, to))]);
        let text = folder.refusal();
        assert!(text.contains(words), "{words}: {text}");
    }
    // The file that is written reads the same data set.
    let plain = Folder::new(&files);
    let set = plain.read();
    let (path, text) = describe(plain.0.path(), Request::default()).unwrap();
    assert!(text.contains("\"zip\" = \"number\"") && text.contains("\"who\" = \"source\""), "{text}");
    std::fs::write(path, text).unwrap();
    let again = plain.read();
    assert_eq!((again.names, again.features), (set.names, set.features));
}

#[test]
fn a_graph_file_keeps_its_graph_and_one_rule_of_ids() {
    let matrix = "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n";
    let features = "id,x\n1,1\n2,2\n3,3\n";
    for (labels, words) in [
        ("id,class\n1,a\n2,b\n3,a\n", None),
        ("id,class\n0,a\n1,b\n2,a\n", Some("a row for each of 3 vertices")),
    ] {
        let arrays = Folder::new(&[("g.mtx", matrix), ("labels.csv", labels)]);
        let set = arrays.read();
        assert_eq!((set.graph.edges(), set.labels.as_classes().unwrap()), (4, &[0, 1, 0][..]));
        let tables = Folder::new(&[("g.mtx", matrix), ("labels.csv", labels), ("features.csv", features)]);
        match words {
            None => assert_eq!(tables.read().graph.edges(), 4),
            // The features count from 1, and the labels from 0.
            Some(_) => {
                let text = tables.refusal();
                assert!(text.contains("the id 0, and 3 in") && text.contains("features.csv"), "{text}");
            }
        }
    }
    let list = Folder::new(&[
        ("g.txt", "0 1\n1 2\n"),
        ("labels.csv", "id,class\n0,a\n1,b\n2,a\n"),
        ("README.txt", "x"),
    ]);
    assert_eq!(list.read().graph.edges(), 4);
    let two = Folder::new(&[("g.mtx", matrix), ("h.mtx", matrix), ("labels.csv", "id,class\n1,a\n")]);
    assert!(two.refusal().contains("g.mtx") && two.refusal().contains("h.mtx"));
}

#[test]
fn masks_of_nodes_are_the_split() {
    let nodes = |masks: &str| {
        let rows = [
            "0,1.5,a,True,False,False",
            "1,2,b,True,False,",
            "2,2,a,False,1,0",
            "3,7,b,no,no,yes",
            "4,8,a,0,0,0",
        ];
        format!("id,x,group,{masks}\n{}\n", rows.join("\n"))
    };
    let edges = ("edges.csv", "source,target\n0,1\n1,2\n2,3\n3,4\n");
    let folder = Folder::new(&[edges, ("nodes.csv", &nodes("train_mask,val_mask,Test_Mask"))]);
    let set = folder.read();
    assert_eq!(set.split.parts().map(|(_, rows)| rows.to_vec()), [vec![0, 1], vec![2], vec![3]]);
    // The labels are the last column that is no mask.
    assert_eq!((set.features.columns(), set.labels.width(), &set.names.split), (1, 2, &String::new()));
    let wrong = nodes("train_mask,val_mask,test_mask").replace("7,b,no", "7,b,perhaps");
    let text = Folder::new(&[edges, ("nodes.csv", &wrong)]).refusal();
    assert!(
        text.contains("nodes.csv, line 5: expected true or false in a column of a mask")
            && text.contains("perhaps")
    );
    // A table of parts, and a column for them, go before masks.
    let split = ("split.csv", "id,split\n0,test\n1,val\n2,train\n3,train\n4,train\n");
    let plain = nodes("train_mask,val_mask,test_mask")
        .replace(",1,0\n", ",True,False\n")
        .replace("no,no,yes", "False,False,True")
        .replace(",0,0,0", ",False,False,False");
    let folder = Folder::new(&[edges, split, ("nodes.csv", &plain)]);
    assert_eq!(folder.read().split.test, [0]);
}

#[test]
fn a_document_of_names_alone_says_which_attributes_it_has() {
    let node = |id: u32| format!("node [ id {id} nick \"n{id}\" mail \"{id}@firm\" ]\n");
    // More words than a category has.
    let nodes: String = (0..70).map(node).collect();
    let text = format!("graph [\n{nodes}edge [ source 0 target 1 ]\nedge [ source 2 target 3 ]\n]\n");
    let folder = Folder::new(&[("g.gml", &text)]);
    let error = open(&folder.path("g.gml"), None).unwrap_err().to_string();
    assert!(error.contains("found only nick, mail") && error.contains("data.toml"), "{error}");
}

#[test]
fn other_formats_have_the_lines_that_convert_them() {
    for (name, words) in [
        ("a.mat", "scipy.io"),
        ("a.pt", "torch.load"),
        ("a.pkl", "pickle.load"),
        #[cfg(not(feature = "parquet"))]
        ("a.parquet", "pip install eciton, or cargo build --release --features parquet"),
        #[cfg(not(feature = "parquet"))]
        ("a.feather", "read_feather"),
    ] {
        let folder = Folder::new(&[(name, "x")]);
        for text in [open(&folder.path(name), None).unwrap_err().to_string(), folder.refusal()] {
            assert!(text.contains(words) && text.lines().count() >= 2, "{text}");
        }
    }
}

/// Random columns of one kind each, as a table of text and as they have to be read.
#[test]
fn kinds_of_columns_survive_their_text() {
    let seed = 46_018;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for case in 0..60 {
        let rows = 8 + random.below(120) as usize;
        let kinds: Vec<Kind> = (0..1 + random.below(6))
            .map(|_| {
                [Kind::Number, Kind::Boolean, Kind::Date, Kind::Category, Kind::Hashed]
                    [random.below(5) as usize]
            })
            .collect();
        let gaps = random.below(2) == 1;
        let cell = |kind: Kind, at: usize, random: &mut SplitMix64| match kind {
            _ if gaps && at > 3 && random.below(5) == 0 => {
                ["", "NA", "nan"][random.below(3) as usize].to_owned()
            }
            Kind::Number => format!("{}", (random.below(2_000_001) as f64 - 1e6) / 64.0),
            Kind::Boolean => ["true", "False", "YES", "no"][random.below(4) as usize].to_owned(),
            Kind::Date => {
                format!("20{:02}-{:02}-{:02}", random.below(100), 1 + random.below(12), 1 + random.below(28))
            }
            Kind::Category => format!("w{}, \"x\"", random.below(9)),
            // At most half of the rows may have words of their own.
            _ => format!("w{}", at / 2),
        };
        let columns: Vec<Vec<String>> =
            kinds.iter().map(|&kind| (0..rows).map(|at| cell(kind, at, &mut random)).collect()).collect();
        let mut writer = csv::Writer::from_writer(Vec::new());
        let header =
            (0..kinds.len()).map(|at| format!("c{at}")).chain(["word".to_owned(), "label".to_owned()]);
        writer.write_record(header).unwrap();
        for at in 0..rows {
            let fields = columns.iter().map(|column| column[at].clone());
            writer.write_record(fields.chain(["w".to_owned(), (at % 2).to_string()])).unwrap();
        }
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        let folder = Folder::new(&[("t.csv", &text)]);
        let set =
            open(&folder.path("t.csv"), None).unwrap_or_else(|error| panic!("case {case}: {error}\n{text}"));
        assert!(matches!(set.labels, Labels::Classes { count: 2, .. }));
        let table = set.encoded.unwrap().table;
        for ((kind, fields), read) in kinds.iter().zip(&columns).zip(&table.columns) {
            let distinct: std::collections::HashSet<&String> =
                fields.iter().filter(|field| !["", "NA", "nan"].contains(&field.as_str())).collect();
            let known = fields.iter().filter(|field| !["", "NA", "nan"].contains(&field.as_str())).count();
            let expected = match kind {
                Kind::Hashed if distinct.len() <= 64 => Kind::Category,
                Kind::Hashed if distinct.len() * 2 > known => Kind::Ignored,
                kind => *kind,
            };
            assert_eq!(read.kind, expected, "case {case}\n{text}");
            match &read.cells {
                Cells::Words { codes, words } if expected != Kind::Ignored => {
                    for (field, &code) in fields.iter().zip(codes) {
                        let word = words.get(code as usize).map_or("", String::as_str);
                        let missing = ["", "NA", "nan"].contains(&field.as_str());
                        assert_eq!(word, if missing { "" } else { field }, "case {case}");
                    }
                }
                Cells::Numbers(numbers) if expected == Kind::Number => {
                    for (field, number) in fields.iter().zip(numbers) {
                        match field.parse::<f64>().ok().filter(|value| !value.is_nan()) {
                            Some(value) => assert_eq!(number.value(), value, "case {case}"),
                            None => assert!(number.rounded.is_nan(), "case {case}"),
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

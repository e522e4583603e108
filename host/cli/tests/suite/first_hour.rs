//! The first hour with one's own data: tables of people with words and gaps, graphs, and ids.

use std::fmt::Write as _;
use std::path::Path;

use eciton_graph::random::SplitMix64;

use crate::common::{eciton, works};

/// A company: 120 people of 4 departments, most of whose contacts are in the same one.
struct Company {
    people: Vec<[String; 6]>,
    edges: Vec<(usize, usize, String)>,
}

const DEPARTMENTS: [&str; 4] = ["Sales", "R&D", "Legal", "Human Resources"];

impl Company {
    fn new() -> Self {
        let mut random = SplitMix64::new(46);
        let people = (0..120).map(|at| {
            let name = if at % 7 == 0 { format!("\"Person {at}, Jr.\"") } else { format!("person-{at}") };
            let age = if at % 11 == 3 {
                String::new()
            } else {
                (30 + at / 4 + random.below(9) as usize).to_string()
            };
            let city = ["Berlin", "Paris", "\u{141}\u{f3}d\u{17a}", ""][random.below(4) as usize].to_owned();
            let remote = ["True", "False"][random.below(2) as usize].to_owned();
            let joined = format!("20{:02}-{:02}-01", 10 + at % 9, 1 + random.below(12));
            let department = if at % 4 == 1 { String::new() } else { DEPARTMENTS[at / 30].to_owned() };
            [name, age, city, remote, joined, department]
        });
        let people = people.collect();
        let mut edges = Vec::new();
        for at in 0..120 {
            for _ in 0..4 {
                edges.push((at, at / 30 * 30 + random.below(30) as usize, format!("{}.5", random.below(9))));
            }
            edges.push((at, random.below(120) as usize, "0.5".to_owned()));
        }
        edges.retain(|(source, target, _)| source != target);
        Self { people, edges }
    }

    /// Rows of some columns of the people.
    fn table(&self, header: &str, columns: &[usize]) -> String {
        let mut text = format!("{header}\n");
        for person in &self.people {
            let fields: Vec<&str> = columns.iter().map(|&at| person[at].as_str()).collect();
            writeln!(text, "{}", fields.join(",")).unwrap();
        }
        text
    }

    fn edges(&self) -> String {
        let mut text = "from,to,hours,channel\n".to_owned();
        for (source, target, hours) in &self.edges {
            writeln!(text, "{},{},{hours},mail", self.people[*source][0], self.people[*target][0]).unwrap();
        }
        text
    }
}

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn train(folder: &Path, data: &str, further: &[&str]) -> serde_json::Value {
    let line = ["train", data, "--epochs", "60", "--json", "--no-out"];
    let out = works(folder, &[&line[..], further].concat());
    out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()).next_back().unwrap()
}

const PEOPLE: &str = "person,age,city,remote,joined";

#[test]
fn a_folder_of_people_with_words_and_gaps_trains() {
    let (place, company) = (tempfile::tempdir().unwrap(), Company::new());
    let folder = place.path();
    write(folder, "firm/features.csv", &company.table(PEOPLE, &[0, 1, 2, 3, 4]));
    write(folder, "firm/labels.csv", &company.table("person,department", &[0, 5]));
    write(folder, "firm/edges.csv", &company.edges());
    write(folder, "one/nodes.csv", &company.table(&format!("{PEOPLE},department"), &[0, 1, 2, 3, 4, 5]));
    write(folder, "one/edge.csv", &company.edges());
    write(folder, "one/unused.csv", "a,b\n1,2\n");
    for data in ["firm", "one"] {
        let found = train(folder, data, &[]);
        assert!(found["test_metric"].as_f64().unwrap() > 0.6, "{data}: {found}");
    }
    let (_, out, err) = eciton(folder, &["train", "one", "--epochs", "1", "--no-out"]);
    assert!(err.contains("warning") && err.contains("files not used: unused.csv"), "{err}");
    assert!(err.contains("the last column, department, was read as the labels"), "{err}");
    assert!(out.contains("each column scaled to mean 0 and standard deviation 1"), "{out}");
    let stat = works(folder, &["data", "stat", "one"]);
    for line in [
        "column age: number, ",
        "column city: category, 3 values",
        "column remote: boolean",
        "column joined: date",
    ] {
        assert!(stat.contains(line), "{line}: {stat}");
    }
    // A frame with its index is refused with the reason.
    let indexed: String = (0..)
        .zip(company.edges().lines())
        .map(|(at, line)| match at {
            0 => format!(",{line}\n"),
            at => format!("{},{line}\n", at - 1),
        })
        .collect();
    write(folder, "indexed/edges.csv", &indexed);
    let (code, _, err) = eciton(folder, &["train", "indexed"]);
    assert!(code != Some(0) && err.contains("as pandas writes its index"), "{err}");
}

#[test]
fn a_table_predicts_for_new_rows() {
    let (place, company) = (tempfile::tempdir().unwrap(), Company::new());
    let folder = place.path();
    let header = "person,age,city,remote,joined,department";
    write(folder, "people.csv", &company.table(header, &[0, 1, 2, 3, 4, 5]));
    let flags = ["--label", "department", "--epochs", "40", "--out", "run"];
    works(folder, &[&["train", "people.csv"][..], &flags].concat());
    write(
        folder,
        "new.csv",
        "person,city,joined,age,remote\nann,Rome,2012-03-01,,True\nbob,Paris,2018-01-01,55,no\n",
    );
    let (code, out, err) = eciton(folder, &["predict", "run", "new.csv"]);
    assert_eq!(code, Some(0), "{err}");
    let rows: Vec<&str> = out.lines().collect();
    assert!(rows.len() == 3 && rows[1].starts_with("ann,") && rows[2].starts_with("bob,"), "{out}");
    assert!(err.contains("column city: 1 rows have values that no training row has (\"Rome\")"), "{err}");
    write(folder, "bad.csv", "city,joined,age,remote,person\nRome,2012-03-01,old,True,ann\n");
    let (code, _, err) = eciton(folder, &["predict", "run", "bad.csv"]);
    assert!(
        code != Some(0) && err.contains("bad.csv, line 2: expected a finite number in column age"),
        "{err}"
    );
    // The same rows as in training have the same predictions.
    let own = works(folder, &["predict", "run"]);
    let again = works(folder, &["predict", "run", "people.csv"]);
    assert_eq!(own, again);
    // An edited data.toml changes the reading.
    let written = works(folder, &["data", "init", "people.csv", "--label", "department"]);
    assert!(
        written.contains("\"city\" = \"category\"") && written.contains("\"department\" = \"label\""),
        "{written}"
    );
    let (code, _, err) = eciton(folder, &["data", "init", "people.csv"]);
    assert!(code != Some(0) && (err.contains("exists already") || err.contains("already exists")), "{err}");
    let text = std::fs::read_to_string(folder.join("data.toml")).unwrap();
    write(folder, "data.toml", &text.replace("\"city\" = \"category\"", "\"city\" = \"ignore\""));
    let stat = works(folder, &["data", "stat", "people.csv"]);
    assert!(!stat.contains("city=Paris") && stat.contains("Human Resources"), "{stat}");
}

#[test]
fn graphs_keep_their_edges_and_ids() {
    let (place, company) = (tempfile::tempdir().unwrap(), Company::new());
    let folder = place.path();
    let mut matrix =
        format!("%%MatrixMarket matrix coordinate pattern general\n120 120 {}\n", company.edges.len());
    let (mut gml, mut labels) = ("graph [\n".to_owned(), "id,department\n".to_owned());
    for (at, person) in company.people.iter().enumerate() {
        let [name, age, city, .., department] = person;
        let age = if age.is_empty() { String::new() } else { format!("age {age}") };
        let name = name.trim_matches('"');
        writeln!(gml, "node [ id {at} label \"{name}\" {age} city \"{city}\" department \"{department}\" ]")
            .unwrap();
        writeln!(labels, "{at},{department}").unwrap();
    }
    for (source, target, hours) in &company.edges {
        writeln!(matrix, "{} {}", source + 1, target + 1).unwrap();
        writeln!(gml, "edge [ source {source} target {target} weight {hours} ]").unwrap();
    }
    write(folder, "firm.gml", &(gml + "]\n"));
    write(folder, "matrix/g.mtx", &matrix);
    write(folder, "matrix/labels.csv", &labels);
    let found = train(folder, "firm.gml", &["--label", "department"]);
    assert!(found["test_metric"].as_f64().unwrap() > 0.6, "{found}");
    let found = train(folder, "matrix", &[]);
    assert!(found["test_metric"].as_f64().unwrap() > 0.6, "{found}");
    let stat = works(folder, &["data", "stat", "matrix"]);
    assert!(stat.contains("count vertices from 0, so vertex 0 is vertex 1 of the graph file"), "{stat}");
    write(folder, "a.parquet", "PAR1");
    let (_, _, err) = eciton(folder, &["train", "a.parquet"]);
    // The first is of builds without the feature.
    assert!(err.contains("pandas.read_parquet") || err.contains("expected a complete Parquet"), "{err}");
}

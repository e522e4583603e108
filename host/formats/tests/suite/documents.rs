//! GML, GraphML and node-link JSON.

use eciton_formats::{Request, open, open_with};
use eciton_graph::dataset::{Dataset, VertexIds};

fn read(name: &str, text: &str) -> Result<Dataset, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    open(&path, None).map_err(|error| error.to_string())
}

const GML: &str = r#"Creator "networkx"
graph [
  directed 0
  # a comment
  name "firm [1]"
  node [ id 0 label "ann &amp; co" age 40.5 city "B&#246;blingen" graphics [ x 1 y 2 ] team "a" ]
  node [ id 1 label "bob" age 30 city "Ulm" graphics [ x 3 y 4 ] team "b" ]
  node [ id 2 label "cyn" city "Ulm" graphics [ x 5 y 6 ] team "a" ]
  node [ id 7 label "dan" age 20 city "Ulm" graphics [ x 5 y 6 ] team "b" ]
  edge [ source 0 target 1 weight 2 ]
  edge [ source 1 target 2 weight 0.5 key 0 ]
  edge [ source 2 target 7 weight 1 ]
]
"#;

const GRAPHML: &str = r#"<?xml version="1.0"?>
<!-- firm -->
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="age" attr.type="double"/>
  <key id="d1" for="node" attr.name="city" attr.type="string"><default>Ulm</default></key>
  <key id="d2" for="node" attr.name="team" attr.type="string"/>
  <key id="d3" for="edge" attr.name="weight" attr.type="double"/>
  <key id="d4" for="node" attr.name="graphics.x"/><key id="d5" for="node" attr.name="graphics.y"/>
  <graph edgedefault="undirected">
    <node id="ann &amp; co"><data key="d0">40.5</data><data key="d1">B&#xF6;blingen</data><data key="d4">1</data>
      <data key="d5">2</data><data key="d2">a</data></node>
    <node id="bob"><data key="d0">30</data><data key="d4">3</data><data key="d5">4</data><data key="d2">b</data></node>
    <node id="cyn"><data key="d4">5</data><data key="d5">6</data><data key="d2"><![CDATA[a]]></data></node>
    <node id='dan'><data key="d0">20</data><data key="d4">5</data><data key="d5">6</data><data key="d2">b</data></node>
    <edge source="ann &amp; co" target="bob"><data key="d3">2</data></edge>
    <edge source="bob" target="cyn"><data key="d3">0.5</data></edge>
    <edge source="cyn" target="dan"><data key="d3">1</data></edge>
  </graph>
</graphml>
"#;

const JSON: &str = r#"{"directed": false, "multigraph": false, "graph": {"a": [1]}, "nodes": [
  {"age": 40.5, "city": "B\u00f6blingen", "graphics": {"x": 1, "y": 2}, "team": "a", "id": "ann & co"},
  {"age": 30, "city": "Ulm", "graphics": {"x": 3, "y": 4}, "team": "b", "id": "bob"},
  {"age": NaN, "city": "Ulm", "graphics": {"x": 5, "y": 6}, "team": "a", "id": "cyn"},
  {"age": 20, "city": "Ulm", "graphics": {"x": 5, "y": 6}, "team": "b", "id": "dan"}],
 "links": [{"source": "ann & co", "target": "bob", "weight": 2}, {"source": "bob", "target": "cyn", "weight": 0.5},
  {"source": "cyn", "target": "dan", "weight": 1}]}"#;

#[test]
fn three_formats_of_one_graph_are_one_data_set() {
    let sets = [("firm.gml", GML), ("firm.graphml", GRAPHML), ("firm.json", JSON)].map(|(name, text)| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let request = Request { label: Some("team"), ..Request::default() };
        open_with(&path, None, request).unwrap_or_else(|error| panic!("{name}: {error}"))
    });
    for set in &sets {
        assert_eq!(set.name, "firm");
        assert_eq!((set.vertices(), set.graph.edges()), (4, 6));
        assert_eq!(set.ids, VertexIds::Words(["ann & co", "bob", "cyn", "dan"].map(str::to_owned).to_vec()));
        assert_eq!(set.names.target, ["team"]);
        assert_eq!(set.names.edge_features, ["weight"]);
        assert_eq!(set.edge_features, sets[0].edge_features);
        assert_eq!(set.labels.as_classes().unwrap(), [0, 1, 0, 1]);
        let table = &set.encoded.as_ref().unwrap().table;
        let mut kinds: Vec<(&str, &str)> =
            table.columns.iter().map(|column| (column.name.as_str(), column.kind.name())).collect();
        kinds.sort_unstable();
        let expected =
            [("age", "number"), ("city", "category"), ("graphics.x", "number"), ("graphics.y", "number")];
        assert_eq!(kinds, expected);
    }
}

#[test]
fn nodes_without_attributes_and_files_beside() {
    let graph = "graph [ node [ id 3 ] node [ id 5 ] node [ id 9 ] edge [ source 3 target 5 ] ]";
    let set = read("g.gml", graph).unwrap();
    assert_eq!((set.vertices(), set.graph.edges(), set.ids), (3, 2, VertexIds::Numbers(vec![3, 5, 9])));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("g.gml"), graph).unwrap();
    std::fs::write(folder.path().join("nodes.csv"), "id,x,label\n3,1,a\n5,2,b\n9,3,a\n").unwrap();
    let set = open(folder.path(), None).unwrap();
    assert_eq!((set.graph.edges(), set.features.columns(), set.labels.width()), (2, 1, 2));
    // Links of d3 name nodes by position.
    let json = r#"{"nodes": [{"group": "x"}, {"group": "y"}, {"group": "x"}, {"group": "y"}],
        "links": [{"source": 0, "target": 2}]}"#;
    let set = read("g.json", json).unwrap();
    assert_eq!((set.vertices(), set.graph.edges(), set.names.target), (4, 2, vec!["group".to_owned()]));
}

#[test]
fn faults_of_documents_are_named_with_their_place() {
    for (name, text, words) in [
        ("a.gml", "graph [ node [ id 0 ]\n node [ label \"x\" ] ]", "a.gml, line 2: expected a node with id"),
        (
            "a.gml",
            "graph [ node [ id 0 ] edge [ source 0 target 1 ] ]",
            "edges, row 0: an edge names vertex 1",
        ),
        ("a.gml", "graph [ node [ id 0 ]", "line 1: expected a closing bracket ]"),
        ("a.gml", "graph [ node [ id \"0 ]", "expected a closing quote"),
        ("a.gml", "hello", "expected a value of the key hello"),
        ("a.gml", "name \"x\"", "expected one list `graph [ ... ]`, found 0"),
        ("a.gml", "graph [ node [ id 0 ] ]", "expected at least one edge, found 1 nodes"),
        ("a.graphml", "<a/>", "line 1: expected the element graphml, found \"a\""),
        ("a.graphml", "<graphml><!DOCTYPE x></graphml>", "document type declarations are not supported"),
        ("a.graphml", "<graphml><graph>\n<node/></graph></graphml>", "line 2: expected a node with an id"),
        ("a.graphml", "<graphml><graph><node id=\"1\"><graph/>", "expected a single graph"),
        ("a.graphml", "<graphml><graph><node id=1/>", "expected a quoted value"),
        ("a.graphml", "<graphml><graph><node id=\"1\">", "expected the end of the last element"),
        ("a.graphml", "<graphml><graph><hyperedge/>", "expected an edge between two nodes"),
        ("a.json", "{\"nodes\": [\n}", "a.json, line 2: expected JSON"),
        ("a.json", "{\"vertices\": []}", "found the keys vertices; write it with json.dump"),
        ("a.json", "{\"nodes\": [{\"id\": [1]}], \"links\": []}", "row 0: expected an id"),
        (
            "a.json",
            "{\"nodes\": [{\"id\": 1}], \"links\": [{\"source\": 1}]}",
            "links, row 0: expected an object with source",
        ),
    ] {
        let error = read(name, text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    let deep = format!("graph [ node [ id 0 {} ] ]", "a [ ".repeat(100_000));
    assert!(read("a.gml", &deep).unwrap_err().contains("lists of at most 64 levels"));
    let deep = format!("{{\"nodes\": {}", "[".repeat(100_000));
    assert!(read("a.json", &deep).unwrap_err().contains("expected JSON"));
}

#[test]
fn cut_documents_never_panic() {
    for (name, text) in [("a.gml", GML), ("a.graphml", GRAPHML), ("a.json", JSON)] {
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let _ = read(name, &text[..end]);
        }
    }
}

//! Reader for GraphML (Brandes et al. 2002, "GraphML progress report"). A document consists of
//! nodes, edges, and `data` elements, whose keys are declared once. Hyperedges, ports and nested
//! graphs are rejected.

use std::collections::HashMap;

use eciton_graph::error::Result;

use super::records::{Document, Records};
use super::xml::{Event, Events};

/// Node or edge whose XML element is being read.
enum Open {
    Node(String),
    Edge(String, String),
}

fn attribute(attributes: &[(&str, String)], name: &str) -> Option<String> {
    attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
}

pub(super) fn read(text: &str, file: &str) -> Result<Document> {
    let mut document = Document::default();
    let mut events = Events::new(text, file);
    // Names of the keys, and default values for nodes and edges.
    let mut names: HashMap<String, String> = HashMap::new();
    let mut defaults: HashMap<String, (String, String)> = HashMap::new();
    let (mut open, mut data, mut declared) =
        (None::<Open>, None::<(String, String)>, None::<(String, String)>);
    let (mut root, mut graphs, mut default) = (false, 0, None::<String>);
    while let Some(event) = events.next()? {
        match event {
            Event::Open("graphml", ..) => root = true,
            Event::Open(name, ..) if !root => return Err(events.wrong("the element graphml", name)),
            Event::Open("key", attributes, ends) => {
                let Some(id) = attribute(&attributes, "id") else {
                    return Err(events.wrong("a key with an id", "key"));
                };
                let name = attribute(&attributes, "attr.name").unwrap_or_else(|| id.clone());
                names.insert(id.clone(), name);
                let of = attribute(&attributes, "for").unwrap_or_default();
                declared = (!ends).then_some((id, of));
            }
            Event::Open("default", _, ends) => default = (!ends).then(String::new),
            Event::Open("graph", ..) => {
                graphs += 1;
                if graphs > 1 {
                    return Err(events.wrong("a single graph without nested graphs", "a second graph"));
                }
            }
            Event::Open("node", attributes, ends) => {
                let Some(id) = attribute(&attributes, "id") else {
                    return Err(events.wrong("a node with an id", "node"));
                };
                match ends {
                    true => document.nodes.end([id, String::new()]),
                    false => open = Some(Open::Node(id)),
                }
            }
            Event::Open("edge", attributes, ends) => {
                let both = attribute(&attributes, "source").zip(attribute(&attributes, "target"));
                let Some((source, target)) = both else {
                    return Err(events.wrong("an edge with source and target", "edge"));
                };
                match ends {
                    true => document.edges.end([source, target]),
                    false => open = Some(Open::Edge(source, target)),
                }
            }
            Event::Open("data", attributes, ends) => {
                let key = attribute(&attributes, "key").unwrap_or_default();
                data = (!ends).then_some((key, String::new()));
            }
            Event::Open("hyperedge", ..) => {
                return Err(events.wrong("an edge between two nodes", "hyperedge"));
            }
            Event::Open(..) => {}
            Event::Text(text) => {
                if let Some((_, value)) = &mut data {
                    value.push_str(&text);
                } else if let Some(value) = &mut default {
                    value.push_str(&text);
                }
            }
            Event::Close("default") => {
                if let (Some(value), Some((id, of))) = (default.take(), &declared) {
                    defaults.insert(id.clone(), (of.clone(), value.trim().to_owned()));
                }
            }
            Event::Close("key") => declared = None,
            Event::Close("data") => {
                if let Some((key, value)) = data.take() {
                    let name = names.get(&key).unwrap_or(&key);
                    let records = match open {
                        Some(Open::Node(_)) => Some(&mut document.nodes),
                        Some(Open::Edge(..)) => Some(&mut document.edges),
                        None => None,
                    };
                    if let Some(records) = records {
                        records.add(name, value.trim().to_owned());
                    }
                }
            }
            Event::Close("node") => {
                if let Some(Open::Node(id)) = open.take() {
                    fill(&mut document.nodes, "node", &names, &defaults);
                    document.nodes.end([id, String::new()]);
                }
            }
            Event::Close("edge") => {
                if let Some(Open::Edge(source, target)) = open.take() {
                    fill(&mut document.edges, "edge", &names, &defaults);
                    document.edges.end([source, target]);
                }
            }
            Event::Close(_) => {}
        }
    }
    match open.is_some() || data.is_some() {
        true => Err(events.wrong("the end of the last element", "the end of the file")),
        false => Ok(document),
    }
}

/// Adds the default values of attributes that the current record lacks. `of` is `node` or `edge`.
fn fill(
    records: &mut Records,
    of: &str,
    names: &HashMap<String, String>,
    defaults: &HashMap<String, (String, String)>,
) {
    let from = records.ends.last().copied().unwrap_or(0);
    for (id, (scope, value)) in defaults {
        if scope != of && scope != "all" {
            continue;
        }
        let key = records.key(names.get(id).unwrap_or(id));
        if !records.cells[from..].iter().any(|(known, _)| *known == key) {
            records.cells.push((key, value.clone()));
        }
    }
}

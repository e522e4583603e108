//! Reader for node-link JSON, as written by networkx and d3. A document has the form
//! `{"nodes": [{"id": ...}], "links": [{"source": ..., "target": ...}]}`, or `edges` instead of
//! `links`.
//!
//! Nodes are identified by their `id`, otherwise by their `name`, and otherwise by their position
//! (from 0). The ends of edges are ids, or positions if nodes have no id.

use eciton_graph::error::{Error, Place, Result};
use serde_json::Value;

use super::records::{Document, MAX_DEPTH, Records};

pub(super) fn read(text: &str, file: &str) -> Result<Document> {
    let parsed = serde_json::from_str(text).or_else(|error| match without_nan(text) {
        Some(text) => serde_json::from_str(&text),
        None => Err(error),
    });
    let root: Value = parsed.map_err(|error| {
        Error::malformed(Place::line(file, error.line() as u64), "JSON", error.to_string())
    })?;
    let list = |keys: &[&str]| keys.iter().find_map(|key| root.get(key)?.as_array());
    let (Some(nodes), Some(links)) = (list(&["nodes"]), list(&["links", "edges"])) else {
        return Err(Error::Malformed {
            place: Place::whole(file),
            expected: "node-link data: an object with the lists nodes, and links or edges".to_owned(),
            found: match &root {
                Value::Object(of) => {
                    format!("the keys {}", eciton_input::text::listed(&of.keys().collect::<Vec<_>>()))
                }
                _ => "another value".to_owned(),
            },
            remedy: "write it with json.dump(networkx.node_link_data(G), file)",
        });
    };
    let mut document = Document::default();
    let id_key = ["id", "name"].into_iter().find(|key| nodes.iter().all(|node| node.get(key).is_some()));
    for (at, node) in nodes.iter().enumerate() {
        let place = || Place::row(format!("{file}, nodes"), at as u64);
        let Value::Object(of) = node else {
            return Err(Error::malformed(place(), "an object", "another value"));
        };
        let id = match id_key {
            Some(key) => {
                word(&of[key]).ok_or_else(|| Error::malformed(place(), "an id", "a nested value"))?
            }
            None => at.to_string(),
        };
        for (key, value) in of.iter().filter(|(key, _)| Some(key.as_str()) != id_key) {
            add(&mut document.nodes, key, value, 0);
        }
        document.nodes.end([id, String::new()]);
    }
    for (at, link) in links.iter().enumerate() {
        let end = |key: &str| {
            // d3 replaces the ends of edges by the node objects.
            let value = link.get(key)?;
            word(value.get(id_key.unwrap_or("id")).unwrap_or(value)).filter(|id| !id.is_empty())
        };
        let (Some(source), Some(target)) = (end("source"), end("target")) else {
            let place = Place::row(format!("{file}, links"), at as u64);
            return Err(Error::malformed(place, "an object with source and target", "none"));
        };
        for (key, value) in link.as_object().into_iter().flatten() {
            if !["source", "target"].contains(&key.as_str()) {
                add(&mut document.edges, key, value, 0);
            }
        }
        document.edges.end([source, target]);
    }
    Ok(document)
}

/// Replaces each `NaN`, which Python writes for missing numbers, by `null`. Returns `None` if the
/// text contains no `NaN`.
fn without_nan(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut out, mut from, mut quoted, mut at) = (String::new(), 0, false, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' if quoted => at += 1,
            b'"' => quoted = !quoted,
            b'N' if !quoted && bytes[at..].starts_with(b"NaN") => {
                out.push_str(text.get(from..at)?);
                out.push_str("null");
                at += 2;
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(text.get(from..)?);
    (from > 0).then_some(out)
}

/// Converts a JSON value to the text of a table field. Returns `None` for arrays and objects.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(value) => Some(value.to_string()),
        Value::String(value) => Some(value.clone()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Adds a JSON value to the current record. Nested values are added separately, with their keys or
/// positions in the attribute's name.
fn add(records: &mut Records, name: &str, value: &Value, depth: usize) {
    match value {
        Value::Array(of) if depth < MAX_DEPTH => {
            of.iter()
                .enumerate()
                .for_each(|(at, value)| add(records, &format!("{name}.{at}"), value, depth + 1));
        }
        Value::Object(of) if depth < MAX_DEPTH => {
            of.iter().for_each(|(key, value)| add(records, &format!("{name}.{key}"), value, depth + 1));
        }
        value => records.add(name, word(value).unwrap_or_default()),
    }
}

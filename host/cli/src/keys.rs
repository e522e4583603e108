//! The command `eciton keys`, which prints the keys of recipes as a list, as a Markdown page, or as
//! a JSON Schema for editors.

mod python;

use std::sync::OnceLock;

use eciton_recipe::keys::{Bounds, Flag, KeyInfo, Kind};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output::Output;
use crate::text;

/// Arguments of `eciton keys`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Key or section, such as run.epochs or model [default: all keys]
    #[arg(value_name = "KEY|SECTION")]
    which: Option<String>,
    /// Print the JSON Schema of recipes, for editors
    #[arg(long, conflicts_with_all = ["json", "markdown", "which"])]
    schema: bool,
    /// Print a Markdown page with one table per section
    #[arg(long, conflicts_with_all = ["json", "which"])]
    markdown: bool,
    /// Print a generated file of the Python package: settings or stub
    #[arg(long, value_name = "FILE", hide = true)]
    python: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Prints the keys in the form that the arguments select.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if arguments.schema {
        output.line(format_args!("{:#}", schema()));
        return Ok(());
    }
    if arguments.markdown {
        output.line(page().trim_end());
        return Ok(());
    }
    match arguments.python.as_deref() {
        None => {}
        Some("settings") => {
            output.line(python::settings().trim_end());
            return Ok(());
        }
        Some("stub") => {
            output.line(python::stub().trim_end());
            return Ok(());
        }
        Some(other) => return Err(Failure::Usage(format!("--python {other}: expected settings or stub"))),
    }
    let all = all();
    let wanted = arguments.which.as_deref().unwrap_or("");
    let is_wanted = |info: &&KeyInfo| {
        wanted.is_empty() || info.key == wanted || section(info) == wanted || info.name() == wanted
    };
    let found: Vec<&KeyInfo> = all.iter().filter(is_wanted).collect();
    if found.is_empty() {
        let names = all.iter().flat_map(|info| [section(info), info.key.as_str()]);
        let advice =
            text::nearest(wanted, names).map_or(String::new(), |k| format!(" (did you mean `{k}`?)"));
        return Err(Failure::Usage(format!("unknown key or section `{wanted}`{advice}")));
    }
    for info in found {
        if arguments.json {
            output.json(&line(info));
            continue;
        }
        output.line(&info.key);
        let default = match info.default_text() {
            "" => String::new(),
            default => format!(" [default: {default}]"),
        };
        let flag = info.flag.map_or(String::new(), |flag| format!(" (--{})", flag.name));
        output.line(format_args!("    {}{default}{flag}", info.text()));
    }
    Ok(())
}

/// Returns the keys that have a command-line flag, each with its flag, sorted by group of the help
/// text.
pub(crate) fn flagged() -> &'static [(Flag, KeyInfo)] {
    static ALL: OnceLock<Vec<(Flag, KeyInfo)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let keys = eciton_recipe::keys().into_iter();
        let mut all: Vec<_> = keys.filter_map(|info| Some((info.flag?, info))).collect();
        all.sort_by_key(|(flag, _)| flag.group);
        all
    })
}

/// Returns all keys of recipes, followed by the keys of single layers.
fn all() -> Vec<KeyInfo> {
    let mut all = eciton_recipe::keys();
    all.extend(eciton_recipe::layer_keys());
    all
}

/// Returns the section of a key, for instance `run` for `run.epochs`.
fn section(info: &KeyInfo) -> &str {
    info.key.rsplit_once('.').map_or("", |(section, _)| section)
}

/// Returns the description of a key as JSON, for `eciton keys --json`.
fn line(info: &KeyInfo) -> Value {
    json!({
        "key": info.key,
        "help": info.help,
        "values": info.kind.text(info.name()),
        "type": type_of(&info.kind),
        "default": info.default,
        "absent": info.absent,
        "flag": info.flag.map(|flag| format!("--{}", flag.name)),
        "synonyms": info.synonyms,
    })
}

/// Returns the name of the type of a key's values, for instance `list of integers`.
fn type_of(kind: &Kind) -> &'static str {
    match kind {
        Kind::Integer(..) => "integer",
        Kind::IntegerOrAuto(..) => "integer or auto",
        Kind::Integers(..) | Kind::FanOuts(_) | Kind::Layers => "list of integers",
        Kind::Number(_) => "number",
        Kind::Flag => "boolean",
        Kind::Text(_) => "text",
        Kind::Choice(_) => "choice",
        Kind::Open(..) => "choice or other",
        Kind::Other(_) => "other",
    }
}

/// Returns the JSON Schema of recipes (draft 7).
pub(crate) fn schema() -> Value {
    let mut sections: Map<String, Value> = Map::new();
    for info in eciton_recipe::keys() {
        let (section, name) = info.key.split_once('.').unwrap_or(("", &info.key));
        let entry = sections
            .entry(section)
            .or_insert_with(|| json!({"type": "object", "additionalProperties": false, "properties": {}}));
        match name {
            "NAME" => entry["additionalProperties"] = property(&info),
            _ => entry["properties"][name] = property(&info),
        }
    }
    let layers: Map<String, Value> =
        eciton_recipe::layer_keys().iter().map(|info| (info.name().to_owned(), property(info))).collect();
    let layer = json!({"type": "object", "additionalProperties": false, "properties": layers});
    let count = json!({"type": "integer", "minimum": 1});
    if let Some(model) = sections.get_mut("model") {
        let layers = &mut model["properties"]["layers"];
        layers["anyOf"] = json!([count, {"type": "array", "minItems": 1, "items": layer}]);
    }
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Recipe of Eciton",
        "type": "object",
        "additionalProperties": false,
        "properties": sections,
    })
}

/// Returns the JSON Schema of the values of a key.
fn property(info: &KeyInfo) -> Value {
    let whole = |least: u64, most: u64| json!({"type": "integer", "minimum": least, "maximum": most});
    let list = |item: Value| json!({"anyOf": [item, {"type": "array", "items": item}, {"type": "string"}]});
    let mut schema = match info.kind {
        Kind::Integer(least, most) => whole(least, most),
        Kind::IntegerOrAuto(least, most) => json!({"anyOf": [whole(least, most), {"const": "auto"}]}),
        Kind::Integers(least, most) => list(whole(least, most)),
        Kind::FanOuts(most) => list(json!({"anyOf": [whole(1, u64::from(most)), {"const": -1}]})),
        Kind::Layers => list(json!({"type": "integer", "minimum": 0})),
        Kind::Number(bounds) => number(bounds),
        Kind::Flag => json!({"type": "boolean"}),
        Kind::Text(_) => json!({"type": "string", "minLength": 1}),
        // `normalise_features` also takes true and false.
        Kind::Choice(names) if info.key == "data.normalise_features" => {
            json!({"anyOf": [{"enum": names()}, {"type": "boolean"}]})
        }
        Kind::Choice(names) => json!({"enum": names()}),
        Kind::Open(..) | Kind::Other(_) => json!({}),
    };
    schema["description"] = info.text().into();
    if let Some(default) = info.default.as_deref().and_then(json_of) {
        schema["default"] = default;
    }
    schema
}

/// Returns the JSON Schema of a number within the given bounds.
fn number(bounds: Bounds) -> Value {
    let mut schema = json!({"type": "number"});
    if bounds.least.is_finite() {
        schema[if bounds.above { "exclusiveMinimum" } else { "minimum" }] = bounds.least.into();
    }
    if bounds.most.is_finite() {
        schema[if bounds.below { "exclusiveMaximum" } else { "maximum" }] = bounds.most.into();
    }
    schema
}

/// Converts the text of a TOML value to JSON. Returns `None` if the text is not a TOML value.
fn json_of(text: &str) -> Option<Value> {
    let table: toml::Table = format!("value = {text}").parse().ok()?;
    serde_json::to_value(table.get("value")?).ok()
}

/// Returns the reference page of all keys in Markdown, for `eciton keys --markdown`.
fn page() -> String {
    let mut page = String::from(
        "# Keys of recipes\n\nA recipe is a TOML file with these sections. `--set section.key=value` sets one key.\n",
    );
    let mut before = String::new();
    for info in all() {
        if section(&info) != before {
            before = section(&info).to_owned();
            page.push_str(&format!(
                "\n## {before}\n\n| key | meaning | values | default | flag |\n| --- | --- | --- | --- | --- |\n"
            ));
        }
        let cell = |text: &str| text.replace('|', "\\|");
        let values = match info.kind.short(info.name()) {
            values if values.is_empty() => info.kind.text(info.name()),
            values => values,
        };
        let flag = info.flag.map_or(String::new(), |flag| format!("`--{}`", flag.name));
        page.push_str(&format!(
            "| `{}` | {} | {} | {} | {flag} |\n",
            info.name(),
            cell(info.help),
            cell(&values),
            cell(info.default_text())
        ));
    }
    page
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_schema_has_every_key_and_every_shipped_recipe_has_only_keys_of_it() {
        let schema = schema();
        let sections = schema["properties"].as_object().unwrap();
        let keys: usize =
            sections.values().map(|section| section["properties"].as_object().unwrap().len()).sum();
        assert_eq!(keys + 1, eciton_recipe::keys().len());
        for text in crate::recipes::texts() {
            let table: toml::Table = text.parse().unwrap();
            for (section, inner) in &table {
                for name in inner.as_table().unwrap().keys() {
                    assert!(sections[section]["properties"].get(name).is_some(), "{section}.{name}");
                }
            }
        }
    }

    #[test]
    fn pages_and_lines_have_every_key() {
        let page = page();
        for info in all() {
            assert!(page.contains(&format!("| `{}` |", info.name())), "{}", info.key);
            assert_eq!(line(&info)["key"], info.key.as_str());
        }
    }
}

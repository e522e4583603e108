//! The keys of `[data]`.

use super::key::{Group, Key, Kind, Write, key, names, value};
use crate::config::{Data, MAX_SEQUENCE, NormaliseFeatures, SelfLoops, Tokens};
use crate::document::{Field, Found};
use crate::error::Result;
use crate::objective::TaskType;

type To = Data;

pub(super) const DATA: &[Key<Data>] = &[
    key("source", "Data set's name, or the path of a data set", value!(text("a data set's name or a path") => source))
        .also(&["dataset", "path"]),
    key("name", "Name of the data set, if a folder holds several", value!(some text("a data set's name") => name))
        .also(&["subset"]),
    key("label", "Column of a table that holds the labels", value!(some text("the name of a column") => label))
        .also(&["target", "label_column", "y"])
        .absent("the column label, target, class or y, else the last column")
        .flag("label", "COLUMN", Group::Data),
    key("edge_label", "Column of a table of edges that holds the labels of edges, which the model then learns", value!(some text("the name of a column") => edge_label))
        .also(&["edge_labels", "edge_target"])
        .absent("labels of vertices or graphs are learnt")
        .flag("edge-label", "COLUMN", Group::Data),
    key("normalise_features", "Scaling of the features. rows: each row divided by its sum; columns: mean 0 and standard deviation 1 over the training rows", NORMALISE)
        .also(&["normalize_features"])
        .absent("rows for a graph whose features are counts, else none"),
    key("task", "Task that the labels define, or link-prediction", value!(some choice(TaskType::ALL) => task))
        .also(&["task_type"])
        .absent("the task that the labels look like")
        .flag("task", "TYPE", Group::Data),
    key("self_loops", "Treatment of edges from a vertex to itself", value!(some choice(SelfLoops::ALL) => self_loops))
        .also(&["keep_self_loops", "loops", "remove_self_loops"])
        .absent("dropped, except that a store keeps those that it contains"),
    key("without_edges", "Permission to train a graph model on a data set without edges", value!(flag => without_edges))
        .also(&["allow_empty_graph", "empty_graph"]).absent("false"),
    key("split", "Split of the labelled rows or graphs into training, validation and test", SPLIT)
        .also(&["splits", "folds", "fold", "train_ratio"])
        .absent("the data set's own split")
        .flag("split", "RULE", Group::Data),
    key("split_seed", "Random seed of the split, the same for all seeds of a run", value!(integer(0, i64::MAX as u64) => split_seed))
        .absent("0").flag("split-seed", "SEED", Group::Data),
    key("sequence", "Number of rows of a sequence, which stay together and in order. For a text, these are tokens", value!(some integer32(2, MAX_SEQUENCE) => sequence))
        .also(&["group", "context", "block_size", "seq_len", "sequence_length"])
        .absent("each row stands alone")
        .flag("sequence", "ROWS", Group::Data),
    key("tokens", "Unit of a text that is one token", value!(choice(Tokens::ALL) => tokens))
        .also(&["tokenizer", "vocabulary"]).absent("characters"),
];

const NORMALISE: (Kind, Write<Data>) =
    (Kind::Choice(|| [names(&NormaliseFeatures::ALL), vec!["auto"]].concat()), |data, field, kind| {
        data.normalise_features = match &field.value {
            Found::Flag(true) => Some(NormaliseFeatures::Rows),
            Found::Flag(false) => Some(NormaliseFeatures::None),
            Found::Text(text) if text == "auto" => None,
            _ => {
                let refuse = |_| field.refuse(kind.text(&field.name));
                Some(field.choice(&NormaliseFeatures::ALL).map_err(refuse)?)
            }
        };
        Ok(())
    });

const SPLIT: (Kind, Write<Data>) = (
    Kind::Other(
        "shares of each class such as [0.6, 0.2, 0.2], or a rule: random:0.6/0.2/0.2, stratified:0.6/0.2/0.2 (of each class), per-class:20/500/1000 (20 training rows of each class), folds:5/0 (fold 0 of 5 is the test part, the next one validates), stratified-folds:5/0",
    ),
    |data, field, _| {
        data.split = Some(split(field)?.parse().map_err(|form: String| field.refuse(form))?);
        Ok(())
    },
);

/// Returns the text of a split rule. The field may also be a list of shares, which are joined with
/// commas.
fn split(field: &Field) -> Result<String> {
    let share = |share: &Found| match share {
        Found::Integer(share) => Some(share.to_string()),
        Found::Number(share) => Some(share.to_string()),
        _ => None,
    };
    let shares = match &field.value {
        Found::List(shares) => shares.iter().map(share).collect::<Option<Vec<String>>>(),
        _ => None,
    };
    match shares {
        Some(shares) => Ok(shares.join(",")),
        None => field.text("shares such as [0.6, 0.2, 0.2], or a rule such as \"random:0.6/0.2/0.2\""),
    }
}

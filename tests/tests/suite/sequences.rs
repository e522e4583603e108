//! Rows without a graph in batches: how a batch is cut changes no bit, and sequences stay whole.

use eciton_recipe::{Config, Data};
use eciton_tests::{options, train};

fn config(source: &str, settings: &[&str]) -> Config {
    let mut config =
        Config { data: Data { source: source.to_owned(), ..Data::default() }, ..Config::default() };
    (config.run.epochs, config.run.threads) = (2, Some(2));
    settings.iter().for_each(|setting| config.set(setting).unwrap());
    config
}

fn digest(source: &str, settings: &[&str]) -> String {
    train(&config(source, settings), &options()).unwrap().0.model_digest
}

fn refused(source: &str, settings: &[&str]) -> String {
    train(&config(source, settings), &options()).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn parts_of_a_batch_of_rows_change_no_bit() {
    // The last batch has 413 rows: its atoms are shorter.
    let whole = ["model.kind=mlp", "model.hidden=24", "batch.rows=1024", "model.norm=layer"];
    let wanted = digest("digits", &whole);
    for other in [
        &["batch.micro=2"][..],
        &["batch.micro=5", "run.threads=1"],
        &["batch.micro=8", "executor.fuse=auto"],
        &["batch.micro=3", "batch.prefetch=0"],
        &["batch.micro=5", "executor.kind=loopback"],
        &["batch.micro=2", "executor.kind=loopback", "executor.fuse=auto"],
    ] {
        assert_eq!(digest("digits", &[&whole[..], other].concat()), wanted, "{other:?}");
    }
    assert_ne!(
        digest("digits", &["model.kind=mlp", "model.hidden=24", "batch.rows=160", "model.norm=layer"]),
        wanted
    );
}

#[test]
fn a_batch_may_have_fewer_rows_than_parts_have_atoms() {
    // 1437 = 1430 + 7 rows: the last batch has fewer rows than a batch has atoms.
    let whole = ["model.kind=mlp", "batch.rows=1430"];
    let wanted = digest("digits", &whole);
    assert_eq!(digest("digits", &[&whole[..], &["batch.micro=4"]].concat()), wanted);
    assert_eq!(digest("digits", &[&whole[..], &["batch.micro=8"]].concat()), wanted);
}

#[test]
fn more_parts_than_a_batch_has_are_refused_with_the_possible_numbers() {
    for (rows, most, possible) in [
        (1430, 128, "a number from 1 to 128,"),
        (512, 64, "a number from 1 to 64,"),
        (511, 32, "a number from 1 to 32,"),
        (15, 1, "1,"),
    ] {
        let (batch, more) = (format!("batch.rows={rows}"), format!("batch.micro={}", most + 1));
        let text = refused("digits", &["model.kind=mlp", &batch, &more]);
        for words in
            [format!("an update of {rows} rows has at most {most}"), format!("--micro to {possible}")]
        {
            assert!(text.contains(&words), "{rows}: {text}");
        }
    }
}

#[test]
fn what_would_tear_sequences_is_refused_in_words() {
    for (settings, words) in [
        (&["data.sequence=50"][..], "whole sequences of 50 rows"),
        (&["data.sequence=3", "batch.rows=100"], "a batch has whole sequences"),
        (&["data.sequence=3", "run.order=degree"], "stay in order"),
        (&["data.sequence=3", "batch.sampler=walk", "batch.rows=99"], "whole sequences"),
        (&["data.sequence=3", "data.split=stratified:0.5/0.2/0.2"], "draws whole sequences"),
    ] {
        let error = refused("digits", &[&["model.kind=mlp"], settings].concat());
        assert!(error.contains(words), "{settings:?}: {error}");
    }
}

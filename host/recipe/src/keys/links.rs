//! The keys of `[links]`.

use super::{Key, key};
use crate::links::Links;
use crate::model::MAX_WIDTH;

const SHARE: &str = "a share of the links: 0 <= share < 1";

fn is_share(value: f32) -> bool {
    (0.0..1.0).contains(&value)
}

pub(super) const LINKS: &[Key<Links>] = &[
    key(
        "embedding",
        &["dimensions", "out_features"],
        "columns of the rows whose inner products are scores: 1 to 65,536",
        |links, field| {
            links.embedding = field.integer32(1..=MAX_WIDTH)?;
            Ok(())
        },
    ),
    key(
        "validation",
        &["val", "val_ratio"],
        "the share of links that chooses between models: 0 <= share < 1",
        |links, field| {
            links.validation = field.number(SHARE, is_share)?;
            Ok(())
        },
    ),
    key(
        "test",
        &["test_ratio"],
        "the share of links that is reported: 0 <= share < 1, less than 1 with `validation`",
        |links, field| {
            links.test = field.number(SHARE, is_share)?;
            Ok(())
        },
    ),
    key(
        "seed",
        &["split_seed"],
        "what held-out links are drawn from, for all seeds of a run: 0 to 2^63 - 1",
        |links, field| {
            links.seed = field.integer(0..=i64::MAX as u64)?;
            Ok(())
        },
    ),
    key(
        "negatives",
        &["neg_ratio", "negative_samples"],
        "pairs without a link in the loss for each link, drawn anew each epoch: 1 to 1000",
        |links, field| {
            links.negatives = field.integer32(1..=1000)?;
            Ok(())
        },
    ),
    key(
        "compared",
        &["eval_negatives", "ranked_among"],
        "pairs without a link that each held-out link is compared with: 1 to 100,000; left out: 1, for ranks 100",
        |links, field| {
            links.compared = Some(field.integer32(1..=100_000)?);
            Ok(())
        },
    ),
];

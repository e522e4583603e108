//! The keys of `[links]`.

use super::key::{Bounds, Key, Kind, key, names, value};
use crate::document::Field;
use crate::links::{Links, NegativeSampler};
use crate::model::MAX_WIDTH;

type To = Links;

pub(super) const LINKS: &[Key<Links>] = &[
    key(
        "embedding",
        "Number of columns of the embeddings whose inner products are the scores of links",
        value!(integer32(1, MAX_WIDTH) => embedding),
    )
    .also(&["dimensions", "out_features"]),
    key(
        "validation",
        "Share of links of the validation part",
        value!(number(Bounds::SHARE_BELOW_1) => validation),
    )
    .also(&["val", "val_ratio"]),
    key(
        "test",
        "Share of links of the test part. With validation it is less than 1",
        value!(number(Bounds::SHARE_BELOW_1) => test),
    )
    .also(&["test_ratio"]),
    key(
        "seed",
        "Random seed of the held-out links, the same for all seeds of a run",
        value!(integer(0, i64::MAX as u64) => seed),
    )
    .also(&["split_seed"]),
    key(
        "negatives",
        "Number of vertex pairs without a link in the loss for each link, drawn anew in each epoch",
        value!(integer32(1, 1000) => negatives),
    )
    .also(&["neg_ratio", "negative_samples"]),
    key(
        "negative_sampler",
        "Distribution of the vertices of these pairs: uniform, or an end of the link and a vertex drawn by degree or among the ends of the micro-batch",
        value!(choice(NegativeSampler::ALL) => negative_sampler),
    )
    .also(&["neg_sampler", "train_negative_sampler"]),
    key(
        "compared",
        "Number of vertex pairs without a link that each held-out link is compared with",
        value!(some integer32(1, 100_000) => compared),
    )
    .also(&["eval_negatives", "ranked_among"])
    .absent("1; 100 for metrics of ranks"),
];

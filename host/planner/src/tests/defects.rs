//! Checks that the comparison with exhaustive search finds each planted defect within a thousand
//! graphs.

#![allow(clippy::print_stdout, clippy::disallowed_macros)]

use super::exhaustive::{finds_best_of_chain, finds_best_of_graph};
use crate::testing::{Planted, Random, plant};

/// Returns the number of the first graph whose best partition is not found.
fn first(defect: Option<Planted>, most: u32, finds: fn(&mut Random) -> bool) -> Option<u32> {
    let random = &mut Random::new(4510);
    plant(defect);
    let found = (0..most).find(|_| !finds(random));
    plant(None);
    found
}

#[test]
fn each_planted_defect_is_found() {
    type Finds = fn(&mut Random) -> bool;
    let all: [(Planted, Finds); 5] = [
        (Planted::PathOneShort, finds_best_of_chain),
        (Planted::LongRunsSkipped, finds_best_of_chain),
        (Planted::InputForgotten, finds_best_of_chain),
        (Planted::ReadTwice, finds_best_of_graph),
        (Planted::PathOneShort, finds_best_of_graph),
    ];
    for (defect, finds) in all {
        assert_eq!(first(None, 300, finds), None, "without a defect, seed 4510");
        let found = first(Some(defect), 1000, finds);
        println!("{defect:?}: graph {found:?}");
        assert!(found.is_some(), "{defect:?}, seed 4510: not found in 1000 graphs");
    }
}

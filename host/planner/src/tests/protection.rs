//! Protections against failures of workers, compared with values that are computed by hand.

use super::super::protection::{peers_loads, previous_loads};
use super::super::{Failures, Host, Lane, Machine, Protected, Protection, Wanted, protect};
use super::{LANE, chain, wanted};
use eciton_recipe::pipeline_schedule::PipelineSchedule;

const FAILURES: Failures = Failures {
    per_hour: 0.1,
    replaced_after: 600.0,
    usd_hour: 1.0,
    reliable_usd_hour: None,
    snapshot_link: 1e9,
};

fn machine() -> Machine {
    Machine { host: Some(Host { link: 1e9, memory: None }), ..Machine::equal(4, LANE) }
}

fn protected(failures: &Failures) -> Vec<Protected> {
    let of = Wanted { widths: vec![1, 2], ..wanted(16, &[PipelineSchedule::Flush], &[8, 16]) };
    protect(&chain(8), &machine(), &of, failures).unwrap()
}

fn cost(of: &Protected) -> f64 {
    of.usd_per_million_rows
}

#[test]
fn the_load_of_the_remaining_workers_is_that_of_the_formulas() {
    // A worker is missing half of the time. Of two workers, none is missing with probability 1/4.
    // The formula takes runs of workers for independent, so a run of two has 1 - (1 - 1/4)^2.
    assert_eq!(previous_loads(0.5, 2), [(0.25, 1.0), (0.3125, 2.0), (0.4375, 3.0)]);
    assert_eq!(previous_loads(0.0, 3), [(1.0, 1.0), (0.0, 2.0), (0.0, 3.0), (0.0, 4.0)]);
    // Two workers of one lane: none is missing with 1/4, one with 1/2, both with 1/4.
    assert_eq!(peers_loads(0.5, 2, 1), [(0.25, 1.0), (0.5, 2.0), (0.25, 3.0)]);
    assert_eq!(peers_loads(0.5, 2, 2), [(0.0625, 1.0), (0.5, 2.0), (0.4375, 3.0)]);
    for loads in [previous_loads(0.03, 48), peers_loads(0.03, 4, 12)] {
        assert!((loads.iter().map(|(share, _)| share).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}

#[test]
fn protections_are_ordered_by_costs_and_cost_nothing_without_failures() {
    let all = protected(&FAILURES);
    assert!(all.windows(2).all(|pair| cost(&pair[0]) <= cost(&pair[1])));
    let kinds = |kind: fn(&Protection) -> bool| all.iter().filter(|of| kind(&of.protection)).count();
    assert!(kinds(|of| matches!(of, Protection::Workers { replicas: 0, .. })) == 2, "{all:?}");
    assert!(kinds(|of| matches!(of, Protection::Workers { replicas: 1.., .. })) >= 2, "{all:?}");
    assert_eq!(kinds(|of| matches!(of, Protection::Host { .. })), 4);
    let steady = protected(&Failures { per_hour: 0.0, ..FAILURES });
    for of in &steady {
        // Redundant computation costs time at any rate.
        let least = if of.protection == (Protection::Host { redundant: true }) { 0.6 } else { 0.95 };
        let share = of.rows_a_second / of.plan.rows_a_second;
        assert!(share <= 1.0 && share > least, "{of:?}");
    }
    assert!(steady[0].rows_a_second > all[0].rows_a_second);
}

#[test]
fn rare_failures_need_rare_snapshots_and_frequent_ones_need_copies() {
    // A snapshot takes 10 s.
    let slow = Failures { snapshot_link: 3.2, ..FAILURES };
    let every = |per_hour: f64| {
        let all = protected(&Failures { per_hour, ..slow });
        let of = |of: &Protected| match of.protection {
            Protection::Workers { replicas: 0, every } if of.plan.shape.width == 1 => Some(every),
            _ => None,
        };
        all.iter().find_map(of).unwrap()
    };
    let found = [0.001, 0.01, 0.1].map(every);
    assert!(found[0] > found[1] && found[1] > found[2], "{found:?}");
}

#[test]
fn reliable_workers_are_chosen_if_they_cost_little_more() {
    let at = |usd| protected(&Failures { per_hour: 2.0, reliable_usd_hour: Some(usd), ..FAILURES });
    assert_eq!(at(1.05)[0].protection, Protection::Reliable);
    assert_ne!(at(30.0)[0].protection, Protection::Reliable);
}

#[test]
fn wrong_failures_are_refused_in_words() {
    let of = wanted(16, &[PipelineSchedule::Flush], &[8]);
    let refused =
        |failures: Failures| protect(&chain(8), &machine(), &of, &failures).unwrap_err().to_string();
    assert!(refused(Failures { per_hour: -1.0, ..FAILURES }).contains("failures per hour"));
    assert!(refused(Failures { snapshot_link: 0.0, ..FAILURES }).contains("bandwidth"));
    let small = Machine::equal(2, Lane { memory: Some(1.0), ..LANE });
    assert!(protect(&chain(8), &small, &of, &FAILURES).unwrap_err().to_string().contains("lane"));
}

#![allow(clippy::unwrap_used)]
use super::*;
use crate::testing::Random;

fn own() -> Cloud {
    Cloud::parse(include_str!("../../../../infra/cloud.toml")).unwrap()
}

/// Returns the task of a training run that reads 1 MB of data, looks for an existing answer and
/// writes 100 kB.
fn task(core_s: f64) -> Task {
    Task {
        core_s,
        first_core_s: 0.1,
        store: Requests { puts: 1, heads: 1, bytes_in: 100_000, ..Requests::default() },
        first_store: Requests { gets: 1, heads: 1, bytes_out: 1_000_000, ..Requests::default() },
        event_bytes: 1000,
        reply_bytes: 300,
    }
}

fn work(phases: Vec<Vec<Task>>) -> Work {
    let count = phases.iter().map(Vec::len).sum::<usize>() as u64;
    let host = Requests { puts: 1, gets: count, bytes_in: 1_000_000, bytes_out: count * 100_000, heads: 0 };
    Work { phases, host, times: Origin::Modelled, sizes: Origin::Modelled }
}

const X86: Functions = Functions { processor: Processor::X86_64, memory_mb: 1769, count: 1000 };

fn asked() -> Asked {
    Asked { functions: X86, place: HostPlace::Home, cores: 2, hour_usd: 0.0 }
}

fn near(one: f64, other: f64) {
    assert!((one / other - 1.0).abs() < 1e-9, "{one} {other}");
}

#[test]
fn one_small_training_by_hand() {
    let cloud = own();
    let (prices, preset) = (cloud.region("us-east-1").unwrap(), cloud.preset("lambda-2026").unwrap());
    let work = work(vec![vec![task(1.3)]]);
    let used = usage(&work, X86, preset);
    // Half a core; 20 ms of initialisation; four requests of 20 ms; 1.1 MB at 75 MB/s.
    let seconds = 0.020 + 1.4 / 0.5 + 4.0 * 0.020 + 1.1 / 75.0;
    assert_eq!((used.invocations, used.cold_starts, used.billed_ms), (1, 1, f64::ceil(seconds * 1e3) as u64));
    near(used.seconds, seconds + 0.010 + 0.150);
    near(used.gb_seconds, 2.915 * 1769.0 / 1024.0);
    assert_eq!((used.store.puts, used.store.gets, used.store.heads), (2, 2, 2));
    let table = table(&work, asked(), &cloud, (prices, preset));
    let usd = used.gb_seconds * 0.000_016_666_7
        + 0.2e-6
        + 2.0 * 5e-6
        + 4.0 * 4e-7
        + (300.0 + 100_000.0) / 1e9 * 0.09;
    near(table.rows[0].usd, usd);
    assert_eq!(table.verdict, Verdict::FasterAndCheaper);
    // The fleet of the best value is the cheapest core: 60 s are charged.
    let fleet = table.rows.iter().find(|row| row.name.starts_with("EC2 on demand, best")).unwrap();
    assert!(fleet.name.ends_with("1 x c7g.medium"), "{}", fleet.name);
    near(fleet.usd, 0.0363 / 60.0);
    near(fleet.seconds.unwrap(), 30.0 + 1.4 / 0.75);
    let none = table.rows.iter().find(|row| row.name.contains("on demand, fastest")).unwrap();
    assert!(none.seconds.is_none(), "no machine costs as little as this function");
    // T* = B + M/r, where r is the price of the work in functions over that in the cheapest fleet.
    let p = [0.0363 / 0.75, 0.03988 / 0.95, 0.145 / 4.0 / 0.75, 0.63808 / 16.0 / 0.95];
    let p = p.into_iter().fold(f64::INFINITY, f64::min) / 3600.0;
    near(table.rows[0].break_even_s.unwrap(), 30.0 + 60.0 / (usd / (1.3 * p)));
}

#[test]
fn a_sweep_of_200_by_hand() {
    let cloud = own();
    let (prices, preset) = (cloud.region("us-east-1").unwrap(), cloud.preset("lambda-2026").unwrap());
    let work = work(vec![vec![task(1.3); 200]]);
    let used = usage(&work, Functions { count: 50, ..X86 }, preset);
    assert_eq!((used.invocations, used.cold_starts), (200, 50));
    // 50 processes have four tasks each, of which the first is cold.
    let (first, later) = (2915u64, ((1.3 / 0.5 + 2.0 * 0.020 + 0.1 / 75.0) * 1e3f64).ceil() as u64);
    assert_eq!(used.billed_ms, 50 * first + 150 * later);
    assert_eq!((used.store.puts, used.store.gets, used.store.heads), (1 + 200, 200 + 50, 200 + 50));
    let all = table(&work, asked(), &cloud, (prices, preset));
    assert_eq!(all.usage.cold_starts, 200);
    near(all.rows[0].seconds.unwrap(), all.usage.seconds);
    assert!(all.rows[0].value > all.rows.iter().find(|row| row.kind == Kind::Fleet).unwrap().value);
    // This machine has two cores, and each reads the data once.
    let here = all.rows.iter().find(|row| row.kind == Kind::Here).unwrap();
    near(here.seconds.unwrap(), 100.0 * 1.3 + 0.1);
    assert_eq!((here.usd, here.value), (0.0, None));
    // A container service that starts in 2 s.
    let modal = all.rows.iter().find(|row| row.name.starts_with("modal")).unwrap();
    assert!(modal.usd > 0.0 && modal.seconds.unwrap() >= 2.0 + 1.4);
}

#[test]
fn phases_wait_for_each_other_and_keep_processes() {
    let cloud = own();
    let preset = cloud.preset("ideal").unwrap();
    let two = work(vec![vec![task(1.0); 4], vec![task(2.0); 2]]);
    let used = usage(&two, Functions { count: 4, ..X86 }, preset);
    assert_eq!((used.invocations, used.cold_starts), (6, 4), "the second phase is warm");
    assert!((used.seconds - (1.1 + 2.0)).abs() < 1e-6, "{}", used.seconds);
}

#[test]
fn long_work_is_no_work_for_functions() {
    let cloud = own();
    let (prices, preset) = (cloud.region("us-east-1").unwrap(), cloud.preset("lambda-2026").unwrap());
    let work = work(vec![vec![task(4000.0)]]);
    assert_eq!(table(&work, asked(), &cloud, (prices, preset)).verdict, Verdict::Neither);
}

#[test]
fn dollars_of_any_row_are_the_sum_of_its_lines_and_of_the_price_list() {
    let cloud = own();
    let (prices, preset) = (cloud.region("us-east-1").unwrap(), cloud.preset("lambda-2026").unwrap());
    let mut random = Random::new(7);
    for case in 0..60 {
        let count = 1 + random.below(40) as usize;
        let one = |random: &mut Random| task(0.01 * (1 + random.below(3000)) as f64);
        let phases = (0..1 + case % 3).map(|_| (0..count).map(|_| one(&mut random)).collect()).collect();
        let work = work(phases);
        let memory_mb = 128 + random.below(9000) as u32;
        let functions = Functions { memory_mb, count: 1 + random.below(60) as u32, ..X86 };
        let place = HostPlace::ALL[case % 3].1;
        let table =
            table(&work, Asked { functions, place, hour_usd: 0.3, ..asked() }, &cloud, (prices, preset));
        for row in &table.rows {
            let sum: f64 = row.lines.iter().map(|line| line.quantity * line.unit_usd).sum();
            assert!((row.usd - sum).abs() <= 1e-12 * sum.max(1e-9), "{row:?}");
        }
        // The same by the functions that price a bill.
        let Usage { gb_seconds, invocations, store, .. } = table.usage;
        let moved = Moved {
            to_functions: table.usage.bytes_to_functions,
            from_functions: table.usage.bytes_from_functions,
            objects_to_host: table.usage.bytes_to_host,
        };
        let usd = prices.lambda_usd(Processor::X86_64, gb_seconds, invocations)
            + prices.s3_usd(store.puts, store.gets + store.heads)
            + prices.transfer_usd(place, &moved);
        near(table.rows[0].usd, usd);
        let tasks = work.phases.iter().flatten().count() as u64;
        assert_eq!(invocations, tasks);
        assert!(
            table.usage.seconds * f64::from(functions.count)
                >= table.usage.billed_ms as f64 / 1e3 - 0.1 * tasks as f64
        );
    }
}

#[test]
fn ages_of_dates() {
    // 2026-11-27 is day 20,784.
    assert_eq!(age_days("2026-11-27", 20_784), Some(0));
    assert_eq!(age_days("2026-11", 20_784), Some(26));
    assert_eq!(age_days("2024-02-29", 20_784), Some(1002));
    assert_eq!(age_days("1970-01-01", 0), Some(0));
    for wrong in ["", "2026", "2026-13", "2026-00", "next year", "2026-11-40"] {
        assert_eq!(age_days(wrong, 0), None, "{wrong}");
    }
}

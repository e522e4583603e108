//! Plain measuring: medians with their spread, and a line that says on what.

use std::hint::black_box;
use std::time::Instant;

/// Whether this is a real run (`cargo bench`) and not a check that the benchmark still works
/// (`cargo test`), which uses tiny inputs.
pub fn is_real() -> bool {
    let mut arguments = std::env::args().skip(1);
    arguments.any(|a| a == "--bench") && !std::env::args().any(|a| a == "--test")
}

/// Answers a test runner that asks for the list of tests (`--list`, as cargo-nextest does); true where
/// there is nothing else to do.
pub fn is_listed(name: &str) -> bool {
    let asked = |flag: &str| std::env::args().any(|a| a == flag);
    if asked("--list") && !asked("--ignored") {
        println!("{name}: test");
    }
    asked("--list") || asked("--ignored")
}

/// `real` where [`is_real`], else `tiny`.
pub fn size<T>(real: T, tiny: T) -> T {
    if is_real() { real } else { tiny }
}

/// Prints what is measured, on what machine, how busy it is, and with which seed.
pub fn heading(title: &str, seed: u64) {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("an unknown processor");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    println!("# {title}");
    println!(
        "machine: {}, {cores} cores, {}; load before: {}; eciton {}, {}; seed {seed}{}",
        cpu.trim_start_matches([' ', '\t', ':']),
        eciton_tensor::simd::numeric_class(),
        load.split(' ').next().unwrap_or("unknown"),
        env!("CARGO_PKG_VERSION"),
        if cfg!(debug_assertions) { "NOT OPTIMISED" } else { "optimised" },
        size("", "; TINY INPUTS, figures mean nothing"),
    );
}

/// Median, least and largest of some figures.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |n: usize| values.get(n).copied().unwrap_or(f64::NAN);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            at(middle)
        } else {
            f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
        };
        Self { median, least: at(0), most: at(values.len().wrapping_sub(1)) }
    }

    /// In another unit.
    pub fn times(self, factor: f64) -> Self {
        let (least, most) = (self.least * factor, self.most * factor);
        Self { median: self.median * factor, least: least.min(most), most: least.max(most) }
    }

    /// `amount` divided by each figure: a rate.
    pub fn rate(self, amount: f64) -> Self {
        Self { median: amount / self.median, least: amount / self.most, most: amount / self.least }
    }

    /// One row of a table.
    pub fn row(self, what: &str, unit: &str) {
        println!("{what:<58} {:>10.3} {unit:<8} ({:.3} to {:.3})", self.median, self.least, self.most);
    }
}

/// Seconds that one call of `work` takes, over `samples` samples of `calls` calls each, after one
/// sample that is not counted.
#[allow(dead_code)]
pub fn seconds<T>(samples: usize, calls: usize, mut work: impl FnMut() -> T) -> Spread {
    let mut sample = || {
        let begun = Instant::now();
        for _ in 0..calls {
            black_box(work());
        }
        begun.elapsed().as_secs_f64() / calls as f64
    };
    sample();
    Spread::of((0..samples).map(|_| sample()).collect())
}

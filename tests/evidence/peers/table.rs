//! The tables, in Markdown: one row a contender, in the order they were named.

use crate::Run;
use crate::figures::{Reached, Spread};

/// Three significant digits, or all before the point.
fn digits(value: f64) -> String {
    let magnitude = value.abs().max(1e-9).log10().floor() as i32;
    format!("{value:.*}", usize::try_from(2 - magnitude).unwrap_or(0))
}

/// `median (min..max)`, times `scale`.
fn spread(values: Vec<f64>, scale: f64) -> String {
    let values = values.into_iter().map(|v| v * scale).collect();
    Spread::of(values).map_or_else(
        || "-".to_owned(),
        |s| match s.count {
            1 => digits(s.median),
            _ => format!("{} ({}..{})", digits(s.median), digits(s.min), digits(s.max)),
        },
    )
}

fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn head(cells: &[String]) -> String {
    row(cells) + &row(&vec!["---".to_owned(); cells.len()])
}

/// A name as a cell: a bar in it would end the cell.
fn cell(name: &str) -> String {
    name.replace('|', r"\|")
}

/// A column of the median over rounds of `of`.
fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    Spread::of(runs.iter().map(of).collect()).map_or(f64::NAN, |s| s.median)
}

/// Figures of training; `bases` are the contenders that ratios are taken to, by place. A ratio is taken
/// within each round, then its median, since both runs of a round met the same machine.
pub(crate) fn training(names: &[&str], runs: &[Vec<Run>], bases: &[Option<usize>]) -> String {
    let bases: Vec<usize> = bases.iter().flatten().copied().collect();
    let mut heads = vec!["contender".to_owned(), "epoch, ms".to_owned(), "least, ms".to_owned()];
    heads.extend(bases.iter().map(|&base| format!("epoch / {}", cell(names[base]))));
    heads.extend(["peak memory, MiB", "start to finish, s", "test accuracy, %", "others"].map(str::to_owned));
    let mut text = head(&heads);
    for (name, runs_here) in names.iter().zip(runs) {
        let mut cells = vec![cell(name)];
        let Some(last) = runs_here.last() else {
            cells.resize(heads.len(), "failed".to_owned());
            text += &row(&cells);
            continue;
        };
        let epochs = |runs: &[Run]| runs.iter().map(|r| r.figures.epoch_s.median).collect::<Vec<_>>();
        cells.push(spread(epochs(runs_here), 1e3));
        // On a busy machine the quickest single epoch says more than the median.
        let least = runs_here.iter().map(|r| r.figures.epoch_s.min).fold(f64::INFINITY, f64::min);
        cells.push(digits(1e3 * least));
        for &base in &bases {
            let base = epochs(&runs[base]);
            let ratios = epochs(runs_here).iter().zip(&base).map(|(own, base)| own / base).collect();
            cells.push(Spread::of(ratios).map_or_else(|| "-".to_owned(), |s| digits(s.median)));
        }
        cells.push(digits(median(runs_here, |r| r.measured.peak_bytes as f64) / f64::from(1 << 20)));
        cells.push(spread(runs_here.iter().map(|r| r.measured.wall_s).collect(), 1.0));
        // Seeds are the same in every round, so further rounds say nothing new about accuracy.
        let (mean, std) = (last.figures.accuracy, last.figures.accuracy_std);
        cells.push(match last.figures.seeds {
            1 => format!("{:.2}", 100.0 * mean),
            _ => format!("{:.2} ± {:.2}", 100.0 * mean, 100.0 * std),
        });
        let others = runs_here.iter().map(|r| r.measured.others_cpu).fold(0.0, f64::max);
        cells.push(format!("{others:.2}"));
        text += &row(&cells);
    }
    text
}

/// Time to a target. A contender that missed it in one round has no figures.
pub(crate) fn target(names: &[&str], runs: &[Vec<Run>]) -> String {
    let heads = ["contender", "epochs", "training, s", "start to target, s", "peak memory, MiB", "others"];
    let mut text = head(&heads.map(str::to_owned));
    for (name, runs) in names.iter().zip(runs) {
        let mut cells = vec![cell(name)];
        let reached: Option<Vec<_>> =
            runs.iter().map(|run| Some((run.figures.reached?, run.measured.wall_s))).collect();
        match reached.filter(|reached| !reached.is_empty()) {
            Some(reached) => {
                let spread = |of: fn(&(Reached, f64)) -> f64| spread(reached.iter().map(of).collect(), 1.0);
                cells.push(spread(|(reached, _)| reached.epochs as f64));
                cells.push(spread(|(reached, _)| reached.train_s));
                cells.push(spread(|(reached, wall_s)| reached.since_start_s.unwrap_or(*wall_s)));
            }
            None => {
                let why = if runs.is_empty() { "failed" } else { "not reached" };
                cells.resize(4, why.to_owned());
            }
        }
        cells.push(digits(median(runs, |r| r.measured.peak_bytes as f64) / f64::from(1 << 20)));
        cells.push(format!("{:.2}", runs.iter().map(|r| r.measured.others_cpu).fold(0.0, f64::max)));
        text += &row(&cells);
    }
    text
}

/// Wall time of whole processes: one column a number of epochs, with its runs by contender.
pub(crate) fn finish(names: &[&str], columns: &[(u32, Vec<Vec<Run>>)]) -> String {
    let mut heads = vec!["contender".to_owned()];
    heads.extend(columns.iter().map(|(epochs, _)| match epochs {
        1 => "1 epoch".to_owned(),
        _ => format!("{epochs} epochs"),
    }));
    let mut text = head(&heads);
    for (at, name) in names.iter().enumerate() {
        let mut cells = vec![cell(name)];
        for (_, runs) in columns {
            let walls: Vec<f64> = runs[at].iter().map(|r| r.measured.wall_s).collect();
            cells.push(if walls.is_empty() { "failed".to_owned() } else { spread(walls, 1.0) });
        }
        text += &row(&cells);
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use crate::child::Measured;
    use crate::figures::Figures;

    fn run(epoch_ms: f64, wall_s: f64) -> Run {
        let epoch_s = Spread::of(vec![epoch_ms / 1e3]).unwrap();
        let figures =
            Figures { epoch_s, accuracy: 0.9, accuracy_std: 0.0051, seeds: 2, version: None, reached: None };
        let measured = Measured { wall_s, peak_bytes: 17 << 20, others_cpu: 0.04, stdout: String::new() };
        Run { measured, figures }
    }

    #[test]
    fn ratios_are_paired_and_failures_shown() {
        let own = vec![run(1.0, 0.5), run(2.0, 0.6), run(3.0, 0.7)];
        let peer = vec![run(10.0, 5.0), run(10.0, 6.0), run(10.0, 7.0)];
        let text = training(&["eciton", "a|b", "dgl"], &[own, Vec::new(), peer], &[Some(2), None, Some(0)]);
        let expected = "\
| contender | epoch, ms | least, ms | epoch / dgl | epoch / eciton | peak memory, MiB | start to finish, s | test accuracy, % | others |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| eciton | 2.00 (1.00..3.00) | 1.00 | 0.200 | 1.00 | 17.0 | 0.600 (0.500..0.700) | 90.00 ± 0.51 | 0.04 |
| a\\|b | failed | failed | failed | failed | failed | failed | failed | failed |
| dgl | 10.0 (10.0..10.0) | 10.0 | 1.00 | 5.00 | 17.0 | 6.00 (5.00..7.00) | 90.00 ± 0.51 | 0.04 |
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_target_is_timed_to_where_it_was_reached() {
        let to = |since_start_s, wall_s| {
            let mut run = run(1.0, wall_s);
            run.figures.reached = Some(Reached { epochs: 12, train_s: 3.5, since_start_s });
            run
        };
        let names = ["eciton", "dgl_minibatch", "pyg_minibatch"];
        let text = target(&names, &[vec![to(None, 4.0)], vec![to(Some(9.0), 20.0)], vec![run(1.0, 7.0)]]);
        let expected = "\
| contender | epochs | training, s | start to target, s | peak memory, MiB | others |
| --- | --- | --- | --- | --- | --- |
| eciton | 12.0 | 3.50 | 4.00 | 17.0 | 0.04 |
| dgl_minibatch | 12.0 | 3.50 | 9.00 | 17.0 | 0.04 |
| pyg_minibatch | not reached | not reached | not reached | 17.0 | 0.04 |
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_failed_base_leaves_the_ratio_open() {
        let text = training(&["eciton", "dgl"], &[vec![run(1.0, 0.5)], Vec::new()], &[Some(1)]);
        assert!(text.contains("| eciton | 1.00 | 1.00 | - | 17.0 |"), "{text}");
    }

    #[test]
    fn whole_processes() {
        let columns =
            [(1, vec![vec![run(1.0, 0.5)], vec![]]), (100, vec![vec![run(1.0, 123.4)], vec![run(1.0, 9.0)]])];
        let expected = "\
| contender | 1 epoch | 100 epochs |
| --- | --- | --- |
| eciton | 0.500 | 123 |
| dgl | failed | 9.00 |
";
        assert_eq!(finish(&["eciton", "dgl"], &columns), expected);
    }

    #[test]
    fn significant_digits() {
        let shown = [0.0123, 0.5, 9.996, 12.34, 4111.2, 0.0].map(digits);
        assert_eq!(
            shown,
            ["0.0123", "0.500", "9.996", "12.3", "4111", "0.00000000000"].map(|s| match s {
                "9.996" => "10.00",
                other => other,
            })
        );
    }
}

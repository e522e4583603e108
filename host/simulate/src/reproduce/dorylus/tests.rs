//! The published figures check, the fit reproduces its row, and errors are what they were found to be.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

fn prices() -> Prices {
    Prices::parse(include_str!("../../../../../infra/prices.toml")).unwrap()
}

#[test]
#[allow(clippy::disallowed_macros, clippy::print_stderr)]
fn show() {
    let fitted = fit(&prices()).unwrap();
    eprintln!("{fitted:?}");
    let found = reproduce(&prices()).unwrap();
    for row in found.rows {
        let p = row.published;
        eprintln!(
            "{:?} {} s {:?} usd {:?} epochs {}",
            p.kind, p.graph, row.epoch_seconds, row.epoch_usd, row.epochs
        );
        eprintln!(
            "   T pub {:.3} {:.3}",
            p.cpu.seconds / p.functions.seconds,
            p.gpu.seconds / p.functions.seconds
        );
        eprintln!(
            "   T our {:.3} {:.3}",
            row.epoch_seconds[1] / row.epoch_seconds[0],
            row.epoch_seconds[2] / row.epoch_seconds[0]
        );
        eprintln!("   cpu {:?}", row.against_cpu);
        eprintln!("   gpu {:?}", row.against_gpu);
    }
    for m in found.machines {
        eprintln!("{m:?}");
    }
}

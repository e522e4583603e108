//! Hints for flags of other training programs, for instance `--batch-size`. The error message for
//! such a flag names the equivalent flag of Eciton.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags of other programs, each with an example of the equivalent in Eciton, or an explanation.
/// Flags are spelled with `-`, but `_` is recognised as well.
const FLAGS: [(&str, &str); 19] = [
    ("--device", "Eciton trains on CPU threads (--threads) or on other executors (--executor)"),
    (
        "--gpu",
        "Eciton does not use GPUs; it trains on CPU threads (--threads) or on other executors (--executor)",
    ),
    (
        "--cuda",
        "Eciton does not use GPUs; it trains on CPU threads (--threads) or on other executors (--executor)",
    ),
    ("--optimizer", "--optimiser adam (sgd, adam, adamw)"),
    ("--optim", "--optimiser adam (sgd, adam, adamw)"),
    ("--wd", "--weight-decay 5e-4"),
    ("--momentum", "--set optimiser.momentum=0.9"),
    ("--learning-rate", "--lr 0.01"),
    ("--scheduler", "--set optimiser.schedule=cosine"),
    ("--clip", "--set optimiser.clip_norm=1"),
    ("--heads", "--set model.heads=8"),
    ("--num-heads", "--set model.heads=8"),
    ("--num-layers", "--layers 3"),
    ("--activation", "--set model.activation=elu"),
    ("--norm", "--set model.norm=layer"),
    ("--loss", "--set model.loss=absolute-error"),
    ("--batch-size", "--batch 1024"),
    ("--num-workers", "--threads 2"),
    ("--quiet", "redirect standard output (eciton train > FILE), or use --json for machine-readable output"),
];

/// Returns the error message for an unknown flag. `here` is the equivalent in Eciton, or an
/// explanation.
fn message(flag: &str, here: &str) -> String {
    match here.starts_with("--") {
        true => format!("error: unknown flag {flag}; use {here}"),
        false => format!("error: unknown flag {flag}: {here}"),
    }
}

/// Returns an error message that names the equivalent of an unknown flag. Returns `None` if
/// [`FLAGS`] does not have the flag, or if `error` has another cause.
pub(crate) fn hint(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(found) = error.get(ContextKind::InvalidArg)? else { return None };
    let flag = found.split(['=', ' ']).next().unwrap_or(found);
    let spelt = flag.replace('_', "-");
    let (_, here) = FLAGS.iter().find(|(known, _)| *known == spelt)?;
    Some(message(flag, here))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::arguments::Arguments;
    use clap::Parser as _;

    #[test]
    fn each_flag_is_unknown_and_has_an_equivalent() {
        for (flag, here) in FLAGS {
            let refused = Arguments::try_parse_from(["eciton", "train", flag, "1"]).unwrap_err();
            assert_eq!(hint(&refused), Some(message(flag, here)));
        }
        let refused = Arguments::try_parse_from(["eciton", "train", "--num_layers=1"]).unwrap_err();
        assert!(hint(&refused).unwrap().contains("unknown flag --num_layers; use --layers"));
        let set = FLAGS.iter().filter_map(|(_, here)| here.strip_prefix("--set "));
        for setting in set.map(|setting| setting.split(' ').next().unwrap()) {
            // Only the first key of a hint is checked here, without the keys that belong to it.
            let known =
                eciton_recipe::keys().into_iter().any(|info| setting.starts_with(&format!("{}=", info.key)));
            assert!(known, "{setting}");
        }
        let other = Arguments::try_parse_from(["eciton", "train", "--nonsense"]).unwrap_err();
        assert_eq!(hint(&other), None);
    }
}

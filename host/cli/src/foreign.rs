//! Flags of other programs that are spelt otherwise here. Each is refused with the spelling here.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags of other programs, and the equivalent here. `_` in a flag is read as `-`.
const FLAGS: [(&str, &str); 21] = [
    (
        "--device",
        "there are no devices to choose: work is done by this machine's threads (--threads), or elsewhere (--executor)",
    ),
    (
        "--gpu",
        "there is no GPU: work is done by this machine's threads (--threads), or elsewhere (--executor)",
    ),
    (
        "--cuda",
        "there is no GPU: work is done by this machine's threads (--threads), or elsewhere (--executor)",
    ),
    ("--optimizer", "--set optimiser.kind=adam (sgd, adam, adamw)"),
    ("--optim", "--set optimiser.kind=adam (sgd, adam, adamw)"),
    ("--optimiser", "--set optimiser.kind=adam (sgd, adam, adamw)"),
    ("--weight-decay", "--set optimiser.weight_decay=5e-4"),
    ("--wd", "--set optimiser.weight_decay=5e-4"),
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
    (
        "--quiet",
        "standard output may go to a file, and --json prints objects for programs: eciton train > FILE",
    ),
];

fn told(flag: &str, here: &str) -> String {
    match here.starts_with("--") {
        true => format!("error: there is no {flag} here; write {here}"),
        false => format!("error: there is no {flag} here: {here}"),
    }
}

/// Returns the spelling here of a refused flag, or `None` if it has none or the refusal has another
/// reason.
pub(crate) fn hint(error: &clap::Error) -> Option<String> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let ContextValue::String(found) = error.get(ContextKind::InvalidArg)? else { return None };
    let flag = found.split(['=', ' ']).next().unwrap_or(found);
    let spelt = flag.replace('_', "-");
    let (_, here) = FLAGS.iter().find(|(known, _)| *known == spelt)?;
    Some(told(flag, here))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::arguments::Arguments;
    use clap::Parser as _;

    #[test]
    fn each_flag_is_foreign_and_has_its_spelling_here() {
        for (flag, here) in FLAGS {
            let refused = Arguments::try_parse_from(["eciton", "train", flag, "1"]).unwrap_err();
            assert_eq!(hint(&refused), Some(told(flag, here)));
        }
        let refused = Arguments::try_parse_from(["eciton", "train", "--weight_decay=1"]).unwrap_err();
        assert!(
            hint(&refused).unwrap().contains("no --weight_decay here; write --set optimiser.weight_decay")
        );
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

//! The harness's options.

use std::path::PathBuf;
use std::str::FromStr;

use crate::contender::Contender;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
Trains the same two-layer GCN with `eciton train` and its peers in turns; prints Markdown tables.

peers [OPTIONS] DATA...      DATA: folders in the layout of the peers' prepare.py

  --peers FOLDER        the peers' scripts [default: $ECITON_PEERS]
  --python LABEL=PATH   a Python that runs them; repeatable, the first one unless a contender says @LABEL
  --eciton PATH         [default: eciton beside the folder of this program]
  --contender LIST      repeatable; NAME[@LABEL][+SECTION.KEY=VALUE...][:FLAGS], commas between.
                        NAME: eciton, rival, dgl, or a backend of pyg_bench.py (csr, fused, fused_ax, fused_sx, ...);
                        with --target eciton, dgl_minibatch, pyg_minibatch
                        [default: eciton, and with a Python dgl, csr, fused]
  --hidden N            [default: 16]      --dropout P       [default: 0.5]
  --lr RATE             [default: 0.01]    --weight-decay D  of the first layer [default: 0.0005]
  --epochs N            [default: 200]     --warmup N        not counted in epoch times [default: 3]
  --threads N           [default: 2]       --seeds N         0, 1, ... in one process [default: 1]
  --rounds N            each contender runs once in each [default: 3]; 0: only start to finish
  --start-to-finish L   numbers of epochs, commas between: also times whole processes of so many
  --finish-rounds N     [default: 1]
  --target SHARE        times training until this test accuracy, one seed: eciton against the scripts that
                        sample mini-batches of GraphSAGE (eciton:--model sage)
  --normalise           rows of features sum to 1, on both sides
  --limit SECONDS       most that one run may take [default: 600]
  --quiet SECONDS       wait so long at most before each run for others to be idle [default: 0]
  --out FILE            appends every run to it, one JSON object a line
";

/// Most rounds, seeds and epochs that are accepted: a slip of the finger should not run for days.
const LIMIT: u32 = 100_000;

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    peers: Option<PathBuf>,
    /// Label and path.
    pythons: Vec<(String, PathBuf)>,
    pub(crate) eciton: PathBuf,
    pub(crate) contenders: Vec<Contender>,
    pub(crate) data: Vec<PathBuf>,
    pub(crate) hidden: u32,
    pub(crate) dropout: f64,
    pub(crate) lr: f64,
    /// Of the first layer; 0 in the second.
    pub(crate) weight_decay: f64,
    pub(crate) normalise: bool,
    /// The test accuracy that ends training.
    pub(crate) target: Option<f64>,
    pub(crate) epochs: u32,
    pub(crate) warmup: u32,
    pub(crate) threads: u32,
    pub(crate) seeds: u32,
    pub(crate) rounds: u32,
    /// Numbers of epochs of which whole processes are timed.
    pub(crate) finish: Vec<u32>,
    pub(crate) finish_rounds: u32,
    pub(crate) limit_s: u64,
    /// How long to wait for a quiet machine before each run.
    pub(crate) quiet_s: u64,
    pub(crate) out: Option<PathBuf>,
}

fn number<T: FromStr>(flag: &str, text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("{flag}: `{text}` is no number that fits"))
}

/// A count from `least` to [`LIMIT`].
fn count(flag: &str, text: &str, least: u32) -> Result<u32, String> {
    let value = number(flag, text)?;
    if !(least..=LIMIT).contains(&value) {
        return Err(format!("{flag}: {value} is not from {least} to {LIMIT}"));
    }
    Ok(value)
}

fn fraction(flag: &str, text: &str, below: f64) -> Result<f64, String> {
    let value = number(flag, text)?;
    if !(0.0..below).contains(&value) {
        return Err(format!("{flag}: {value} is not from 0 to below {below}"));
    }
    Ok(value)
}

impl Options {
    /// Of the words behind the program's name.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let beside =
            std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.parent()?.join("eciton")));
        let mut options = Self {
            peers: std::env::var_os("ECITON_PEERS").filter(|v| !v.is_empty()).map(PathBuf::from),
            pythons: Vec::new(),
            eciton: beside.unwrap_or_else(|| "target/release/eciton".into()),
            contenders: Vec::new(),
            data: Vec::new(),
            hidden: 16,
            dropout: 0.5,
            lr: 0.01,
            weight_decay: 5e-4,
            normalise: false,
            target: None,
            epochs: 200,
            warmup: 3,
            threads: 2,
            seeds: 1,
            rounds: 3,
            finish: Vec::new(),
            finish_rounds: 1,
            limit_s: 600,
            quiet_s: 0,
            out: None,
        };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            if word == "--normalise" {
                options.normalise = true;
            } else if word.starts_with('-') {
                let (flag, value) = match word.split_once('=') {
                    Some((flag, value)) => (flag, Some(value)),
                    None => (word, None),
                };
                let mut value =
                    || value.or_else(|| words.next()).ok_or_else(|| format!("{flag} wants a value"));
                options.set(flag, &mut value)?;
            } else {
                options.data.push(word.into());
            }
        }
        options.checked()
    }

    fn set<'a>(
        &mut self,
        flag: &str,
        value: &mut dyn FnMut() -> Result<&'a str, String>,
    ) -> Result<(), String> {
        match flag {
            "--peers" => self.peers = Some(value()?.into()),
            "--python" => {
                let text = value()?;
                let (label, path) = text
                    .split_once('=')
                    .filter(|(label, path)| !label.is_empty() && !path.is_empty())
                    .ok_or_else(|| format!("--python: `{text}` is no LABEL=PATH"))?;
                self.pythons.push((label.to_owned(), path.into()));
            }
            "--eciton" => self.eciton = value()?.into(),
            "--contender" => self.contenders.extend(Contender::list(value()?)?),
            "--hidden" => self.hidden = count(flag, value()?, 1)?,
            "--dropout" => self.dropout = fraction(flag, value()?, 1.0)?,
            "--lr" => self.lr = fraction(flag, value()?, 1e6)?,
            "--weight-decay" => self.weight_decay = fraction(flag, value()?, 1e6)?,
            "--target" => self.target = Some(fraction(flag, value()?, 1.0)?),
            "--epochs" => self.epochs = count(flag, value()?, 1)?,
            "--warmup" => self.warmup = count(flag, value()?, 0)?,
            "--threads" => self.threads = count(flag, value()?, 1)?,
            "--seeds" => self.seeds = count(flag, value()?, 1)?,
            "--rounds" => self.rounds = count(flag, value()?, 0)?,
            "--start-to-finish" => {
                self.finish = value()?.split(',').map(|n| count(flag, n, 1)).collect::<Result<_, _>>()?;
            }
            "--finish-rounds" => self.finish_rounds = count(flag, value()?, 1)?,
            "--limit" => self.limit_s = count(flag, value()?, 1)?.into(),
            "--quiet" => self.quiet_s = count(flag, value()?, 0)?.into(),
            "--out" => self.out = Some(value()?.into()),
            _ => return Err(format!("no option `{flag}`; --help lists them")),
        }
        Ok(())
    }

    fn checked(mut self) -> Result<Self, String> {
        if self.contenders.is_empty() {
            let all = if self.target.is_some() && !self.pythons.is_empty() {
                "eciton:--model sage,dgl_minibatch,pyg_minibatch"
            } else if self.pythons.is_empty() {
                "eciton"
            } else {
                "eciton,dgl,csr,fused"
            };
            self.contenders = Contender::list(all)?;
        }
        for (at, contender) in self.contenders.iter().enumerate() {
            if self.contenders[..at].iter().any(|c| c.name == contender.name) {
                return Err(format!("contender `{}` is named twice", contender.name));
            }
            match (contender.takes_target(), self.target) {
                ((false, _), Some(_)) => {
                    return Err(format!(
                        "contender `{}` trains to no target; leave --target out",
                        contender.name
                    ));
                }
                ((_, false), None) => {
                    return Err(format!("contender `{}` trains to a target; give --target", contender.name));
                }
                _ => {}
            }
            if contender.is_peer() {
                self.python(contender)?;
                self.script("common.py")?;
            }
        }
        if self.data.is_empty() {
            return Err("which data? Name folders in the layout of the peers' prepare.py".to_owned());
        }
        if let Some(absent) = self.data.iter().find(|data| !data.exists()) {
            return Err(format!("there is no {}", absent.display()));
        }
        if self.rounds > 0 && self.epochs <= self.warmup {
            return Err(format!("--epochs {}: no more than --warmup {}", self.epochs, self.warmup));
        }
        if self.target.is_some() && (self.seeds > 1 || self.rounds == 0 || !self.finish.is_empty()) {
            return Err(
                "--target is of one seed and of --rounds: leave --seeds, --start-to-finish out".to_owned()
            );
        }
        if self.rounds == 0 && self.finish.is_empty() {
            return Err("--rounds 0 without --start-to-finish leaves nothing to do".to_owned());
        }
        Ok(self)
    }

    /// The Python that runs a contender.
    pub(crate) fn python(&self, contender: &Contender) -> Result<String, String> {
        let found = match contender.python() {
            Some(label) => self.pythons.iter().find(|(known, _)| known == label),
            None => self.pythons.first(),
        };
        let label = contender.python().unwrap_or("LABEL");
        let found = found
            .ok_or_else(|| format!("contender `{}`: no --python {label}=PATH is given", contender.name))?;
        Ok(found.1.display().to_string())
    }

    /// The path of a peers' script.
    pub(crate) fn script(&self, name: &str) -> Result<String, String> {
        let folder =
            self.peers.as_ref().ok_or("where are the peers' scripts? --peers FOLDER or ECITON_PEERS")?;
        Ok(folder.join(name).display().to_string())
    }

    /// The common task, in words.
    pub(crate) fn task(&self) -> String {
        let Self { hidden, dropout, lr, weight_decay, epochs, warmup, threads, seeds, rounds, .. } = self;
        let what = match self.target {
            Some(target) => format!("To test accuracy {target}"),
            None => "GCN".to_owned(),
        };
        let features = if self.normalise { ", features normalised" } else { "" };
        format!(
            "{what}, hidden {hidden}, dropout {dropout}, Adam {lr}, weight decay {weight_decay}{features}, {epochs} \
             epochs ({warmup} not timed), {threads} threads, {seeds} seeds, {rounds} rounds"
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_read() {
        let found = parse(
            "--hidden 64 --epochs=100 --start-to-finish 1,10 --peers /p --python a=/x=y --normalise . --rounds 2",
        )
        .unwrap();
        assert_eq!((found.hidden, found.epochs, found.rounds, found.normalise), (64, 100, 2, true));
        assert_eq!(found.finish, [1, 10]);
        assert_eq!(found.pythons, [("a".to_owned(), PathBuf::from("/x=y"))]);
        let names: Vec<_> = found.contenders.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["eciton", "dgl", "csr", "fused"]);
        assert_eq!(found.script("common.py").unwrap(), "/p/common.py");
        assert_eq!(parse(".").unwrap().contenders.len(), 1);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("", "which data"),
            ("/no/such/folder", "there is no /no/such/folder"),
            (". --hidden", "--hidden wants a value"),
            (". --hidden x", "`x` is no number"),
            (". --hidden 0", "not from 1"),
            (". --seeds -1", "no number"),
            (". --dropout 1", "below 1"),
            (". --dropout NaN", "below 1"),
            (". --epochs 3", "no more than --warmup"),
            (". --rounds 0", "nothing to do"),
            (". --target 94", "below 1"),
            (". --target 0.9 --seeds 2", "one seed"),
            (". --target 0.9 --contender rival", "trains to no target"),
            (". --contender dgl_minibatch", "give --target"),
            (". --start-to-finish 1,,2", "no number"),
            (". --frobnicate 3", "no option `--frobnicate`"),
            (". --python x", "LABEL=PATH"),
            (". --contender dgl", "no --python"),
            (". --contender eciton,eciton", "named twice"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}

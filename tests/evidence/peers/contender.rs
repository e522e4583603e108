//! A contender: a program and settings that train the common model, named as the user named it.

use std::path::Path;

use crate::figures::Figures;
use crate::options::Options;

/// What the peers' `run_all.sh` sets: glibc keeps freed memory, on huge pages, worth up to 2x to torch.
const TUNABLES: &str =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=68719476736:glibc.malloc.trim_threshold=68719476736";

/// The backends of `pyg_bench.py`.
const BACKENDS: [&str; 7] =
    ["edge_index", "csr", "sparsetensor", "fused", "fused_ax", "fused_native", "fused_sx"];

/// The scripts that sample mini-batches of GraphSAGE until a target.
const SAMPLERS: [&str; 2] = ["dgl_minibatch", "pyg_minibatch"];

/// What differs from run to run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    /// Folder in the prepared `.npy` layout.
    pub(crate) data: &'a Path,
    pub(crate) epochs: u32,
    /// Seeds 0, 1, ..., one after the other in one process.
    pub(crate) seeds: u32,
    /// Epochs of each seed, from its first, that no epoch figure counts.
    pub(crate) warmup: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Program {
    /// `eciton train` with these `--set`.
    Eciton(Vec<String>),
    Dgl,
    /// `pyg_bench.py` with this backend.
    Torch(String),
    /// `rival_bench.py`: one fused PyTorch network over DGL's sparse product, `A X` once where the settings allow it.
    Rival,
    /// This one of [`SAMPLERS`].
    Sampler(String),
}

/// `NAME[@PYTHON][+SETTING...][:FLAGS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contender {
    /// As the user wrote it.
    pub(crate) name: String,
    program: Program,
    /// Label of a `--python`; the first one if none.
    python: Option<String>,
    flags: Vec<String>,
}

impl Contender {
    /// A list with commas between; a comma behind a colon belongs to the flags unless a known name follows.
    pub(crate) fn list(text: &str) -> Result<Vec<Self>, String> {
        let mut pieces: Vec<String> = Vec::new();
        for piece in text.split(',') {
            let name = piece.split([':', '+', '@']).next().unwrap_or_default();
            let known = ["eciton", "dgl", "rival"].contains(&name)
                || BACKENDS.contains(&name)
                || SAMPLERS.contains(&name);
            match pieces.last_mut() {
                Some(last) if !known && last.contains(':') => {
                    last.push(',');
                    last.push_str(piece);
                }
                _ => pieces.push(piece.to_owned()),
            }
        }
        pieces.iter().map(|piece| Self::parse(piece)).collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let (head, flags) = text.split_once(':').unwrap_or((text, ""));
        let mut settings = head.split('+');
        let head = settings.next().unwrap_or_default();
        let settings: Vec<String> = settings.map(str::to_owned).collect();
        let (kind, python) = match head.split_once('@') {
            Some((kind, label)) => (kind, Some(label.to_owned())),
            None => (head, None),
        };
        if let Some(odd) = settings.iter().find(|s| !s.contains('=')) {
            return Err(format!("contender `{text}`: `{odd}` is no SECTION.KEY=VALUE"));
        }
        let program = match kind {
            "eciton" if python.is_some() => {
                return Err(format!("contender `{text}`: eciton takes no Python"));
            }
            "eciton" => Program::Eciton(settings),
            _ if !settings.is_empty() => {
                return Err(format!(
                    "contender `{text}`: only eciton takes +SETTING; a peer's flags follow a colon"
                ));
            }
            "dgl" => Program::Dgl,
            "rival" => Program::Rival,
            sampler if SAMPLERS.contains(&sampler) => Program::Sampler(sampler.to_owned()),
            backend if BACKENDS.contains(&backend) => Program::Torch(backend.to_owned()),
            other => {
                let known = [&BACKENDS[..], &SAMPLERS].concat().join(", ");
                return Err(format!("no contender `{other}`; there are eciton, rival, dgl, {known}"));
            }
        };
        let flags = flags.split_whitespace().map(str::to_owned).collect();
        Ok(Self { name: text.to_owned(), program, python, flags })
    }

    pub(crate) fn is_peer(&self) -> bool {
        !matches!(self.program, Program::Eciton(_))
    }

    /// Whether it trains until a target, where there is one, and whether it does anything else.
    pub(crate) fn takes_target(&self) -> (bool, bool) {
        match self.program {
            Program::Eciton(_) => (true, true),
            Program::Sampler(_) => (true, false),
            Program::Dgl | Program::Torch(_) | Program::Rival => (false, true),
        }
    }

    /// The label of the Python that is asked for.
    pub(crate) fn python(&self) -> Option<&str> {
        self.python.as_deref()
    }

    /// Variables that are set for it; for ours none, and glibc's tunables unset.
    pub(crate) fn environment(&self) -> &'static [(&'static str, &'static str)] {
        if self.is_peer() { &[("GLIBC_TUNABLES", TUNABLES)] } else { &[] }
    }

    /// The program and its arguments for one run.
    pub(crate) fn command(&self, options: &Options, job: &Job<'_>) -> Result<Vec<String>, String> {
        let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let data = job.data.display().to_string();
        let Options { hidden, dropout, lr, threads, weight_decay, normalise, .. } = options;
        let Job { epochs, seeds, warmup, .. } = job;
        let common = words(format!(
            "--hidden {hidden} --dropout {dropout} --lr {lr} --epochs {epochs} --threads {threads} --seeds {seeds}"
        ));
        let mut command = match &self.program {
            Program::Eciton(_) => vec![options.eciton.display().to_string(), "train".to_owned(), data],
            Program::Dgl => vec![options.python(self)?, options.script("dgl_bench.py")?, data],
            Program::Torch(_) => vec![options.python(self)?, options.script("pyg_bench.py")?, data],
            Program::Rival => vec![options.python(self)?, options.script("rival_bench.py")?, data],
            Program::Sampler(name) => {
                vec![options.python(self)?, options.script(&format!("{name}.py"))?, data]
            }
        };
        command.extend(common);
        match &self.program {
            Program::Eciton(settings) => {
                command.extend(words(match options.target {
                    Some(target) => {
                        format!("--json --no-out --seed 0 --eval-every 1 --until test_acc={target}")
                    }
                    None => "--json --no-out --eval-every 0 --seed 0".to_owned(),
                }));
                let same = [
                    format!("data.normalise_features={normalise}"),
                    format!("optimiser.weight_decay=[{weight_decay},0.0]"),
                ];
                for setting in same.iter().chain(settings) {
                    command.extend(["--set".to_owned(), setting.clone()]);
                }
            }
            Program::Dgl | Program::Torch(_) | Program::Rival | Program::Sampler(_) => {
                let norm = u8::from(*normalise);
                command.extend(words(format!("--wd {weight_decay} --norm-feat {norm} --warmup {warmup}")));
            }
        }
        if let (Program::Sampler(_), Some(target)) = (&self.program, options.target) {
            command.extend(["--target".to_owned(), target.to_string()]);
        }
        if let Program::Torch(backend) = &self.program {
            command.extend(["--backend".to_owned(), backend.clone()]);
        }
        if self.program == Program::Rival {
            let backend = if *dropout == 0.0 { "dgl_ax" } else { "dgl" };
            command.extend(["--backend".to_owned(), backend.to_owned()]);
        }
        command.extend(self.flags.iter().cloned());
        Ok(command)
    }

    /// What the process said of itself.
    pub(crate) fn figures(&self, stdout: &str, job: &Job<'_>) -> Result<Figures, String> {
        if self.is_peer() { Figures::of_peer(stdout) } else { Figures::of_eciton(stdout, job.warmup) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_list_is_read() {
        let text = "eciton,eciton+limits.task_ms=9+data.x=1:--order rabbit --set a=[1,2],fused_ax@new,dgl";
        let found = Contender::list(text).unwrap();
        let names: Vec<_> = found.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names[0], "eciton");
        assert_eq!(names[2..], ["fused_ax@new", "dgl"]);
        assert_eq!(found[1].program, Program::Eciton(vec!["limits.task_ms=9".into(), "data.x=1".into()]));
        assert_eq!(found[1].flags, ["--order", "rabbit", "--set", "a=[1,2]"]);
        assert_eq!(found[2].python(), Some("new"));
        assert!(found[2].is_peer() && !found[1].is_peer());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("jax", "no contender `jax`"),
            ("", "no contender ``"),
            ("eciton,", "no contender ``"),
            ("eciton@x", "takes no Python"),
            ("eciton+order", "is no SECTION.KEY=VALUE"),
            ("dgl+a=b", "only eciton"),
        ] {
            let error = Contender::list(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn both_sides_are_given_the_same_task() {
        let mut options =
            Options::parse(&["--python=a=/python", "--peers=/scripts", "."].map(str::to_owned)).unwrap();
        options.eciton = "/eciton".into();
        let job = Job { data: Path::new("/d"), epochs: 7, seeds: 2, warmup: 3 };
        let common = "--hidden 16 --dropout 0.5 --lr 0.01 --epochs 7 --threads 2 --seeds 2";
        let shown = |text: &str| Contender::parse(text).unwrap().command(&options, &job).unwrap().join(" ");
        assert_eq!(
            shown("eciton+a.b=1:--order x"),
            format!(
                "/eciton train /d {common} --json --no-out --eval-every 0 --seed 0 --set data.normalise_features=false \
                 --set optimiser.weight_decay=[0.0005,0.0] --set a.b=1 --order x"
            )
        );
        assert_eq!(
            shown("fused@a"),
            format!(
                "/python /scripts/pyg_bench.py /d {common} --wd 0.0005 --norm-feat 0 --warmup 3 --backend fused"
            )
        );
        assert!(shown("dgl").starts_with("/python /scripts/dgl_bench.py /d"));
        let rival = shown("rival");
        assert!(rival.starts_with("/python /scripts/rival_bench.py /d"), "{rival}");
        assert!(rival.ends_with("--backend dgl"), "with dropout nothing is computed once: {rival}");
        options.target = Some(0.94);
        let shown = |text: &str| Contender::parse(text).unwrap().command(&options, &job).unwrap().join(" ");
        assert!(shown("eciton:--model sage").contains("--seed 0 --eval-every 1 --until test_acc=0.94 --set"));
        let sampler = shown("pyg_minibatch:--batch 512");
        assert!(sampler.starts_with("/python /scripts/pyg_minibatch.py /d --hidden 16"), "{sampler}");
        assert!(sampler.ends_with("--warmup 3 --target 0.94 --batch 512"), "{sampler}");
        let error = Contender::parse("dgl@b").unwrap().command(&options, &job).unwrap_err();
        assert!(error.contains("no --python b="), "{error}");
    }
}

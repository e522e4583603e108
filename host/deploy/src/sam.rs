//! Calls of `sam`, AWS's command-line tool for serverless stacks, with hints for its failures.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;

use eciton_cloud::Scratch;

use super::error::{Error, Result};

/// Number of lines at the end of each output stream that the error of a failed `sam` command
/// repeats.
const TAIL_LINES: usize = 25;
/// Maximum length of an output line of `sam`, in bytes. Longer lines are split.
const MAX_LINE: u64 = 8 << 10;
/// Maximum number of output lines of `sam` that wait for the callback. At this limit, reading of
/// the output pauses.
const QUEUE: usize = 256;
/// Maximum number of bytes of the output of `sam list` that are parsed. The rest is ignored.
const MAX_ANSWER: usize = 4 << 20;

const REMEDY: &str = "`pipx install aws-sam-cli` (or `pip install aws-sam-cli` in a virtual environment), or name it with ECITON_SAM";

/// Installed `sam` program, AWS's command-line tool for serverless stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sam {
    path: PathBuf,
    shielded: bool,
    /// Version text that the program prints, for instance `SAM CLI, version 1.170.0`.
    pub version: String,
}

/// Callback that receives each line of the output of `sam`.
pub type Watch<'a> = &'a mut dyn FnMut(&str);

impl Sam {
    /// Finds the `sam` program that the variable `ECITON_SAM` names, or otherwise the first `sam`
    /// on the path.
    ///
    /// # Errors
    /// Returns an error if the program does not exist, cannot be run, or is not the SAM CLI.
    pub fn find() -> Result<Self> {
        let named = std::env::var_os("ECITON_SAM").filter(|v| !v.is_empty()).map(PathBuf::from);
        let path = named.or_else(|| on_path("sam"));
        let missing = || Error::NoTool { tool: "sam", remedy: REMEDY };
        let path = path.ok_or_else(missing)?;
        let said =
            Command::new(&path).arg("--version").stdin(Stdio::null()).output().map_err(|_| missing())?;
        let version = String::from_utf8_lossy(&said.stdout).trim().to_owned();
        if !said.status.success() || !version.starts_with("SAM CLI") {
            return Err(Error::Tool {
                command: format!("{} --version", path.display()),
                status: said.status.to_string(),
                hint: ": the SAM CLI does not work; reinstall it, or set ECITON_SAM to another",
                tail: String::from_utf8_lossy(&said.stderr).trim().to_owned(),
            });
        }
        Ok(Self { path, shielded: false, version })
    }

    /// Sets whether signals of the terminal, for instance Ctrl-C, are withheld from the `sam`
    /// process. A caller that deletes the stack after a signal must let the process finish.
    #[must_use]
    pub fn shielded(self, shielded: bool) -> Self {
        Self { shielded, ..self }
    }

    fn command(&self, folder: &Path, line: &[String]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(line).current_dir(folder).stdin(Stdio::null());
        command.env("SAM_CLI_TELEMETRY", "0");
        #[cfg(unix)]
        if self.shielded {
            use std::os::unix::process::CommandExt as _;
            command.process_group(0);
        }
        command
    }

    /// Runs `sam` with the arguments `line` in `folder` until it ends, and passes each line of its
    /// output to `watch`.
    ///
    /// # Errors
    /// Returns an error with the last lines of the output if the program cannot be started or
    /// fails.
    pub fn run(
        &self,
        folder: &Path,
        line: &[String],
        environment: &[(&str, &Path)],
        watch: Watch<'_>,
    ) -> Result<()> {
        let mut command = self.command(folder, line);
        command.envs(environment.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(Error::file(&self.path, "started"))?;
        let (sender, lines) = sync_channel::<(usize, String)>(QUEUE);
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
            child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
        ];
        // The last lines of each stream. The order of lines on different streams is unknown.
        let mut tails = [Vec::new(), Vec::new()];
        std::thread::scope(|scope| {
            for (from, stream) in (0..).zip(streams) {
                let Some(stream) = stream else { continue };
                let sender = sender.clone();
                scope.spawn(move || {
                    let mut reader = BufReader::new(stream);
                    let mut line = Vec::new();
                    while reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
                        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                        line.clear();
                        if sender.send((from, text)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            for (from, line) in lines {
                watch(&line);
                let tail = &mut tails[from];
                if !line.trim().is_empty() {
                    if tail.len() == TAIL_LINES {
                        tail.remove(0);
                    }
                    tail.push(line);
                }
            }
        });
        let status = child.wait().map_err(Error::file(&self.path, "waited for"))?;
        if status.success() {
            return Ok(());
        }
        let tail = tails.concat().join("\n");
        Err(Error::Tool { command: shown(line), status: status.to_string(), hint: hint(&tail), tail })
    }

    /// Returns the outputs of a stack by key, or `None` if the stack does not exist. `place` has
    /// the options for region and profile.
    ///
    /// # Errors
    /// Returns an error if the program fails for another reason, or if its output is not JSON.
    pub fn outputs(&self, stack: &str, place: &[String]) -> Result<Option<BTreeMap<String, String>>> {
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Output {
            output_key: String,
            output_value: String,
        }
        let words = ["list", "stack-outputs", "--stack-name", stack, "--output", "json"];
        let line: Vec<String> = words.map(str::to_owned).into_iter().chain(place.iter().cloned()).collect();
        let command = shown(&line);
        let (_scratch, folder) = nowhere()?;
        let said = self.command(&folder, &line).output().map_err(Error::file(&self.path, "started"))?;
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_ANSWER)]).trim().to_owned();
        if !said.status.success() {
            let tail = text(&said.stderr);
            if tail.contains("does not exist") {
                return Ok(None);
            }
            return Err(Error::Tool { command, status: said.status.to_string(), hint: hint(&tail), tail });
        }
        let found: Vec<Output> = serde_json::from_str(&text(&said.stdout)).map_err(|error| Error::Tool {
            command,
            status: "no JSON came".to_owned(),
            hint: "",
            tail: format!("{error}: {}", text(&said.stdout).chars().take(500).collect::<String>()),
        })?;
        Ok(Some(found.into_iter().map(|o| (o.output_key, o.output_value)).collect()))
    }
}

/// Creates an empty working folder for `sam`. The program reads settings from a samconfig.toml in
/// its working folder, and any user could place such a file in the folder for temporary files. The
/// folder is deleted when its [`Scratch`] is dropped, or by the next process if this one is killed.
pub(super) fn nowhere() -> Result<(Scratch, PathBuf)> {
    let created = Scratch::new().and_then(|scratch| Ok((scratch.path("sam")?, scratch)));
    created
        .map(|(folder, scratch)| (scratch, folder))
        .map_err(Error::file(std::env::temp_dir(), "written to"))
}

/// Returns the `sam` command with the arguments `line`, quoted for a shell.
#[must_use]
pub(super) fn shown(line: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:@,+".contains(c))
    };
    let words = line
        .iter()
        .map(|word| if plain(word) { word.clone() } else { format!("'{}'", word.replace('\'', r"'\''")) });
    std::iter::once("sam".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Returns a hint for the user if `tail` contains a known error message of `sam`, or otherwise an
/// empty text.
fn hint(tail: &str) -> &'static str {
    let hints = [
        (
            "Unable to locate credentials",
            ": no credentials; `aws configure` or `aws sso login`, or set AWS_PROFILE",
        ),
        ("ExpiredToken", ": the credentials have expired; `aws sso login`, or new keys"),
        (
            "less than or equal to 3008",
            ": AWS limits the functions of this account to 3,008 MB of memory, as those of new accounts; choose \
             --memory and --trainer of 512, 1024 or 1769, or ask AWS Support to raise the limit of Lambda",
        ),
        (
            "UnreservedConcurrentExecution",
            ": the account has no room for reserved concurrency; deploy with --reserve none",
        ),
        (
            "ROLLBACK_COMPLETE state",
            ": an earlier deployment failed half way; `eciton destroy` it, then deploy again",
        ),
        (
            "is not authorized to perform",
            ": these credentials may not do this; docs/how-to/deploy-to-aws.md lists what deploying needs",
        ),
        ("make: not found", ": `make` is not installed"),
        ("Could not find make", ": `make` is not installed"),
    ];
    hints.iter().find(|(text, _)| tail.contains(text)).map_or("", |(_, hint)| hint)
}

/// Returns the first executable file named `name` in the folders of the variable `PATH`.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Creates a shell script in place of `sam`.
    fn stand_in(folder: &Path, script: &str) -> Sam {
        let path = folder.join("sam");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        // The child of another test may have the file open for writing between its fork and its
        // exec.
        let busy = std::io::ErrorKind::ExecutableFileBusy;
        while Command::new(&path).output().is_err_and(|error| error.kind() == busy) {}
        Sam { path, shielded: false, version: String::new() }
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn lines_come_and_a_failure_repeats_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let sam = stand_in(
            dir.path(),
            "i=0; while [ $i -lt 100 ]; do echo line $i $1 $PACKAGE; i=$((i+1)); done; echo UnreservedConcurrentExecution >&2; exit 3",
        );
        let mut seen = 0;
        let error = sam
            .run(dir.path(), &words("deploy x"), &[("PACKAGE", Path::new("p q"))], &mut |_| seen += 1)
            .unwrap_err();
        assert_eq!(seen, 101);
        let said = error.to_string();
        assert!(said.contains("`sam deploy x` failed") && said.contains("--reserve none"), "{said}");
        assert!(said.contains("deploy p q") && !said.contains("line 1 "), "{said}");
    }

    #[test]
    fn a_size_above_the_limit_of_a_new_account_names_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let text = "Resource handler returned message: 'MemorySize' value failed to satisfy constraint: Member must \
                    have value less than or equal to 3008 (Service: Lambda, Status Code: 400)";
        let sam = stand_in(dir.path(), &format!("echo \"{text}\" >&2; exit 1"));
        let error = sam.run(dir.path(), &words("deploy"), &[], &mut |_| {}).unwrap_err().to_string();
        for words in ["3,008 MB", "--memory and --trainer of 512, 1024 or 1769", "raise the limit"] {
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let sam = stand_in(dir.path(), "head -c 100000 /dev/zero | tr '\\0' x");
        let mut longest = 0;
        sam.run(dir.path(), &words("a"), &[], &mut |line| longest = longest.max(line.len())).unwrap();
        assert_eq!(longest, MAX_LINE as usize);
    }

    #[test]
    fn outputs_are_standard_output_alone() {
        let dir = tempfile::tempdir().unwrap();
        let outputs = |script: &str| stand_in(dir.path(), script).outputs("s", &words("--region r"));
        let json =
            r#"echo '[{"OutputKey": "Bucket", "OutputValue": "'$4-$8'", "Description": "d"}]'; echo err >&2"#;
        assert_eq!(outputs(json).unwrap().unwrap()["Bucket"], "s-r");
        assert_eq!(
            outputs("echo The input stack s does not exist on Cloudformation >&2; exit 1").unwrap(),
            None
        );
        let folder =
            outputs(r#"echo "[{\"OutputKey\": \"F\", \"OutputValue\": \"$PWD\"}]""#).unwrap().unwrap();
        assert!(folder["F"].contains("/eciton-scratch-"), "{folder:?}");
        assert!(!Path::new(&folder["F"]).exists());
        let said = outputs("echo Unable to locate credentials >&2; exit 1").unwrap_err().to_string();
        assert!(said.contains("aws configure"), "{said}");
        let said = outputs("echo hello").unwrap_err().to_string();
        assert!(said.contains("no JSON") && said.contains("hello"), "{said}");
    }

    #[test]
    fn commands_can_be_typed() {
        assert_eq!(shown(&words("deploy --region us-east-1")), "sam deploy --region us-east-1");
        assert_eq!(shown(&["a b".to_owned(), String::new(), "it's".to_owned()]), r"sam 'a b' '' 'it'\''s'");
    }
}

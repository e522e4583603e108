//! The commands `eciton completions` and `eciton man`. They generate shell completions and manual
//! pages from the definition of the command line.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::Output;

/// Name of the program in shell completions and manual pages.
const NAME: &str = "eciton";

/// Arguments of `eciton completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Installation:
  bash  D=~/.local/share/bash-completion/completions
        eciton completions bash > $D/eciton
  zsh   eciton completions zsh > ~/.zfunc/_eciton
        (with fpath+=~/.zfunc before compinit)
  fish  eciton completions fish > ~/.config/fish/completions/eciton.fish")]
pub(crate) struct Arguments {
    /// Shell for which to print completions
    shell: Shell,
}

/// Arguments of `eciton man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Installation:
  eciton man ~/.local/share/man/man1
  man eciton-train")]
pub(crate) struct ManArguments {
    /// Folder to write one page per command to [default: print the page of eciton]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints the completion script for a shell.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::arguments::Arguments::command(), NAME, &mut script);
    output.bytes(&script);
    Ok(())
}

/// Writes one manual page per command to the given folder. Without a folder, prints the page of
/// `eciton` itself.
pub(crate) fn man(arguments: &ManArguments, output: &mut Output) -> Result<(), Failure> {
    let mut command = crate::arguments::Arguments::command();
    command.build();
    let Some(folder) = &arguments.folder else {
        output.bytes(&page(&command)?);
        return Ok(());
    };
    let refuse = |path: &Path, error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(folder).map_err(|error| refuse(folder, error))?;
    let mut count = 0;
    for command in all(&command) {
        let path = folder.join(format!("{}.1", command.get_display_name().unwrap_or(NAME)));
        std::fs::write(&path, page(command)?).map_err(|error| refuse(&path, error))?;
        count += 1;
    }
    output.line(format_args!("{}: {count} manual pages written", folder.display()));
    Ok(())
}

/// Returns the manual page of a command in roff format.
fn page(command: &clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

/// Returns a command, followed by all of its visible subcommands at any depth.
fn all(command: &clap::Command) -> Vec<&clap::Command> {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    std::iter::once(command).chain(below.flat_map(all)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_command_has_a_page_of_its_own_name() {
        let mut command = crate::arguments::Arguments::command();
        command.build();
        let names: Vec<&str> = all(&command).iter().map(|c| c.get_display_name().unwrap_or(NAME)).collect();
        for name in ["eciton", "eciton-train", "eciton-kernel", "eciton-kernel-new", "eciton-data-fetch"] {
            assert_eq!(names.iter().filter(|known| **known == name).count(), 1, "{name}: {names:?}");
        }
        let text = String::from_utf8(page(&command).unwrap()).unwrap();
        assert!(text.contains(".TH eciton") && text.contains("train(1)"), "{text}");
    }
}

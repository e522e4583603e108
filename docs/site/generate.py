#!/usr/bin/env python3
"""Writes the generated pages of the site.

    python3 docs/site/generate.py BINARY FOLDER

BINARY is a built `eciton`. FOLDER receives reference/cli.md, from `--help` of every command; reference/keys.md, from
`eciton keys --markdown`; reference/wit.md, from wit/kernel/kernel.wit; and reference/python.md, which names the modules of the Python package for mkdocstrings.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["eciton", "eciton.callbacks", "eciton.datasets", "eciton.sklearn"]


def ran(binary, *arguments):
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"{binary} {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def subcommands(text):
    """Names of the section `Commands:` of a help text."""
    section = re.search(r"^Commands:\n((?:  .*\n?)+)", text, re.M)
    names = re.findall(r"^  (\S+)  ", section[1], re.M) if section else []
    return [name for name in names if name != "help"]


def command_line(binary):
    entries = []

    def visit(words):
        text = ran(binary, *words, "--help").rstrip()
        below = subcommands(text + "\n")
        entries.append((words, text))
        for name in below:
            visit([*words, name])

    visit([])
    lines = [
        "# Command line",
        "",
        f"This page has the help text of each of the {len(entries)} commands, as `eciton COMMAND --help` prints it.",
    ]
    for words, text in entries:
        name = " ".join(["eciton", *words])
        lines += ["", f"{'#' * min(2 + max(len(words) - 1, 0), 4)} {name}", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def keys(binary):
    page = ran(binary, "keys", "--markdown")
    if page.count("\n| `") < 190:
        sys.exit(f"only {page.count(chr(10) + '| `')} keys were found")
    # The search finds a key by its name with the section.
    section, lines = "", []
    for line in page.replace("<", "&lt;").rstrip().split("\n"):
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| `") and section != "model.layers[]":
            line = line.replace("| `", f"| `{section}.", 1)
        lines.append(line)
    return "\n".join(lines) + "\n"


def contract():
    text = (ROOT / "wit/kernel/kernel.wit").read_text(encoding="utf-8")
    # An interface or a world begins with its comments.
    begins = [found.start() for found in re.finditer(r"^(?:(?:///|@).*\n)*(?:interface|world) [\w-]+ \{", text, re.M)]
    pieces = [text[a:b] for a, b in zip([0, *begins], [*begins, len(text)])]
    lines = [
        "# WIT text",
        "",
        "This page is `wit/kernel/kernel.wit`, the contract between kernels and their host.",
        "[Kernel contract](contract.md) explains its versions.",
        "",
        "```text",
        pieces[0].strip(),
        "```",
    ]
    for piece in pieces[1:]:
        kind, name = re.search(r"^(interface|world) ([\w-]+) \{", piece, re.M).groups()
        lines += ["", f"## {kind} {name}", "", "```text", piece.strip(), "```"]
    released = sorted(path.name for path in (ROOT / "wit/released").iterdir())
    lines += ["", f"The released versions {', '.join(released)} are in `wit/released`; they never change."]
    return "\n".join(lines) + "\n"


def python():
    lines = [
        "# Python package",
        "",
        "This page lists the classes and functions of the package `eciton`.",
        "[Use from Python](../how-to/use-from-python.md) shows how they are used.",
    ]
    for module in MODULES:
        lines += ["", f"::: {module}"]
    return "\n".join(lines) + "\n"


def main():
    binary, folder = str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]) / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {
        "cli.md": command_line(binary),
        "keys.md": keys(binary),
        "wit.md": contract(),
        "python.md": python(),
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
        print(f"{folder / name}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()

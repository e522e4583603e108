#!/usr/bin/env python3
"""Writes the generated pages of the site.

    python3 docs/site/generate.py BINARY FOLDER

BINARY is a built `eciton`. FOLDER receives reference/cli.md, from `--help` of every command; reference/keys.md, from the
keys that the binary knows, their meanings in host/plan/src/keys and the defaults of a recorded run; reference/wit.md,
from wit/kernel/kernel.wit; and reference/python.md, which names the modules of the Python package for mkdocstrings.
"""
import ast
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = ["eciton", "eciton.callbacks", "eciton.datasets", "eciton.sklearn"]


def ran(binary, *arguments, fails=False):
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if (done.returncode != 0) != fails:
        sys.exit(f"{binary} {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stderr if fails else done.stdout


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


def rust_keys(path, constant):
    """Names and meanings of a list of keys, from its Rust source."""
    text = path.read_text(encoding="utf-8")
    start = re.search(rf"^(?:pub(?:\([^)]*\))? )?const {constant}: &\[Key<", text, re.M)
    if not start:
        return {}
    body = text[start.start() : text.index("\n];", start.start())]
    found = re.findall(r'\bkey\(\s*"(\w+)",\s*&\[[^\]]*\],\s*"((?:[^"\\]|\\.)*)"', body, re.S)
    return {name: ast.literal_eval('"' + re.sub(r"\\\n\s*", "", meaning) + '"') for name, meaning in found}


def cell(text):
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")


def keys(binary):
    unknown = "Q" * 60
    sections = re.search(r"known here: (.*)", ran(binary, "train", "--no-out", "--set", f"{unknown}.a=1", fails=True))
    sources = [ROOT / "host/plan/src/keys.rs", *sorted((ROOT / "host/plan/src/keys").glob("*.rs"))]
    with tempfile.TemporaryDirectory() as folder:
        ran(binary, "train", "--epochs", "1", "--out", f"{folder}/run")
        recorded = (Path(folder) / "run/config.toml").read_text(encoding="utf-8")
    values = tomllib.loads(recorded)
    defaults, section, comment = {}, "", ""
    for line in recorded.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line.startswith("#"):
            comment += line
        elif match := re.match(r"(\w+) = (.*)", line):
            if comment.endswith("(default)"):
                defaults[f"{section}.{match[1]}"] = match[2]
            comment = ""
    assert values
    lines = [
        "# Keys",
        "",
        "A recipe has these keys, in sections. `--set section.key=value` sets one on the command line. A default is shown",
        "where it is one value; other defaults follow from the data, the model or other keys.",
    ]
    total = 0
    for section in sections[1].split(", "):
        lines += ["", f"## {section}", ""]
        if section == "kernels":
            lines += ["`kernels.NAME` is a path to a component that takes the place of kernel `NAME`."]
            continue
        message = ran(binary, "train", "--no-out", "--set", f"{section}.{unknown}=1", fails=True)
        known = re.search(r"known here: (.*)", message)[1].split(", ")
        meanings = {}
        for source in sources:
            meanings |= rust_keys(source, section.upper())
        lines += ["| key | meaning | default |", "| --- | --- | --- |"]
        for name in known:
            if name not in meanings:
                sys.exit(f"{section}.{name}: no meaning found in host/plan/src/keys")
            default = defaults.get(f"{section}.{name}")
            lines.append(f"| `{section}.{name}` | {cell(meanings[name])} | {f'`{default}`' if default else ''} |")
            total += 1
        if section == "model":
            layer = rust_keys(ROOT / "host/plan/src/keys/model.rs", "LAYER")
            layer |= rust_keys(ROOT / "host/plan/src/keys/model/deep.rs", "LAYER")
            if not layer:
                sys.exit("no keys of a layer found in host/plan/src/keys/model.rs")
            lines += ["", "### Keys of a layer", "", "Each table of `model.layers` has keys of its own.", ""]
            lines += ["| key | meaning |", "| --- | --- |"]
            lines += [f"| `{name}` | {cell(meaning)} |" for name, meaning in layer.items()]
            total += len(layer)
    if total < 100:
        sys.exit(f"only {total} keys were found")
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

"""Hooks of MkDocs: adds the generated pages, and rewrites what GitHub's Markdown has and Python-Markdown has not.

* Pages of the folder that ECITON_SITE_PAGES names (target/site-pages by default) are added.
* A fence with a file name (```toml recipe.toml) becomes a fence with a title.
* A list that follows a line of text without an empty line gets one.
* A link that leaves docs/ leads to the repository that Cargo.toml names. Without such a name it is shown as code.
"""
import os
import posixpath
import re
import tomllib
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["reference/cli.md", "reference/keys.md", "reference/python.md", "reference/wit.md"]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def repository():
    with open(ROOT / "Cargo.toml", "rb") as manifest:
        return tomllib.load(manifest)["workspace"]["package"].get("repository")


def on_files(files, config):
    folder = Path(os.environ.get("ECITON_SITE_PAGES", ROOT / "target/site-pages"))
    for page in PAGES:
        path = folder / page
        if not path.is_file():
            raise PluginError(f"no generated page {path}: run docs/site/generate.py first")
        files.append(File.generated(config, page, content=path.read_text(encoding="utf-8")))
    return files


def outside(match, page):
    """A link of a page, rewritten where it leaves docs/."""
    image, text, url = match.groups()
    if image or re.match(r"[a-z][a-z0-9+.-]*:|#", url):
        return match.group(0)
    path, _, anchor = url.partition("#")
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
    if path.startswith("docs/"):
        return match.group(0)
    if not (ROOT / path).exists():
        raise PluginError(f"{page} links to {path}, which is not in the repository")
    address = repository()
    if address:
        return f"[{text}]({address}/blob/main/{path}{'#' + anchor if anchor else ''})"
    plain = text.replace("`", "")
    return f"`{path}`" if path.endswith(plain) else f"{text} (`{path}`)"


def on_page_markdown(markdown, page, config, files):
    lines, code, before = [], False, ""
    prose = []

    def flush():
        text = "\n".join(prose)
        lines.append(LINK.sub(lambda match: outside(match, page.file.src_uri), text)) if prose else None
        prose.clear()

    for line in markdown.split("\n"):
        if line.lstrip().startswith("```"):
            flush()
            fence = re.fullmatch(r"(\s*```\w+) (\S+)", line)
            lines.append(f'{fence[1]} title="{fence[2]}"' if fence and not code else line)
            code = not code
        elif code:
            lines.append(line)
        else:
            item = re.match(r"\s*([*-]|\d+\.) ", line)
            if item and before.strip() and not re.match(r"\s*([*-]|\d+\.) |\s+\S|\|", before):
                prose.append("")
            prose.append(line)
        before = line
    flush()
    return "\n".join(lines)

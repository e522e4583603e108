#!/usr/bin/env python3
"""Checks a built site: its search finds known words, its pages exist, and its links resolve.

    python3 docs/site/check.py SITE

SITE is the folder that `mkdocs build` wrote. Each finding is a line, and any finding ends the script with 1.
"""
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Words that the search must find, and the page that has them.
EXPECTED = [
    ("--row-storage", "reference/cli.html"),
    ("eciton kernel inspect", "reference/cli.html"),
    ("--max-usd", "reference/cli.html"),
    ("lanes.recompute", "reference/keys.html"),
    ("optimiser.clip_norm", "reference/keys.html"),
    ("predict_proba", "reference/python.html"),
    ("GraphClassifier", "reference/python.html"),
    ("batched-matmul", "reference/wit.html"),
    ("spiking", "reference/contract.html"),
    ("feature-corrections.f64", "reference/store-format.html"),
    ("GraphSAINT", "explanation/samplers.html"),
    ("PipeDream-2BW", "explanation/pipeline-schedules.html"),
    ("TrainerPolicy", "how-to/deploy-to-aws.html"),
    ("torch.optim.lr_scheduler", "how-to/train-and-resume.html"),
]


class Page(HTMLParser):
    """Anchors and local references of a page."""

    def __init__(self):
        super().__init__()
        self.anchors, self.links = set(), []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def searched(site):
    """Words of the search index by page."""
    found = {}
    for entry in json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]:
        page = entry["location"].partition("#")[0]
        found[page] = found.get(page, "") + entry["title"] + " " + entry["text"] + " "
    return {page: re.sub(r"<[^>]+>", "", text).replace("&lt;", "<").replace("&gt;", ">") for page, text in found.items()}


def main():
    site = Path(sys.argv[1]).resolve()
    problems = []
    index = searched(site)
    for words, page in EXPECTED:
        if words not in index.get(page, ""):
            problems.append(f"the search does not find `{words}` in {page}")

    configuration = (Path(__file__).parent / "mkdocs.yml").read_text(encoding="utf-8")
    nav = re.findall(r"^ +- (?:[\w ]+: )?([\w/-]+\.md)$", configuration, re.M)
    for page in nav:
        if not (site / page).with_suffix(".html").is_file():
            problems.append(f"{page} of the navigation has no page")

    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = Page()
        pages[path].feed(path.read_text(encoding="utf-8"))
    links = 0
    for path, page in pages.items():
        if path.name == "404.html":   # its references are absolute
            continue
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            links += 1
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            if target.is_dir():
                target /= "index.html"
            shown = f"{path.relative_to(site)}: {link}"
            if not target.is_file():
                problems.append(f"{shown} leads to no file")
            elif address.fragment and target in pages and unquote(address.fragment) not in pages[target].anchors:
                if address.fragment != "__skip":
                    problems.append(f"{shown} leads to no anchor")
    for problem in problems:
        print(problem)
    print(f"{len(EXPECTED)} searches, {len(nav)} pages of the navigation, {links} links: {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

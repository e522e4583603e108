"""The Python blocks of README.md and docs run, one after the other, in one namespace per page.

A page runs in an empty folder, in which its blocks that name a file (```` ```csv edges.csv ````) are written first.
Blocks that import torch, PyG or DGL run where these are installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Libraries that blocks may do without.
OPTIONAL = ("torch", "torch_geometric", "dgl")
#: Page, least number of blocks that run without these libraries, and a pattern in what each block prints.
PAGES = (
    ("README.md", 1, r"0\.7"),
    ("docs/how-to/use-from-python.md", 2, r"\d"),
    ("docs/how-to/predict.md", 1, r"\["),
    ("docs/tutorials/table-and-edges.md", 2, "high"),
    ("docs/tutorials/from-pyg.md", 4, r"\d"),
    ("docs/tutorials/from-dgl.md", 4, r"\d"),
)


def runs_here(block: str) -> bool:
    """Whether a block is about the package or an optional library, and all of these are installed."""
    needed = [name for name in OPTIONAL if re.search(rf"^(import|from) {name}\b", block, re.M)]
    wanted = bool(needed) or "import eciton" in block
    return wanted and all(importlib.util.find_spec(name) is not None for name in needed)


class Pages(unittest.TestCase):
    def test_pages(self) -> None:
        for page, least, expected in PAGES:
            with self.subTest(page), tempfile.TemporaryDirectory() as folder:
                self.check(page, least, expected, Path(folder))

    def check(self, page: str, least: int, expected: str, folder: Path) -> None:
        text = (ROOT / page).read_text(encoding="utf-8")
        for name, lines in re.findall(r"^```\w+ (\S+)\n(.*?)^```", text, re.M | re.S):
            file = folder / name
            self.assertTrue(file.resolve().is_relative_to(folder.resolve()), file)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(lines, encoding="utf-8")
        run = [block for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if runs_here(block)]
        self.assertGreaterEqual(len(run), least, page)
        names: dict[str, object] = {}
        before = os.getcwd()
        os.chdir(folder)
        try:
            for block in run:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(block, page, "exec"), names)
                self.assertRegex(printed.getvalue(), expected, page)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    unittest.main()

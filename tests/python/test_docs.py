"""The Python blocks of README.md and docs run, one after the other, in one namespace per page."""

from __future__ import annotations

import contextlib
import io
import re
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Pages(unittest.TestCase):
    def test_pages(self) -> None:
        # The last entry is part of what each block prints, for instance an accuracy.
        for page, least, expected in (("README.md", 1, "0.7"), ("docs/how-to/use-from-python.md", 1, "0.7"), ("docs/how-to/predict.md", 1, "[")):
            text = (ROOT / page).read_text(encoding="utf-8")
            blocks = [
                block for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if "import eciton" in block
            ]
            self.assertGreaterEqual(len(blocks), least, page)
            names: dict[str, object] = {}
            for block in blocks:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(block, page, "exec"), names)
                self.assertIn(expected, printed.getvalue(), page)


if __name__ == "__main__":
    unittest.main()

"""The command `eciton`: `python -m eciton` is the same."""

from __future__ import annotations

import sys

from eciton import _eciton


def main() -> int:
    """Does what the command line asks; the exit code."""
    return _eciton.main(["eciton", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

"""The command `eciton`: `python -m eciton` is the same."""

from __future__ import annotations

import signal
import sys

from eciton import _eciton


def main() -> int:
    """Does what the command line asks; the exit code."""
    # The command has its own way with Ctrl-C; Python's would tell of it a second time.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _eciton.main(["eciton", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

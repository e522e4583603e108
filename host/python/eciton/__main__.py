"""Command `eciton`, also available as `python -m eciton`."""

from __future__ import annotations

import signal
import sys

from eciton import _eciton


def main() -> int:
    """Run the command line and return the exit code."""
    # The command handles Ctrl-C itself. The handler of Python would report it a second time.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _eciton.main(["eciton", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())

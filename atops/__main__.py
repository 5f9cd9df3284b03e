"""`python -m atops`: the command line. It owns nothing; `atops.cli` does."""

from __future__ import annotations

import sys

from atops.cli import main

if __name__ == "__main__":
    sys.exit(main())

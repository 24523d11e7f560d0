"""`python -m tfsmith`."""

from __future__ import annotations

import sys

from tfsmith.cli.main import command

sys.exit(command())

"""`python -m tfsmith`."""

from __future__ import annotations

import sys

from tfsmith.cli.main import main

sys.exit(main())

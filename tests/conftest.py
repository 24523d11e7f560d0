"""Properties are tried with the same cases in every run, so that a change is judged by what it changed.

New cases are for `make fuzz`, and for `pytest --hypothesis-profile=default`, which draws others each time.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")

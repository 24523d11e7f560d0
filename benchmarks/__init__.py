"""Side by side with peers in one run: `python -m benchmarks`. Figures are printed, never asserted."""

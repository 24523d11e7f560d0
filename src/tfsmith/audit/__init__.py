"""F5: what a model can do to the machine that runs it, from the traits in `ops/`. Looks at structure, runs nothing."""

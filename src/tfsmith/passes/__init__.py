"""F3: model in, model out (or facts about it). Passes work on `ir` alone."""

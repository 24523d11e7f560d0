"""Recipes and patterns: the original tools' protobuf, and TOML."""

"""Drawings of recipes: what is looked for, what takes its place, and how each input is remapped."""

"""F6: One file per verb."""

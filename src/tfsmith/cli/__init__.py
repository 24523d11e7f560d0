"""F7: the command line, one thin file per verb."""

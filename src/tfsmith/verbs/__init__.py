"""F6: the verbs, one file each; their functions are the Python calls and the commands."""

"""F2: bytes on disk <-> the model in memory, a folder per family of formats."""

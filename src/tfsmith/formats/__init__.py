"""F2: bytes on disk <-> the model in memory, one file per format."""

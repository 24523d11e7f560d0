"""F0: bytes without meaning. Spans of mapped files, atomic outputs, checksums."""

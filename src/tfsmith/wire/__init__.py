"""F1: protocol buffers. Messages from a private pool, lazy scans of the big shells, write plans, text format."""

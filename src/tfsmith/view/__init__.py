"""F3: what people look at. Works on `ir` alone."""

"""F5: what people look at. Works on `ir` alone."""

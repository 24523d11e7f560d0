"""F5: weights without their graph: listed, compared, renamed and reshaped by maps, checked against a config."""

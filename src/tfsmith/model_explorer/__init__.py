"""tfsmith inside Model Explorer: `model-explorer --extensions=tfsmith.model_explorer`."""

"""Keras files: `.h5`, `.weights.h5`, `.keras`, and the metadata of SavedModels."""

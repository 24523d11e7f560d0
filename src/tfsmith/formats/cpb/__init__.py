"""`saved_model.cpb`: SavedModels that TensorFlow split into chunks."""

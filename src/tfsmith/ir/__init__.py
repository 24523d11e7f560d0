"""F1: the model in memory. No files, no protobuf; tensors are spans until someone asks for their values."""

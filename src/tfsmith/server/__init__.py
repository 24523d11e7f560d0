"""The doors of `tfsmith serve`: TensorFlow Serving's REST and gRPC, KServe's REST, on the embedded engines."""

"""A network that was given and images in, results or a detector out: `evaluate`, `fit` and `predict`."""

"""One module per model. Each registers its kind when it is loaded, see `towpath.prediction.registry`."""

"""The collector: it answers questions about measurements, traces and results of the whole mesh."""

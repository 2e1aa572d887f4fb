"""Was anything lost, repeated, wrong, out of order or late: collects results and judges them by the truth."""

"""Experiments with faults injected while jobs run: a word count on a cluster, and the departures pipeline.

The first is the thesis's own (its Fig. 4.3): delays loaded on the workers of a Spark cluster one by one, and
unloaded one by one. The second does the same to the two sites of a handover.
"""

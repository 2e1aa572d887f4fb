"""How far a query looks back when it starts: see `towpath.streams.source.StreamReader`."""

RECALLED_EVENTS = 1_000
"""So many of the events before a start are looked at once more, for their times; so many more at a time,
until one is the job's, where others share the stream."""

RECALL_LIMIT = 20_000
"""Farther back nothing is looked for."""

"""Models that detect events, and rolling aggregates, for one key: without Spark, clock and chance.

Start at `keyed.py`, which joins both. `models/` has a file for each model; `registry.py` says what such a
file holds. Spark's Python workers load this package, so it imports neither contracts nor pydantic.
"""

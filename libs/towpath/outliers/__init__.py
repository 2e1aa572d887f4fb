"""Distance-based outliers in a sliding window of one series: without clock and chance.

Start at `detection.py`, which says what an outlier is. Each algorithm has a file; `algorithms.py` names them.
Spark's Python workers load this package, so it imports neither contracts nor pydantic.
"""

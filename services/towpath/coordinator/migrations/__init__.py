"""Moves of jobs: planning, forecasts of their costs, and aborts.

The steps are in `towpath.protocols`. Start reading at `planning.py`.
"""

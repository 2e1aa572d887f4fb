"""Moves of jobs: which strategy, what it is expected to cost, and giving up.

The steps are in `towpath.protocols`. Start reading at `planning.py`.
"""

"""The strategies that move jobs: each module says everything about one, and registers it.

`docs/extending/strategy.md` says how to add one.
"""

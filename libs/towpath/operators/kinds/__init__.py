"""The kinds of operators: each module says everything about one, and registers it.

None loads Spark before a plan is compiled. `docs/extending/operator.md` says how to add one.
"""

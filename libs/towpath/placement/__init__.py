"""Where data and jobs should be: pure functions, without I/O.

`data` places copies of stored values, `jobs` places the jobs of a pipeline. Nothing here moves anything.
"""

"""Operators, which say what a job computes, and the Spark plans that they become.

What a kind of operator says about itself is in `kinds`, and needs no Spark. The rest makes plans, and does.
Begin with `kind.OperatorKind`, then read `kinds.filter` and `compilation.compile_job`.
"""

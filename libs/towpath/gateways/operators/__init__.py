"""Operators that run on a gateway: a file each. Start with `operator.py`; `chain.py` joins them.

They have no part of Spark in them. Operators of jobs are in `towpath.operators`.
"""

"""Kinds of applications that a package can be: light operators, or a Spark cluster with a job.

One file a kind. `kind.py` says what a kind consists of. The processes are in `services/towpath/gateway`.
"""

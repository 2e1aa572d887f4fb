"""StreamSight queries over three airports and a cloud, each answer compared with a batch computation.

Start at `run.py`. The texts are those of `examples/queries`; the truth is `towpath.queries.reference`.
"""

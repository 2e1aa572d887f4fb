"""A train as an edge node: it finds a flat wheel on board, and has a link at stations only.

Start at `run.py`. The line and what the wheels report are in `towpath.lab.workload.journey`.
"""

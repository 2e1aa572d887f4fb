"""Which node keeps a copy of which node's stored values, and from which copy a query reads.

Start at `replication.py` for copies that survive a failure, and at `read_placement.py` for copies near a
query. Both follow the storage fabric of RAINBOW (deliverable D4.2, 2022). `docs/data-placement.md` explains
them.
"""

"""The durable memory of the coordinator, in Redis. Only this package knows keys and scripts.

`jobs.py` has jobs, operations and journals; `pipelines.py` has pipelines and applies.
"""

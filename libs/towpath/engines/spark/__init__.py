"""Apache Spark, seen from outside its process: its binder, and its format of checkpoints.

The process itself is the service `towpath.engine`. Nothing here imports PySpark. Start with `binder`, or with
`layout` for what is in a checkpoint.
"""

"""Engines that run the jobs of a site: what an agent must know of one, and where it finds that.

Each engine has its binder and its format of checkpoints in a folder. The engine's own process is not here:
Spark's is the service `towpath.engine`. Start with `binder`.
"""

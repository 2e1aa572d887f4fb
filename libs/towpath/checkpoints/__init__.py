"""Checkpoints on their way from site to site, whichever engine wrote them.

`inventory` compares two, `transfer` is the source's end of a shipment, and `receiving` the target's. What is
in a checkpoint is the engine's matter: see `towpath.engines.checkpoint_format`. Start with `transfer`.
"""

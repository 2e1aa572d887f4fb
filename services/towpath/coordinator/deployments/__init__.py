"""Deployment plans at the coordinator: its commands, its memory in Redis, and the way to the devices.

What a plan is, and how it is rolled out, is in `towpath.plans`. Start with `commands`.
"""

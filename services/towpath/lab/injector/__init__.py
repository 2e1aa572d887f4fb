"""Loads fault rules into a running mesh and out of it again: one process, whose death ends them all."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

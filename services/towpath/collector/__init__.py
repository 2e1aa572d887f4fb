"""The collector: it answers questions about measurements, traces and results of the whole mesh."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

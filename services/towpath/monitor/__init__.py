"""The synchronisation monitor: it compares two runs of a job and decides when one can replace the other."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

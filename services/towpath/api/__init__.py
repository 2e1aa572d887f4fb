"""The REST interface: it turns requests into the coordinator's commands, and answers into responses."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

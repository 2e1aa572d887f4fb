"""The coordinator: takes commands, keeps the registry, runs the protocols."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

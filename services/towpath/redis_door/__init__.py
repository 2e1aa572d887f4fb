"""The door of Redis in a mesh that encrypts: Redis' wheel is built without TLS."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

"""The supervisor of a machine: it runs the shared servers, the services and one agent per site as
processes."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

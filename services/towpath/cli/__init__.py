"""The command line: what people do with a mesh from a terminal."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

"""The agent of a site: it runs the site's broker, engine and jobs, and its part in migrations."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

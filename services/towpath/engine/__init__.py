"""The engine of a site: one warm Spark session that runs the site's jobs as streaming queries.

What an agent knows of it, such as the format of its checkpoints, is in `towpath.engines.spark`. Start with
`app`, `queries` and `query`.
"""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

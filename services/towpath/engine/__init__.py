"""The engine of a site: one warm Spark session that runs the site's jobs as streaming queries.

`binder` says what an engine has to do for its site; `masters`, where the session's tasks may run.
"""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

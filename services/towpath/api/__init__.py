"""The REST interface: it turns requests into the coordinator's commands, and answers into responses.

It also serves the live page, and the webhooks of pipelines (`webhooks`). Start reading with `app`.
"""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

"""The emulated links between sites and hub: one process that can delay, throttle and cut them."""

import towpath.lazy_imports  # noqa: F401  Before nats is imported, which would load aiohttp.

"""A TCP proxy that makes a link worse: it delays, throttles, or cuts what passes. Knows no protocol."""

from towpath.lab.proxy.connection import FROM_REDIS
from towpath.lab.proxy.link import Link, LinkRoute

__all__ = ["FROM_REDIS", "Link", "LinkRoute"]

"""A gateway's connection to its site: requests and results do not hold each other up."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any, cast

from towpath.gateway.site_session import SiteSession


def test_requests_when_they_cannot_be_kept_then_wait_and_the_session_goes_on() -> None:
    full = [True]
    kept, acknowledged = list[str](), list[int]()

    def receive(topic: str, body: bytes) -> None:
        if full[0]:
            raise OSError(28, "No space left on device")
        kept.append(topic)

    played = cast("Any", None)
    session = SiteSession(played, "plant", "pi", played, receive, played)
    connection = cast("Any", SimpleNamespace(acknowledge=acknowledged.append))
    arrived = cast("Any", deque([request("a", 1), request("b", 2)]))

    session._take(arrived, connection)
    assert (len(arrived), acknowledged) == (2, [])

    full[0] = False
    session._take(arrived, connection)
    assert (kept, acknowledged, len(arrived)) == (["a", "b"], [1, 2], 0)


def request(topic: str, number: int) -> Any:
    return SimpleNamespace(topic=topic, payload=b"{}", qos=1, mid=number)

"""Copies of other sites' streams that several jobs read."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nats.js.api import StreamConfig, StreamSource
from nats.js.errors import BadRequestError, NotFoundError

from towpath.contracts.data_plane import gate_prefix
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import ResolvedInput
from towpath.contracts.site import Retention
from towpath.streams import mirrors
from towpath.streams.streams import SiteStreams

INPUT = ResolvedInput(name="jfk/a", site="jfk", stream="OUT_a", subject=None, from_device=False)
MIRROR = "MIRROR_jfk_OUT_a"


class Server:
    """The site's server. `origin` is the first serial number that the stream's own site keeps."""

    options = {"user": "cloud.agent"}

    def __init__(self, begins: int | None = None, origin: int | None = 1) -> None:
        self.streams: dict[str, StreamConfig] = {}
        self.origin = origin
        self.mirror: dict[str, Any] = {}
        """The mirror as the server describes it."""
        if begins is not None:
            mirror = StreamSource(name="OUT_a", opt_start_seq=begins)
            self.streams[MIRROR] = StreamConfig(name=MIRROR, mirror=mirror)

    def jetstream(self, **_: Any) -> Server:
        return self

    async def stream_info(self, name: str) -> SimpleNamespace:
        found = name in self.streams
        await asyncio.sleep(0)  # Others are served while the answer travels.
        if not found:
            raise NotFoundError
        return SimpleNamespace(config=self.streams[name])

    async def add_stream(self, config: StreamConfig) -> None:
        assert config.name is not None
        if self.streams.setdefault(config.name, config) != config:
            raise BadRequestError(code=400, description="stream name already in use")

    async def delete_stream(self, name: str) -> None:
        del self.streams[name]

    async def request(self, subject: str, body: bytes, timeout: float) -> SimpleNamespace:
        if MIRROR in subject or "STREAM.LIST" in subject:
            return SimpleNamespace(data=json.dumps(self.mirror).encode())
        if self.origin is None:
            raise TimeoutError
        state = {"messages": 1, "first_seq": self.origin, "last_seq": 9_000}
        return SimpleNamespace(data=json.dumps({"config": {}, "state": state}).encode())

    def begins(self) -> int | None:
        mirror = self.streams[MIRROR].mirror
        assert mirror is not None
        return mirror.opt_start_seq


def streams(server: Server) -> SiteStreams:
    return SiteStreams(cast("Any", server), "cloud", Retention())


@pytest.mark.parametrize(
    ("begins", "origin", "after", "expected"),
    [
        pytest.param(5_000, 1, 0, None, id="made for a job that came late: made again from the beginning"),
        pytest.param(5_000, 1, 2_999, 2_000, id="made again from where the job begins, and what it recalls"),
        pytest.param(5_000, 3_200, 2_999, 2_200, id="made again from what the origin keeps"),
        pytest.param(5_000, 5_000, 0, 5_000, id="the origin has no more either: as it is"),
        pytest.param(5_000, None, 6_000, 5_000, id="enough: as it is, the origin is not asked"),
    ],
)
async def test_mirror_when_a_job_needs_older_events_than_it_has_then_it_reaches_back(
    begins: int, origin: int | None, after: int, expected: int | None
) -> None:
    server = Server(begins, origin)
    await streams(server).mirrors.reach_back(INPUT, after)
    assert server.begins() == expected


async def test_mirror_when_a_job_must_know_repeats_then_it_also_has_the_events_before_the_jobs_own() -> None:
    looking_back = INPUT.model_copy(update={"identity": ["id"], "repeats_within": 2_500})
    server, fresh = Server(5_000), Server()
    await streams(server).mirrors.reach_back(looking_back, 6_999)
    await streams(fresh).mirrors.reach_back(looking_back, 6_999)
    assert (server.begins(), fresh.begins()) == (4_500, 4_500)
    await streams(server).mirrors.reach_back(looking_back, 7_100)
    assert server.begins() == 4_500


async def test_mirror_when_it_is_too_short_and_its_origin_out_of_reach_then_stays_for_who_reads_it() -> None:
    server = Server(5_000, origin=None)
    with pytest.raises(TowpathError) as refused:
        await streams(server).mirrors.reach_back(INPUT, 0)
    assert refused.value.detail.code is ErrorCode.UNREACHABLE
    assert server.begins() == 5_000


@pytest.mark.parametrize(("first", "second"), [(3_000, 500), (500, 3_000)])
async def test_mirror_when_two_jobs_need_it_at_once_from_different_serials_then_holds_what_both_need(
    first: int, second: int
) -> None:
    server = Server()
    site = streams(server)

    await asyncio.gather(site.mirrors.reach_back(INPUT, first), site.mirrors.reach_back(INPUT, second))

    assert server.begins() in (None, 1)


def mirrored(event_bytes: int, active: int = -1) -> dict[str, Any]:
    """Return the description of a mirror of 8,000 events. `active`: nanoseconds since it was fed."""
    state = {"messages": 8_000, "first_seq": 1, "last_seq": 8_000, "bytes": 8_000 * event_bytes}
    origin = {"name": "OUT_a", "external": {"api": gate_prefix("jfk", "lga")}}
    return {"config": {"name": MIRROR, "mirror": origin}, "state": state, "mirror": {"active": active}}


@pytest.fixture
def same_events(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no(*_: Any) -> bool:
        return False

    monkeypatch.setattr(mirrors, "is_another", no)


@pytest.mark.usefixtures("same_events")
async def test_mirror_when_it_was_not_fed_at_two_looks_then_begins_again_where_its_readers_are() -> None:
    server = Server(begins=1)
    server.mirror = mirrored(150)
    copies = SiteStreams(cast(Any, server), "lga", Retention()).mirrors

    assert not await copies.renew(INPUT, 7_900)
    assert await copies.renew(INPUT, 7_900)
    assert server.begins() == 6_901, "readers look back by 1,000"
    assert not any([await copies.renew(INPUT, 7_900) for _ in range(3)]), "the new one has its time"


@pytest.mark.parametrize(
    ("active", "reads", "stalled"),
    [
        pytest.param(2_000_000_000, [INPUT], False, id="fed"),
        pytest.param(4_000_000_000, [INPUT], True, id="silent"),
        pytest.param(-1, [INPUT], True, id="never fed"),
        pytest.param(4_000_000_000, [], False, id="not read"),
    ],
)
async def test_mirrors_when_asked_then_tell_if_one_that_is_read_has_not_heard_from_its_origin(
    active: int, reads: list[ResolvedInput], stalled: bool
) -> None:
    server = Server(begins=1)
    server.mirror = {"streams": [mirrored(150, active)], "total": 1}
    copies = SiteStreams(cast(Any, server), "lga", Retention()).mirrors

    assert await copies.are_stalled(reads) is stalled


@pytest.mark.usefixtures("same_events")
@pytest.mark.parametrize(("event_bytes", "active"), [(1_000, -1), (150, 1_000_000_000)], ids=["large", "fed"])
async def test_mirror_when_it_is_fed_or_much_would_be_sent_again_then_stays(
    event_bytes: int, active: int
) -> None:
    server = Server(begins=1)
    server.mirror = mirrored(event_bytes, active)
    copies = SiteStreams(cast(Any, server), "lga", Retention()).mirrors

    assert not any([await copies.renew(INPUT, 0) for _ in range(3)])


@pytest.mark.usefixtures("same_events")
async def test_mirror_when_its_origin_was_out_of_reach_at_the_last_look_then_is_made_again_at_the_next() -> (
    None
):
    server = Server(begins=1, origin=None)
    server.mirror = mirrored(150)
    copies = SiteStreams(cast(Any, server), "lga", Retention()).mirrors

    with pytest.raises(TowpathError):
        await copies.renew(INPUT, 7_900)
    server.origin = 1
    assert await copies.renew(INPUT, 7_900)


@pytest.mark.usefixtures("same_events")
@pytest.mark.parametrize(
    ("here", "current_site", "feeds"),
    [
        pytest.param("lga", "cloud", gate_prefix("cloud", "lga"), id="at a third site"),
        pytest.param("jfk", "cloud", gate_prefix("cloud", "jfk"), id="at the site where it began"),
    ],
)
async def test_mirror_when_its_stream_goes_on_at_another_site_then_goes_on_with_it_where_its_readers_are(
    here: str, current_site: str, feeds: str
) -> None:
    server = Server(begins=1)
    server.mirror = mirrored(150, active=1)
    moved = INPUT.model_copy(update={"current_site": current_site})

    assert await SiteStreams(cast(Any, server), here, Retention()).mirrors.renew(moved, 7_900)

    origin = server.streams[MIRROR].mirror
    assert origin is not None
    assert origin.external is not None
    assert (origin.name, origin.external.api) == ("OUT_a", feeds)
    assert server.begins() == 6_901

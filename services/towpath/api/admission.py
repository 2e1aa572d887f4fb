"""Check each request's token, the role of the token, and the `Accept` header."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar

from aiohttp import web

from towpath.api.failed_logins import FailedLogins, Tell
from towpath.api.problems import Refusal
from towpath.api.routing import Handler, route_of
from towpath.contracts.errors import ErrorCode
from towpath.contracts.message import now
from towpath.contracts.rest import EVENT_STREAM, Route
from towpath.contracts.role import Role
from towpath.mesh.tokens import KnownTokens, Token

CHALLENGE = 'Bearer realm="towpath"'

LOOK_EVERY_S = 0.5
"""Pause between two looks if tokens of open event streams are still valid."""

asked_by: ContextVar[str | None] = ContextVar("asked_by", default=None)
"""Name of the token that the request under way has shown."""

ending: ContextVar[asyncio.Event] = ContextVar("ending")
"""Set when the event stream of the request under way must end: its token is void, or the service ends."""


class Admission:
    """Asks every request for a token of the route's role, unless the route is public."""

    def __init__(self, tokens: KnownTokens, stop: asyncio.Event, tell: Tell) -> None:
        self._tokens = tokens
        self._stop = stop
        self._failed = FailedLogins(stop, tell)
        self._open: dict[asyncio.Event, Token] = {}

    @web.middleware
    async def token(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests without a valid token (401), and with one of too low a role (403)."""
        route = route_of(request)
        if route is not None and route.public:
            return await handler(request)
        token = await self._shown(request)
        if route is not None and route.role is not None:
            check_role(token, route.role)
        end = asyncio.Event()
        if self._stop.is_set():
            end.set()
        self._open[end] = token
        known, before = asked_by.set(token.name), ending.set(end)
        try:
            return await handler(request)
        finally:
            del self._open[end]
            asked_by.reset(known)
            ending.reset(before)

    async def watch(self) -> None:
        """End event streams whose token is revoked or expires. When the service ends, end all, and return."""
        while not self._stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), LOOK_EVERY_S)
            for end, token in self._open.items():
                if self._stop.is_set() or not self._tokens.is_valid(token):
                    end.set()

    async def _shown(self, request: web.Request) -> Token:
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not shown.strip():
            raise Refusal(
                401,
                ErrorCode.UNAUTHORISED,
                "the request has no token",
                field="Authorization",
                allowed="Bearer and a token, such as the one that `towpath access` shows",
                headers={"WWW-Authenticate": CHALLENGE},
            )
        token = self._tokens.find(shown.strip())
        if token is not None and not token.has_expired(now()):
            self._failed.forget(request.remote)
            return token
        await self._failed.wait(request.remote)
        raise Refusal(
            401,
            ErrorCode.UNAUTHORISED,
            f"the token {token.name} has expired" if token else "not a token of this mesh",
            field="Authorization",
            headers={"WWW-Authenticate": f'{CHALLENGE}, error="invalid_token"'},
        )


def check_role(token: Token, needed: Role) -> None:
    """Raise `Refusal` (403) if the token's role does not include the one that is needed."""
    if not token.role.includes(needed):
        raise Refusal(
            403,
            ErrorCode.FORBIDDEN,
            f"the token {token.name} has the role {token.role}, and this needs {needed}",
            field="role",
            value=token.role.value,
            allowed=needed.and_above,
            headers={"WWW-Authenticate": f'{CHALLENGE}, error="insufficient_scope", scope="{needed}"'},
        )


@web.middleware
async def accept(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse requests whose client accepts nothing that the route answers: 406."""
    route = route_of(request)
    header = ", ".join(request.headers.getall("Accept", []))
    if route is not None and 406 in route.errors and header:
        offered = media_type(route)
        if not accepts(header, offered):
            raise Refusal(
                406,
                ErrorCode.INVALID,
                "this path does not answer in this media type",
                field="Accept",
                value=header[:200],
                allowed=[offered],
            )
    return await handler(request)


def media_type(route: Route) -> str:
    """Return the media type of the route's answer to a valid request."""
    return EVENT_STREAM if route.streams else route.media_type


def accepts(header: str, offered: str) -> bool:
    """True if an `Accept` header (RFC 9110) takes a media type. The most specific range decides."""
    best, taken = -1, False
    for part in header.split(","):
        fields = [field.strip() for field in part.lower().split(";")]
        specificity = _specificity(fields[0], offered)
        if specificity > best:
            best, taken = specificity, _quality(fields[1:]) > 0
    return taken


def _specificity(media_range: str, offered: str) -> int:
    """Return 2 for the very type, 1 for all of its kind, 0 for everything, -1 for another type."""
    if media_range in ("*/*", "*"):
        return 0
    if media_range == offered.partition("/")[0] + "/*":
        return 1
    return 2 if media_range == offered else -1


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0

"""Check each request's token and `Accept` header."""

from __future__ import annotations

import hmac

from aiohttp import web

from towpath.api.problems import Refusal
from towpath.api.routing import Handler, route_of
from towpath.contracts.errors import ErrorCode
from towpath.contracts.rest import EVENT_STREAM, Route

CHALLENGE = 'Bearer realm="towpath"'


class Admission:
    """Asks every request for the token, unless its route is public."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    @web.middleware
    async def token(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests without the token: 401."""
        route = route_of(request)
        if route is None or not route.public:
            self._check(request)
        return await handler(request)

    def _check(self, request: web.Request) -> None:
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not shown.strip():
            raise Refusal(
                401,
                ErrorCode.UNAUTHORISED,
                "the request has no token",
                field="Authorization",
                allowed="Bearer and the token that `towpath access` shows",
                headers={"WWW-Authenticate": CHALLENGE},
            )
        # Compared in constant time, so that the duration does not tell how much of a guess was right.
        if not hmac.compare_digest(shown.strip().encode(errors="surrogateescape"), self._token):
            raise Refusal(
                401,
                ErrorCode.UNAUTHORISED,
                "not the token of this mesh",
                field="Authorization",
                headers={"WWW-Authenticate": f'{CHALLENGE}, error="invalid_token"'},
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

"""The live page: files for browsers. They contain no data, so they need no token."""

from __future__ import annotations

import asyncio
import mimetypes
from pathlib import Path

from aiohttp import web

from towpath.api.problems import Refusal
from towpath.contracts.errors import ErrorCode
from towpath.contracts.rest import Route

FOLDER = Path(__file__).parents[1] / "page"
FIRST = "index.html"

HEADERS = {
    # Nothing comes from elsewhere, no script is in the page itself, and no other page may frame it, because
    # anyone who gets a script in there has the mesh's token.
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

TYPES = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}
"""Set here, because the machine's own table may differ for `.js`, and browsers refuse other types."""


class PageRoutes:
    """Sends the page's files: those in the folder and no others."""

    def __init__(self) -> None:
        self._files = {path.name: path for path in FOLDER.iterdir() if path.is_file()}

    async def show(self, route: Route, request: web.Request) -> web.StreamResponse:
        """Send a file by its name, or the page itself without a name."""
        name = request.match_info.get("file", FIRST)
        path = self._files.get(name)
        if path is None:
            raise Refusal(404, ErrorCode.UNKNOWN_COMMAND, "the page has no such file", value=name[:200])
        body = await asyncio.to_thread(path.read_bytes)
        content_type = TYPES.get(path.suffix) or mimetypes.guess_type(name)[0] or "text/plain"
        return web.Response(body=body, content_type=content_type, charset="utf-8", headers=HEADERS)

"""Let a site read an artefact at the hub if it knows the artefact's digest.

A digest is as good as a key: no one can guess it, and only sites that run the code are told it. The parts of
an artefact lie under a name that could be guessed. So a site gets the description of an artefact for its
digest, and then the parts that this description names. It can list and copy nothing.
"""

from __future__ import annotations

import json
import re

from nats.aio.client import Client

from towpath.artefacts.hub_store import META, STREAM, described_at

_DIRECT_GET = f"DIRECT.GET.{STREAM}"
_DESCRIPTION = re.compile(re.escape(META) + r"[\w=-]{88}")
"""Subject of a description: a SHA-256 digest in hexadecimal, in base 64. It has no wildcard."""

UNKNOWN = "asks for more than an artefact whose digest it has named"


class ArtefactGate:
    """Looks at the requests of sites. `connection` is one to the hub itself."""

    def __init__(self, connection: Client) -> None:
        self._connection = connection
        self._known: set[tuple[str, str]] = set()
        """Readers, and the subjects of parts whose description they asked for, since this process began."""

    async def obstacle(self, reader: str, api: str, body: bytes) -> str | None:
        """Return why a request may not pass, in words; None if it may.

        Raises `TimeoutError` when the hub does not answer.
        """
        match _pairs(body) if api == _DIRECT_GET else None:
            case [("last_by_subj", str(subject))] if _DESCRIPTION.fullmatch(subject):
                described = await described_at(self._connection, subject)
                if described is not None:
                    self._known.add((reader, described.chunks_at))
                return None
            case [("seq", int()), ("next_by_subj", str(subject))] if (reader, subject) in self._known:
                return None
        return UNKNOWN


def _pairs(body: bytes) -> object:
    """Return the fields of a request in their order: the server would take the last of two with one name."""
    try:
        return json.loads(body, object_pairs_hook=list)
    except (ValueError, RecursionError):
        return None

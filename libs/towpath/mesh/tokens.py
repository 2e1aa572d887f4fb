"""Tokens for the REST interface: who may do what, and until when. Only their hashes are kept.

The hash is SHA-256, which is fast. A slow one protects passwords that people choose, because those can be
tried one by one. A token has 256 random bits: at any speed no one finds it, or another text with its hash.
For the same reason nothing is learnt from the time that a comparison of hashes takes.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from towpath.atomic_write import content_state, write_private_file
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import JobName, Model, now
from towpath.contracts.role import Role

log = logging.getLogger(__name__)

TOKEN_BYTES = 32
PREFIX = "towpath_"
"""Begins every token, so that programs which look for leaked secrets recognise one."""

OWNER = "owner"
"""Name of the token that `towpath up` makes. It has the role admin, and is kept with the mesh's passwords."""

BEGINNING = datetime.min.replace(tzinfo=UTC)

TokenName = JobName


class Token(Model):
    """A token as it is kept."""

    name: TokenName
    role: Role
    digest: str
    created: datetime
    expires: datetime | None = None
    """None: it is valid until it is revoked."""

    def has_expired(self, at: datetime) -> bool:
        """Return True if it is not valid any more."""
        return self.expires is not None and at >= self.expires


class TokenFile(Model):
    """The content of `Home.tokens`."""

    tokens: list[Token] = []


def digest_of(text: str) -> str:
    """Return the hash under which a token is kept."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def saved_tokens(path: Path) -> list[Token]:
    """Return all tokens in a file; none if there is no file. Raises `TowpathError` if it is unreadable."""
    try:
        return TokenFile.from_json(path.read_bytes()).tokens
    except FileNotFoundError:
        return []
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error


def add_token(path: Path, name: str, role: Role, expires: datetime | None) -> tuple[str, Token]:
    """Keep a new token. Return its text, which is kept nowhere, and the rest. Raises `TowpathError`.

    The caller must hold the lock of the mesh's directory, here and in `revoke_token`.
    """
    tokens = saved_tokens(path)
    if name in (OWNER, *(token.name for token in tokens)):
        raise TowpathError(
            ErrorCode.NAME_IN_USE,
            "there is a token of this name",
            field="name",
            value=name,
            allowed="another name, or revoke that one first",
        )
    text = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    try:
        token = Token(name=name, role=role, digest=digest_of(text), created=now(), expires=expires)
    except ValidationError as error:
        raise TowpathError.of_validation(error) from error
    write_private_file(path, TokenFile(tokens=[*tokens, token]).model_dump_json(indent=2))
    return text, token


def revoke_token(path: Path, name: str) -> None:
    """Forget a token: it is not valid any more. Raises `TowpathError`."""
    tokens = saved_tokens(path)
    left = [token for token in tokens if token.name != name]
    if len(left) == len(tokens):
        raise TowpathError.unknown("token", name, [token.name for token in tokens], field="name")
    write_private_file(path, TokenFile(tokens=left).model_dump_json(indent=2))


def owner_token(text: str) -> Token:
    """Return the token that `towpath up` made, as one of the others."""
    return Token(name=OWNER, role=Role.ADMIN, digest=digest_of(text), created=BEGINNING)


class KnownTokens:
    """The tokens of a mesh as its REST interface knows them. It reads their file again when that changed."""

    def __init__(self, path: Path, owner: str, clock: Callable[[], datetime] = now) -> None:
        """`owner` is the text of the owner's token."""
        self._path = path
        self._owner = owner_token(owner)
        self._clock = clock
        self._read_at: tuple[int, ...] | None = None
        self._by_digest = {self._owner.digest: self._owner}

    def find(self, text: str) -> Token | None:
        """Return the token with this text, also if it has expired. None if there is none."""
        self._refresh()
        return self._by_digest.get(digest_of(text))

    def is_valid(self, token: Token) -> bool:
        """Return True if a token that was found before is neither revoked nor expired now."""
        self._refresh()
        return self._by_digest.get(token.digest) == token and not token.has_expired(self._clock())

    def _refresh(self) -> None:
        # In the event loop: to ask for a file's state takes microseconds, less than a thread does.
        state = content_state(self._path)
        if state == self._read_at:
            return
        self._read_at = state
        try:
            tokens = saved_tokens(self._path)
        except (TowpathError, OSError) as error:
            log.error("only the owner's token is valid, because %s is unreadable: %s", self._path, error)
            tokens = []
        self._by_digest = {token.digest: token for token in (*tokens, self._owner)}

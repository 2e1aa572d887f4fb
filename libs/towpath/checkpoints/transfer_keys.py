"""Keys of transfers in the state store. Services beside the hub know them without what transfers need."""

from __future__ import annotations

import hmac

TRANSFERS = "towpath:transfer:"
"""Beginning of the keys of all transfers."""


def transfer_key(operation: str, name: str) -> str:
    """Return the key of the Redis stream of an operation's transfer."""
    return f"{TRANSFERS}{operation}:{name}"


def operation_of(key: str) -> str:
    """Return the operation of a key that begins with `TRANSFERS`."""
    return key.removeprefix(TRANSFERS).split(":")[0]


def transfer_name(secret: str, operation: str) -> str:
    """Return the target's name of an operation's transfer: the same each time, and known to no one else."""
    return hmac.new(secret.encode(), operation.encode(), "sha256").hexdigest()[:32]

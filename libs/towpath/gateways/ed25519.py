"""Verify Ed25519 signatures (RFC 8032, section 5.1.7), in Python: a gateway needs no library for it.

It handles public values only, so it need not take the same time for all of them. One verification takes some
milliseconds. To sign, use `openssl pkeyutl -sign -rawin`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT_OF_MINUS_1 = pow(2, (_P - 1) // 4, _P)

_Point = tuple[int, int, int, int]
"""Extended coordinates (X, Y, Z, T): x = X/Z, y = Y/Z, x*y = T/Z."""

_IDENTITY: _Point = (0, 1, 1, 0)


def verifies(public_key: bytes, signature: bytes, message: Iterable[bytes]) -> bool:
    """True if `signature` is that of the message, which comes in pieces, under the public key.

    The equation is S*B = R + k*A, with k the SHA-512 of R, A and the message.
    """
    if len(public_key) != 32 or len(signature) != 64:
        return False
    a, r = _decoded(public_key), _decoded(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= _ORDER:
        return False
    digest = hashlib.sha512(signature[:32] + public_key)
    for piece in message:
        digest.update(piece)
    k = int.from_bytes(digest.digest(), "little") % _ORDER
    return _equal(_times(s, _BASE), _sum(r, _times(k, a)))


def _sum(p: _Point, q: _Point) -> _Point:
    """Add two points (RFC 8032, section 5.1.4)."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % _P, (p[1] + p[0]) * (q[1] + q[0]) % _P
    c, d = 2 * p[3] * q[3] * _D % _P, 2 * p[2] * q[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(factor: int, point: _Point) -> _Point:
    product = _IDENTITY
    while factor > 0:
        if factor & 1:
            product = _sum(product, point)
        point = _sum(point, point)
        factor >>= 1
    return product


def _equal(p: _Point, q: _Point) -> bool:
    return (p[0] * q[2] - q[0] * p[2]) % _P == 0 and (p[1] * q[2] - q[1] * p[2]) % _P == 0


def _decoded(encoded: bytes) -> _Point | None:
    """Return the point of 32 bytes, or None if there is none (RFC 8032, section 5.1.3)."""
    number = int.from_bytes(encoded, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    x = _x_of(y, sign)
    return None if x is None else (x, y, 1, x * y % _P)


def _x_of(y: int, sign: int) -> int | None:
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    if square == 0:
        return None if sign else 0
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P != 0:
        x = x * _ROOT_OF_MINUS_1 % _P
    if (x * x - square) % _P != 0:
        return None
    return _P - x if x & 1 != sign else x


_BASE_Y = 4 * pow(5, -1, _P) % _P
_BASE_X = _x_of(_BASE_Y, 0) or 0
_BASE: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)

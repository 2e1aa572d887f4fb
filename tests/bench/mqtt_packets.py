"""Just enough of MQTT 3.1.1 to load a broker with QoS 1 cheaply: packets as bytes."""

from __future__ import annotations

import socket
import ssl
import struct

PUBACK = 0x40
PUBLISH_QOS1 = 0x32
DISCONNECT = b"\xe0\x00"

_CONNACK_S = 10.0


def connect(
    host: str, port: int, user: str, password: str, client_id: str, ca_file: str | None = None
) -> socket.socket:
    """Open a connection, encrypted if the broker's authority is given.

    Raises `OSError`, also when the broker refuses it.
    """
    connection = socket.create_connection((host, port), timeout=_CONNACK_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if ca_file is not None:
        connection = ssl.create_default_context(cafile=ca_file).wrap_socket(connection, server_hostname=host)
    # Clean session, user, password; keep-alive 0: the broker expects no pings.
    body = b"\x00\x04MQTT\x04\xc2\x00\x00" + b"".join(map(_text, (client_id, user, password)))
    connection.sendall(b"\x10" + _length(len(body)) + body)
    answer = _exactly(connection, 4)
    if answer[0] != 0x20 or answer[3] != 0:
        raise ConnectionRefusedError(f"the broker refuses {client_id}: {answer.hex()}")
    return connection


def publish(topic: str, payload: bytes) -> bytes:
    """A QoS 1 PUBLISH with packet id 0; the id stands before the payload."""
    body = _text(topic) + b"\x00\x00" + payload
    return bytes([PUBLISH_QOS1]) + _length(len(body)) + body


def subscribe(connection: socket.socket, topic: str) -> None:
    """Subscribe with QoS 1. Raises `OSError`, also when the broker refuses."""
    body = b"\x00\x01" + _text(topic) + b"\x01"
    connection.sendall(b"\x82" + _length(len(body)) + body)
    answer = _exactly(connection, 5)
    if answer[0] != 0x90 or answer[4] != 1:
        raise ConnectionRefusedError(f"the broker refuses the subscription to {topic}: {answer.hex()}")


def packets(buffer: bytes) -> tuple[list[tuple[int, int, int]], int]:
    """All whole packets in `buffer`: (first byte, start of body, end); and where the rest begins."""
    found: list[tuple[int, int, int]] = []
    position, size = 0, len(buffer)
    while position + 1 < size:
        length, shift, at = 0, 0, position + 1
        while at < size:
            byte = buffer[at]
            length |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if byte < 0x80:
                break
        else:
            break
        if at + length > size:
            break
        found.append((buffer[position], at, at + length))
        position = at + length
    return found, position


def puback(packet_ids: list[bytes]) -> bytes:
    """Acknowledgements of these packets."""
    return b"".join(b"\x40\x02" + packet_id for packet_id in packet_ids)


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        if not more:
            raise ConnectionResetError("the broker closed the connection")
        received += more
    return received


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded


def _length(length: int) -> bytes:
    encoded = bytearray()
    while True:
        length, digit = divmod(length, 128)
        encoded.append(digit | (0x80 if length else 0))
        if not length:
            return bytes(encoded)

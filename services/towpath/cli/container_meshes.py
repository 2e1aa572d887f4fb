"""Meshes that run as containers: compose starts and stops them, and keeps their logs."""

from __future__ import annotations

from towpath.atomic_write import make_private_directory
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home

COMPOSE = {"up": "up --detach", "down": "stop", "status": "ps", "logs": "logs"}
"""Our command → the command of compose that does the same."""


def mark_as_containers(home: Home) -> None:
    """Let the mesh of a home run as containers. Raises `TowpathError` when it is one of processes."""
    if home.state.exists() and not home.secrets.is_dir():
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "here is a mesh of this machine's own processes",
            field="home",
            value=str(home.root),
            allowed="a directory of its own",
        )
    # Before there is a mesh: so it is never taken for one of processes.
    make_private_directory(home.secrets)


def compose_instead(home: Home, command: str) -> str | None:
    """Return the command to use instead of `up`, `down`, `status` or `logs` for a mesh of containers.

    None: the mesh is not one of containers.
    """
    if not home.secrets.is_dir():
        return None
    if not home.own_commands.exists():
        return f"docker compose {COMPOSE[command]}"
    up, compose = home.own_commands.read_text().splitlines()
    return up if command == "up" else f"{compose} {COMPOSE[command]}"


def check_processes(home: Home, command: str | None = None) -> None:
    """Raise `TowpathError` if the mesh runs as containers. It names what compose has instead of `command`."""
    if home.secrets.is_dir():
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "this mesh runs as containers",
            field="home",
            value=str(home.root),
            allowed="a mesh of processes" if command is None else f"`{compose_instead(home, command)}`",
        )


def nothing_runs(home: Home) -> TowpathError:
    """Return the error for a mesh that does not answer, or does not exist. It says how to start it."""
    start = compose_instead(home, "up") or "towpath up"
    return TowpathError(
        ErrorCode.UNREACHABLE,
        f"no mesh runs here; start one first with `{start}`",
        field="home",
        value=str(home.root),
    )

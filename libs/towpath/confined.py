"""Become a command that can open only some of the machine's files, with all that it starts.

`confined` prefixes a command so that this file runs first, as a script. It asks the kernel for a Landlock
domain (Linux 5.13 and later; no rights are needed), and then becomes the command. Beside the files it takes
away what reaches into other processes: their memory, environment and signals. Root keeps none of its
capabilities, and programs with more rights, such as `sudo`, get none. On other kernels it says so on standard
error, and the command runs unconfined.

It imports little, because it precedes the start of each engine.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import stat
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of Linux's system calls, the same on all architectures."""

_VERSION_FLAG = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
"""`PR_SET_NO_NEW_PRIVS` of prctl. The kernel wants it, because else a program could get rights back."""

_DROP_CAPABILITY, _CAPABILITIES = 24, 64
"""`PR_CAPBSET_DROP`, and the number of capabilities that there can ever be. Some read other processes."""

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_LINK, _TRUNCATE, _DEVICE_CONTROL = 1 << 12, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
"""Rights that a rule about a single file may have. All others are about directories."""

_READ = _EXECUTE | _READ_FILE | _READ_DIRECTORY
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Version of Landlock → number of rights that it knows. Later versions know no more."""

_SCOPES_SINCE, _SCOPES = 6, 0b11
"""Abstract sockets, and signals: neither leaves the domain."""

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc", "/sys"),
    *(f"/etc/{name}" for name in ("alternatives", "fonts", "ssl/certs", "ca-certificates", "pki")),
    *(f"/etc/{name}" for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone")),
    *(f"/etc/{name}" for name in ("passwd", "group", "nsswitch.conf", "hosts", "host.conf", "resolv.conf")),
    *(f"/etc/{name}" for name in ("services", "protocols", "gai.conf", "os-release", "mime.types")),
    *("/dev/urandom", "/dev/random", "/dev/zero", "/dev/full"),
)
"""Files that programs need to run at all, and that hold no secrets. Directories hold with all below them."""

DEVICES = ("/dev/null", "/dev/tty")


def confined(command: Sequence[str], *, reads: Iterable[Path], writes: Iterable[Path]) -> tuple[str, ...]:
    """Return a command that runs `command` with nothing but these files, the system's and this Python's.

    Directories hold with all that is below them, also later. Paths that do not exist then are left out.
    So is the directory from which this process was started, though `python -m` has modules looked for there:
    it may be a home directory, or `/`.
    """
    here = {"", str(Path.cwd())}
    python = (sys.prefix, sys.base_prefix, *(path for path in sys.path if path not in here))
    packages = tuple(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)
    allowed = {
        "read": [*SYSTEM, *python, *packages, *map(str, reads)],
        "write": [*DEVICES, *map(str, writes)],
    }
    return (sys.executable, "-I", "-S", __file__, json.dumps(allowed), *command)


def confine(reads: Iterable[str], writes: Iterable[str]) -> bool:
    """Confine this thread, and all that it starts from now on. False: the kernel cannot.

    Raises `OSError` if the kernel refuses what it should be able to do.
    """
    version = _landlock_version()
    if not version:
        return False
    every = (1 << _RIGHTS.get(version, max(_RIGHTS.values()))) - 1
    scopes = _SCOPES if version >= _SCOPES_SINCE else 0
    # Older kernels take a shorter description, and refuse a longer one only if the rest is not zero.
    description = struct.pack("=QQQ", every, 0, scopes)
    ruleset = _call(_CREATE_RULESET, description, len(description) if version >= _SCOPES_SINCE else 8, 0)
    try:
        for paths, rights in ((reads, _READ), (writes, every & ~(_DEVICE_CONTROL | _MAKE_LINK))):
            for path in paths:
                _allow(ruleset, path, rights & every)
        for capability in range(_CAPABILITIES):
            with contextlib.suppress(OSError):  # There is none of this number, or this is no root.
                _prctl(_DROP_CAPABILITY, capability)
        _prctl(_NO_NEW_PRIVILEGES, 1)
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def is_supported() -> bool:
    """Tell if the kernel can confine processes."""
    return _landlock_version() > 0


def _landlock_version() -> int:
    with contextlib.suppress(OSError):
        return _call(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return 0


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_directory = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        rule = struct.pack("=Qi", rights if is_directory else rights & _OF_FILES, descriptor)
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: int | bytes | None) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    found = library.syscall(number, *(ctypes.c_long(a) if isinstance(a, int) else a for a in arguments))
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(found)


def _prctl(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, *(ctypes.c_ulong(each) for each in (value, 0, 0, 0))):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main(arguments: list[str]) -> None:
    """Confine this process, then become the command: `confined.py <allowed> <command…>`."""
    allowed, *command = arguments
    paths = json.loads(allowed)
    if not confine(paths["read"], paths["write"]):
        print("this kernel has no Landlock: code of jobs can read what this user can read", file=sys.stderr)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])

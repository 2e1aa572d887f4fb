"""Set the clock of a running process off, whatever it is written in.

Programs ask for the time without the kernel's help: Linux maps a small library, the vDSO, into each process,
and Go, Java, Python and C call it. `set_off` writes other code into the process's own copy. That code asks
the kernel and adds an offset, which lies beside it. So only this process is affected, its threads and those
that it forks; a program that it starts (`exec`) has a fresh copy and the right time.

The clock by which timeouts go (`CLOCK_MONOTONIC`) stays as it is. A wait until a time of day is up to the
kernel, whose clock is right. A thread whose signal handler has interrupted the vDSO at that moment may crash;
that is rare. x86-64 only. Writing needs the rights of a debugger: the same user and no limit by
`kernel.yama.ptrace_scope`, or root.
"""

from __future__ import annotations

import contextlib
import os
import platform
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from towpath.contracts.errors import ErrorCode, TowpathError

TRIES = 200
"""Attempts to stop a process while no thread of it is asking for the time."""

_REALTIME, _BOOT, _ROOM = 0x30, 0x38, 0x40
"""Where the offsets lie behind the beginning of `clock_gettime`: seconds, as 64-bit numbers. Code and offsets
need so much room, bytes."""

_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC, _SYMBOLS, _STRINGS = 2, 6, 5
"""Numbers of the ELF format: a program header's type, and tags of its entries."""


@dataclass(frozen=True)
class Offsets:
    """By how many seconds the clocks of a process are ahead."""

    realtime_s: int = 0
    """The time of day."""
    boot_s: int = 0
    """`CLOCK_BOOTTIME`, which goes on while a machine sleeps."""


def set_off(pid: int, offsets: Offsets) -> None:
    """Set the clocks of a process ahead of the kernel's by so much. Blocks for some milliseconds.

    Raises `TowpathError` where that is not possible, and `ProcessLookupError` if the process has ended.
    """
    if platform.machine() != "x86_64":
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "clocks of processes can be set on x86-64 only",
            field="machine",
            value=platform.machine(),
            allowed="x86_64",
        )
    try:
        library = _Library.of(pid)
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            if not library.is_changed(memory.fileno()):
                if offsets == Offsets():
                    return
                with _stopped(pid, library):
                    library.change(memory.fileno())
            library.write_offsets(memory.fileno(), offsets)
    except PermissionError as error:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the clock of a process is set as a debugger would, and this user may not do that",
            field="pid",
            value=str(pid),
            allowed="root, or `sysctl kernel.yama.ptrace_scope=0`",
        ) from error
    except (FileNotFoundError, psutil.NoSuchProcess) as error:
        raise ProcessLookupError(pid) from error


@dataclass(frozen=True)
class _Library:
    """The vDSO of a process."""

    begin: int
    end: int
    functions: dict[str, int]
    """Name → address."""

    @classmethod
    def of(cls, pid: int) -> _Library:
        """Find it. Raises `ProcessLookupError` if the process has none: it has ended."""
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if line.endswith("[vdso]"):
                begin, end = (int(edge, 16) for edge in line.split()[0].split("-"))
                with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
                    image = os.pread(memory.fileno(), end - begin, begin)
                return cls(begin, end, {name: begin + at for name, at in _functions(image)})
        raise ProcessLookupError(pid)

    def is_changed(self, memory: int) -> bool:
        code = _clock_gettime()
        return os.pread(memory, len(code), self.functions["clock_gettime"]) == code

    def change(self, memory: int) -> None:
        """Write the code of all functions that tell the time of day."""
        clock_gettime = self.functions["clock_gettime"]
        os.pwrite(memory, struct.pack("<qq", 0, 0), clock_gettime + _REALTIME)
        for name, code in (("gettimeofday", _gettimeofday), ("time", _time)):
            at = self.functions[name]
            os.pwrite(memory, code(clock_gettime + _REALTIME - at), at)
        # Last, because it tells that all are written.
        os.pwrite(memory, _clock_gettime(), clock_gettime)

    def write_offsets(self, memory: int, offsets: Offsets) -> None:
        packed = struct.pack("<qq", offsets.realtime_s, offsets.boot_s)
        os.pwrite(memory, packed, self.functions["clock_gettime"] + _REALTIME)


def _functions(image: bytes) -> Iterator[tuple[str, int]]:
    """Yield the functions of the vDSO, which is an ELF file in memory, and where they begin."""
    headers, count = struct.unpack_from("<Q", image, 0x20)[0], struct.unpack_from("<H", image, 0x38)[0]
    places = (headers + 56 * number for number in range(count))
    dynamic = next(at for at in places if struct.unpack_from("<I", image, at)[0] == _DYNAMIC)
    tags = dict(struct.iter_unpack("<qQ", image[slice(*_extent(image, dynamic))]))
    symbols, strings = tags[_SYMBOLS], tags[_STRINGS]
    # The table of symbols ends where that of their names begins.
    whole = (strings - symbols) // _SYMBOL.size * _SYMBOL.size
    for name, _, _, _, begin, size in _SYMBOL.iter_unpack(image[symbols : symbols + whole]):
        text = image[strings + name : image.index(b"\0", strings + name)].decode()
        if text == "clock_gettime" and size < _ROOM:
            raise TowpathError(ErrorCode.NOT_ALLOWED, "this kernel tells processes the time in another way")
        yield text.removeprefix("__vdso_"), begin


def _extent(image: bytes, header: int) -> tuple[int, int]:
    offset, _, _, size = struct.unpack_from("<QQQQ", image, header + 8)
    return offset, offset + size


@contextmanager
def _stopped(pid: int, library: _Library) -> Iterator[None]:
    """Stop a process where no thread of it is within the vDSO."""
    process = psutil.Process(pid)
    was_stopped = process.status() == psutil.STATUS_STOPPED
    for _ in range(TRIES):
        process.suspend()
        try:
            if _is_still(pid) and not any(library.begin <= at < library.end for at in _places(pid)):
                yield
                return
        finally:
            if not was_stopped:
                process.resume()
        time.sleep(0.001)
    raise TowpathError(ErrorCode.DEADLINE, f"process {pid} asks for the time without pause")


def _is_still(pid: int) -> bool:
    """Wait until all threads have stopped."""
    for _ in range(TRIES):
        states = [
            stat.rpartition(")")[2].split()[0]
            for task in Path(f"/proc/{pid}/task").iterdir()
            if (stat := _read(task / "stat"))
        ]
        if all(state in "TtZX" for state in states):
            return True
        time.sleep(0.001)
    return False


def _places(pid: int) -> Iterator[int]:
    """Yield where each thread goes on: the last field of what the kernel says of its call."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        fields = _read(task / "syscall").split()
        if len(fields) > 1:
            yield int(fields[-1], 16)


def _read(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


def _clock_gettime() -> bytes:
    """Code of `clock_gettime(rdi: clock, rsi: struct timespec *)`."""
    code = bytes.fromhex(
        "b8e4000000"  # mov eax, 228
        "0f05"  # syscall
        "85c0"  # test eax, eax
        "7522"  # jnz end
        "83ff00"  # cmp edi, CLOCK_REALTIME
        "7413"  # je realtime
        "83ff05"  # cmp edi, CLOCK_REALTIME_COARSE
        "740e"  # je realtime
        "83ff07"  # cmp edi, CLOCK_BOOTTIME
        "7513"  # jne end
    )
    code += b"\x48\x8b\x15" + struct.pack("<i", _BOOT - len(code) - 7)  # mov rdx, [boot]
    code += bytes.fromhex("eb07")  # jmp add
    code += b"\x48\x8b\x15" + struct.pack("<i", _REALTIME - len(code) - 7)  # realtime: mov rdx, [realtime]
    return code + bytes.fromhex("480116c3")  # add: add [rsi], rdx; end: ret


def _gettimeofday(offset: int) -> bytes:
    """Code of `gettimeofday(rdi: struct timeval *, rsi)`; the offset in seconds lies `offset` behind it."""
    code = bytes.fromhex(
        "b860000000"  # mov eax, 96
        "0f05"  # syscall
        "4885ff"  # test rdi, rdi
        "740a"  # jz end
    )
    code += b"\x48\x8b\x15" + struct.pack("<i", offset - len(code) - 7)  # mov rdx, [realtime]
    return code + bytes.fromhex("480117c3")  # add [rdi], rdx; end: ret


def _time(offset: int) -> bytes:
    """Code of `time(rdi: time_t *)`; the offset in seconds lies `offset` behind it."""
    code = bytes.fromhex(
        "b8c9000000"  # mov eax, 201
        "0f05"  # syscall
    )
    code += b"\x48\x03\x05" + struct.pack("<i", offset - len(code) - 7)  # add rax, [realtime]
    return code + bytes.fromhex(
        "4885ff"  # test rdi, rdi
        "7403"  # jz end
        "488907"  # mov [rdi], rax
        "c3"  # end: ret
    )

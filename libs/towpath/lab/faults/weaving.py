"""Rules at code points: wraps functions while a rule looks at them, and puts back what was there.

A function is wrapped where its module or class keeps it, and in every module that has imported it by name.
Whoever has taken hold of it otherwise before (a bound method in a table, a default argument) goes on with
what it has. Modules that are not imported yet are wrapped when they are; rules import nothing.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from types import ModuleType
from typing import Any

import wrapt

from towpath.contracts.faults import Moment
from towpath.lab.faults.active import ActiveRule, is_looking
from towpath.lab.faults.fields import Arguments
from towpath.lab.faults.registry import Call

Rules = Mapping[Moment, tuple[ActiveRule, ...]]

_NOT_OURS = "towpath.lab.faults."
"""What carries rules out keeps the functions it has."""

_MISSING = object()


class _Woven(wrapt.FunctionWrapper):
    """A wrapped function. Pickled by name: where it is unpickled, other rules may hold."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _by_name, (self.__module__, self.__qualname__)


def _by_name(module: str, name: str) -> Any:
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


@dataclass(frozen=True)
class _Stitch:
    """One place where the wrapped function stands instead of another object."""

    owner: Any
    name: str
    before: Any
    """`_MISSING`: the owner, a class, had it from a base."""

    def undo(self, woven: Any) -> None:
        if vars(self.owner).get(self.name) is not woven:
            return  # Somebody has put something else there meanwhile.
        if self.before is _MISSING:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, self.before)


class Seam:
    """One code point, `module:function` or `module:Class.method`, while rules look at it."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.rules: Rules = {}
        self.module, _, self._path = code.partition(":")
        self._woven_into: ModuleType | None = None
        self._woven: Any = None
        self._stitches: list[_Stitch] = []

    def close(self, module: ModuleType | None) -> None:
        """Wrap the function of its module, if that is not done yet. Raises `LookupError`, `TypeError` when
        there is nothing to wrap; that is not tried again."""
        if module is None or module is self._woven_into:
            return
        self.open()
        self._woven_into = module
        owner, name, original = _resolved(module, self._path)
        self._woven = _Woven(original, self._around_task if _is_coroutine(original) else self._around)
        places = [(owner, name), *(_copies(owner, original) if owner is module else ())]
        for holder, under in places:
            stitch = _Stitch(holder, under, vars(holder).get(under, _MISSING))
            setattr(holder, under, self._woven)
            self._stitches.append(stitch)

    def open(self) -> None:
        """Put back what was there."""
        for stitch in self._stitches:
            stitch.undo(self._woven)
        self._stitches, self._woven, self._woven_into = [], None, None

    def _around(self, wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        if not self.rules or is_looking():
            return wrapped(*args, **kwargs)
        call = Call(self.code, Moment.ENTRY, Arguments(wrapped, instance, args, kwargs))
        for rule, error in self._acting(call):
            rule.hold_up(call.wait_s)
            _raise(error)
        if call.answered:
            return call.result
        begun = monotonic()
        try:
            call.result = wrapped(*args, **kwargs)
        except Exception as error:
            _ended(call, begun, error)
        else:
            _ended(call, begun)
        for rule, error in self._acting(call):
            rule.hold_up(call.wait_s)
            _raise(error)
        _raise(call.error)
        return call.result

    async def _around_task(self, wrapped: Callable[..., Any], instance: Any, args: Any, kwargs: Any) -> Any:
        if not self.rules or is_looking():
            return await wrapped(*args, **kwargs)
        call = Call(self.code, Moment.ENTRY, Arguments(wrapped, instance, args, kwargs))
        for rule, error in self._acting(call):
            await rule.hold_up_async(call.wait_s)
            _raise(error)
        if call.answered:
            return call.result
        begun = monotonic()
        try:
            call.result = await wrapped(*args, **kwargs)
        except Exception as error:
            _ended(call, begun, error)
        else:
            _ended(call, begun)
        for rule, error in self._acting(call):
            await rule.hold_up_async(call.wait_s)
            _raise(error)
        _raise(call.error)
        return call.result

    def _acting(self, call: Call) -> Iterator[tuple[ActiveRule, Exception | None]]:
        """Have the rules of the call's moment look at it, one after the other; each may hold it up."""
        moment = call.moment
        for rule in self.rules.get(moment, ()):
            call.wait_s = 0.0
            error = rule.act(call)
            yield rule, error


def _ended(call: Call, begun: float, error: Exception | None = None) -> None:
    call.took_s = monotonic() - begun
    call.error = error
    call.moment = Moment.EXIT if error is None else Moment.EXCEPTION


def _raise(error: BaseException | None) -> None:
    if error is not None:
        raise error


def _imported_whole(name: str) -> ModuleType | None:
    module = sys.modules.get(name)
    under_way = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if under_way else module


def _is_coroutine(original: Any) -> bool:
    return inspect.iscoroutinefunction(inspect.unwrap(getattr(original, "__func__", original)))


def _resolved(module: ModuleType, path: str) -> tuple[Any, str, Any]:
    try:
        owner, name, original = wrapt.resolve_path(module, path)
    except (AttributeError, wrapt.PathResolutionError) as error:
        raise LookupError(f"{module.__name__} has no {path}") from error
    if inspect.isclass(original) or not (callable(original) or hasattr(original, "__func__")):
        raise TypeError(f"{module.__name__}:{path} is not a function or method")
    return owner, name, original


def _copies(home: ModuleType, original: Any) -> list[tuple[ModuleType, str]]:
    """Where other modules have imported a function by name."""
    return [
        (module, name)
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType) and module is not home and not module.__name__.startswith(_NOT_OURS)
        for name, value in list(vars(module).items())
        if value is original
    ]


class Weaver:
    """All code points that rules look at in this process."""

    def __init__(self) -> None:
        self._seams: dict[str, Seam] = {}
        self._awaited: set[str] = set()
        """Modules whose import calls us."""
        self._weaving = threading.Lock()

    def weave(self, wanted: Mapping[str, Rules]) -> dict[str, Exception]:
        """Have exactly these rules look at these code points. Returns what cannot be wrapped, and why.

        Called again and again: a module may have been imported anew, as an artefact's are.
        """
        with self._weaving:
            for code in [code for code in self._seams if code not in wanted]:
                seam = self._seams.pop(code)
                seam.rules = {}
                seam.open()
            failures: dict[str, Exception] = {}
            for code, rules in wanted.items():
                seam = self._seams.setdefault(code, Seam(code))
                seam.rules = rules
                try:
                    seam.close(_imported_whole(seam.module))
                except (LookupError, TypeError, AttributeError) as error:
                    failures[code] = error
            modules = {seam.module for seam in self._seams.values()}
        for module in modules:
            self._await_import(module)
        return failures

    def _await_import(self, module: str) -> None:
        if module not in self._awaited and module not in sys.modules:
            self._awaited.add(module)
            wrapt.register_post_import_hook(self._imported, module)

    def _imported(self, module: ModuleType) -> None:
        with self._weaving:
            self._awaited.discard(module.__name__)
            for seam in self._seams.values():
                if seam.module == module.__name__:
                    # What cannot be wrapped is no reason for an import to fail.
                    with contextlib.suppress(LookupError, TypeError, AttributeError):
                        seam.close(module)

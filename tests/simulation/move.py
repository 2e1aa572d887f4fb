"""Events that befall a message or a party while an operation runs: one line of a scenario each."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.contracts.errors import ErrorCode, TowpathError

MESSAGE_MOVES: dict[str, str] = {
    "send": "the command arrives, and its answer",
    "lose": "no one gets the command until its deadline",
    "lose-answer": "the command is carried out; no answer comes until its deadline",
    "repeat": "the command arrives twice",
    "copy": "the command arrives, and a copy of it is still under way",
    "delay": "the command is under way for longer than its deadline",
    "refuse": "the command is refused",
    "die": "the output's agent is killed that many lines into the command, and starts again",
}
"""Moves that end with the answer, or the failure, of the command that is about to be sent."""

OTHER_MOVES: dict[str, str] = {
    "late": "a copy, or a delayed command, arrives",
    "crash": "a site's agent, or the monitor, is killed and starts again",
    "interrupt": "a site's engine is killed between publishing a micro-batch and committing it",
    "stall": "a site's engine stands still until the operations have ended",
    "go": "a site's engine goes on",
    "work": "every site does a micro-batch",
    "events": "that many events come in, and every site does a micro-batch",
    "forget": "two minutes pass: the server forgets the message ids it has seen",
    "abort": "a user asks for the operation to be rolled back",
}
"""Moves before the command that is about to be sent."""


@dataclass(frozen=True)
class Move:
    """One move."""

    verb: str
    what: str = ""
    """Command, party, or number."""

    def __str__(self) -> str:
        return f"{self.verb} {self.what}".strip()

    @property
    def is_of_message(self) -> bool:
        """True if it decides the fate of the command that is about to be sent."""
        return self.verb in MESSAGE_MOVES


def parse_move(text: str) -> Move:
    """Return the move of a line. Raises `TowpathError` (invalid)."""
    verb, *rest = text.split()
    if verb not in MESSAGE_MOVES and verb not in OTHER_MOVES:
        allowed = sorted(MESSAGE_MOVES | OTHER_MOVES)
        raise TowpathError(ErrorCode.INVALID, "no such move", field="move", value=verb, allowed=allowed)
    return Move(verb, " ".join(rest))

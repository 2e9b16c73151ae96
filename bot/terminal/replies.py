"""The replies of `diagnose --replies FILE`: what people say in the thread of a diagnosis, and when. Read whole or refused whole."""

from pathlib import Path
from typing import Annotated, get_args

from pydantic import AfterValidator, ValidationError

from bot.refusal import Refusal
from graph.state import Lifecycle, Outcome
from kb.shapes import StrictModel, complaints, squashed
from kb.yaml import Document, Problems, read
from tools.ledger.states import State

WHILE_LOOKING = "diagnosing"
MOMENTS = (WHILE_LOOKING, "concluded", "awaiting_approval", *get_args(Outcome), *get_args(Lifecycle), *(state.value for state in State))
"""When a reply comes: while the turn before it is looking, else after that turn; the other words say what its writer expects by then."""
MOST, LONGEST = 1000, 20_000


def _moment(text: str) -> str:
    if text not in MOMENTS:
        raise ValueError(f"{squashed(text)[:40]!r} is none of {', '.join(dict.fromkeys(MOMENTS))}")
    return text


def _some(text: str) -> str:
    if not text.strip() or len(text) > LONGEST:
        raise ValueError(f"must hold something, at most {LONGEST} characters")
    return text


class ThreadReply(StrictModel):
    """One message of the thread."""

    after: Annotated[str, AfterValidator(_moment)] = "concluded"
    by: Annotated[str, AfterValidator(_some)] = "you"
    text: Annotated[str, AfterValidator(_some)]

    @property
    def while_looking(self) -> bool:
        return self.after == WHILE_LOOKING


def read_replies(path: Path) -> tuple[ThreadReply, ...]:
    """In the order in which they are said. Raises Refusal with every problem of the file, each at its line."""
    problems = Problems()
    document = read(path, problems)
    rows = _rows(document, problems) if document else []
    if problems.found:
        raise Refusal("\n".join(["--replies: the file cannot be used:", *problems.found]), 2)
    return tuple(rows)


def _rows(document: Document, problems: Problems) -> list[ThreadReply]:
    given, found = document.plain, list[ThreadReply]()
    if not isinstance(given, list) or len(given) > MOST:
        problems.note(document.place(), f"must be a list of at most {MOST} replies, each with after, by and text")
        return []
    for at, row in enumerate(given):
        try:
            found.append(ThreadReply.model_validate(row))
        except ValidationError as why:
            for loc, what in complaints(why, ThreadReply):
                problems.note(document.place(at, *loc), f"reply {at + 1}: {what}")
    return found

"""Replies of `diagnose --replies FILE`. One bad reply refuses the file."""

from pathlib import Path
from typing import Annotated, get_args

from pydantic import AfterValidator, ValidationError

from bot.refusal import Refusal
from graph.state import DiagnosisOutcome, Lifecycle
from kb.schema import StrictModel, iter_complaints, squash_blanks
from kb.yaml_files import Document, Problems, read_document
from tools.ledger.states import State

WHILE_LOOKING = "diagnosing"
# `diagnosing` comes during the turn before; all others after it and name the state that the writer expects then
REPLY_MOMENTS = (
    WHILE_LOOKING,
    "concluded",
    "awaiting_approval",
    *get_args(DiagnosisOutcome),
    *get_args(Lifecycle),
    *(state.value for state in State),
)
MAX_REPLIES = 1000
MAX_REPLY_CHARS = 20_000


def _validate_moment(text: str) -> str:
    if text not in REPLY_MOMENTS:
        raise ValueError(f"{squash_blanks(text)[:40]!r} is none of {', '.join(dict.fromkeys(REPLY_MOMENTS))}")
    return text


def _validate_text(text: str) -> str:
    if not text.strip() or len(text) > MAX_REPLY_CHARS:
        raise ValueError(f"must hold something, at most {MAX_REPLY_CHARS} characters")
    return text


class ThreadReply(StrictModel):
    """One message of the thread."""

    after: Annotated[str, AfterValidator(_validate_moment)] = "concluded"
    by: Annotated[str, AfterValidator(_validate_text)] = "you"
    text: Annotated[str, AfterValidator(_validate_text)]

    @property
    def is_during_turn(self) -> bool:
        return self.after == WHILE_LOOKING


def read_replies(path: Path) -> tuple[ThreadReply, ...]:
    """Return the replies. Raises Refusal with every problem and line."""
    problems = Problems()
    document = read_document(path, problems)
    rows = _parse_replies(document, problems) if document else []
    if problems.found:
        raise Refusal("\n".join(["--replies: the file cannot be used:", *problems.found]), 2)
    return tuple(rows)


def _parse_replies(document: Document, problems: Problems) -> list[ThreadReply]:
    rows, replies = document.plain, list[ThreadReply]()
    if not isinstance(rows, list) or len(rows) > MAX_REPLIES:
        problems.add(document.find_position(), f"must be a list of at most {MAX_REPLIES} replies, each with after, by and text")
        return []
    for at, row in enumerate(rows):
        try:
            replies.append(ThreadReply.model_validate(row))
        except ValidationError as error:
            for loc, problem in iter_complaints(error, ThreadReply):
                problems.add(document.find_position(at, *loc), f"reply {at + 1}: {problem}")
    return replies

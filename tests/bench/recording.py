"""A recording of what a model answered: a line a question, known by the digest of its whole content. It holds no question and no key.

Rule it keeps: a question is found again only if model, prompt, data and shape are the same to the letter, of the same case, arm and
attempt; after a change of any prompt a recording answers nothing.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bot.refusal import Refusal
from graph.model.endpoint import EndpointFailure, ModelReply

SCHEMA = 1
SHORTEST_SECRET = 6


class Key(NamedTuple):
    """Which question: `nth` tells the same question apart when a case asks it again."""

    case: str
    arm: str
    attempt: int
    asked: str
    nth: int


def without(secret: str, answer: ModelReply | EndpointFailure) -> ModelReply | EndpointFailure:
    """An endpoint may repeat a key in an error or an answer; neither use nor recording sees it."""
    if len(secret) < SHORTEST_SECRET:
        return answer
    if isinstance(answer, ModelReply):
        return ModelReply(answer.text.replace(secret, "[key]"), answer.tokens_in, answer.tokens_out, answer.by)
    return EndpointFailure(answer.why.replace(secret, "[key]"), answer.provider, tokens_in=answer.tokens_in, tokens_out=answer.tokens_out)


def begin(path: Path, model: str) -> None:
    """A new recording, or one of the same model to go on with."""
    if path.exists() and path.stat().st_size:
        if (have := read_recording(path).model) != model:
            raise Refusal(f"--record {path}: it holds answers of {have}, not of {model}; name another file", 2)
        return
    try:
        path.write_text(json.dumps({"recording": SCHEMA, "model": model}) + "\n")
    except OSError as why:
        raise Refusal(f"--record {path}: {why.strerror}", 2) from why


def add(path: Path, key: Key, name: str, answer: ModelReply | EndpointFailure) -> None:
    """One more line, in one write: several processes record into one file."""
    said: dict[str, Any] = {"in": answer.tokens_in, "out": answer.tokens_out}
    if isinstance(answer, ModelReply):
        said |= {"text": answer.text, "by": answer.by}
    else:
        said |= {"trouble": answer.why, "provider": answer.provider}
    line = json.dumps({**key._asdict(), "name": name, **said}, ensure_ascii=False) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class Recording:
    """What was recorded. A case that was run again counts by its last run."""

    model: str
    answers: Mapping[Key, ModelReply | EndpointFailure]


def read_recording(path: Path) -> Recording:
    """All of a file; a last line that a crash cut off is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        model = _model_of(json.loads(lines[0]))
    except OSError as why:
        raise Refusal(f"{path}: {why.strerror}", 2) from why
    except (ValueError, KeyError, IndexError, TypeError) as why:
        raise Refusal(f"{path}: is no recording of `rackmedic bench run --record` (schema {SCHEMA})", 2) from why
    answers: dict[Key, ModelReply | EndpointFailure] = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            row = json.loads(line)
            answers[Key(*(row[name] for name in Key._fields))] = _answer(row)
        except (ValueError, KeyError, TypeError) as why:
            if number < len(lines):
                raise Refusal(f"{path}:{number}: cannot be read; the recording is damaged", 2) from why
    return Recording(model, answers)


def _model_of(head: Mapping[str, Any]) -> str:
    if head["recording"] != SCHEMA:
        raise ValueError(head["recording"])
    return str(head["model"])


def _answer(row: Mapping[str, Any]) -> ModelReply | EndpointFailure:
    if "trouble" in row:
        return EndpointFailure(row["trouble"], row["provider"], tokens_in=row["in"], tokens_out=row["out"])
    return ModelReply(row["text"], row["in"], row["out"], row["by"])

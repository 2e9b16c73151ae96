"""A recording of model answers: one line per question, identified by a digest. It holds no question and no key. An
answer is found only for identical model, prompt, data, schema, case, arm and attempt; a changed prompt finds
nothing.
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
    """A question; `nth` distinguishes repetitions within a case."""

    case: str
    arm: str
    attempt: int
    asked: str
    nth: int


def without(secret: str, answer: ModelReply | EndpointFailure) -> ModelReply | EndpointFailure:
    """Remove the API key from an answer or error, in case the endpoint repeats it."""
    if len(secret) < SHORTEST_SECRET:
        return answer
    if isinstance(answer, ModelReply):
        return ModelReply(answer.text.replace(secret, "[key]"), answer.tokens_in, answer.tokens_out, answer.by)
    return EndpointFailure(answer.why.replace(secret, "[key]"), answer.provider, tokens_in=answer.tokens_in, tokens_out=answer.tokens_out)


def begin(path: Path, model: str) -> None:
    """Start a recording, or continue one of the same model."""
    if path.exists() and path.stat().st_size:
        if (have := read_recording(path).model) != model:
            raise Refusal(f"--record {path}: it holds answers of {have}, not of {model}; name another file", 2)
        return
    try:
        path.write_text(json.dumps({"recording": SCHEMA, "model": model}) + "\n")
    except OSError as error:
        raise Refusal(f"--record {path}: {error.strerror}", 2) from error


def add(path: Path, key: Key, name: str, answer: ModelReply | EndpointFailure) -> None:
    """Append a line in one write, because several processes share the file."""
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
    """Recorded answers. The last run of a case counts."""

    model: str
    answers: Mapping[Key, ModelReply | EndpointFailure]


def read_recording(path: Path) -> Recording:
    """Read a file, ignoring a last line truncated by a crash."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        model = _model_of(json.loads(lines[0]))
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}", 2) from error
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise Refusal(f"{path}: is no recording of `rackmedic bench run --record` (schema {SCHEMA})", 2) from error
    answers: dict[Key, ModelReply | EndpointFailure] = {}
    for number, line in enumerate(lines[1:], 2):
        try:
            row = json.loads(line)
            answers[Key(*(row[name] for name in Key._fields))] = _answer(row)
        except (ValueError, KeyError, TypeError) as error:
            if number < len(lines):
                raise Refusal(f"{path}:{number}: cannot be read; the recording is damaged", 2) from error
    return Recording(model, answers)


def _model_of(head: Mapping[str, Any]) -> str:
    if head["recording"] != SCHEMA:
        raise ValueError(head["recording"])
    return str(head["model"])


def _answer(row: Mapping[str, Any]) -> ModelReply | EndpointFailure:
    if "trouble" in row:
        return EndpointFailure(row["trouble"], row["provider"], tokens_in=row["in"], tokens_out=row["out"])
    return ModelReply(row["text"], row["in"], row["out"], row["by"])

"""A recording of model answers, one line each, keyed by the digest of the question. It holds neither questions nor API keys.

An answer is reused only if model, prompt, data and schema are identical. Failures are not recorded, so they are retried.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from graph.model.endpoint import ChatEndpoint, EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion, find_mark
from kb.needle_search import split_lines
from kb.redact import redact_once

SCHEMA_VERSION: Final = 1
MIN_SECRET_CHARS: Final = 6
MAX_RECORDING_BYTES: Final = 1 << 30


class BadRecording(Exception):
    """The file is no recording, or one of another model."""


class RecordedEndpoint:
    """A recording in front of an endpoint. Without an endpoint only recorded answers are given."""

    def __init__(self, endpoint: ChatEndpoint | None, model: str, path: Path, key: str = "") -> None:
        self.model = model
        self._endpoint = endpoint
        self._path = path
        self._key = key
        self._answers = _load_answers(path, model)

    async def aclose(self) -> None:
        if self._endpoint is not None:
            await self._endpoint.aclose()

    async def ask(self, question: ModelQuestion, name: str, schema: Mapping[str, Any]) -> ModelReply | EndpointFailure:
        digest = compute_question_digest(self.model, name, question, schema)
        if digest in self._answers:
            return self._answers[digest]
        if self._endpoint is None:
            return EndpointFailure("the recording holds no answer to this question", provider=False)
        answer = await self._endpoint.ask(question, name, schema)
        if isinstance(answer, ModelReply):
            answer = ModelReply(self._redact_answer(answer.text), answer.tokens_in, answer.tokens_out, answer.by)
            self._answers[digest] = answer
            _append_answer(self._path, digest, answer)
        return answer

    def _redact_answer(self, text: str) -> str:
        if len(self._key) >= MIN_SECRET_CHARS:
            text = text.replace(self._key, "[key]")
        return redact_once(text)


def compute_question_digest(model: str, name: str, question: ModelQuestion, schema: Mapping[str, Any]) -> str:
    """Return a digest of everything that could change an answer. The mark that each call draws could not."""
    mark = find_mark(question)
    texts = (question.system, question.user.replace(mark, "{mark}") if mark else question.user)
    serialized = json.dumps([SCHEMA_VERSION, model, name, *texts, schema], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(serialized.encode("utf-8", "replace")).hexdigest()


def _append_answer(path: Path, digest: str, answer: ModelReply) -> None:
    entry = {"asked": digest, "text": answer.text, "in": answer.tokens_in, "out": answer.tokens_out, "by": answer.by}
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, (json.dumps(entry) + "\n").encode())
    finally:
        os.close(handle)


def _load_answers(path: Path, model: str) -> dict[str, ModelReply]:
    """Load a recording, or create an empty one if the file does not exist.

    Raises:
        BadRecording: The file cannot be read, is no recording, or is one of another model.
    """
    try:
        if not path.exists() or not path.stat().st_size:
            path.write_text(json.dumps({"answers": SCHEMA_VERSION, "model": model}) + "\n")
            return {}
        content = _read_complete_lines(path)
    except OSError as error:
        raise BadRecording(f"{path}: {error.strerror}") from error
    answers: dict[str, ModelReply] = {}
    try:
        first_line, *answer_lines = split_lines(content.decode().rstrip("\n"))
        header = json.loads(first_line)
        if header["answers"] != SCHEMA_VERSION or header["model"] != model:
            raise BadRecording(f"{path}: holds answers of {str(header['model'])[:80]}, not of {model}; name another file")
        for line in answer_lines:
            entry = json.loads(line)
            answers[str(entry["asked"])] = ModelReply(str(entry["text"]), int(entry["in"]), int(entry["out"]), str(entry["by"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadRecording(f"{path}: is no recording of answers (schema {SCHEMA_VERSION})") from error
    return answers


def _read_complete_lines(path: Path) -> bytes:
    """Read a recording, and drop from the file a last line that a crash cut off."""
    if path.stat().st_size > MAX_RECORDING_BYTES:
        raise BadRecording(f"{path}: is larger than {MAX_RECORDING_BYTES >> 20} MiB")
    content = path.read_bytes()
    complete_lines = content[: content.rfind(b"\n") + 1]
    if complete_lines != content:
        path.write_bytes(complete_lines)
    return complete_lines

"""A recording of model answers, one line each, keyed by the digest of the question. It holds no question and no key.

An answer is reused only if model, prompt, data and shape are identical. Failures are not recorded, so they are retried.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from graph.model.endpoint import ChatEndpoint, EndpointFailure, ModelReply
from graph.model.prompts import ModelQuestion
from kb.needle_search import split_lines
from kb.redact import redact_once

SCHEMA_VERSION: Final = 1
MIN_SECRET_CHARS: Final = 6
MAX_RECORDING_BYTES: Final = 1 << 30
# The random marks of a call, which are not part of the question.
_MARK_PATTERN: Final = re.compile(r'"<<([0-9a-f]{16})"')


class BadRecording(Exception):
    """A file that is no recording, or is one of another model."""


class RecordedEndpoint:
    """An endpoint behind a recording; without one only recorded answers are given."""

    def __init__(self, endpoint: ChatEndpoint | None, model: str, path: Path, key: str = "") -> None:
        self.model = model
        self._endpoint, self._path, self._key = endpoint, path, key
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
            hidden = answer.text.replace(self._key, "[key]") if len(self._key) >= MIN_SECRET_CHARS else answer.text
            answer = ModelReply(redact_once(hidden), answer.tokens_in, answer.tokens_out, answer.by)
            self._answers[digest] = answer
            _append_row(
                self._path, {"asked": digest, "text": answer.text, "in": answer.tokens_in, "out": answer.tokens_out, "by": answer.by}
            )
        return answer


def compute_question_digest(model: str, name: str, question: ModelQuestion, schema: Mapping[str, Any]) -> str:
    """Return a digest of everything that could change an answer."""
    mark = _MARK_PATTERN.search(question.system)
    texts = [text.replace(mark[1], "{mark}") if mark else text for text in (question.system, question.user)]
    serialized = json.dumps([SCHEMA_VERSION, model, name, *texts, schema], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(serialized.encode("utf-8", "replace")).hexdigest()


def _append_row(path: Path, row: Mapping[str, Any]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, (json.dumps(row) + "\n").encode())
    finally:
        os.close(handle)


def _load_answers(path: Path, model: str) -> dict[str, ModelReply]:
    """Load a file or create it. Drops a last line that a crash cut off. Raises BadRecording."""
    head = json.dumps({"answers": SCHEMA_VERSION, "model": model})
    try:
        if not path.exists() or not path.stat().st_size:
            path.write_text(head + "\n")
            return {}
        if path.stat().st_size > MAX_RECORDING_BYTES:
            raise BadRecording(f"{path}: is larger than {MAX_RECORDING_BYTES >> 20} MiB")
        content = path.read_bytes()
        complete_lines = content[: content.rfind(b"\n") + 1]
        if complete_lines != content:
            path.write_bytes(complete_lines)
    except OSError as error:
        raise BadRecording(f"{path}: {error.strerror}") from error
    try:
        first, *lines = split_lines(complete_lines.decode().rstrip("\n"))
        header = json.loads(first)
        if header["answers"] != SCHEMA_VERSION or header["model"] != model:
            raise BadRecording(f"{path}: holds answers of {str(header['model'])[:80]}, not of {model}; name another file")
        rows = [json.loads(line) for line in lines]
        return {str(row["asked"]): ModelReply(str(row["text"]), int(row["in"]), int(row["out"]), str(row["by"])) for row in rows}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadRecording(f"{path}: is no recording of answers (schema {SCHEMA_VERSION})") from error

"""A recording of what a model answered, a line an answer, known by the digest of the whole question. It holds no question and no key.

Rule it keeps: an answer is found again only where model, prompt, data and shape are the same to the letter; trouble is not recorded, so that
it is asked for again.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from graph.model.endpoint import Answering, Reply, Trouble
from graph.model.prompts import ModelQuestion
from kb.redact import cleaned
from kb.scan import lines_in

SCHEMA: Final = 1
SHORTEST_SECRET: Final = 6
LARGEST: Final = 1 << 30
_MARK: Final = re.compile(r'"<<([0-9a-f]{16})"')
"""A call's own marks around data are drawn at random; they are no part of what is asked."""


class NoRecording(Exception):
    """A file that is no recording, or is one of another model."""


class Recorded:
    """An endpoint behind its recording; without an endpoint only what is recorded is answered."""

    def __init__(self, endpoint: Answering | None, model: str, path: Path, key: str = "") -> None:
        self.model = model
        self._endpoint, self._path, self._key = endpoint, path, key
        self._answers = _read(path, model)

    async def aclose(self) -> None:
        if self._endpoint is not None:
            await self._endpoint.aclose()

    async def ask(self, asked: ModelQuestion, name: str, schema: Mapping[str, Any]) -> Reply | Trouble:
        """As recorded, else asked for and recorded."""
        digest = digest_of(self.model, name, asked, schema)
        if digest in self._answers:
            return self._answers[digest]
        if self._endpoint is None:
            return Trouble("the recording holds no answer to this question", provider=False)
        answer = await self._endpoint.ask(asked, name, schema)
        if isinstance(answer, Reply):
            hidden = answer.text.replace(self._key, "[key]") if len(self._key) >= SHORTEST_SECRET else answer.text
            answer = Reply(cleaned(hidden), answer.tokens_in, answer.tokens_out, answer.by)
            self._answers[digest] = answer
            _add(self._path, {"asked": digest, "text": answer.text, "in": answer.tokens_in, "out": answer.tokens_out, "by": answer.by})
        return answer


def digest_of(model: str, name: str, asked: ModelQuestion, schema: Mapping[str, Any]) -> str:
    """Of everything that could change an answer."""
    mark = _MARK.search(asked.system)
    texts = [text.replace(mark[1], "{mark}") if mark else text for text in (asked.system, asked.user)]
    whole = json.dumps([SCHEMA, model, name, *texts, schema], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()


def _add(path: Path, row: Mapping[str, Any]) -> None:
    """One more line, in one write."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, (json.dumps(row) + "\n").encode())
    finally:
        os.close(handle)


def _read(path: Path, model: str) -> dict[str, Reply]:
    """What a file holds; a new one is begun. A last line that a crash cut off is left out. Raises NoRecording."""
    head = json.dumps({"answers": SCHEMA, "model": model})
    try:
        if not path.exists() or not path.stat().st_size:
            path.write_text(head + "\n")
            return {}
        if path.stat().st_size > LARGEST:
            raise NoRecording(f"{path}: is larger than {LARGEST >> 20} MiB")
        whole = path.read_bytes()
        kept = whole[: whole.rfind(b"\n") + 1]
        if kept != whole:
            path.write_bytes(kept)
    except OSError as why:
        raise NoRecording(f"{path}: {why.strerror}") from why
    try:
        first, *lines = lines_in(kept.decode().rstrip("\n"))
        begun = json.loads(first)
        if begun["answers"] != SCHEMA or begun["model"] != model:
            raise NoRecording(f"{path}: holds answers of {str(begun['model'])[:80]}, not of {model}; name another file")
        rows = [json.loads(line) for line in lines]
        return {str(row["asked"]): Reply(str(row["text"]), int(row["in"]), int(row["out"]), str(row["by"])) for row in rows}
    except (ValueError, KeyError, TypeError, RecursionError) as why:
        raise NoRecording(f"{path}: is no recording of answers (schema {SCHEMA})") from why

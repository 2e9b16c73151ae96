"""Vectors of texts by an OpenAI-compatible embeddings endpoint. What it answers is believed only as far as it has the asked shape."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kb.history.vectors import NoVectors
from kb.redact import cleaned, cleaned_line

BATCH, MOST_TEXT, MOST_NUMBERS = 64, 4_000, 8_192
"""Texts of a request, letters of a text that are sent, and numbers that a vector may have."""
REQUEST_SECONDS = 10.0  # deadline of one request


@dataclass(frozen=True, slots=True)
class Embeddings:
    """`kb.history.vectors.Embedder` over HTTP. It blocks, and is not called in an event loop; `seconds` bounds each request whole, dribbling answers
    included."""

    url: str
    key: str
    model: str
    seconds: float = REQUEST_SECONDS

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """One for each text, all of one length, in order. Raises NoVectors."""
        found: list[list[float]] = []
        for at in range(0, len(texts), BATCH):
            found += self._asked([cleaned(text)[:MOST_TEXT] or "." for text in texts[at : at + BATCH]])
        if len({len(one) for one in found}) > 1:
            raise NoVectors("the embeddings endpoint answered with vectors of different lengths")
        return found

    def _asked(self, texts: list[str]) -> list[list[float]]:
        from openai import OpenAIError  # costs a second to import

        try:
            rows = asyncio.run(asyncio.wait_for(self._ask(texts), self.seconds))
            vectors = [[float(number) for number in row.embedding] for row in rows]
            order = [row.index for row in rows]
        except TimeoutError as why:
            raise NoVectors(f"the embeddings endpoint gave no whole answer within {self.seconds:g} s") from why
        except OpenAIError as why:
            raise NoVectors(f"the embeddings endpoint: {cleaned_line(str(why), 200)}") from why
        except (AttributeError, TypeError, ValueError) as why:
            raise NoVectors("the embeddings endpoint answered with what are no embeddings") from why
        if order != list(range(len(texts))) or not all(map(_whole, vectors)):
            raise NoVectors("the embeddings endpoint did not answer with a vector for each text")
        return vectors

    async def _ask(self, texts: list[str]) -> list[Any]:
        from openai import AsyncOpenAI

        async with AsyncOpenAI(base_url=self.url, api_key=self.key or "none", max_retries=0) as client:
            answer = await client.embeddings.create(model=self.model, input=texts, encoding_format="float")
        return list(answer.data)


def _whole(vector: Sequence[float]) -> bool:
    return 0 < len(vector) <= MOST_NUMBERS and all(map(math.isfinite, vector)) and any(vector)

"""Text vectors from an OpenAI-compatible embeddings endpoint. Answers are validated."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kb.history.index import EmbeddingUnavailable
from kb.redact import redact_once, redact_to_line

BATCH_TEXTS = 64  # Texts per request
MAX_TEXT_CHARS = 4_000  # characters sent per text
MAX_DIMENSIONS = 8_192  # largest vector length
REQUEST_SECONDS = 10.0  # deadline of one request


@dataclass(frozen=True, slots=True)
class HttpEmbedder:
    """`kb.history.index.Embedder` over HTTP. Blocking: never call it in an event loop. `seconds` bounds each whole
    request, also one whose answer trickles in.
    """

    url: str
    key: str
    model: str
    seconds: float = REQUEST_SECONDS

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, in order and of equal length. Raises EmbeddingUnavailable."""
        vectors: list[list[float]] = []
        for at in range(0, len(texts), BATCH_TEXTS):
            vectors += self._embed_batch([redact_once(text)[:MAX_TEXT_CHARS] or "." for text in texts[at : at + BATCH_TEXTS]])
        if len({len(one) for one in vectors}) > 1:
            raise EmbeddingUnavailable("the embeddings endpoint answered with vectors of different lengths")
        return vectors

    def _embed_batch(self, texts: list[str]) -> list[list[float]]:
        from openai import OpenAIError  # costs a second to import

        try:
            rows = asyncio.run(asyncio.wait_for(self._request_embeddings(texts), self.seconds))
            vectors = [[float(number) for number in row.embedding] for row in rows]
            order = [row.index for row in rows]
        except TimeoutError as error:
            raise EmbeddingUnavailable(f"the embeddings endpoint gave no whole answer within {self.seconds:g} s") from error
        except OpenAIError as error:
            raise EmbeddingUnavailable(f"the embeddings endpoint: {redact_to_line(str(error), 200)}") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise EmbeddingUnavailable("the embeddings endpoint answered with what are no embeddings") from error
        if order != list(range(len(texts))) or not all(map(_is_valid_vector, vectors)):
            raise EmbeddingUnavailable("the embeddings endpoint did not answer with a vector for each text")
        return vectors

    async def _request_embeddings(self, texts: list[str]) -> list[Any]:
        from openai import AsyncOpenAI

        async with AsyncOpenAI(base_url=self.url, api_key=self.key or "none", max_retries=0) as client:
            answer = await client.embeddings.create(model=self.model, input=texts, encoding_format="float")
        return list(answer.data)


def _is_valid_vector(vector: Sequence[float]) -> bool:
    return 0 < len(vector) <= MAX_DIMENSIONS and all(map(math.isfinite, vector)) and any(vector)

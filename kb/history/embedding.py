"""The dense half of looking for past incidents: vectors by whatever makes them, kept as long as that answers, left out for a while where it does not."""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

RETRY_AFTER_SECONDS: Final = 60.0
"""Seconds for which words alone answer after the maker of vectors failed."""


class EmbeddingUnavailable(Exception):
    """Why there are none."""


class Embedder(Protocol):
    """Makes vectors of texts."""

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """One for each, of one length, in order. It blocks. Raises NoVectors."""


class BackoffEmbedder:
    """An embedder that is left alone for a while after it failed. `trouble` says why; empty where it answers."""

    def __init__(self, embedder: Embedder, clock: Callable[[], float] = time.monotonic) -> None:
        self._embedder, self._clock = embedder, clock
        self._until = 0.0
        self.trouble = ""

    @property
    def is_ready(self) -> bool:
        """Whether it may be asked now."""
        return self._clock() >= self._until

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]] | None:
        """None where there are none now."""
        if not self.is_ready:
            return None
        try:
            found, self.trouble = self._embedder.embed_texts(texts), ""
        except EmbeddingUnavailable as why:
            self.back_off(str(why))
            return None
        return found

    def back_off(self, why: str) -> None:
        """Leave it alone for a while: what it answered is of no use."""
        self._until, self.trouble = self._clock() + RETRY_AFTER_SECONDS, why

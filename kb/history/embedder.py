"""Dense vectors for searching past incidents, from an external embedder."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    pass


RETRY_AFTER_SECONDS: Final = 60.0  # after a failure of the embedder; meanwhile words alone rank


class EmbeddingUnavailable(Exception):
    """Why there are none."""


class Embedder(Protocol):
    """Converts texts to vectors."""

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, all of one length. Blocks. Raises EmbeddingUnavailable."""


class BackoffEmbedder:
    """An embedder that pauses after a failure. `trouble` says why."""

    def __init__(self, embedder: Embedder, clock: Callable[[], float] = time.monotonic) -> None:
        self._embedder = embedder
        self._clock = clock
        self._until = 0.0
        self.trouble = ""

    @property
    def is_ready(self) -> bool:
        return self._clock() >= self._until

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]] | None:
        """Return vectors, or None during a pause or on failure."""
        if not self.is_ready:
            return None
        try:
            vectors, self.trouble = self._embedder.embed_texts(texts), ""
        except EmbeddingUnavailable as error:
            self.back_off(str(error))
            return None
        return vectors

    def back_off(self, reason: str) -> None:
        """Start a pause of RETRY_AFTER_SECONDS."""
        self._until = self._clock() + RETRY_AFTER_SECONDS
        self.trouble = reason

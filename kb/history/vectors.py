"""The dense half of looking for past incidents: vectors by whatever makes them, kept as long as that answers, left out for a while where it does not."""

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

REST: Final = 60.0
"""Seconds for which words alone answer after the maker of vectors failed."""


class NoVectors(Exception):
    """Why there are none."""


class Embedder(Protocol):
    """Makes vectors of texts."""

    def vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """One for each, of one length, in order. It blocks. Raises NoVectors."""


class Resting:
    """An embedder that is left alone for a while after it failed. `trouble` says why; empty where it answers."""

    def __init__(self, embedder: Embedder, clock: Callable[[], float] = time.monotonic) -> None:
        self._embedder, self._clock = embedder, clock
        self._until = 0.0
        self.trouble = ""

    @property
    def ready(self) -> bool:
        """Whether it may be asked now."""
        return self._clock() >= self._until

    def vectors(self, texts: Sequence[str]) -> list[list[float]] | None:
        """None where there are none now."""
        if not self.ready:
            return None
        try:
            found, self.trouble = self._embedder.vectors(texts), ""
        except NoVectors as why:
            self.rest(str(why))
            return None
        return found

    def rest(self, why: str) -> None:
        """Leave it alone for a while: what it answered is of no use."""
        self._until, self.trouble = self._clock() + REST, why

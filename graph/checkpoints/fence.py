"""Fencing of checkpoint writes: a worker's put is refused once another worker holds the incident.

A lease alone cannot stop a worker that slept past its end, so every put compares the lease in the same atomic step that
writes. The fence also carries the stop request: a turn ends early only after a step is stored.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


class LostLease(Exception):
    """Another worker holds the incident now: the writes of this worker were refused."""


class WorkerStopping(Exception):
    """The process is stopping: the turn stopped behind a stored step, and whoever takes the incident next continues it."""


def _is_never_stopping() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Fence:
    """The lease that a put must still hold: its key and the token expected as value. `stopping` is called after each
    stored step.
    """

    key: str
    token: str
    stopping: Callable[[], bool] = _is_never_stopping


_CURRENT_FENCE: ContextVar[Fence | None] = ContextVar("fence", default=None)


@contextmanager
def enforce_fence(fence: Fence) -> Iterator[None]:
    """Refuse puts made inside, by any saver in any task started inside, with `LostLease` once the lease is lost."""
    before = _CURRENT_FENCE.set(fence)
    try:
        yield
    finally:
        _CURRENT_FENCE.reset(before)


def get_current_fence() -> Fence | None:
    return _CURRENT_FENCE.get()


# Runs the commands if the lease still holds the token. ARGV: the token, then per command its length and its words.
FENCED_COMMIT_SCRIPT = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local at = 2
while at <= #ARGV do
  local n = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + n))
  at = at + n + 1
end
return 1
"""

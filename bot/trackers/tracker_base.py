"""The common part of tracker adapters."""

from bot.trackers.config import TrackerConfig
from bot.trackers.http import TrackerHttpClient
from bot.trackers.tracker import OnClose


class TrackerBase:
    __slots__ = ()
    config: TrackerConfig
    wire: TrackerHttpClient

    @property
    def words(self) -> str:
        return self.wire.words

    @property
    def on_close(self) -> OnClose:
        return self.config.on_close

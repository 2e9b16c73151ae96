"""What every tracker knows of itself by its configuration and its wire, whichever product it is."""

from bot.trackers.config import TrackerConfig
from bot.trackers.http import TrackerHttpClient
from bot.trackers.tracker import OnClose


class TrackerBase:
    """The part of `Tracker` that is alike for all."""

    __slots__ = ()
    config: TrackerConfig
    wire: TrackerHttpClient

    @property
    def words(self) -> str:
        return self.wire.words

    @property
    def on_close(self) -> OnClose:
        return self.config.on_close

"""Settings and the base class that all tracker adapters share."""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr

from bot.trackers.http import TrackerHttpClient
from bot.trackers.tracker import OnClose
from kb.schema import StrictModel

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
ShortText = Annotated[str, Field(min_length=1, max_length=100)]


def _validate_https_url(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError("must be an address without a user, a question or a fragment: https://tracker.example")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS):
        raise ValueError("must begin with https:// (http:// only on this machine itself)")
    return url.rstrip("/")


def _validate_secret(secret: SecretStr) -> SecretStr:
    value = secret.get_secret_value()
    if not value.strip() or value != value.strip() or not value.isprintable():
        raise ValueError("must not be empty, and one line without blanks around it")
    return secret


TrackerUrl = Annotated[str, AfterValidator(_validate_https_url)]
TrackerSecret = Annotated[SecretStr, AfterValidator(_validate_secret)]


class TrackerConfig(StrictModel):
    """Settings that every tracker has."""

    kind: str = ""
    label: Annotated[str, Field(max_length=30)] = Field(
        "", description="what people read on the button and in the thread; empty: the product's name"
    )
    on_close: OnClose = Field(
        "nothing",
        description="what is done there when the incident is closed here: `nothing`, `comment`, or `close` (a comment, and closed)",
    )
    comments: bool = Field(True, description="whether what people write below a ticket there comes back into the thread")


def build_fix_hints(name: str, hints: Mapping[int, str]) -> Mapping[int, str]:
    """Return what to do about each HTTP status, with the tracker's name filled in."""
    return {status: hint.replace("{name}", name) for status, hint in hints.items()}


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

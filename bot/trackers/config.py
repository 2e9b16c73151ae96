"""What a site says of every tracker, whichever product it is."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from bot.inbound.webhook import PREFIX, key_of
from bot.trackers.tracker import OnClose
from kb.shapes import StrictModel

LEAST_HOOK = 16
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _https(url: str) -> str:
    parts = urlsplit(url)
    if not parts.hostname or parts.username or parts.query or parts.fragment:
        raise ValueError("must be an address without a user, a question or a fragment: https://tracker.example")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise ValueError("must begin with https:// (http:// only on this machine itself)")
    return url.rstrip("/")


def _given(secret: SecretStr) -> SecretStr:
    value = secret.get_secret_value()
    if not value.strip() or value != value.strip() or not value.isprintable():
        raise ValueError("must not be empty, and one line without blanks around it")
    return secret


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _long(secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    for secret in map(_given, secrets):
        if len(secret.get_secret_value()) < LEAST_HOOK:
            raise ValueError(f"must have at least {LEAST_HOOK} characters; make one with `openssl rand -hex 32`")
    return secrets


def keys_among(secrets: tuple[SecretStr, ...], *, all_of_them: bool) -> tuple[SecretStr, ...]:
    """The same where those that sign by Standard Webhooks are keys. ValueError says what a key must look like."""
    for secret in secrets:
        if all_of_them or secret.get_secret_value().startswith(PREFIX):
            key_of(secret.get_secret_value())
    return secrets


Url = Annotated[str, AfterValidator(_https)]
Secret = Annotated[SecretStr, AfterValidator(_given)]
Name = Annotated[str, Field(min_length=1, max_length=100)]
HookSecrets = Annotated[tuple[SecretStr, ...], BeforeValidator(_listed), AfterValidator(_long), Field(max_length=4)]
"""One, or a list of an old one and a new one."""


class TrackerConfig(StrictModel):
    """What all have."""

    kind: str = ""
    label: Annotated[str, Field(max_length=30)] = Field(
        "", description="what people read on the button and in the thread; empty: the product's name"
    )
    on_close: OnClose = Field(
        "nothing",
        description="what is done there when the incident is closed here: `nothing`, `comment`, or `close` (a comment, and closed)",
    )
    comments: bool = Field(True, description="whether what people write below a ticket there comes back into the thread")
    hook: HookSecrets = Field(
        (),
        description="secret with which it tells us of news at `/trackers/NAME` (below), or a list of an old one and a new one; empty: it is not heard",
    )


def mends_of(name: str, rows: Mapping[int, str]) -> Mapping[int, str]:
    """What to do about a status, with the tracker's own name in the file before each field."""
    return {status: words.replace("{name}", name) for status, words in rows.items()}

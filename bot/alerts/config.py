"""The site's alerts file (setting `alerts`): senders, labels, and routes to channels by Alertmanager matchers."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainValidator, SecretStr

from bot.alerts.alert import Alert, AlertLabels
from bot.inbound import parse_webhook_key
from graph.extraction.host_index import HostIndex
from graph.extraction.hosts import find_hosts
from kb.schema import StrictModel
from kb.yaml_files import Problems, read_document, validate_document
from tools.checks.site.safe_patterns import BadPattern, compile_whole_pattern
from tools.inventory.inventory import Inventory

# Route alerts to channels by Alertmanager matchers: the first matching route, else the default.

MAX_VALUE_CHARS = 200  # Characters of a label value that are compared.
MAX_ROUTES = 64
MAX_MATCHERS = 16
MAX_MATCHER_CHARS = 500
_MATCHER_PATTERN = re.compile(r"""\s*([^\s"'=!~,{}]{1,100})\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*"|[^"\s][^"]*|)\s*""", re.DOTALL)
_ESCAPE_PATTERN = re.compile(r"\\([\"\\n])")
DEFAULT_ROUTE_HASH = ""  # For the default, which no route describes.


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """`team="fabric"`, or with `!=`, `=~`, `!~`. A missing label is empty, as in Alertmanager."""

    text: str
    label: str
    equal: bool
    value: str
    pattern: re.Pattern[str] | None

    def matches(self, labels: Mapping[str, str]) -> bool:
        label_value = labels.get(self.label, "")[:MAX_VALUE_CHARS]
        is_match = label_value == self.value if self.pattern is None else self.pattern.fullmatch(label_value) is not None
        return is_match is self.equal


def parse_matcher(text: str) -> LabelMatcher:
    """Parse a matcher. Raise ValueError with a text for its author."""
    match = _MATCHER_PATTERN.fullmatch(text) if len(text) <= MAX_MATCHER_CHARS else None
    if match is None:
        raise ValueError(
            f'{text!r:.80} is no matcher; write LABEL="VALUE", or != =~ !~ in place of =, in at most {MAX_MATCHER_CHARS} characters'
        )
    label, sign, operand = match.groups()
    value = (
        _ESCAPE_PATTERN.sub(lambda one: "\n" if one[1] == "n" else one[1], operand[1:-1]) if operand.startswith('"') else operand.rstrip()
    )
    if sign.endswith("~"):
        try:
            return LabelMatcher(text, label, sign == "=~", value, compile_whole_pattern(value, MAX_VALUE_CHARS))
        except BadPattern as error:
            raise ValueError(f"{label}{sign}: {error}") from error
    if len(value) > MAX_VALUE_CHARS:
        raise ValueError(f"{label}: a label's value is compared up to its {MAX_VALUE_CHARS}th character, and this one is longer")
    return LabelMatcher(text, label, sign == "=", value, None)


def _parse_matchers(given: Any) -> tuple[LabelMatcher, ...]:
    """Parse all matchers, reporting every error at once."""
    if not isinstance(given, list) or not 0 < len(given) <= MAX_MATCHERS or not all(isinstance(row, str) for row in given):
        raise ValueError(f"matchers must be a list of 1 to {MAX_MATCHERS} texts, like ['team=\"fabric\"', 'alertname=~\"Link.*\"']")
    matchers, reasons = list[LabelMatcher](), list[str]()
    for text in given:
        try:
            matchers.append(parse_matcher(text))
        except ValueError as error:
            reasons.append(str(error))
    if reasons:
        raise ValueError(*reasons)
    return tuple(matchers)


class AlertRoute(StrictModel):
    """Alerts of which all `matchers` hold go to `channel`."""

    channel: str
    matchers: Annotated[tuple[LabelMatcher, ...], PlainValidator(_parse_matchers)]

    @property
    def matchers_hash(self) -> str:
        """Independent of the channel."""
        return _hash_texts([row.text for row in self.matchers])

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(row.matches(labels) for row in self.matchers)


AlertRoutes = Annotated[tuple[AlertRoute, ...], Field(max_length=MAX_ROUTES)]


def _hash_texts(texts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AlertPlace:
    """Where an alert belongs. `way`: the hash of its route, independent of the channel."""

    channel: str
    way: str = DEFAULT_ROUTE_HASH


@dataclass(frozen=True)
class AlertRouting:
    """Routes over the inventory's bindings. `hosts`: by operators' channel, the hosts it may see; `known`: all hosts."""

    default: str
    routes: Sequence[AlertRoute]
    hosts: Mapping[str, Collection[str]]
    known: Collection[str] = frozenset()

    @cached_property
    def table_hash(self) -> str:
        """Changes with the routing table."""
        return _hash_texts([self.default, *(f"{row.channel} {row.matchers_hash}" for row in self.routes)])

    @property
    def channels(self) -> frozenset[str]:
        """Where alert incidents may open: the default and all operators' channels."""
        return frozenset({self.default, *self.hosts})

    def route_alert(self, alert: Alert, shut: Collection[str] = ()) -> tuple[Alert, AlertPlace]:
        """Return the alert with its inventory host, and its place (default if the channel may not see the host)."""
        place = self.find_place(alert.labels, shut)
        host = self._resolve_host(alert.host, place.channel)
        if not host and place.channel != self.default and self._resolve_host(alert.host, ""):
            place = replace(place, channel=self.default)
            host = self._resolve_host(alert.host, self.default)
        return replace(alert, host=host or alert.host), place

    def _resolve_host(self, host: str, channel: str) -> str:
        """Return the inventory's name of a host that the channel (empty: any) may see, or an empty string."""
        return next(iter(find_hosts(host, self._get_host_book(channel)).hosts), "") if host else ""

    def _get_host_book(self, channel: str) -> HostIndex:
        if channel not in self._host_books:
            self._host_books[channel] = HostIndex(self.hosts.get(channel, ()) if channel else self.known)
        return self._host_books[channel]

    def place_in_channel(self, alert: Alert, channel: str) -> tuple[Alert, AlertPlace]:
        """Place the alert in the channel where it was posted, ignoring the routes."""
        return replace(alert, host=self._resolve_host(alert.host, channel) or alert.host), AlertPlace(channel)

    def find_hosts(self, text: str, channel: str) -> tuple[str, ...]:
        """Return the hosts in untrusted text that the channel may see."""
        return find_hosts(text, self._get_host_book(channel)).hosts

    @cached_property
    def _host_books(self) -> dict[str, HostIndex]:
        return {}

    def find_place(self, labels: Mapping[str, str], shut: Collection[str] = ()) -> AlertPlace:
        """Return the first matching route's place; the default if its channel is not the operators' or is in `shut`."""
        route = next((row for row in self.routes if row.matches(labels)), None)
        if route is None:
            return AlertPlace(self.default)
        return AlertPlace(route.channel if route.channel in self.hosts and route.channel not in shut else self.default, route.matchers_hash)

    def list_unbound_routes(self) -> list[tuple[int, AlertRoute]]:
        """Return (index, route) of routes that lead to no operators' channel."""
        return [(at, row) for at, row in enumerate(self.routes) if row.channel not in self.hosts]


# The site's alerts file (setting `alerts`): senders, channels, labels.

MIN_SECRET_CHARS = 16


class BadAlerts(ValueError):
    """A file that is refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class AlertConfig(StrictModel):
    """`channel` is bound to the operators by the inventory, and takes what no route leads elsewhere. `minutes`: a cause that fires again within them
    is the same incident."""

    channel: str
    token: SecretStr = SecretStr("")
    user: str = ""
    password: SecretStr = SecretStr("")
    keys: tuple[SecretStr, ...] = ()
    labels: AlertLabels = AlertLabels()
    routes: AlertRoutes = ()
    minutes: float = Field(30.0, gt=0, le=24 * 60)

    def build_routing(self, hosts: Mapping[str, Collection[str]], known: Collection[str] = ()) -> AlertRouting:
        """Return the routing. `hosts`: by operators' channel; `known`: all hosts."""
        return AlertRouting(self.channel, self.routes, hosts, known)

    def get_signing_keys(self) -> tuple[bytes, ...]:
        return tuple(parse_webhook_key(key.get_secret_value()) for key in self.keys)


def load_alert_config(path: Path, inventory: Inventory | None = None) -> AlertConfig:
    """Load the file. Raise BadAlerts with every problem; secrets are never printed."""
    problems = Problems()
    document = read_document(path, problems)
    site = validate_document(document, AlertConfig, problems) if document else None
    if document and site:
        for name, problem in _find_problems(site, inventory):
            problems.add(document.find_position(name), problem)
    if site is None or problems.found:
        raise BadAlerts(tuple(problems.found))
    return site


def _find_problems(site: AlertConfig, inventory: Inventory | None) -> list[tuple[str, str]]:
    problems = []
    bound = {row.channel for row in inventory.channels if row.kind == "operators"} if inventory else {site.channel}
    if site.channel not in bound:
        problems.append(
            ("channel", f"{site.channel} is not bound to the operators by the inventory: {', '.join(sorted(bound)) or 'none is'}")
        )
    for name in ("token", "password"):
        secret = getattr(site, name).get_secret_value()
        if 0 < len(secret) < MIN_SECRET_CHARS:
            problems.append((name, f"must have at least {MIN_SECRET_CHARS} characters; make one with `openssl rand -hex 32`"))
    if bool(site.user) != bool(site.password.get_secret_value()):
        problems.append(("user", "goes with password; set both, or neither"))
    if not (site.token.get_secret_value() or site.user or site.keys):
        problems.append(("channel", "no sender can authenticate: set token, user and password, or keys"))
    try:
        site.get_signing_keys()
    except ValueError as error:
        problems.append(("keys", str(error)))
    return problems

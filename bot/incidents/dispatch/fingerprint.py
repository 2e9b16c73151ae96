"""The fingerprint of an incident: its hosts, job and alert, by which a second report of it is recognised."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass

from graph.extraction.hosts import find_hosts, find_job_id
from graph.incident_view import IncidentView
from graph.state import IncidentState

MAX_TEXT_CHARS, MAX_HOSTS = 4000, 256
_NUMBER_PATTERN = re.compile(r"(?<![\w.-])\d[\d.:,/+TZ%-]*")


@dataclass(frozen=True, slots=True)
class IncidentFingerprint:
    """A second report matches when it names the same job or alert, or only hosts that the first is about."""

    hosts: tuple[str, ...] = ()
    job: str = ""
    alert: str = ""  # fingerprint of an alert

    def __bool__(self) -> bool:
        return bool(self.hosts or self.job or self.alert)


def compute_fingerprint(text: str, hosts: Collection[str], *, alert: bool = False) -> IncidentFingerprint:
    """Return what a message is about; `hosts` are those that its place may name."""
    words = text[:MAX_TEXT_CHARS]
    return IncidentFingerprint(
        find_hosts(words, hosts).hosts[:MAX_HOSTS], find_job_id(words), compute_alert_fingerprint(words) if alert else ""
    )


def compute_alert_fingerprint(alert: str) -> str:
    """Hash the alert without values and times, so that repeats are equal."""
    words = " ".join(_NUMBER_PATTERN.sub("#", alert.lower()).split())
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def compute_fingerprint_after_turn(state: IncidentState) -> IncidentFingerprint:
    """Return the hosts and job that people named, and the hosts of causes; empty for a stopped incident.

    Hosts that were only examined do not count: another fault there is another incident.
    """
    rows = IncidentView(state)
    if rows.is_stopped:
        return IncidentFingerprint()
    said = "\n".join([rows.brief.text, *(str(message["text"]) for message in rows.messages)])
    named = find_hosts(said, rows.brief.hosts).hosts
    found = [host for cause in (rows.report.root_causes if rows.report else ()) for host in cause.hosts]
    return IncidentFingerprint(tuple(dict.fromkeys((*named, *found)))[:MAX_HOSTS], rows.brief.job)

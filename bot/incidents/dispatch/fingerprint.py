"""Compute the fingerprint of an incident from its hosts, job and alert. A second report of the same incident has the same fingerprint."""

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
    """What an incident is about. A report matches it that names the same job or alert, or only hosts of the incident."""

    hosts: tuple[str, ...] = ()
    job: str = ""
    alert: str = ""  # fingerprint of an alert

    def __bool__(self) -> bool:
        return bool(self.hosts or self.job or self.alert)


def compute_fingerprint(text: str, hosts: Collection[str], *, alert: bool = False) -> IncidentFingerprint:
    """Return what a message is about.

    Args:
        text: the message.
        hosts: the hosts that may be named in its channel.
        alert: the message is an alert.
    """
    text = text[:MAX_TEXT_CHARS]
    alert_fingerprint = compute_alert_fingerprint(text) if alert else ""
    return IncidentFingerprint(find_hosts(text, hosts).hosts[:MAX_HOSTS], find_job_id(text), alert_fingerprint)


def compute_alert_fingerprint(alert: str) -> str:
    """Hash the alert without values and times, so that repeats are equal."""
    normalized = " ".join(_NUMBER_PATTERN.sub("#", alert.lower()).split())
    return hashlib.sha256(normalized.encode()).hexdigest()[:16]


def compute_fingerprint_after_turn(state: IncidentState) -> IncidentFingerprint:
    """Return the hosts and the job that people named, and the hosts of causes. It is empty for a stopped incident.

    Hosts that were only examined do not count: another fault there is another incident.
    """
    view = IncidentView(state)
    if view.is_stopped:
        return IncidentFingerprint()
    messages = "\n".join([view.brief.text, *(str(message["text"]) for message in view.messages)])
    named_hosts = find_hosts(messages, view.brief.hosts).hosts
    root_causes = view.report.root_causes if view.report else ()
    cause_hosts = [host for cause in root_causes for host in cause.hosts]
    hosts = tuple(dict.fromkeys((*named_hosts, *cause_hosts)))
    return IncidentFingerprint(hosts[:MAX_HOSTS], view.brief.job)

"""What an incident concerns, by which a second report of it is known: hosts, a job, an alert. Pure."""

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
    """Of two reports the second is about the same when it names the same job or alert, or no host that the first does not concern."""

    hosts: tuple[str, ...] = ()
    job: str = ""
    alert: str = ""
    """Fingerprint of an alert."""

    def __bool__(self) -> bool:
        return bool(self.hosts or self.job or self.alert)


def compute_fingerprint(text: str, hosts: Collection[str], *, alert: bool = False) -> IncidentFingerprint:
    """What a message concerns; `hosts` are those that its place may speak of."""
    words = text[:MAX_TEXT_CHARS]
    return IncidentFingerprint(
        find_hosts(words, hosts).hosts[:MAX_HOSTS], find_job_id(words), compute_alert_fingerprint(words) if alert else ""
    )


def compute_alert_fingerprint(alert: str) -> str:
    """The same for one alert as it repeats: its words, and the names in them, without values and times."""
    words = " ".join(_NUMBER_PATTERN.sub("#", alert.lower()).split())
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def compute_fingerprint_after_turn(state: IncidentState) -> IncidentFingerprint:
    """What an incident concerns after a turn: what people named, and where its causes were found. The other hosts of a job or a group were
    looked at, which is no reason to take another's trouble with them for the same. A stopped incident concerns nothing: a later report is a new one."""
    rows = IncidentView(state)
    if rows.is_stopped:
        return IncidentFingerprint()
    said = "\n".join([rows.brief.text, *(str(row["text"]) for row in rows.messages)])
    named = find_hosts(said, rows.brief.hosts).hosts
    found = [host for cause in (rows.report.root_causes if rows.report else ()) for host in cause.hosts]
    return IncidentFingerprint(tuple(dict.fromkeys((*named, *found)))[:MAX_HOSTS], rows.brief.job)

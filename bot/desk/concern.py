"""What an incident concerns, by which a second report of it is known: hosts, a job, an alert. Pure."""

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass

from graph.reading.hosts import hosts_in, job_in
from graph.rows import IncidentRows
from graph.state import Incident

LONGEST, MOST_HOSTS = 4000, 256
_NUMBERS = re.compile(r"(?<![\w.-])\d[\d.:,/+TZ%-]*")


@dataclass(frozen=True, slots=True)
class Concern:
    """Of two reports the second is about the same when it names the same job or alert, or no host that the first does not concern."""

    hosts: tuple[str, ...] = ()
    job: str = ""
    alert: str = ""
    """Fingerprint of an alert."""

    def __bool__(self) -> bool:
        return bool(self.hosts or self.job or self.alert)


def concern_of(text: str, hosts: Collection[str], *, alert: bool = False) -> Concern:
    """What a message concerns; `hosts` are those that its place may speak of."""
    words = text[:LONGEST]
    return Concern(hosts_in(words, hosts).hosts[:MOST_HOSTS], job_in(words), fingerprint(words) if alert else "")


def fingerprint(alert: str) -> str:
    """The same for one alert as it repeats: its words, and the names in them, without values and times."""
    words = " ".join(_NUMBERS.sub("#", alert.lower()).split())
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def concern_after(state: Incident) -> Concern:
    """What an incident concerns after a turn: what people named, and where its causes were found. The other hosts of a job or a group were
    looked at, which is no reason to take another's trouble with them for the same. A stopped incident concerns nothing: a later report is a new one."""
    rows = IncidentRows(state)
    if rows.stopped:
        return Concern()
    said = "\n".join([rows.brief.text, *(str(row["text"]) for row in rows.said)])
    named = hosts_in(said, rows.brief.hosts).hosts
    found = [host for cause in (rows.report.root_causes if rows.report else ()) for host in cause.hosts]
    return Concern(tuple(dict.fromkeys((*named, *found)))[:MOST_HOSTS], rows.brief.job)

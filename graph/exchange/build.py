"""An incident → the document that may leave. What decided comes first, then what is abnormal; what has no room is counted."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from graph.engine.abnormal import is_odd
from graph.exchange.document import (
    LONGEST_HOST,
    MOST_BYTES,
    MOST_FACTS,
    MOST_LOGS,
    MOST_RANGES,
    MOST_TEMPLATES,
    Scalar,
    SignedKind,
    TicketDocument,
    ToldAttempt,
    ToldBlind,
    ToldFact,
    ToldHypothesis,
    ToldLog,
    ToldSignature,
    ToldTemplate,
    ToldVersion,
    ToldWords,
)
from graph.exchange.signing_away import SigningAway
from graph.reading.logs import handful, of_jobs
from graph.rows import IncidentRows
from graph.state import Evidence, Hypothesis, LogDigest
from kb.keys import BY_NAME
from tools.fact import Fact, Status
from tools.inventory.ranges import fold

NAMES = ("name", "image", "process", "user", "users", "cmd", "args", "command", "owners")
"""Attributes of facts that name something of the workload."""
VERSIONS = ("driver.", "kernel.release", "vers.", "ib.firmware", "gpu.vbios", "gpu.product", "job.nccl_version", "container.cuda")
_NO_VERSION = ("driver.mismatch", "driver.fabricmanager_mismatch", "vers.arch_missing", "vers.nccl_known_bad", "vers.cudnn_mismatch")
MOST_SIGNATURES, MOST_VERSIONS, MOST_HYPOTHESES, MOST_BLIND, MOST_SAID, MOST_TRIED = 120, 60, 40, 60, 8, 40
SHORTEST_NAME = 3
ROOM = MOST_BYTES * 3 // 4
"""Bytes of a document; the rest is for who writes it otherwise."""
FEW = 16
_COMMA = re.compile(r",(?![^\[]*\])")
NOBODYS = frozenset({"python", "python3", "bash", "sh", "java", "root", "python3.10", "python3.11", "python3.12", "pt_main_thread"})
"""Names of programs that everybody runs."""


@dataclass(frozen=True, slots=True)
class Secrecy:
    """What a site keeps to itself. `salt` never leaves it, `public` is what everybody knows, `private` are names of its own beside those of the
    workload: other hosts, addresses, controllers."""

    salt: bytes
    public: Collection[str]
    private: Collection[str] = ()


def build_ticket(rows: IncidentRows, facts: Sequence[Fact], secrecy: Secrecy, made: datetime) -> TicketDocument:
    """The document of an incident as it stands. `facts` are those that its latest look established."""
    hosts = rows.brief.hosts or tuple(dict.fromkeys(fact.host for fact in facts if fact.host))
    names = {*workload_names(facts), *secrecy.private} - {*hosts, *NOBODYS}
    away = SigningAway(secrecy.salt, secrecy.public, hosts, names)
    return _fitting(_Written(rows, facts, away, hosts, frozenset(hosts)).document(made))


def workload_names(facts: Iterable[Fact]) -> frozenset[str]:
    """Names that the workload goes by, as the hosts show it: images, programs, users, what its environment says."""
    found = {str(value) for fact in facts for name in NAMES for value in _each(fact.attrs.get(name))}
    found |= {str(fact.value) for fact in facts if fact.key in ("proc.blocked", "job.name", "sched.pods") and isinstance(fact.value, str)}
    return frozenset(name for name in found if len(name) >= SHORTEST_NAME)


def _each(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else () if value is None else (value,)


@dataclass(frozen=True)
class _Written:
    rows: IncidentRows
    facts: Sequence[Fact]
    away: SigningAway
    hosts: tuple[str, ...]
    ours: frozenset[str]

    def document(self, made: datetime) -> TicketDocument:
        rows, away, report = self.rows, self.away, self.rows.report
        tried, facts, blind = self._hypotheses(), self._chosen(), report.could_not_look if report else ()
        versions, logs = self._versions(), self._logs()
        return TicketDocument(
            incident=rows.id,
            made=made,
            opened=rows.opened_at,
            outcome=report.outcome if report else "",
            hosts=ranges(self.hosts),
            job=away.word(rows.brief.job),
            symptoms=tuple(away.word(symptom) for symptom in rows.brief.symptoms[:24]),
            since=rows.brief.since,
            said=tuple(self._said())[-MOST_SAID:],
            hypotheses=tuple(map(self._hypothesis, tried[:MOST_HYPOTHESES])),
            facts=tuple(map(self._fact, facts[:MOST_FACTS])),
            could_not_look=tuple(
                ToldBlind(host=away.word(row.host, LONGEST_HOST), check=away.word(row.check), why=away.text(row.why))
                for row in blind[:MOST_BLIND]
            ),
            versions=versions[:MOST_VERSIONS],
            logs=tuple(map(self._log, logs)),
            tried=tuple(self._tried())[-MOST_TRIED:],
            signatures=self._signatures(logs),
            left_out=sum(max(0, len(all_) - most) for all_, most in ((tried, MOST_HYPOTHESES), (facts, MOST_FACTS), (blind, MOST_BLIND))),
        )

    def _said(self) -> Iterator[ToldWords]:
        for row in self.rows.said:
            if text := self.away.text(str(row.get("text") or "")):
                yield ToldWords(at=_moment(row.get("at")), text=text)

    def _hypotheses(self) -> list[Hypothesis]:
        report = self.rows.report
        found = [*(report.root_causes if report else ()), *self.rows.hypotheses, *(report.ruled_out if report else ())]
        return list({(row.label, row.hosts): row for row in reversed(found)}.values())[::-1]

    def _hypothesis(self, row: Hypothesis) -> ToldHypothesis:
        word = self.away.word
        return ToldHypothesis(
            label=word(row.label),
            verdict=row.verdict,
            confidence=round(min(1.0, max(0.0, row.confidence)), 4),
            because=self.away.text(row.because),
            hosts=ranges(host for host in row.hosts if host in self.ours),
            devices=tuple(word(device, 300) for device in row.devices[:64]),
        )

    def _chosen(self) -> list[Fact]:
        """What causes cite, then what is abnormal by itself; one row for what is the same on the same device."""
        cited = {_place(row) for row in self._cited()}
        first = [fact for fact in self.facts if (fact.host, fact.check, fact.key, fact.device or "") in cited and not fact.status.blind]
        odd = [fact for fact in self.facts if is_odd(fact)]
        rows = [fact for fact in (*first, *odd) if fact.key and (not fact.host or fact.host in self.ours)]
        return list({(fact.host, fact.check, fact.key, fact.device, repr(fact.value)): fact for fact in rows}.values())

    def _cited(self) -> Iterator[Evidence]:
        report = self.rows.report
        for cause in (*report.root_causes, *report.ruled_out) if report else ():
            yield from cause.evidence

    def _fact(self, fact: Fact) -> ToldFact:
        word, text = self.away.word, self.away.text
        status = fact.status.value
        return ToldFact(
            host=fact.host,
            check=word(fact.check),
            key=self._key(fact.key),
            device=word(fact.device or ""),
            status=status,  # type: ignore[arg-type]  # a test compares the two lists
            value=self._value(fact),
            unit=word(fact.unit),
            line=text(fact.line),
            time=fact.time,
            attrs=dict(list(self._attrs(fact))[:16]),
        )

    def _key(self, key: str) -> str:
        """A key of ours; of one that a site or a job named, its first word and a signature."""
        head, _, name = key.rpartition(".")
        return key if key in BY_NAME or not head else f"{head}.{self.away.word(name, 60)}"

    def _value(self, fact: Fact) -> Scalar | tuple[str, ...] | None:
        match fact.value:
            case bool() | int() | float() | None:
                return fact.value if fact.value is None or abs(fact.value) < 1 << 63 else None
            case list():
                return tuple(self.away.text(str(part)) for part in fact.value[:40])
            case _:
                return self.away.text(str(fact.value))

    def _attrs(self, fact: Fact) -> Iterator[tuple[str, Scalar]]:
        for name, value in fact.attrs.items():
            if name in NAMES:
                yield name, " ".join(self.away.word(str(part)) for part in _each(value))[:400]
            elif isinstance(value, bool | int | float) and abs(value) < 1 << 63:
                yield name, value
            elif isinstance(value, str):
                yield name, self.away.text(value, 160)

    def _versions(self) -> tuple[ToldVersion, ...]:
        hosts: Mapping[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for fact in self.facts:
            known = fact.key in BY_NAME and fact.key.startswith(VERSIONS) and fact.key not in _NO_VERSION
            if known and fact.status is Status.OK and isinstance(fact.value, str) and fact.host in self.ours:
                hosts[fact.key, self.away.text(fact.value, 80)][fact.host] = None
        return tuple(ToldVersion(what=what, value=value, hosts=ranges(have)) for (what, value), have in hosts.items())

    def _logs(self) -> list[LogDigest]:
        of_hosts = of_jobs(self.facts)
        return list(handful((*self.rows.logs, *([of_hosts] if of_hosts else [])), MOST_TEMPLATES))[:MOST_LOGS]

    def _log(self, log: LogDigest) -> ToldLog:
        rows = log.templates[: MOST_TEMPLATES // MOST_LOGS]
        told = (ToldTemplate(text=self.away.text(row.text), count=row.count, first=row.first, last=row.last) for row in rows)
        return ToldLog(name=self.away.text(log.name, 80), lines=log.lines, templates=tuple(told))

    def _tried(self) -> Iterator[ToldAttempt]:
        for ladder in self.rows.ladders:
            if ladder.rungs:
                done = ladder.rungs[min(ladder.rung, len(ladder.rungs) - 1)]
                yield ToldAttempt(
                    remedy=self.away.word(done.remedy), target=self.away.word(ladder.target, LONGEST_HOST), outcome=ladder.outcome
                )

    def _signatures(self, logs: Sequence[LogDigest]) -> tuple[ToldSignature, ...]:
        texts = [str(row.get("text") or "") for row in self.rows.said]
        texts += [
            part for fact in self._chosen()[:MOST_FACTS] for part in (fact.line, *(str(fact.attrs.get(name) or "") for name in NAMES))
        ]
        texts += [row.text for log in logs for row in log.templates]
        found: dict[str, SignedKind] = self.away.signed(texts)
        return tuple(ToldSignature(kind=kind, signature=signature) for signature, kind in list(found.items())[:MOST_SIGNATURES])


def ranges(hosts: Iterable[str]) -> tuple[str, ...]:
    """Hosts as ranges, each short enough to be read; past MOST_RANGES they are left out."""
    names = list(hosts)
    whole = _parted(fold(names))
    if len(whole) <= MOST_RANGES and all(len(part) <= LONGEST_HOST for part in whole):
        return tuple(whole)
    parted = [part for at in range(0, len(names), FEW) for part in _parted(fold(names[at : at + FEW]))]
    return tuple(part for part in parted if len(part) <= LONGEST_HOST)[:MOST_RANGES]


def _parted(folded: str) -> list[str]:
    return [part for part in _COMMA.split(folded) if part]


def _fitting(document: TicketDocument) -> TicketDocument:
    """With as many of its facts, the first of them, as there is room for."""
    while document.facts and len(document.canonical()) > ROOM:
        kept = document.facts[: len(document.facts) * 3 // 4]
        gone = len(document.facts) - len(kept)
        document = document.model_copy(update={"facts": kept, "left_out": document.left_out + gone})
    return document


def _place(row: Evidence) -> tuple[str, str, str, str]:
    return row.host, row.check, row.key, row.device


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None

"""Build the export document of an incident: deciding facts first, then abnormal ones; what does not fit is counted."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from graph.engine.abnormal_facts import is_abnormal
from graph.extraction.log_digests import build_job_log_digest, select_telling_templates
from graph.incident_view import IncidentView
from graph.state import Evidence, Hypothesis, LogDigest
from graph.ticket_export.document import (
    MAX_DOCUMENT_BYTES,
    MAX_FACTS,
    MAX_HOST_CHARS,
    MAX_HOST_RANGES,
    MAX_LOGS,
    MAX_TEMPLATES,
    ExportedAttempt,
    ExportedFact,
    ExportedHypothesis,
    ExportedLog,
    ExportedMessage,
    ExportedSignature,
    ExportedTemplate,
    ExportedUnobservedCheck,
    ExportedVersion,
    PseudonymKind,
    Scalar,
    TicketDocument,
)
from graph.ticket_export.pseudonymizer import Pseudonymizer, collect_public_chunks
from kb.catalogues.table import load_table
from kb.fact_keys import KEYS, KEYS_BY_NAME
from kb.fact_text import FACT_TEXTS
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import Leaf
from tools.checks import CHECKS
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names
from tools.remedies import REMEDIES

# Public chunks of the packaged catalogues; a site's own causes and checks are not public.

PUBLIC_CATALOGUES = ("nccl", "nvlink5", "sxid", "xid")
# GPU product names.
PRODUCT_NAMES = (
    "NVIDIA Corporation GH100 GA100 AD102 prog-if 3D controller Tesla A100 A100-SXM4-40GB A100-SXM4-80GB A100-PCIE-40GB H100 H100-SXM5-80GB "
    "H200 B200 GB200 L4 L40 L40S HBM2 HBM2e HBM3 HBM3e PCIe SXM"
)


def load_public_chunks() -> frozenset[str]:
    """Return all public chunks. Reads the catalogues' files, so call it once per process."""
    return collect_public_chunks(_iter_public_texts())


def _iter_public_texts() -> Iterator[str]:
    yield PRODUCT_NAMES
    for leaf in load_taxonomy().leaves.values():
        yield from _iter_leaf_texts(leaf)
    for key in KEYS:
        yield f"{key.name} {key.means} {key.unit} {key.scope}"
    for words in FACT_TEXTS.values():
        yield " ".join(words)
    for check in CHECKS.values():
        yield " ".join((check.id, check.asks, *(word for command in check.commands for word in command.argv)))
    for remedy in REMEDIES.values():
        yield f"{remedy.id} {remedy.does}"
    for name in PUBLIC_CATALOGUES:
        for row in load_table(name):
            yield " ".join(row.values())


def _iter_leaf_texts(leaf: Leaf) -> Iterator[str]:
    yield " ".join((leaf.label, leaf.title, leaf.plain, leaf.description, leaf.customer_words, leaf.next_step, *leaf.words, *leaf.symptoms))
    for clue in leaf.evidence:
        yield f"{clue.key} {clue.when} {clue.says}"


# Build the export document of an incident: deciding facts first, then abnormal ones; what does not fit is counted.

# Fact attributes that name parts of the workload.
NAME_ATTRIBUTES = ("name", "image", "process", "user", "users", "cmd", "args", "command", "owners")
VERSION_KEY_PREFIXES = (
    "driver.",
    "kernel.release",
    "vers.",
    "ib.firmware",
    "gpu.vbios",
    "gpu.product",
    "job.nccl_version",
    "container.cuda",
)
_EXCLUDED_VERSION_KEYS = (
    "driver.mismatch",
    "driver.fabricmanager_mismatch",
    "vers.arch_missing",
    "vers.nccl_known_bad",
    "vers.cudnn_mismatch",
)
MAX_SIGNATURES = 120
MAX_VERSIONS = 60
MAX_HYPOTHESES = 40
MAX_UNOBSERVED_CHECKS = 60
MAX_MESSAGES = 8
MAX_ATTEMPTS = 40
MIN_NAME_CHARS = 3
# Bytes of a document; the reserve allows for other encoders of the same document.
MAX_EXPORT_BYTES = MAX_DOCUMENT_BYTES * 3 // 4
HOSTS_PER_RANGE = 16
_RANGE_COMMA_PATTERN = re.compile(r",(?![^\[]*\])")
# Programs that every site runs.
GENERIC_PROGRAM_NAMES = frozenset(
    {"python", "python3", "bash", "sh", "java", "root", "python3.10", "python3.11", "python3.12", "pt_main_thread"}
)


@dataclass(frozen=True, slots=True)
class ExportPrivacy:
    """`salt` never leaves the site; `public` are words known to everyone; `private` are names besides the workload's:
    other hosts, addresses, controllers.
    """

    salt: bytes
    public: Collection[str]
    private: Collection[str] = ()


def build_ticket_document(incident_view: IncidentView, facts: Sequence[Fact], secrecy: ExportPrivacy, made: datetime) -> TicketDocument:
    """Return the incident's document. `facts` are those of its latest checks."""
    hosts = incident_view.brief.hosts or tuple(dict.fromkeys(fact.host for fact in facts if fact.host))
    names = {*find_workload_names(facts), *secrecy.private} - {*hosts, *GENERIC_PROGRAM_NAMES}
    pseudonymizer = Pseudonymizer(secrecy.salt, secrecy.public, hosts, names)
    return _fit_to_size(_DocumentBuilder(incident_view, facts, pseudonymizer, hosts, frozenset(hosts)).build(made))


def find_workload_names(facts: Iterable[Fact]) -> frozenset[str]:
    """Return the workload's names as hosts show them: images, programs, users, environment."""
    workload_names = {str(value) for fact in facts for name in NAME_ATTRIBUTES for value in _to_tuple(fact.attrs.get(name))}
    workload_names |= {
        str(fact.value) for fact in facts if fact.key in ("proc.blocked", "job.name", "sched.pods") and isinstance(fact.value, str)
    }
    return frozenset(name for name in workload_names if len(name) >= MIN_NAME_CHARS)


def _to_tuple(value: object) -> tuple[object, ...]:
    return tuple(value) if isinstance(value, list | tuple) else () if value is None else (value,)


@dataclass(frozen=True)
class _DocumentBuilder:
    rows: IncidentView
    facts: Sequence[Fact]
    away: Pseudonymizer
    hosts: tuple[str, ...]
    ours: frozenset[str]

    def build(self, made: datetime) -> TicketDocument:
        rows, pseudonymizer, report = self.rows, self.away, self.rows.report
        hypotheses, facts, unobserved = self._list_hypotheses(), self._select_facts(), report.could_not_look if report else ()
        versions, logs = self._export_versions(), self._select_logs()
        return TicketDocument(
            incident=rows.id,
            made=made,
            opened=rows.opened_at,
            outcome=report.outcome if report else "",
            hosts=fold_host_ranges(self.hosts),
            job=pseudonymizer.pseudonymize_name(rows.brief.job),
            symptoms=tuple(pseudonymizer.pseudonymize_name(symptom) for symptom in rows.brief.symptoms[:24]),
            since=rows.brief.since,
            said=tuple(self._iter_messages())[-MAX_MESSAGES:],
            hypotheses=tuple(map(self._export_hypothesis, hypotheses[:MAX_HYPOTHESES])),
            facts=tuple(map(self._export_fact, facts[:MAX_FACTS])),
            could_not_look=tuple(
                ExportedUnobservedCheck(
                    host=pseudonymizer.pseudonymize_name(row.host, MAX_HOST_CHARS),
                    check=pseudonymizer.pseudonymize_name(row.check),
                    why=pseudonymizer.pseudonymize_text(row.why),
                )
                for row in unobserved[:MAX_UNOBSERVED_CHECKS]
            ),
            versions=versions[:MAX_VERSIONS],
            logs=tuple(map(self._export_log, logs)),
            tried=tuple(self._iter_attempts())[-MAX_ATTEMPTS:],
            signatures=self._list_signatures(logs),
            left_out=sum(
                max(0, len(all_) - most)
                for all_, most in ((hypotheses, MAX_HYPOTHESES), (facts, MAX_FACTS), (unobserved, MAX_UNOBSERVED_CHECKS))
            ),
        )

    def _iter_messages(self) -> Iterator[ExportedMessage]:
        for row in self.rows.messages:
            if text := self.away.pseudonymize_text(str(row.get("text") or "")):
                yield ExportedMessage(at=_parse_timestamp(row.get("at")), text=text)

    def _list_hypotheses(self) -> list[Hypothesis]:
        report = self.rows.report
        hypotheses = [*(report.root_causes if report else ()), *self.rows.hypotheses, *(report.ruled_out if report else ())]
        return list({(row.label, row.hosts): row for row in reversed(hypotheses)}.values())[::-1]

    def _export_hypothesis(self, row: Hypothesis) -> ExportedHypothesis:
        word = self.away.pseudonymize_name
        return ExportedHypothesis(
            label=word(row.label),
            verdict=row.verdict,
            confidence=round(min(1.0, max(0.0, row.confidence)), 4),
            because=self.away.pseudonymize_text(row.because),
            hosts=fold_host_ranges(host for host in row.hosts if host in self.ours),
            devices=tuple(word(device, 300) for device in row.devices[:64]),
        )

    def _select_facts(self) -> list[Fact]:
        cited_keys = {_get_evidence_key(row) for row in self._iter_cited_evidence()}
        first = [
            fact for fact in self.facts if (fact.host, fact.check, fact.key, fact.device or "") in cited_keys and not fact.status.blind
        ]
        odd = [fact for fact in self.facts if is_abnormal(fact)]
        rows = [fact for fact in (*first, *odd) if fact.key and (not fact.host or fact.host in self.ours)]
        return list({(fact.host, fact.check, fact.key, fact.device, repr(fact.value)): fact for fact in rows}.values())

    def _iter_cited_evidence(self) -> Iterator[Evidence]:
        report = self.rows.report
        for cause in (*report.root_causes, *report.ruled_out) if report else ():
            yield from cause.evidence

    def _export_fact(self, fact: Fact) -> ExportedFact:
        word, text = self.away.pseudonymize_name, self.away.pseudonymize_text
        status = fact.status.value
        return ExportedFact(
            host=fact.host,
            check=word(fact.check),
            key=self._export_key(fact.key),
            device=word(fact.device or ""),
            status=status,  # type: ignore[arg-type]  # a test compares the two lists
            value=self._export_value(fact),
            unit=word(fact.unit),
            line=text(fact.line),
            time=fact.time,
            attrs=dict(list(self._iter_exported_attrs(fact))[:16]),
        )

    def _export_key(self, key: str) -> str:
        """Return a catalogued key; of any other its first word and a signature."""
        head, _, name = key.rpartition(".")
        return key if key in KEYS_BY_NAME or not head else f"{head}.{self.away.pseudonymize_name(name, 60)}"

    def _export_value(self, fact: Fact) -> Scalar | tuple[str, ...] | None:
        match fact.value:
            case bool() | int() | float() | None:
                return fact.value if fact.value is None or abs(fact.value) < 1 << 63 else None
            case list():
                return tuple(self.away.pseudonymize_text(str(part)) for part in fact.value[:40])
            case _:
                return self.away.pseudonymize_text(str(fact.value))

    def _iter_exported_attrs(self, fact: Fact) -> Iterator[tuple[str, Scalar]]:
        for name, value in fact.attrs.items():
            if name in NAME_ATTRIBUTES:
                yield name, " ".join(self.away.pseudonymize_name(str(part)) for part in _to_tuple(value))[:400]
            elif isinstance(value, bool | int | float) and abs(value) < 1 << 63:
                yield name, value
            elif isinstance(value, str):
                yield name, self.away.pseudonymize_text(value, 160)

    def _export_versions(self) -> tuple[ExportedVersion, ...]:
        hosts: Mapping[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for fact in self.facts:
            is_version = fact.key in KEYS_BY_NAME and fact.key.startswith(VERSION_KEY_PREFIXES) and fact.key not in _EXCLUDED_VERSION_KEYS
            if is_version and fact.status is Status.OK and isinstance(fact.value, str) and fact.host in self.ours:
                hosts[fact.key, self.away.pseudonymize_text(fact.value, 80)][fact.host] = None
        return tuple(
            ExportedVersion(what=component, value=value, hosts=fold_host_ranges(have)) for (component, value), have in hosts.items()
        )

    def _select_logs(self) -> list[LogDigest]:
        of_hosts = build_job_log_digest(self.facts)
        return list(select_telling_templates((*self.rows.logs, *([of_hosts] if of_hosts else [])), MAX_TEMPLATES))[:MAX_LOGS]

    def _export_log(self, log: LogDigest) -> ExportedLog:
        rows = log.templates[: MAX_TEMPLATES // MAX_LOGS]
        templates = (
            ExportedTemplate(text=self.away.pseudonymize_text(row.text), count=row.count, first=row.first, last=row.last) for row in rows
        )
        return ExportedLog(name=self.away.pseudonymize_text(log.name, 80), lines=log.lines, templates=tuple(templates))

    def _iter_attempts(self) -> Iterator[ExportedAttempt]:
        for remediation in self.rows.remediations:
            if remediation.rungs:
                current_step = remediation.rungs[min(remediation.rung, len(remediation.rungs) - 1)]
                yield ExportedAttempt(
                    remedy=self.away.pseudonymize_name(current_step.remedy),
                    target=self.away.pseudonymize_name(remediation.target, MAX_HOST_CHARS),
                    outcome=remediation.outcome,
                )

    def _list_signatures(self, logs: Sequence[LogDigest]) -> tuple[ExportedSignature, ...]:
        texts = [str(row.get("text") or "") for row in self.rows.messages]
        texts += [
            part
            for fact in self._select_facts()[:MAX_FACTS]
            for part in (fact.line, *(str(fact.attrs.get(name) or "") for name in NAME_ATTRIBUTES))
        ]
        texts += [row.text for log in logs for row in log.templates]
        signatures: dict[str, PseudonymKind] = self.away.find_signatures(texts)
        return tuple(ExportedSignature(kind=kind, signature=signature) for signature, kind in list(signatures.items())[:MAX_SIGNATURES])


def fold_host_ranges(hosts: Iterable[str]) -> tuple[str, ...]:
    """Return hosts as ranges of readable length, at most `MAX_HOST_RANGES`."""
    names = list(hosts)
    folded = _split_folded(fold_host_names(names))
    if len(folded) <= MAX_HOST_RANGES and all(len(part) <= MAX_HOST_CHARS for part in folded):
        return tuple(folded)
    parted = [
        part for at in range(0, len(names), HOSTS_PER_RANGE) for part in _split_folded(fold_host_names(names[at : at + HOSTS_PER_RANGE]))
    ]
    return tuple(part for part in parted if len(part) <= MAX_HOST_CHARS)[:MAX_HOST_RANGES]


def _split_folded(folded: str) -> list[str]:
    return [part for part in _RANGE_COMMA_PATTERN.split(folded) if part]


def _fit_to_size(document: TicketDocument) -> TicketDocument:
    while document.facts and len(document.to_canonical_bytes()) > MAX_EXPORT_BYTES:
        kept_facts = document.facts[: len(document.facts) * 3 // 4]
        dropped_count = len(document.facts) - len(kept_facts)
        document = document.model_copy(update={"facts": kept_facts, "left_out": document.left_out + dropped_count})
    return document


def _get_evidence_key(row: Evidence) -> tuple[str, str, str, str]:
    return row.host, row.check, row.key, row.device


def _parse_timestamp(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None

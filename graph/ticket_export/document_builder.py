"""Build the export document of an incident: deciding facts first, then abnormal ones; what does not fit is counted.

Only the packaged catalogues are public; a site's own causes and checks are not.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from graph.engine.abnormal_facts import is_abnormal
from graph.extraction.log_digests import build_job_log_digest, select_telling_templates
from graph.incident_view import IncidentView
from graph.state import Evidence, Hypothesis, LogDigest, UnobservedCheck
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

PUBLIC_CATALOGUES = ("nccl", "nvlink5", "sxid", "xid")
# GPU product names.
PRODUCT_NAMES = (
    "NVIDIA Corporation GH100 GA100 AD102 prog-if 3D controller Tesla A100 A100-SXM4-40GB A100-SXM4-80GB A100-PCIE-40GB H100 H100-SXM5-80GB "
    "H200 B200 GB200 L4 L40 L40S HBM2 HBM2e HBM3 HBM3e PCIe SXM"
)
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
MAX_SYMPTOMS = 24
MAX_DEVICES = 64
MAX_ATTRIBUTES = 16
MAX_LIST_VALUES = 40
INT64_LIMIT = 1 << 63
# Bytes of a document; the reserve allows for other encoders of the same document.
MAX_EXPORT_BYTES = MAX_DOCUMENT_BYTES * 3 // 4
HOSTS_PER_RANGE = 16
_RANGE_COMMA_PATTERN = re.compile(r",(?![^\[]*\])")
# Programs that every site runs.
GENERIC_PROGRAM_NAMES = frozenset(
    {"python", "python3", "bash", "sh", "java", "root", "python3.10", "python3.11", "python3.12", "pt_main_thread"}
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
        for catalogue_row in load_table(name):
            yield " ".join(catalogue_row.values())


def _iter_leaf_texts(leaf: Leaf) -> Iterator[str]:
    texts = (leaf.label, leaf.title, leaf.plain, leaf.description, leaf.customer_words, leaf.next_step)
    yield " ".join((*texts, *leaf.words, *leaf.symptoms))
    for clue in leaf.evidence:
        yield f"{clue.key} {clue.when} {clue.says}"


@dataclass(frozen=True, slots=True)
class ExportPrivacy:
    """What a document may show: `salt` never leaves the site, `public` are words that stay readable, and `private` are names
    to hide besides the workload's, such as other hosts, addresses and controllers.
    """

    salt: bytes
    public: Collection[str]
    private: Collection[str] = ()


def build_ticket_document(incident_view: IncidentView, facts: Sequence[Fact], privacy: ExportPrivacy, made: datetime) -> TicketDocument:
    """Return the incident's document. `facts` are the results of its latest checks."""
    hosts = incident_view.brief.hosts or tuple(dict.fromkeys(fact.host for fact in facts if fact.host))
    names = {*find_workload_names(facts), *privacy.private} - {*hosts, *GENERIC_PROGRAM_NAMES}
    pseudonymizer = Pseudonymizer(privacy.salt, privacy.public, hosts, names)
    return _fit_to_size(_DocumentBuilder(incident_view, facts, pseudonymizer, hosts, frozenset(hosts)).build(made))


def find_workload_names(facts: Iterable[Fact]) -> frozenset[str]:
    """Return the workload's names as hosts show them: images, programs, users, environment."""
    workload_names: set[str] = set()
    for fact in facts:
        for attribute in NAME_ATTRIBUTES:
            workload_names.update(map(str, _to_tuple(fact.attrs.get(attribute))))
        if fact.key in ("proc.blocked", "job.name", "sched.pods") and isinstance(fact.value, str):
            workload_names.add(fact.value)
    return frozenset(name for name in workload_names if len(name) >= MIN_NAME_CHARS)


def _to_tuple(value: object) -> tuple[object, ...]:
    if isinstance(value, list | tuple):
        return tuple(value)
    return () if value is None else (value,)


@dataclass(frozen=True)
class _DocumentBuilder:
    incident_view: IncidentView
    facts: Sequence[Fact]
    pseudonymizer: Pseudonymizer
    hosts: tuple[str, ...]
    own_hosts: frozenset[str]

    def build(self, made: datetime) -> TicketDocument:
        incident_view, pseudonymizer, report = self.incident_view, self.pseudonymizer, self.incident_view.report
        hypotheses = self._list_hypotheses()
        facts = self._select_facts()
        unobserved = report.could_not_look if report else ()
        logs = self._select_logs()
        left_out = (
            max(0, len(hypotheses) - MAX_HYPOTHESES) + max(0, len(facts) - MAX_FACTS) + max(0, len(unobserved) - MAX_UNOBSERVED_CHECKS)
        )
        return TicketDocument(
            incident=incident_view.id,
            made=made,
            opened=incident_view.opened_at,
            outcome=report.outcome if report else "",
            hosts=fold_host_ranges(self.hosts),
            job=pseudonymizer.pseudonymize_name(incident_view.brief.job),
            symptoms=tuple(pseudonymizer.pseudonymize_name(symptom) for symptom in incident_view.brief.symptoms[:MAX_SYMPTOMS]),
            since=incident_view.brief.since,
            said=tuple(self._iter_messages())[-MAX_MESSAGES:],
            hypotheses=tuple(map(self._export_hypothesis, hypotheses[:MAX_HYPOTHESES])),
            facts=tuple(map(self._export_fact, facts[:MAX_FACTS])),
            could_not_look=tuple(map(self._export_unobserved_check, unobserved[:MAX_UNOBSERVED_CHECKS])),
            versions=self._export_versions()[:MAX_VERSIONS],
            logs=tuple(map(self._export_log, logs)),
            tried=tuple(self._iter_attempts())[-MAX_ATTEMPTS:],
            signatures=self._list_signatures(logs),
            left_out=left_out,
        )

    def _export_unobserved_check(self, unobserved_check: UnobservedCheck) -> ExportedUnobservedCheck:
        return ExportedUnobservedCheck(
            host=self.pseudonymizer.pseudonymize_name(unobserved_check.host, MAX_HOST_CHARS),
            check=self.pseudonymizer.pseudonymize_name(unobserved_check.check),
            why=self.pseudonymizer.pseudonymize_text(unobserved_check.why),
        )

    def _iter_messages(self) -> Iterator[ExportedMessage]:
        for message in self.incident_view.messages:
            if text := self.pseudonymizer.pseudonymize_text(str(message.get("text") or "")):
                yield ExportedMessage(at=_parse_timestamp(message.get("at")), text=text)

    def _list_hypotheses(self) -> list[Hypothesis]:
        """Return root causes first and rejected causes last; of equal hypotheses the first counts."""
        report = self.incident_view.report
        root_causes = report.root_causes if report else ()
        rejected_causes = report.ruled_out if report else ()
        hypotheses_by_subject: dict[tuple[str, tuple[str, ...]], Hypothesis] = {}
        for hypothesis in reversed([*root_causes, *self.incident_view.hypotheses, *rejected_causes]):
            hypotheses_by_subject[hypothesis.label, hypothesis.hosts] = hypothesis
        return list(hypotheses_by_subject.values())[::-1]

    def _export_hypothesis(self, cause: Hypothesis) -> ExportedHypothesis:
        pseudonymize_name = self.pseudonymizer.pseudonymize_name
        return ExportedHypothesis(
            label=pseudonymize_name(cause.label),
            verdict=cause.verdict,
            confidence=round(min(1.0, max(0.0, cause.confidence)), 4),
            because=self.pseudonymizer.pseudonymize_text(cause.because),
            hosts=fold_host_ranges(host for host in cause.hosts if host in self.own_hosts),
            devices=tuple(pseudonymize_name(device, 300) for device in cause.devices[:MAX_DEVICES]),
        )

    def _select_facts(self) -> list[Fact]:
        cited_keys = {_get_evidence_key(evidence) for evidence in self._iter_cited_evidence()}
        cited_facts = [
            fact for fact in self.facts if (fact.host, fact.check, fact.key, fact.device or "") in cited_keys and not fact.status.blind
        ]
        abnormal_facts = [fact for fact in self.facts if is_abnormal(fact)]
        unique_facts: dict[tuple[object, ...], Fact] = {}
        for fact in (*cited_facts, *abnormal_facts):
            if fact.key and (not fact.host or fact.host in self.own_hosts):
                unique_facts[fact.host, fact.check, fact.key, fact.device, repr(fact.value)] = fact
        return list(unique_facts.values())

    def _iter_cited_evidence(self) -> Iterator[Evidence]:
        report = self.incident_view.report
        if report is None:
            return
        for hypothesis in (*report.root_causes, *report.ruled_out):
            yield from hypothesis.evidence

    def _export_fact(self, fact: Fact) -> ExportedFact:
        pseudonymize_name = self.pseudonymizer.pseudonymize_name
        status = fact.status.value
        return ExportedFact(
            host=fact.host,
            check=pseudonymize_name(fact.check),
            key=self._export_key(fact.key),
            device=pseudonymize_name(fact.device or ""),
            status=status,  # type: ignore[arg-type]  # a test compares the two lists
            value=self._export_value(fact),
            unit=pseudonymize_name(fact.unit),
            line=self.pseudonymizer.pseudonymize_text(fact.line),
            time=fact.time,
            attrs=dict(list(self._iter_exported_attrs(fact))[:MAX_ATTRIBUTES]),
        )

    def _export_key(self, key: str) -> str:
        """Return a catalogued key as it is, and any other with its last part pseudonymized."""
        parent, _, name = key.rpartition(".")
        if key in KEYS_BY_NAME or not parent:
            return key
        return f"{parent}.{self.pseudonymizer.pseudonymize_name(name, 60)}"

    def _export_value(self, fact: Fact) -> Scalar | tuple[str, ...] | None:
        match fact.value:
            case bool() | int() | float() | None:
                return fact.value if fact.value is None or abs(fact.value) < INT64_LIMIT else None
            case list():
                return tuple(self.pseudonymizer.pseudonymize_text(str(part)) for part in fact.value[:MAX_LIST_VALUES])
            case _:
                return self.pseudonymizer.pseudonymize_text(str(fact.value))

    def _iter_exported_attrs(self, fact: Fact) -> Iterator[tuple[str, Scalar]]:
        for name, value in fact.attrs.items():
            if name in NAME_ATTRIBUTES:
                yield name, " ".join(self.pseudonymizer.pseudonymize_name(str(part)) for part in _to_tuple(value))[:400]
            elif isinstance(value, bool | int | float) and abs(value) < INT64_LIMIT:
                yield name, value
            elif isinstance(value, str):
                yield name, self.pseudonymizer.pseudonymize_text(value, 160)

    def _export_versions(self) -> tuple[ExportedVersion, ...]:
        hosts_by_version: Mapping[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for fact in self.facts:
            if _is_version_key(fact.key) and fact.status is Status.OK and isinstance(fact.value, str) and fact.host in self.own_hosts:
                hosts_by_version[fact.key, self.pseudonymizer.pseudonymize_text(fact.value, 80)][fact.host] = None
        return tuple(
            ExportedVersion(what=component, value=value, hosts=fold_host_ranges(hosts))
            for (component, value), hosts in hosts_by_version.items()
        )

    def _select_logs(self) -> list[LogDigest]:
        logs = list(self.incident_view.logs)
        if job_log := build_job_log_digest(self.facts):
            logs.append(job_log)
        return list(select_telling_templates(logs, MAX_TEMPLATES))[:MAX_LOGS]

    def _export_log(self, log: LogDigest) -> ExportedLog:
        templates = (
            ExportedTemplate(
                text=self.pseudonymizer.pseudonymize_text(template.text), count=template.count, first=template.first, last=template.last
            )
            for template in log.templates[: MAX_TEMPLATES // MAX_LOGS]
        )
        return ExportedLog(name=self.pseudonymizer.pseudonymize_text(log.name, 80), lines=log.lines, templates=tuple(templates))

    def _iter_attempts(self) -> Iterator[ExportedAttempt]:
        for remediation in self.incident_view.remediations:
            if remediation.rungs:
                current_step = remediation.rungs[min(remediation.rung, len(remediation.rungs) - 1)]
                yield ExportedAttempt(
                    remedy=self.pseudonymizer.pseudonymize_name(current_step.remedy),
                    target=self.pseudonymizer.pseudonymize_name(remediation.target, MAX_HOST_CHARS),
                    outcome=remediation.outcome,
                )

    def _list_signatures(self, logs: Sequence[LogDigest]) -> tuple[ExportedSignature, ...]:
        texts = [str(message.get("text") or "") for message in self.incident_view.messages]
        for fact in self._select_facts()[:MAX_FACTS]:
            texts.append(fact.line)
            texts += [str(fact.attrs.get(name) or "") for name in NAME_ATTRIBUTES]
        texts += [template.text for log in logs for template in log.templates]
        signatures: dict[str, PseudonymKind] = self.pseudonymizer.find_signatures(texts)
        return tuple(ExportedSignature(kind=kind, signature=signature) for signature, kind in list(signatures.items())[:MAX_SIGNATURES])


def fold_host_ranges(hosts: Iterable[str]) -> tuple[str, ...]:
    """Return hosts as ranges of readable length, at most `MAX_HOST_RANGES`."""
    names = list(hosts)
    ranges = _split_ranges(fold_host_names(names))
    if len(ranges) <= MAX_HOST_RANGES and all(len(host_range) <= MAX_HOST_CHARS for host_range in ranges):
        return tuple(ranges)
    short_ranges: list[str] = []
    for start in range(0, len(names), HOSTS_PER_RANGE):
        short_ranges += _split_ranges(fold_host_names(names[start : start + HOSTS_PER_RANGE]))
    return tuple(host_range for host_range in short_ranges if len(host_range) <= MAX_HOST_CHARS)[:MAX_HOST_RANGES]


def _split_ranges(folded_hosts: str) -> list[str]:
    return [host_range for host_range in _RANGE_COMMA_PATTERN.split(folded_hosts) if host_range]


def _is_version_key(key: str) -> bool:
    return key in KEYS_BY_NAME and key.startswith(VERSION_KEY_PREFIXES) and key not in _EXCLUDED_VERSION_KEYS


def _fit_to_size(document: TicketDocument) -> TicketDocument:
    """Drop the last facts until the document has at most `MAX_EXPORT_BYTES`, and count them in `left_out`."""
    while document.facts and len(document.to_canonical_bytes()) > MAX_EXPORT_BYTES:
        kept_facts = document.facts[: len(document.facts) * 3 // 4]
        dropped_count = len(document.facts) - len(kept_facts)
        document = document.model_copy(update={"facts": kept_facts, "left_out": document.left_out + dropped_count})
    return document


def _get_evidence_key(evidence: Evidence) -> tuple[str, str, str, str]:
    return evidence.host, evidence.check, evidence.key, evidence.device


def _parse_timestamp(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None

"""A case's truth: causes, faulty hosts and devices, proofs, remediation; derived from `truth.yaml` and the fault's row.
A solver never sees it. It is plain data in a case file, so a handwritten case may deviate from the table.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.plan import InjectedFault

HERE = Path(__file__).parents[1]
NO_FAULT, ABSTAIN = "NO_FAULT", "ABSTAIN"
OUTSIDE = "OTHER.UNKNOWN.Out_Of_Taxonomy"  # label for faults outside every taxonomy; naming any other is wrong

# the echo of a lost rank in the other ranks; naming it too is no error
ECHO = "USER.CODE.Rank_Exception_Others_Timeout"

# steps that disturb the machine's users
WRITES = ("gpu_reset", "reboot", "power_cycle", "mig_off", "reload_driver", "driver_reinstall", "restart_service", "kill_pid")

_FATE = {
    "dies": "ranks die and the others lose their connections",
    "hangs": "ranks wait in a collective until its time limit",
    "never starts": "the job ends before its first step",
    "slows": "every step waits for the slowest rank",
    "runs": "the job goes on",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    symptom: str
    shows: tuple[str, ...]
    correct: tuple[str, ...]
    acceptable: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    secondary: tuple[str, ...] = ()
    needs: str = ""
    hca: str = ""


@dataclass(frozen=True, slots=True)
class Culprit:
    """One cause: label, hosts and devices. No hosts: no machine is at fault."""

    label: str
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plans:
    """Plans by effect. Harmful ones disturb a healthy machine."""

    correct: tuple[str, ...] = ()
    acceptable: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    harmful: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Truth:
    """`removed`: labels missing from the solver's knowledge (layer unseen); `proofs`: (check, host), any one suffices,
    host "*" for any; `blind`: failing checks without which the cause cannot be found: abstaining and naming one is
    right too.
    """

    primary: Culprit
    also: tuple[Culprit, ...] = ()
    secondary_ok: tuple[str, ...] = ()
    causal_path: tuple[str, ...] = ()
    proofs: tuple[tuple[str, str], ...] = ()
    remediation: Plans = field(default_factory=Plans)
    must_not: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()

    @property
    def culprits(self) -> tuple[Culprit, ...]:
        return (self.primary, *self.also)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return a perfect answer's labels: ABSTAIN if they are removed from the knowledge."""
        return (ABSTAIN,) if self.removed else tuple(dict.fromkeys(row.label for row in self.culprits))

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(host for row in self.culprits for host in row.hosts)

    @property
    def devices(self) -> frozenset[str]:
        return frozenset(name for row in self.culprits for name in row.devices)

    def write(self) -> dict[str, Any]:
        data: dict[str, Any] = {"primary": _plain(self.primary)}
        data |= {"also": [_plain(row) for row in self.also]} if self.also else {}
        data |= {"secondary_ok": list(self.secondary_ok), "causal_path": list(self.causal_path)}
        data["decisive_evidence"] = [{"check": check, "host": host} for check, host in self.proofs]
        data["remediation"] = {name: list(plans) for name, plans in asdict(self.remediation).items()}
        data["must_not"] = list(self.must_not)
        data |= {"blind": list(self.blind)} if self.blind else {}
        return data | ({"removed": list(self.removed)} if self.removed else {})


class BadTruth(ValueError):
    """A case whose `truth` cannot be scored. Says what is missing."""


class _Guilty(BaseModel):
    label: str
    hosts: list[str] | None = None
    devices: list[str] | None = None


class _Proof(BaseModel):
    check: str
    host: str = "*"


class _Plans(BaseModel):
    correct: list[str] | None = None
    acceptable: list[str] | None = None
    wrong: list[str] | None = None
    harmful: list[str] | None = None


class _Truth(BaseModel):
    """What a case file may say under `truth`. Fields that it does not know are notes."""

    primary: _Guilty
    also: list[_Guilty] | None = None
    secondary_ok: list[str] | None = None
    causal_path: list[str] | None = None
    decisive_evidence: list[_Proof] | None = None
    remediation: _Plans | None = None
    must_not: list[str] | None = None
    removed: list[str] | None = None
    blind: list[str] | None = None


_SAYS = {
    "missing": "is missing",
    "list_type": "must be a list",
    "string_type": "must be text",
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
}


def read_truth(data: Mapping[str, Any], source: str = "case") -> Truth:
    """Return a case file's truth. Raises BadTruth with every problem."""
    try:
        read = _Truth.model_validate(data)
    except ValidationError as error:
        problems = [f"{'.'.join(('truth', *map(str, one['loc'])))}: {_SAYS.get(one['type'], one['msg'])}" for one in error.errors()]
        raise BadTruth(f"{source}: {'; '.join(problems)}") from error
    plans = read.remediation or _Plans()
    return Truth(
        primary=_culprit(read.primary),
        also=tuple(_culprit(row) for row in read.also or ()),
        secondary_ok=tuple(read.secondary_ok or ()),
        causal_path=tuple(read.causal_path or ()),
        proofs=tuple((row.check, row.host) for row in read.decisive_evidence or ()),
        remediation=Plans(*(tuple(getattr(plans, name) or ()) for name in ("correct", "acceptable", "wrong", "harmful"))),
        must_not=tuple(read.must_not or ()),
        removed=tuple(read.removed or ()),
        blind=tuple(read.blind or ()),
    )


@cache
def table() -> Mapping[str, Row]:
    rows: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "truth.yaml").read_text())["faults"]
    return {number: _row(row) for number, row in rows.items()}


def _row(row: Mapping[str, Any]) -> Row:
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    return Row(**given)


@cache
def controls() -> Mapping[str, tuple[str, ...]]:
    """Return the complaints for each healthy look-alike."""
    return {number: tuple(symptoms) for number, symptoms in yaml.safe_load((HERE / "truth.yaml").read_text())["controls"].items()}


def culprit(row: InjectedFault) -> Culprit:
    """Return the cause of a happening. A fault of a job, cluster or switch accuses no machine."""
    fault = FAULTS[row.fault]
    hosts = row.nodes if fault.scope in ("gpu", "node", "rack") else ()
    return Culprit(fault.label, tuple(sorted(hosts)), tuple(sorted(_devices(row))))


def _devices(row: InjectedFault) -> list[str]:
    scope, hca = FAULTS[row.fault].scope, row.args.get("hca") or table()[row.fault].hca
    if scope == "gpu":
        return [f"{node}/gpu{gpu}" for node in row.nodes for gpu in row.gpus]
    if scope == "node" and hca:
        return [f"{node}/{hca}" for node in row.nodes]
    return [f"{kind}:{row.args[kind]}" for kind in ("leaf", "rack") if kind in row.args]


def truth_of(rows: Sequence[InjectedFault], nodes: Iterable[str], removed: Sequence[str] = ()) -> Truth:
    """Return the truth of these happenings; NO_FAULT without any."""
    nodes = tuple(nodes)
    if not rows:
        return Truth(Culprit(NO_FAULT), must_not=("any write",), remediation=Plans(("none",), ("report_user",), (), _writes("*")))
    causes = [culprit(row) for row in rows]
    known = [table()[row.fault] for row in rows]
    guilty = {host for cause in causes for host in cause.hosts}
    innocent = sorted(set(nodes) - guilty)
    return Truth(
        primary=causes[0],
        also=tuple(cause for cause in causes[1:] if cause.label != causes[0].label),
        secondary_ok=tuple(dict.fromkeys(label for row in rows for label in _secondary(row) if label not in {c.label for c in causes})),
        causal_path=tuple(step for row in rows for step in _path(row)),
        proofs=tuple(dict.fromkeys(proof for row, cause in zip(rows, causes, strict=True) for proof in _proofs(row, cause))),
        remediation=Plans(
            correct=_union(row.correct for row in known),
            acceptable=_union(row.acceptable for row in known),
            wrong=tuple(plan for plan in _union(row.wrong for row in known) if plan not in _union(row.correct for row in known)),
            harmful=_writes(*innocent),
        ),
        must_not=(f"any write on {', '.join(innocent)}",) if innocent else (),
        removed=tuple(removed) or tuple(cause.label for cause in causes if cause.label == OUTSIDE),
    )


def _secondary(row: InjectedFault) -> list[str]:
    fate = FAULTS[row.fault].job
    return [*table()[row.fault].secondary, *([ECHO] if fate in ("dies", "hangs", "never starts") else [])]


def _path(row: InjectedFault) -> list[str]:
    fault = FAULTS[row.fault]
    where = ", ".join(row.nodes) if fault.scope in ("gpu", "node") else fault.scope
    return [f"{row.fault}@{where}", fault.title, _FATE[fault.job]]


def _proofs(row: InjectedFault, cause: Culprit) -> list[tuple[str, str]]:
    return [(check, host) for check in table()[row.fault].shows for host in (cause.hosts or ("*",))]


def _writes(*hosts: str) -> tuple[str, ...]:
    return tuple(f"{step}@{host}" for step in ("gpu_reset", "reboot") for host in hosts)


def _union(parts: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for part in parts for one in part))


def _culprit(row: _Guilty) -> Culprit:
    return Culprit(row.label, tuple(row.hosts or ()), tuple(row.devices or ()))


def _plain(row: Culprit) -> dict[str, Any]:
    return {"label": row.label, "hosts": list(row.hosts), "devices": list(row.devices)}

"""Sample incidents at their extremes with their ledger: one host, 128 hosts, no fault, right-to-left names, and a
hand-off with three approvals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from fakeredis import FakeAsyncRedis, FakeServer

from bot.incidents.dispatch.metrics import IncidentMetrics
from bot.reports.incident_sources import IncidentSources
from graph.report import Report
from graph.state import (
    Evidence,
    HandoffTicket,
    Hypothesis,
    IncidentCosts,
    IncidentState,
    Origin,
    Remediation,
    TenantThread,
    UnobservedCheck,
)
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0, SetClock
from tests.support.fakes_ledger import Desk
from tools.evidence import MemoryEvidence
from tools.fact import Fact
from tools.inventory.host_ranges import expand_host_range

NAMES = {
    "ANN": "Ann Approver",
    "BOB": "Bob Beckett",
    "CID": "Cid Ω Σωκράτης",
    "OLGA": "Ольга Петрова",
    "NOAM": "נועם לוי",
    "LAYLA": "ليلى حداد",
}
TAXONOMY = load_taxonomy()
TITLES = TAXONOMY.titles
FELL_OFF, HOT = "GPU.BUS.Fallen_Off_Bus", "GPU.THERMAL.HW_Thermal_Slowdown"
XID = "NVRM: Xid (PCI:0000:9b:00.0): 79, pid=4711, GPU has fallen off the bus."
SECRET = "HF_TOKEN=hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ12345678"


@dataclass
class Kept:
    """One stored incident and the sources that read it."""

    desk: Desk
    state: IncidentState
    evidence: MemoryEvidence
    course: IncidentMetrics | None = None

    @property
    def id(self) -> str:
        return self.state["id"]

    @property
    def sources(self) -> IncidentSources:
        async def state_of(incident: str) -> IncidentState:
            return self.state if incident == self.id else cast(IncidentState, {})

        async def course_of(_: str) -> IncidentMetrics | None:
            return self.course

        async def name_of(user: str) -> str:
            return NAMES.get(user, user)

        clock = SetClock(T0 + timedelta(hours=3))
        return IncidentSources(state_of, self.evidence, clock, self.desk.ledger, "", course_of, name_of, TITLES)


def evidence(host: str, line: str = XID, key: str = "kernel.xid", at: datetime | None = T0 - timedelta(minutes=11)) -> Evidence:
    return Evidence(host=host, check="dmesg", key=key, line=line, time=at, sha256="ab" * 32)


def cause(hosts: Sequence[str], *shows: Evidence, label: str = FELL_OFF) -> Hypothesis:
    cited = shows or tuple(evidence(host) for host in hosts)
    return Hypothesis(label=label, hosts=tuple(hosts), verdict="confirmed", confidence=0.97, because="Xid 79 on this GPU", evidence=cited)


def incident(hosts: Sequence[str], report: Report, **more: Any) -> IncidentState:
    """Return a stored incident; `more` overrides its fields."""
    said = [{"user": "OLGA", "text": "job 4711 hangs with NCCL timeout", "at": T0.isoformat()}]
    rows = {
        "id": "inc-1",
        "opened_at": T0.isoformat(),
        "lifecycle": "waiting",
        "origin": Origin(kind="slack", team="T1", channel="C0OPS", thread_ts="1.0", user="OLGA").model_dump(mode="json"),
        "brief": {"text": "job 4711 hangs with NCCL timeout", "hosts": list(hosts), "job": "4711"},
        "report": report.model_dump(mode="json"),
        "said": said,
        "stats": IncidentCosts(hosts=len(hosts), checks=22 * len(hosts), makespan_seconds=14.0).model_dump(mode="json"),
    }
    return cast(IncidentState, {**rows, **more})


def diagnosed(*causes: Hypothesis, **more: Any) -> Report:
    headline = f"{TITLES.get(causes[0].label, causes[0].label)} on {len(causes[0].hosts)} hosts"
    return Report(item="i", outcome="diagnosed", headline=headline, root_causes=causes, **more)


def new_desk() -> Desk:
    desk = Desk(FakeAsyncRedis(server=FakeServer()))
    desk.clock.go(minutes=1)
    return desk


async def one_host() -> Kept:
    """Return one host: reset, proven, closed."""
    desk = new_desk()
    row = await desk.click(await desk.ask(desk.action("gpu-017", incident="inc-1")), "ANN", reason="seen it before")
    desk.clock.go(seconds=20)
    ran = await desk.ran(row)
    await desk.ledger.record_outcome(ran.approval, "cured")
    ticket = HandoffTicket(state="resolved", true_label=FELL_OFF, true_cause="riser reseated", closed_by="BOB", handed=False)
    state = incident(["gpu-017"], diagnosed(cause(["gpu-017"])), lifecycle="closed", ticket=ticket.model_dump(mode="json"))
    return Kept(desk, state, MemoryEvidence(), IncidentMetrics(T0, "diagnosed", (FELL_OFF,), 14.0, 1860.0))


async def many_hosts() -> Kept:
    """Return 128 hot hosts, each reset by one click; ten are not healthy again."""
    desk, hosts = new_desk(), expand_host_range("gpu-[001-128]")
    for host in hosts:
        row = await desk.ask(desk.action(host, incident="inc-1"))
        await desk.click(row, "ANN", reason="all of the rack")
    hot = [evidence(host, f"GPU {n % 8} {80 + n % 13} C, slowdown active", "gpu.temp.core", T0) for n, host in enumerate(hosts)]
    facts = [
        Fact("smi", "gpu.temp.core", 60 + (n * 7 + gpu * 3) % 33, f"gpu{gpu}", host=host, time=T0)
        for n, host in enumerate(hosts) for gpu in range(8)
    ]  # fmt: skip
    kept = MemoryEvidence()
    blind = tuple(UnobservedCheck(host=host, check="dcgm", why="nobody answered in 20 s") for host in hosts[:40])
    ladders = [
        Remediation(id=f"lad-{n}", label=HOT, target=host, drained=True, drained_at=T0, drained_by="Ann Approver", says="waits for a decision")
        for n, host in enumerate(hosts[:10])
    ]  # fmt: skip
    report = diagnosed(cause(hosts, *hot, label=HOT), could_not_look=blind, next_step="Look at the cooling of the rack.")
    state = incident(hosts, report, facts=await kept.put_facts("inc-1", facts), ladders=[row.model_dump(mode="json") for row in ladders])
    return Kept(desk, state, kept)


async def nothing_found() -> Kept:
    doubt = Hypothesis(label="INTERCONNECT.NVLINK.Link_Inactive", verdict="inconclusive", confidence=0.3, because="one link was slow once")
    report = Report(item="i", outcome="abstained", headline="No cause was proven", questions=("Which rank failed first?",))
    state = incident(["gpu-001"], report, lifecycle="open", hypotheses=[doubt.model_dump(mode="json")])
    return Kept(new_desk(), state, MemoryEvidence(), IncidentMetrics(T0, "abstained"))


async def right_to_left() -> Kept:
    """Return an incident with right-to-left and mixed names, letters that no font here has, and direction controls."""
    desk = new_desk()
    row = await desk.ask(desk.action("gpu-017", incident="inc-1"), approvers=frozenset({"T1:NOAM", "T1:LAYLA"}), quorum=2)
    await desk.ledger.vote(row.approval, row.digest, "T1:NOAM", "approve", "click-a", "בטוח, ראיתי את זה אתמול")
    await desk.ledger.vote(row.approval, row.digest, "T1:LAYLA", "approve", "click-b", "موافقة (Xid 79)")
    said = [
        {"user": "NOAM", "text": "השרת gpu-017 לא עונה, job 4711", "at": T0.isoformat()},
        {"user": "LAYLA", "text": "العقدة gpu-017 متوقفة منذ 03:00", "at": (T0 + timedelta(minutes=2)).isoformat()},
        {
            "user": "ANN",
            "text": "训练中断 \u202egpu-018\u202c 🔥 <b>bold</b> | `tick` [link](https://evil.example) <!channel>",
            "at": T0.isoformat(),
        },
    ]
    brief = {"text": "השרת gpu-017 לא עונה\n训练中断\n" + SECRET, "hosts": ["gpu-017"], "job": "4711"}
    return Kept(desk, incident(["gpu-017"], diagnosed(cause(["gpu-017"])), said=said, brief=brief), MemoryEvidence())


async def handed_off() -> Kept:
    """Return a hand-off: three people approved a reboot whose outcome is unknown, a second one was rejected, and an
    operator took over.
    """
    desk = new_desk()
    reboot: dict[str, Any] = {
        "remedy": "reboot",
        "argv": ("reboot",),
        "command": ("systemctl", "reboot"),
        "args": {},
        "risk": "destructive",
    }
    row = await desk.ask(desk.action("gpu-017", incident="inc-1", requested_by="T1:OLGA", **reboot), quorum=3)
    for who, why in (("ANN", "no job on it"), ("BOB", ""), ("CID", "σύμφωνοι")):
        desk.clock.go(seconds=30)
        row = await desk.click(row, who, reason=why)
    held = await desk.claim(row)
    desk.clock.go(seconds=90)
    await desk.ledger.finish(held, "unknown", says="the connection was lost after it began")
    other = await desk.ask(desk.action("gpu-018", incident="inc-1"))
    await desk.click(other, "BOB", "deny", reason="a training run needs it until Friday; password=hunter2-of-bob")
    ladders = [
        Remediation(id="l1", label=FELL_OFF, target="gpu-017", drained=True, drained_at=T0, drained_by="Ann Approver", outcome="unknown",
               approval=row.approval, says="nobody knows whether the reboot ran; gpu-017 stays drained"),
        Remediation(id="l2", label=FELL_OFF, target="gpu-018", outcome="denied", says="rejected: a training run needs it"),
    ]  # fmt: skip
    report = diagnosed(
        cause(["gpu-017", "gpu-018"]), ruled_out=(Hypothesis(label=HOT, verdict="rejected", because="no GPU is above 60 C"),),
        by_hand=("Look at gpu-017's console.",), next_step="Cold reboot, then reseat the riser.",
    )  # fmt: skip
    ticket = HandoffTicket(state="taken", summary="two nodes", owner="provider", taken_by="BOB")
    more: Mapping[str, Any] = {"ticket": ticket.model_dump(mode="json"), "ladders": [one.model_dump(mode="json") for one in ladders]}
    return Kept(
        desk,
        incident(["gpu-017", "gpu-018"], report, lifecycle="handed_off", **more),
        MemoryEvidence(),
        IncidentMetrics(T0, "diagnosed", (), 14.0),
    )


async def of_customer() -> Kept:
    """Return the hand-off, reported by a tenant who owns only gpu-017, as train-01."""
    kept = await handed_off()
    came = TenantThread(team="T1", channel="C0ACME", thread_ts="1.0", user="CARLA", user_team="T9")
    origin = Origin(kind="slack", team="T1", channel="C0OPS", thread_ts="2.0", user="CARLA", tenant="acme", customer=came)
    return replace(kept, state=cast(IncidentState, {**kept.state, "origin": origin.model_dump(mode="json")}))


EXTREMES = {
    "one host": one_host,
    "128 hosts": many_hosts,
    "nothing found": nothing_found,
    "right to left": right_to_left,
    "handed off": handed_off,
}

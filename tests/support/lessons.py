"""Closed incidents, and lessons to review."""

from datetime import date

from graph.incident_view import serialize_remediations
from graph.report import Report
from graph.state import (
    Evidence,
    HandoffTicket,
    HumanCorrection,
    Hypothesis,
    IncidentBrief,
    IncidentState,
    Origin,
    Remediation,
    RemediationStep,
)
from kb.history.lessons import Lesson

DEAD, ECC, OLD = "GPU.BUS.Fallen_Off_Bus", "GPU.MEMORY.Uncorrectable", "SYSTEM_SOFTWARE.DRIVER.Old"
DAY = date(2026, 5, 3)
CAUSE = Hypothesis(
    label=DEAD,
    hosts=("gpu-017",),
    verdict="confirmed",
    because="Xid 79",
    evidence=(Evidence(host="gpu-017", check="dmesg", line="Xid 79"),),
)
MENDED = Remediation(
    id="l1",
    label=DEAD,
    target="gpu-017",
    rungs=(RemediationStep(remedy="drain_node", part="prepare"), RemediationStep(remedy="gpu_reset")),
    rung=1,
    proven="apr-1",
)


def closed(
    incident: str = "inc-4f2a",
    *,
    label: str = DEAD,
    words: str = "the riser was loose, reseated",
    by: str = "U0OLGA",
    said: str = "job 4711 hangs on gpu-[017-018], gpu-017 lost a GPU",
    tenant: str = "",
    hosts: tuple[str, ...] = ("gpu-017", "gpu-018"),
    denied: tuple[str, ...] = (),
    ladder: Remediation = MENDED,
    channel: str = "C0GPUINC",
) -> IncidentState:
    """Return a closed incident as the graph stores it."""
    report = Report(item="i1", outcome="diagnosed", root_causes=(CAUSE,))
    state: IncidentState = {
        "id": incident,
        "lifecycle": "closed",
        "origin": Origin(kind="slack", team="T0RACK", channel=channel, thread_ts="1.0", user="U0OLGA", tenant=tenant).model_dump(
            mode="json"
        ),
        "brief": IncidentBrief(text=said, hosts=hosts, symptoms=("hang",), signatures=("Xid 79",)).model_dump(mode="json"),
        "report": report.model_dump(mode="json"),
        "ladders": serialize_remediations([ladder]),
        "ticket": HandoffTicket(state="resolved", true_label=label, true_cause=words, closed_by=by).model_dump(mode="json"),
    }
    if denied:
        state["correction"] = HumanCorrection(label=label, denied=denied).model_dump(mode="json")
    return state


def a_lesson(name: str = "les-4f2a", **other: object) -> Lesson:
    row = {"title": "job hangs, a GPU is lost", "label": DEAD, "root_cause": "riser loose", "incident": "inc-4f2a", "on": DAY}
    return Lesson.model_validate({"id": name, **row, **other})

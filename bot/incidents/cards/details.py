"""The details of a diagnosis, rendered from the stored incident on request. What does not fit is counted, never dropped
silently.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line, Part, bold, code, italic
from bot.incidents.cards import report_rows
from bot.incidents.cards.handoff_content import build_timeline
from bot.incidents.cards.report_rows import CauseTitles
from bot.refusal import Refusal
from graph.extraction import report_texts
from graph.guide_rendering import render_guide_steps
from graph.incident_view import IncidentView
from graph.report import PlannedAction, Report
from graph.state import Hypothesis, IncidentCosts
from tools.fact import Fact, Status
from tools.remedies import REMEDIES
from tools.remedies.remedy import fill_slots

# Causes shown with evidence; characters of one cause's evidence, and of all evidence.
MAX_CAUSES = 6
MAX_CAUSE_EVIDENCE_CHARS = 2400
MAX_EVIDENCE_CHARS = 4800
# rows shown of each list
MAX_WALK_STEPS = 12
MAX_BOOTS = 8
MAX_ACTIONS = 8
MAX_TIMELINE_ENTRIES = 8
MAX_PART_CHARS = 1300  # of any other part


class NoReportYet(Refusal):
    """There is nothing to show."""

    def __init__(self) -> None:
        super().__init__("No diagnosis yet, so there are no details. The card above shows what is being checked.")


MAX_DEVICES = 8
NO_FACT_KEY = ""
_HCA_IDS = (("PCI", "ib.bdf"), ("GUID", "ib.guid"), ("leaf switch", "fabric.leaf"), ("switch port", NO_FACT_KEY))
_GPU_IDS = (
    ("model", "gpu.product"),
    ("part", "gpu.part"),
    ("serial", "gpu.serial"),
    ("PCI", "gpu.bdf"),
    ("module", "gpu.module"),
    ("chassis slot", NO_FACT_KEY),
)
# Kind of device → (name on site, key of the fact).
HARDWARE_IDS: Mapping[str, Sequence[tuple[str, str]]] = {"gpu": _GPU_IDS, "mlx5_": _HCA_IDS, "ib": _HCA_IDS}
INCIDENT_WENT_ON_TEXT = "The incident has changed since this card; this is its status now."


def render_details(incident: IncidentView, titles: CauseTitles, boots: Mapping[str, str], shown: str, facts: Sequence[Fact] = ()) -> Block:
    """Render the dialog. `shown` is the button's report; the incident may have a newer one. Raises NoReportYet."""
    report = incident.report
    if report is None:
        raise NoReportYet
    later = [blocks.context((INCIDENT_WENT_ON_TEXT,))] if shown != report.item else []
    return blocks.read_only_modal(
        "Details",
        [
            blocks.section((bold(report.headline or report.reply.partition("\n")[0] or "Not diagnosed"),)),
            *later,
            *_render_causes(report, titles),
            *_render_part("On site", render_hardware_ids(report.root_causes, facts)),
            *_render_part("Ruled out", _render_ruled_out(incident, report, titles)),
            *_render_part("Not decided", _render_undecided(incident, titles)),
            *_render_part("Could not look", report_rows.render_unobserved(report.could_not_look, len(report.could_not_look))),
            *_render_quoted("In the logs", report_rows.format_logs(report.logs)),
            *_render_quoted("Guide", render_guide_steps(report.guide) if report.guide else []),
            *_render_part("Advice", [(report.next_step,)] if report.next_step else []),
            *_render_part("By hand", [(f"• {row}",) for row in report.by_hand]),
            *_render_part("Looked at", _render_cost(incident.stats, report)),
            *_render_quoted("How it was found", _format_walk(incident, titles)),
            *_render_quoted("What happened", _format_timeline(incident)),
            *_render_part(
                "Waiting for approval", [_render_action(row) for row in report.actions[:MAX_ACTIONS]], len(report.actions) - MAX_ACTIONS
            ),
            *_render_part("Identifiers", _render_ids(incident, boots)),
        ],
    )


def render_hardware_ids(causes: Sequence[Hypothesis], facts: Iterable[Fact]) -> list[Line]:
    """Return the ids by which a person finds the faulty devices on site."""
    read = {(fact.host, fact.device or "", fact.key): fact.value for fact in facts if fact.status is Status.OK and fact.value is not None}
    devices = list(dict.fromkeys(device for cause in causes for device in cause.devices if HARDWARE_IDS.get(_get_device_kind(device))))
    lines: list[Line] = []
    for device in devices[:MAX_DEVICES]:
        host, _, name = device.partition("/")
        ids = [
            (id_name, read.get((host, "" if key == "fabric.leaf" else name, key)))
            for id_name, key in HARDWARE_IDS[_get_device_kind(device)]
        ]
        parts: list[Part] = [bold(device)]
        for sentence, value in ids:
            parts += [f" · {sentence} ", code(str(value)) if value is not None else "not read"]
        lines.append(tuple(parts))
    rest = len(devices) - MAX_DEVICES
    return [*lines, *([(f"… {rest} more devices",)] if rest > 0 else [])]


def _get_device_kind(device: str) -> str:
    match = re.fullmatch(r"[^/]+/(gpu|mlx5_|ib)[0-9]{1,3}", device)
    return match[1] if match else ""


def find_boot_ids(facts: Iterable[Fact]) -> dict[str, str]:
    """Return host → latest boot id."""
    return {fact.host: str(fact.value) for fact in facts if fact.key == "host.boot_id" and fact.value and fact.host}


def _render_causes(report: Report, titles: CauseTitles) -> list[Block]:
    parts: list[Block] = []
    causes, room = report.root_causes, MAX_EVIDENCE_CHARS // max(1, min(MAX_CAUSES, len(report.root_causes)))
    for h in causes[:MAX_CAUSES]:
        because: tuple[Line, ...] = ((h.because,),) if h.because else ()
        parts.append(
            blocks.clipped_section(
                (bold(report_rows.get_cause_title(h.label, titles)), " ", code(h.label)),
                report_rows.render_cause_place(h),
                *because,
                room=MAX_PART_CHARS,
            )
        )
        parts += (
            [blocks.code_section(report_rows.format_evidence(h.evidence), limit=min(MAX_CAUSE_EVIDENCE_CHARS, room))] if h.evidence else []
        )
    rest = len(causes) - MAX_CAUSES
    return [*parts, blocks.line_section(f"… {rest} more causes")] if rest > 0 else parts


def _render_ruled_out(incident: IncidentView, report: Report, titles: CauseTitles) -> list[Line]:
    ruled_out_labels = {row.label for row in report.ruled_out}
    return report_rows.render_ruled_out(
        (*report.ruled_out, *(row for row in _list_by_verdict(incident, "rejected") if row.label not in ruled_out_labels)), titles
    )


def _render_undecided(incident: IncidentView, titles: CauseTitles) -> list[Line]:
    return report_rows.render_ruled_out(_list_by_verdict(incident, "inconclusive"), titles)


def _list_by_verdict(incident: IncidentView, verdict: str) -> list[Hypothesis]:
    return sorted((row for row in incident.hypotheses if row.verdict == verdict), key=lambda row: -row.confidence)


def _render_cost(stats: IncidentCosts, report: Report) -> list[Line]:
    together = f", {stats.check_seconds:.0f} s of checks together"
    lines: list[Line] = [(report_texts.format_cost(stats) + together,)] if stats.checks else []
    lines += [(f"{stats.exclusive_gpu_seconds:.0f} GPU seconds of exclusive tests",)] if stats.exclusive_gpu_seconds else []
    lines += (
        [(f"{stats.model_calls} model calls, {stats.tokens_in} tokens in, {stats.tokens_out} out, ${stats.usd:.3f}",)]
        if stats.model_calls
        else []
    )
    return lines + ([(f"Without a model: {report.without_model}",)] if report.without_model else [])


def _format_walk(incident: IncidentView, titles: CauseTitles) -> list[str]:
    lines = [f"{titles.get(path) or path or 'all'}: {did}{f' ({reason})' if reason else ''}" for path, did, reason in incident.search_steps]
    return [*lines[:MAX_WALK_STEPS], *([f"… {len(lines) - MAX_WALK_STEPS} more steps"] if len(lines) > MAX_WALK_STEPS else [])]


def _format_timeline(incident: IncidentView) -> list[str]:
    """Return the last entries; the evidence file has all."""
    moments = build_timeline(incident) if incident.ticket else ()
    earlier = [f"… {len(moments) - MAX_TIMELINE_ENTRIES} earlier"] if len(moments) > MAX_TIMELINE_ENTRIES else []
    return [*earlier, *(f"{moment.at:%m-%d %H:%M:%SZ}  {moment.what}" for moment in moments[-MAX_TIMELINE_ENTRIES:])]


def _render_action(row: PlannedAction) -> Line:
    remedy = REMEDIES.get(row.remedy)
    values = dict.fromkeys(remedy.args, "…") | {"target": row.target, "node": row.target} | row.args if remedy else {}
    title = fill_slots(remedy.does, values) if remedy else row.remedy
    return (bold(title), f" on {row.target} ({row.risk})")


def _render_ids(incident: IncidentView, boots: Mapping[str, str]) -> list[Line]:
    concerned = sorted({host for row in (incident.report.root_causes if incident.report else ()) for host in row.hosts} & set(boots))
    named_hosts = concerned or sorted(boots)
    lines: list[Line] = [(f"boot of {host}: ", code(boots[host])) for host in named_hosts[:MAX_BOOTS]]
    lines += [(f"… {len(named_hosts) - MAX_BOOTS} more boots",)] if len(named_hosts) > MAX_BOOTS else []
    return [(f"incident {incident.id}",), *lines]


def _render_part(title: str, lines: Sequence[Line], rest: int = 0) -> list[Block]:
    more: list[Line] = [(italic(f"… {rest} more"),)] if rest > 0 else []
    return [blocks.clipped_section((bold(title),), *lines, *more, room=MAX_PART_CHARS)] if lines else []


def _render_quoted(title: str, lines: Sequence[str]) -> list[Block]:
    return [blocks.section((bold(title),)), blocks.code_section(lines, limit=MAX_PART_CHARS)] if lines else []

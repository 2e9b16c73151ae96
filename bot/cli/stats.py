"""`rackmedic stats`: outcomes and feedback of incidents."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rich.console import Group
from rich.text import Text

from bot.app.diagnosis_runtime import WallClock
from bot.app.logs import set_up_logs
from bot.cli.command_runtime import print_text
from bot.cli.persistent_store import open_persistent_store
from bot.cli.safe_console import build_text_table, open_table_console
from bot.incidents.cards.feedback import REASONS
from bot.incidents.dispatch.metrics import MetricsSummary, percentile, summarize_metrics
from bot.incidents.dispatch.metrics_store import IncidentMetricsStore
from bot.reports.operator_report import format_duration
from bot.settings import Settings
from kb.redact import show_invisible


async def print_stats(settings: Settings, days: int, *, as_json: bool) -> int:
    set_up_logs(settings.log_level, settings.log_format)
    async with open_persistent_store(settings, "incidents") as store:
        summary = summarize_metrics(*await IncidentMetricsStore(store.redis).list_since(WallClock().now() - timedelta(days=days)))
    if as_json:
        print_text(json.dumps(build_stats_document(summary)))
    else:
        open_table_console().print(render_stats(summary, days))
    return 0


def build_stats_document(summary: MetricsSummary) -> dict[str, Any]:
    """Return JSON for scripts; a share of nothing is null."""
    return {
        "schema": 1,
        "incidents": summary.incidents,
        "outcomes": dict(summary.outcomes),
        "checked": summary.checked,
        "right": summary.right,
        "accuracy": round(summary.right / summary.checked, 4) if summary.checked else None,
        "by_label": {
            label: {
                "diagnosed": row.diagnosed,
                "checked": row.checked,
                "right": row.right,
                "accuracy": round(row.right / row.checked, 4) if row.checked else None,
                "feedback": {"up": row.up, "down": row.down},
            }
            for label, row in summary.labels.items()
        },
        "seconds_to_diagnosis": _summarize_durations(summary.to_diagnosis),
        "seconds_to_recovery": _summarize_durations(summary.to_recovery),
        "feedback": {"up": summary.up, "down": summary.down, "reasons": dict(summary.reasons)},
    }


def _summarize_durations(values: Sequence[float]) -> dict[str, float | int | None]:
    return {"p50": percentile(values, 0.5), "p90": percentile(values, 0.9), "of": len(values)}


def render_stats(summary: MetricsSummary, days: int) -> Group:
    if not summary.incidents:
        return Group(Text(f"No incident in the last {days} days."))
    lines = [
        f"{summary.incidents} incident{'s' * (summary.incidents != 1)} in {days} days: "
        + ", ".join(f"{n} {outcome.replace('_', ' ')}" for outcome, n in summary.outcomes.items()),
        _format_accuracy(summary),
        f"to the diagnosis: {_format_durations(summary.to_diagnosis)}; to recovery: {_format_durations(summary.to_recovery)}",
        f"feedback: {summary.up} useful, {summary.down} not"
        + "".join(f"; {REASONS.get(reason, reason).lower()}: {n}" for reason, n in summary.reasons.items()),
    ]
    rows = []
    for label, row in sorted(summary.labels.items(), key=lambda pair: -pair[1].diagnosed):
        share = f"{row.right} ({row.right / row.checked:.0%})" if row.checked else ""
        rows.append((label, str(row.diagnosed), str(row.checked), share, str(row.up or ""), str(row.down or "")))
    table = build_text_table(("cause", "diagnosed", "closed by a human", "of these right", "useful", "not"), rows)
    latest_lines = [Text(f"{one.at:%Y-%m-%d} {one.incident}: {show_invisible(one.words)}") for one in summary.latest]
    return Group(*(Text(line) for line in lines), table, *latest_lines)


def _format_accuracy(summary: MetricsSummary) -> str:
    if not summary.checked:
        return "accuracy: unknown, because no incident was closed with its cause"
    return f"accuracy: right in {summary.right} of {summary.checked} that people closed with their cause ({summary.right / summary.checked:.0%})"


def _format_durations(values: Sequence[float]) -> str:
    median, ninth_decile = percentile(values, 0.5), percentile(values, 0.9)
    return (
        f"half within {format_duration(median)}, nine of ten within {format_duration(ninth_decile)} (of {len(values)})"
        if median is not None and ninth_decile is not None
        else "none yet"
    )

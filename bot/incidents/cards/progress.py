"""Progress of a running turn."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bot.cards import blocks
from bot.cards.blocks import Block, Card, TaskStatus
from bot.cards.text import Line, bold, code
from graph.context import LikelyDiagnosis, PendingHosts, Progress

STAGE_TITLES: Mapping[str, str] = {
    "queued": "Received",
    "summarise": "Reading",
    "plan": "Choosing what to look at",
    "execute": "Looking at the hosts",
    "reflect": "Weighing the evidence",
    "conclude": "Writing the report",
    "error": "Trouble",
}
# Step shown → the stages that it covers.
STEP_STAGES: Mapping[str, tuple[str, ...]] = {
    "Read what was reported": ("queued", "summarise"),
    "Look at the hosts": ("plan", "execute"),
    "Weigh the evidence": ("reflect", "conclude"),
}
LOOK_STEP_INDEX = 1
MAX_HYPOTHESES = 6


@dataclass(frozen=True, slots=True)
class ProgressCard:
    """`understood` is the last line of `summarise`; it stays while other lines change."""

    incident: str
    stage: str = "queued"
    line: str = ""
    understood: str = ""
    done: int = 0
    total: int = 0
    hypotheses: tuple[str, ...] = ()
    awaited: tuple[PendingHosts, ...] = ()
    seconds: int = 0
    likely: LikelyDiagnosis | None = None


def apply_progress(card: ProgressCard, news: Progress) -> ProgressCard:
    """Return the updated card; counts and hypotheses stay until newer ones come."""
    return replace(
        card,
        stage=news.stage,
        line=news.line if news.stage != "summarise" else "",
        understood=news.line or card.understood if news.stage == "summarise" else card.understood,
        done=news.done if news.total else card.done,
        total=news.total or card.total,
        hypotheses=news.hypotheses or card.hypotheses,
        awaited=news.awaited,
        seconds=news.seconds,
        likely=news.likely or card.likely,
    )


def render_progress(card: ProgressCard) -> Card:
    understood: list[Block] = [blocks.line_section(bold("Understood:"), " ", card.understood)] if card.understood else []
    return blocks.build_card(
        f"{_format_headline(card)} · {describe_current_activity(card)}",
        [
            render_progress_steps(card),
            *understood,
            *_render_hypotheses(card),
            blocks.context((f"incident {card.incident} · reply ", code("help"), " for what I understand, ", code("stop"), " to stop")),
        ],
    )


def render_progress_steps(card: ProgressCard) -> Block:
    at = next((n for n, stages in enumerate(STEP_STAGES.values()) if card.stage in stages), 0)
    states: list[TaskStatus] = ["complete" if n < at else "in_progress" if n == at else "pending" for n in range(len(STEP_STAGES))]
    count = f"{card.done} of {card.total} checks" if card.total else ""
    step_lines = [
        " · ".join(filter(None, (title, count if n == LOOK_STEP_INDEX else "", describe_current_activity(card) if n == at else "")))
        for n, title in enumerate(STEP_STAGES)
    ]
    return blocks.plan(_format_headline(card), zip(step_lines, states, strict=True))


def describe_current_activity(card: ProgressCard) -> str:
    """Return the awaited hosts, or the stage's line."""
    if not card.awaited:
        return card.line
    first, *more = card.awaited
    others_note = f" and {len(more)} more" if more else ""
    wait_text = f"{first.hosts}: {first.asked}{others_note}, {card.seconds} s"
    return f"still checking {wait_text}" if card.likely else f"waiting for {wait_text}"


def _format_headline(card: ProgressCard) -> str:
    if card.likely and card.stage not in ("queued", "summarise"):
        return f"🔎 Likely: {card.likely.says}"
    return f"🔎 {STAGE_TITLES.get(card.stage, card.stage)}"


def _render_hypotheses(card: ProgressCard) -> list[Block]:
    if not card.hypotheses:
        return []
    hypothesis_lines: list[Line] = [(f"• {words}",) for words in card.hypotheses[:MAX_HYPOTHESES]]
    more: list[Line] = [(f"… and {len(card.hypotheses) - MAX_HYPOTHESES} more",)] if len(card.hypotheses) > MAX_HYPOTHESES else []
    return [blocks.section((bold("Suspected"),), *hypothesis_lines, *more)]

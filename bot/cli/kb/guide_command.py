"""`rackmedic guides`: list guides or print one."""

from typing import Any

from rich.padding import Padding
from rich.text import Text

from bot.app.site_files import load_site_guides
from bot.cli.command_runtime import print_text
from bot.cli.safe_console import format_json_line, indent_renderable, open_table_console
from bot.refusal import Refusal
from bot.settings import Settings
from kb.guides.guide import Guide, GuideStep, slugify_guide_name


def print_guides(settings: Settings, name: str, *, as_json: bool) -> int:
    """Print all guides, or one with its steps. Raises Refusal."""
    guides = load_site_guides(settings)
    if name and slugify_guide_name(name) not in guides:
        raise Refusal(f"There is no guide {name}; there are {', '.join(guides)}.", 1)
    rows = [guides[slugify_guide_name(name)]] if name else list(guides.values())
    if as_json:
        print_text(format_json_line({"schema": 1, "items": [build_guide_row(row) for row in rows]}))
        return 0
    console = open_table_console()
    for guide in rows:
        phrases = ", ".join((*guide.symptoms, *(f"“{word}”" for word in guide.words)))
        console.print(Text.assemble((guide.id, "bold cyan"), "  ", guide.title, (f"  {len(guide.steps)} steps", "dim")))
        console.print(indent_renderable(Text(f"for {phrases or 'anyone who calls it'}", style="dim")))
        for line in (line for step in guide.steps if name for line in _format_step_lines(step)):
            console.print(Padding(Text(line.strip()), (0, 0, 0, 2 + len(line) - len(line.lstrip())), expand=False))
    return 0


def build_guide_row(guide: Guide) -> dict[str, Any]:
    steps = [_build_step_row(step) for step in guide.steps]
    return {"id": guide.id, "title": guide.title, "symptoms": list(guide.symptoms), "words": list(guide.words), "steps": steps}


def _build_step_row(step: GuideStep) -> dict[str, Any]:
    when = [{"key": one.key, one.quantifier: one.expression.source} for one in step.when]
    return {
        "id": step.id,
        "kind": step.kind,
        "does": step.says,
        "after": list(step.after),
        "when": when,
        "look": list(step.look),
        "approve": step.approve,
        "wait_seconds": step.wait.total_seconds(),
        "remedy": step.remedy,
    }


def _format_step_lines(step: GuideStep) -> list[str]:
    action = {"look": f"look: {', '.join(step.look)}", "wait": "wait", "remedy": f"remedy: {step.remedy}", "ask": "for people"}[step.kind]
    approval = ", proposed for approval" if step.approve else ", proposed for approval where a proven cause needs it" if step.remedy else ""
    order = f"after {', '.join(step.after)}" if step.after else "at once"
    lines = [f"{step.id}  {step.says}", f"    {action}{approval}; {order}"]
    return [*lines, *(f"    only if {'there is' if one.quantifier == 'any' else 'there is no'} {one}" for one in step.when)]

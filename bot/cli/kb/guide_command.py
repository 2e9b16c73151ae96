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
    """Print a list of all guides, or one guide with its steps."""
    guides = load_site_guides(settings)
    if name and slugify_guide_name(name) not in guides:
        raise Refusal(f"There is no guide {name}; there are {', '.join(guides)}.", 1)
    selected = [guides[slugify_guide_name(name)]] if name else list(guides.values())
    if as_json:
        print_text(format_json_line({"schema": 1, "items": [build_guide_row(guide) for guide in selected]}))
        return 0
    console = open_table_console()
    for guide in selected:
        phrases = ", ".join((*guide.symptoms, *(f"“{word}”" for word in guide.words)))
        console.print(Text.assemble((guide.id, "bold cyan"), "  ", guide.title, (f"  {len(guide.steps)} steps", "dim")))
        console.print(indent_renderable(Text(f"for {phrases or 'anyone who calls it'}", style="dim")))
        if not name:
            continue
        for step in guide.steps:
            for indent, line in _format_step_lines(step):
                console.print(Padding(Text(line), (0, 0, 0, indent), expand=False))
    return 0


def build_guide_row(guide: Guide) -> dict[str, Any]:
    steps = [_build_step_row(step) for step in guide.steps]
    return {"id": guide.id, "title": guide.title, "symptoms": list(guide.symptoms), "words": list(guide.words), "steps": steps}


def _build_step_row(step: GuideStep) -> dict[str, Any]:
    when = [{"key": condition.key, condition.quantifier: condition.expression.source} for condition in step.when]
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


def _format_step_lines(step: GuideStep) -> list[tuple[int, str]]:
    """Return the lines of a step, each after the columns by which it is indented."""
    action = {"look": f"look: {', '.join(step.look)}", "wait": "wait", "remedy": f"remedy: {step.remedy}", "ask": "for people"}[step.kind]
    approval = ""
    if step.approve:
        approval = ", proposed for approval"
    elif step.remedy:
        approval = ", proposed for approval where a proven cause needs it"
    order = f"after {', '.join(step.after)}" if step.after else "at once"
    conditions = []
    for condition in step.when:
        existence = "there is" if condition.quantifier == "any" else "there is no"
        conditions.append(f"only if {existence} {condition}")
    details = [f"{action}{approval}; {order}", *conditions]
    return [(2, f"{step.id}  {step.says}"), *((6, detail) for detail in details)]

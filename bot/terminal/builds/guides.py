"""`rackmedic guides`: the troubleshooting guides that there are, one of them whole, and a draft of one that people wrote as prose."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from bot.refusal import Refusal
from bot.run.site import site_checks, site_guides
from bot.settings import Settings
from bot.terminal.paper import json_line, paper
from kb.guides.draft import DraftWords, drafted
from kb.guides.guide import Guide, GuideStep, slug
from tools.checks.row import Check
from tools.remedies import REMEDIES

TOLD = {
    "nvidia-smi -q": "smi",
    "sinfo": "sched",
    "scontrol": "sched",
    "ibstatus": "ibstat",
    "iblinkinfo": "fabric",
    "journalctl -k": "dmesg",
}
"""Commands of guides that no check runs so, and the one that tells the same."""
EVERYWHERE = frozenset({"python3", "sh", "bash", "cat", "env", "rackmedic-look", "timeout", "find", "grep", "ls", "test", "stat"})
"""Programs that say nothing of what is asked."""


def show(settings: Settings, name: str, *, as_json: bool) -> int:
    """All of them in a line each, or one with its steps. Raises Refusal."""
    guides = site_guides(settings)
    if name and slug(name) not in guides:
        raise Refusal(f"There is no guide {name}; there are {', '.join(guides)}.", 1)
    rows = [guides[slug(name)]] if name else list(guides.values())
    if as_json:
        print(json_line({"schema": 1, "items": [guide_row(row) for row in rows]}))
        return 0
    console = paper()
    for guide in rows:
        meant = ", ".join((*guide.symptoms, *(f"“{word}”" for word in guide.words)))
        console.print(Text.assemble((guide.id, "bold cyan"), "  ", guide.title, (f"  {len(guide.steps)} steps", "dim")))
        console.print(Text(f"  for {meant or 'whoever calls it'}", style="dim"))
        for line in (line for step in guide.steps if name for line in _lines(step)):
            console.print(Text(f"  {line}"))
    return 0


def draft(settings: Settings, file: Path) -> int:
    """Print a draft of the guide in a file. Raises Refusal."""
    try:
        prose = file.read_text(encoding="utf-8", errors="replace")
    except OSError as why:
        raise Refusal(f"{file} cannot be read: {why.strerror}", 2) from why
    print(drafted(prose, file.stem, draft_words(site_checks(settings))), end="")
    return 0


def draft_words(checks: Mapping[str, Check]) -> DraftWords:
    """By which commands and ids each check is known in guides; a command that several share means none of them."""
    owners: dict[str, set[str]] = {}
    for check in checks.values():
        for command in check.commands:
            program, *words = (word.rpartition("/")[2].lower() for word in command.argv[:2])
            names = [program, *(f"{program} {word}" for word in words if word.isalpha())]
            for name in names if program not in EVERYWHERE else ():
                owners.setdefault(name, set()).add(check.id)
    known = {name: next(iter(ids)) for name, ids in owners.items() if len(ids) == 1}
    ids = {f"`{check}`": check for check in checks} | {check: check for check in checks if any(char.isdigit() for char in check)}
    alone = frozenset(check.id for check in checks.values() if check.exclusive)
    return DraftWords({**known, "nvidia-smi": "smi", **TOLD, **ids}, alone, frozenset(REMEDIES) - {"run_check", "resume_node"})


def guide_row(guide: Guide) -> dict[str, Any]:
    """For scripts."""
    steps = [_step_row(step) for step in guide.steps]
    return {"id": guide.id, "title": guide.title, "symptoms": list(guide.symptoms), "words": list(guide.words), "steps": steps}


def _step_row(step: GuideStep) -> dict[str, Any]:
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


def _lines(step: GuideStep) -> list[str]:
    what = {"look": f"look: {', '.join(step.look)}", "wait": "wait", "remedy": f"remedy: {step.remedy}", "ask": "for people"}[step.kind]
    approval = ", put up for decision" if step.approve else ", put up for decision where a proven cause asks for it" if step.remedy else ""
    order = f"after {', '.join(step.after)}" if step.after else "at once"
    lines = [f"{step.id}  {step.says}", f"    {what}{approval}; {order}"]
    return [*lines, *(f"    only if {'there is' if one.quantifier == 'any' else 'there is no'} {one}" for one in step.when)]

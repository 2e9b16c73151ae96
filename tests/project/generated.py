"""The documents' generated parts: `python -m tests.project.generated` writes them, a test compares them. A part lies
between `<!-- NAME:begin -->` and `<!-- NAME:end -->` in its document (PARTS).
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from bot.app.site_files import build_guide_parts
from bot.incidents.cards.direct_messages import KNOWN_REQUESTS, SUGGESTED_PROMPTS, classify_request
from bot.incidents.handlers.slack_markup import list_help_rows
from bot.policy.quotas import LIMIT_DESCRIPTIONS, Quota
from bot.policy.roles import ACTS, ROLE_DESCRIPTIONS, PersonRole
from bot.settings import ENV_PREFIX, Settings
from bot.slack.manifest import SCOPES
from bot.trackers.tracker_kinds import KINDS
from graph.dialogue.intents import INTENTS, describe_intent
from graph.incident.incident_graph import GRAPH_NODES
from graph.provenance.invariants import INVARIANTS
from graph.ticket_export.document import TicketDocument
from kb.guides.loader import load_guides
from tests.kb import published_figures
from tests.project.diagrams import action_states, incident_states, ladder_states
from tests.properties import invariants, mutants
from tests.properties.mutants_reasoning import REASONING_MUTANTS
from tests.support.tracker_rules import RULES
from tools.checks import CHECKS
from tools.checks.check_types import Check
from tools.remedies import REMEDIES
from tools.remedies.remedy import Remedy

ROOT = Path(__file__).parents[2]


def flow() -> str:
    """Return the incident graph as a diagram."""
    lines = ["```mermaid", "flowchart LR", "  inbox([inbox]) --> summarise"]
    for step in GRAPH_NODES:
        targets = step.among if callable(step.then) else (step.then,)
        lines += [f"  {step.name} --> {'done([report])' if target == '__end__' else target}" for target in targets]
    return "\n".join([*lines, "```"])


def _word(word: str) -> str:
    """Return a word of a command, shortened if it is a whole program."""
    return word if len(word) <= 160 else f"{word[:24]} …"


def _notes(check: Check) -> str:
    notes = (("exclusive", check.exclusive), ("part as root", any(command.privileged for command in check.commands)))
    return ", ".join(note for note, on in notes if on)


def checks() -> str:
    rows = ["| check | asks | commands | seconds | |", "|---|---|---|---|---|"]
    for check in CHECKS.values():
        commands = "<br>".join(f"`{' '.join(map(_word, command.argv))}`".replace("|", "\\|") for command in check.commands)
        rows.append(f"| `{check.id}` | {check.asks} | {commands} | {check.seconds:g} | {_notes(check)} |")
    return "\n".join(rows)


def remedies() -> str:
    rows = ["| remedy | does | risk | must be true | proved by |", "|---|---|---|---|---|"]
    for remedy in REMEDIES.values():
        rows.append(_remedy_row(f"`{remedy.id}`", remedy))
        rows += [_remedy_row(f"`{remedy.id}` by {scheduler.capitalize()}: `{way.id}`", way) for scheduler, way in remedy.ways.items()]
    return "\n".join(rows)


def _remedy_row(name: str, remedy: Remedy) -> str:
    said = "; ".join(condition.says for condition in remedy.conditions) + ("; the node is drained" if "drained" in remedy.needs else "")
    return f"| {name} | {remedy.does} | {remedy.risk} | {said.removeprefix('; ')} | {', '.join(remedy.proof)} |"


def guides() -> str:
    rows = ["| guide | is for | steps | looks with | where it needs GPUs for itself |", "|---|---|---|---|---|"]
    for guide in load_guides(parts=build_guide_parts(CHECKS)).values():
        looks = [", ".join(f"`{check}`" for step in guide.steps if step.approve is alone for check in step.look) for alone in (False, True)]
        meant = ", ".join((*guide.symptoms, *(f"“{word}”" for word in guide.words)))
        rows.append(f"| `{guide.id}` | {guide.title}: {meant} | {len(guide.steps)} | {looks[0]} | {looks[1]} |")
    return "\n".join(rows)


def settings() -> str:
    """Return every setting with its default."""
    rows = ["| setting | default | |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = field.default
        shown = "" if default in (None, "", ()) or "Secret" in type(default).__name__ else f"`{default}`"
        rows.append(f"| `{ENV_PREFIX}{name.upper()}` | {shown} | {field.description} |")
    return "\n".join(rows)


def grammar() -> str:
    rows = ["| say | and |", "|---|---|"]
    return "\n".join(rows + [f"| `{say}` | {does} |" for say, does in list_help_rows()])


def intents() -> str:
    """Return every thread intent with two more phrasings from the tests."""
    phrasings = yaml.safe_load((ROOT / "tests/graph/phrases/understood.yaml").read_text())
    rows = ["| say | or | and |", "|---|---|---|"]
    for intent, row in INTENTS.items():
        others = [text for text in phrasings.get(intent, []) if text.lower() != row.form.lower() and "U0" not in text and len(text) < 40]
        if others:
            rows.append(f"| {row.form or '–'} | {' · '.join(others[:3])} | {describe_intent(intent)} |".replace("<", "&lt;"))
    return "\n".join(rows)


def direct() -> str:
    """Return every direct message request with its suggested prompt."""
    suggested = {prompt.request: prompt.text for prompt in SUGGESTED_PROMPTS}
    rows = ["| say | or press | and |", "|---|---|---|"]
    return "\n".join(rows + [f"| `{say}` | {suggested[classify_request(say)]} | {means} |" for say, means in KNOWN_REQUESTS])


def roles() -> str:
    rows = ["| role | is |", "|---|---|"]
    return "\n".join(rows + [f"| {role.replace('_', ' ')} | {means} |" for role, means in ROLE_DESCRIPTIONS.items()])


def acts() -> str:
    """Return who may do what; message intents are grouped by the roles allowed."""
    head = ["| act | to | " + " | ".join(role.replace("_", " ") for role in PersonRole) + " |", "|---|---|" + "---|" * len(PersonRole)]
    said: dict[frozenset[PersonRole], list[str]] = {}
    for act, row in ACTS.items():
        if act.startswith("intent."):
            said.setdefault(row.who, []).append(f"`{act}`")
    rows = [_act(" ".join(names), "say it", who) for who, names in said.items()]
    rows += [_act(f"`{act}`", row.does, row.who) for act, row in ACTS.items() if not act.startswith("intent.")]
    return "\n".join(head + rows)


def _act(act: str, does: str, who: frozenset[PersonRole]) -> str:
    return f"| {act} | {does} | " + " | ".join("yes" if role in who else "" for role in PersonRole) + " |"


def shares() -> str:
    """Return a tenant's default quota."""
    rows = ["| limit | unless said otherwise | |", "|---|---|---|"]
    return "\n".join(rows + [f"| `{name}` | {getattr(Quota(), name):g} | {means} |" for name, means in LIMIT_DESCRIPTIONS.items()])


def scopes() -> str:
    """Return the Slack scopes of the manifest."""
    rows = ["| scope | to |", "|---|---|"]
    return "\n".join(rows + [f"| `{scope}` | {reason} |" for scope, reason in SCOPES.items()])


def rooms() -> str:
    """Return every product package with the first paragraph of its docstring."""
    rows = ["| package | what it does |", "|---|---|"]
    for path in sorted(path for top in ("bot", "graph", "tools", "kb") for path in (ROOT / top).rglob("__init__.py")):
        said = ast.get_docstring(ast.parse(path.read_text())) or ""
        summary = " ".join(said.partition("\n\n")[0].split())
        rows.append(f"| `{path.parent.relative_to(ROOT)}/` | {summary} |")
    return "\n".join(rows)


def ticket() -> str:
    """Return every field of the ticket document, nested fields below their list."""
    schema = TicketDocument.model_json_schema()
    return "\n".join(["| field | is | |", "|---|---|---|", *_fields(schema, schema["$defs"], "")])


def trackers() -> str:
    """Return the tracker settings by product."""
    rows = ["| kind | field | |", "|---|---|---|"]
    for kind, row in KINDS.items():
        for name, field in row.config.model_fields.items():
            must = " **needed**" if field.is_required() else ""
            rows.append(f"| `{kind}` | `{name}`{must} | {field.description} |")
    return "\n".join(rows)


def tracker_rules() -> str:
    """Return the rules of the tracker stand-ins with their sources."""
    rows = ["| kind | rule | answer | written |", "|---|---|---|---|"]
    named = ((rule.partition(".")[0], row) for rule, row in RULES.items())
    return "\n".join(rows + [f"| `{kind}` | {row.says} | {row.status} | [there]({row.source}) |" for kind, row in named])


def _fields(model: Any, rows: Any, where: str) -> Iterator[str]:
    for name, field in model["properties"].items():
        must = " **needed**" if name in model.get("required", ()) else ""
        yield f"| `{where}{name}` | {_kind(field, rows)}{must} | {field['description']} |"
        if below := (field.get("items") or {}).get("$ref"):
            yield from _fields(rows[below.rpartition("/")[2]], rows, f"{where}{name}[].")


def _kind(field: Any, rows: Any) -> str:
    """Return a JSON schema field's type and bounds."""
    if parts := field.get("anyOf"):
        return " or ".join(dict.fromkeys(_kind(part, rows) for part in parts if part.get("type") != "null"))
    if "enum" in field or "const" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]) if value) or "empty"
    return _SHAPES[field["type"]](field, rows)


def _text(field: Any) -> str:
    return f"text of at most {field['maxLength']}" if "maxLength" in field else f"text `{field['pattern']}`"


_SHAPES: Mapping[str, Callable[[Any, Any], str]] = {
    "array": lambda field, rows: (
        "list" + ("" if "$ref" in field["items"] else f" of {_kind(field['items'], rows)}") + f", at most {field['maxItems']}"
    ),
    "object": lambda field, rows: f"mapping, at most {field['maxProperties']}",
    "string": lambda field, rows: "time" if "format" in field else _text(field),
    "integer": lambda field, rows: "whole number",
    "number": lambda field, rows: "number",
    "boolean": lambda field, rows: "true or false",
}


def contracts() -> str:
    rows = ["| contract | promise |", "|---|---|"]
    return "\n".join(rows + [f"| `{row.id}` | {row.promise} |" for row in INVARIANTS])


def reasoning_faults() -> str:
    """Return the seeded reasoning faults and how each ends."""
    rows = ["| kind | fault | ends by |", "|---|---|---|"]
    return "\n".join(rows + [row.row() for row in REASONING_MUTANTS])


PARTS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "docs/architecture.md": {"flow": flow, "rooms": rooms, "incident": incident_states, "ladder": ladder_states, "action": action_states},
    "docs/assurance.md": {"invariants": invariants.table, "mutants": mutants.table},
    "docs/checks.md": {"checks": checks},
    "docs/remedies.md": {"remedies": remedies},
    "docs/guides.md": {"guides": guides},
    "docs/provider-link.md": {"ticket": ticket},
    "docs/trackers.md": {"trackers": trackers, "rules": tracker_rules},
    "docs/settings.md": {"settings": settings},
    "docs/conversation.md": {"grammar": grammar, "intents": intents, "direct": direct},
    "docs/performance.md": {"published": published_figures.table, "gpus": published_figures.gpus},
    "docs/reasoning.md": {"contracts": contracts, "reasoning faults": reasoning_faults},
    "docs/roles.md": {"roles": roles, "acts": acts, "shares": shares},
    "docs/slack.md": {"scopes": scopes},
}


def marks(name: str) -> tuple[str, str]:
    """Return the markers before and after a part."""
    return f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"


def rendered(document: str, text: str) -> str:
    """Return the document with its generated parts renewed."""
    for name, make in PARTS[document].items():
        begin, end = marks(name)
        before, _, rest = text.partition(begin)
        text = before + begin + make() + "\n" + end + rest.partition(end)[2]
    return text


if __name__ == "__main__":
    for document in PARTS:
        path = ROOT / document
        path.write_text(rendered(document, path.read_text()))

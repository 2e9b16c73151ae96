"""The generated parts of README: `python -m tests.project.readme_parts` writes them, a test compares them."""

from pathlib import Path

from bot.slack.incoming.grammar import help_rows
from graph.incident.flow import FLOW
from tools.checks import CHECKS
from tools.remedies import REMEDIES

README = Path(__file__).parents[2] / "README.md"


def flow() -> str:
    """The incident graph as a diagram, from its table."""
    lines = ["```mermaid", "flowchart LR", "  inbox([inbox]) --> summarise"]
    for step in FLOW:
        targets = step.among if callable(step.then) else (step.then,)
        lines += [f"  {step.name} --> {'done([report])' if target == '__end__' else target}" for target in targets]
    return "\n".join([*lines, "```"])


def _word(word: str) -> str:
    """A word of a command; of a program that is one, its first characters."""
    return word if len(word) <= 160 else f"{word[:24]} …"


def checks() -> str:
    """The catalogue of checks."""
    rows = ["| check | asks | commands | seconds | |", "|---|---|---|---|---|"]
    for check in CHECKS.values():
        commands = "<br>".join(f"`{' '.join(map(_word, command.argv))}`".replace("|", "\\|") for command in check.commands)
        notes = ", ".join(
            note for note, on in (("exclusive", check.exclusive), ("part as root", any(c.privileged for c in check.commands))) if on
        )
        rows.append(f"| `{check.id}` | {check.asks} | {commands} | {check.seconds:g} | {notes} |")
    return "\n".join(rows)


def remedies() -> str:
    """The catalogue of remedies."""
    rows = ["| remedy | does | risk | must be true | proved by |", "|---|---|---|---|---|"]
    for remedy in REMEDIES.values():
        said = "; ".join(condition.says for condition in remedy.conditions) + ("; the node is drained" if "drained" in remedy.needs else "")
        rows.append(f"| `{remedy.id}` | {remedy.does} | {remedy.risk} | {said.removeprefix('; ')} | {', '.join(remedy.proof)} |")
    return "\n".join(rows)


def grammar() -> str:
    """What a reply may say."""
    rows = ["| say | and |", "|---|---|"]
    return "\n".join(rows + [f"| `{say}` | {does} |" for say, does in help_rows()])


PARTS = {"flow": flow, "checks": checks, "remedies": remedies, "grammar": grammar}


def rendered(text: str) -> str:
    """README with every generated part made anew."""
    for name, make in PARTS.items():
        begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
        before, _, rest = text.partition(begin)
        text = before + begin + make() + "\n" + end + rest.partition(end)[2]
    return text


if __name__ == "__main__":
    README.write_text(rendered(README.read_text()))

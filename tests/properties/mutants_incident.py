"""Safety bugs seeded one at a time into everything that an incident goes through; the machine of incidents must catch each. SECURITY.md shows them."""

import contextlib
import importlib
import io
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, settings

from tests.properties.second_world import Edit, second_world

MACHINE = "tests.properties.incident_machine"
ENOUGH = settings(
    max_examples=1,
    stateful_step_count=1,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    report_multiple_bugs=False,
    print_blob=False,
    verbosity=Verbosity.quiet,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class IncidentMutant:
    """One bug, the invariant that it breaks, and its edits."""

    name: str
    breaks: str
    edits: tuple[Edit, ...]

    @property
    def story(self) -> str:
        """The machine's story that goes straight to that invariant."""
        stories: Sequence[str] = importlib.import_module(MACHINE).STORIES
        return next(story for story in stories if story.startswith(f"{self.breaks.lower()}_"))

    def row(self) -> str:
        """As a line of the table."""
        return f"| {self.name} | {self.breaks} | the machine of incidents |"


BELIEF, COVERAGE, VERDICT = "graph.engine.belief", "graph.engine.coverage", "graph.engine.verdict"
MOVES, ENDS, CLIENT, TEXT = "graph.ladders.moves", "graph.ladders.ends", "graph.model.client", "bot.cards.text"
BY_WORDS = (BELIEF, "(may_be_text(self.leaf) or (m.fact.host and not is_text(m.fact.key))))", "True)")
UNBOUND = (BELIEF, "max(-LOW_TRUST_CAP, min(most, doubted))", "doubted")
UNCHECKED = ("graph.incident.thinking.checked", "    if not came.broken:\n", "    if True:\n")
"""The contracts over the reasoning would catch it too: here the invariant has to do it alone."""
UNPROVEN = (BELIEF, " and bool(self.deciding) and", " and")

INCIDENT_MUTANTS: tuple[IncidentMutant, ...] = (
    IncidentMutant(
        "a slot takes whatever it is given",
        "I1",
        (("tools.checks.row", 'if not re.fullmatch(SLOTS[name], given) or ".." in given:', "if False:"),),
    ),
    IncidentMutant(
        "a path may lead out of its folder",
        "I1",
        (("tools.checks.row", 'if not re.fullmatch(SLOTS[name], given) or ".." in given:', "if not re.fullmatch(SLOTS[name], given):"),),
    ),
    IncidentMutant(
        "a command's words are not quoted", "I1", (("tools.ssh.client", 'return shlex.join(("timeout"', 'return " ".join(("timeout"'),)
    ),
    IncidentMutant(
        "the words of commands that share a session are quoted once too seldom",
        "I1",
        (("tools.ssh.batch", "return shlex.quote(shlex.join((", 'return shlex.quote(" ".join(('),),
    ),
    IncidentMutant(
        "the kit takes any argument",
        "I1",
        (("tools.nodekit.generate", """yield f'is_{kind} "${{{i}}}" || refuse""", """yield f': is_{kind} "${{{i}}}" || refuse"""),),
    ),
    IncidentMutant(
        "the kit takes an argument that only begins well",
        "I1",
        (
            (
                "tools.nodekit.generate",
                "case $1 in {' | '.join(kind.admits)}) return 0",
                "case $1 in {'* | '.join(kind.admits)}*) return 0",
            ),
            ("tools.nodekit.generate", """'  [ "${{#1}}" -le {kind.longest} ] || return 1'""", """'  : "${{#1}}" -le {kind.longest} '"""),
        ),
    ),
    IncidentMutant("a tenant's words convict a machine", "I13", (BY_WORDS, UNBOUND)),
    IncidentMutant(
        "whatever a host calls an address reaches the command",
        "I13",
        (
            ("graph.ladders.steps", 'if re.fullmatch(KINDS["bdf"].pattern, address)}', "if address}"),
            ("tools.remedies.row", "if not re.fullmatch(KINDS[kind].pattern, value):", "if False:"),
        ),
    ),
    IncidentMutant("angle brackets are not escaped", "I14", ((TEXT, '.replace("<", "&lt;").replace(">", "&gt;")', ""),)),
    IncidentMutant("addresses can be clicked", "I14", ((TEXT, "return defang(visible(", "return (visible("),)),
    IncidentMutant(
        "what hides stays hidden", "I14", ((TEXT, "return defang(visible(text[:MOST_READ]", "return defang((text[:MOST_READ]"),)
    ),
    IncidentMutant("anything can be mentioned", "I14", ((TEXT, "if not SLACK_ID.fullmatch(value):", "if False:"),)),
    IncidentMutant(
        "a report's secrets are kept", "I14", (("graph.reading.pasted", "redact(without_fences(item.text))", "without_fences(item.text)"),)
    ),
    IncidentMutant(
        "a cause that was not offered is taken", "I16", ((CLIENT, 'offered([row.cause for row in answer.causes], ids, "cause")', "pass"),)
    ),
    IncidentMutant(
        "a look that was not offered is taken for an idea", "I16", ((CLIENT, 'offered(row.looks, ids["Looks"], "look")', "pass"),)
    ),
    IncidentMutant(
        "an answer that cannot be read ends the turn", "I16", ((CLIENT, "except Unheard as e:", "except ZeroDivisionError as e:"),)
    ),
    IncidentMutant("a budget refuses nothing", "I16", (("graph.model.budget", "if so_far.calls >= self.calls:", "if False:"),)),
    IncidentMutant("an endpoint that fails is asked on and on", "I16", ((CLIENT, "if self._failures >= self.trips:", "if False:"),)),
    IncidentMutant(
        "a model's word proves a cause",
        "I16",
        (
            UNPROVEN,
            (BELIEF, "TEXT_CAP = 2.0", "TEXT_CAP = 20.0"),
            ("graph.engine.prior", "MODEL_SWAY = 1.5", "MODEL_SWAY = 30.0"),
            UNCHECKED,
        ),
    ),
    IncidentMutant(
        "a lesson proves a cause",
        "I30",
        (
            UNPROVEN,
            (BELIEF, "TEXT_CAP = 2.0", "TEXT_CAP = 20.0"),
            ("graph.engine.prior", "LIKE_BEFORE = 1.0", "LIKE_BEFORE = 20.0"),
        ),
    ),
    IncidentMutant(
        "what nobody could look at is well",
        "I17",
        (
            (COVERAGE, "for (host, check), why in sorted(self.blind.items())\n", "for (host, check), why in ()\n"),
            (VERDICT, "    if blind:\n", "    if False:\n"),
        ),
    ),
    IncidentMutant("what nobody could look for is ruled out", "I17", ((VERDICT, "    if blind:\n", "    if False:\n"),)),
    IncidentMutant(
        "a failed look is not said",
        "I17",
        (("graph.engine.assess", "if host:\n                why[host]", "if not host:\n                why[host]"),),
    ),
    IncidentMutant("evidence loses the digest of its output", "I17", (("graph.engine.assess", "sha256=fact.sha256,", 'sha256="",'),)),
    IncidentMutant("evidence is cited of another host", "I17", (("graph.engine.assess", "host=fact.host,\n", 'host="n3",\n'),)),
    IncidentMutant("two proofs are averaged", "I18", ((BELIEF, "start + sum(trusted)", "start + sum(trusted) / max(1, len(trusted))"),)),
    IncidentMutant("a tenant's word outweighs a machine's", "I18", (UNBOUND,)),
    IncidentMutant(
        "what did not help counts as mended",
        "I20",
        ((MOVES, 'GOOD = frozenset({"passes_now", "cured"})', 'GOOD = frozenset({"passes_now", "cured", "unchanged", "worse", ""})'),),
    ),
    IncidentMutant("a node returns beside a fix that failed", "I20", ((ENDS, "if row.outcome in HELD)", "if row.outcome in ())"),)),
    IncidentMutant(
        "a command that failed is followed by the way back",
        "I20",
        ((MOVES, "return heavier(ladder, why, yard) if present(ladder).part", "return next_rung(ladder, yard) if present(ladder).part"),),
    ),
    IncidentMutant(
        "each look at a ladder makes up another action",
        "I22",
        (
            (
                "graph.ladders.build",
                'return f"apr-{hashlib.sha256(text.encode()).hexdigest()[:12]}"',
                'return "apr-" + __import__("secrets").token_hex(6)',
            ),
        ),
    ),
    IncidentMutant(
        "how sure it is is drawn by lot",
        "I22",
        (
            (
                "graph.engine.assess",
                "confidence=min(standing.confidence, BEHIND) if hides else standing.confidence,",
                'confidence=standing.confidence - __import__("os").urandom(1)[0] / 9999,',
            ),
        ),
    ),
    IncidentMutant(
        "a turn reads the machine's own clock",
        "I22",
        (("graph.incident.conclude", "seconds = (ports.clock.now() -", "seconds = (datetime.now().astimezone() -"),),
    ),
)


def complaint(machine: Any, stories: tuple[str, ...] = ()) -> str:
    """What the machine says against the product that it was imported with; empty when it is content."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            machine.live(ENOUGH, stories or machine.STORIES)
    except Exception as why:  # whatever stops it is a complaint
        return f"{type(why).__name__}: {why}"
    return ""


def killed(mutant: IncidentMutant) -> str:
    """What the machine says of the bug; empty where it survives."""
    story = mutant.story
    with second_world(mutant.edits) as world:
        return complaint(world(MACHINE), (story,))


def main(names: Sequence[str]) -> int:
    """Kill them all, or those whose names begin so, and say how long each took; 1 when one survives."""
    survived = 0
    for mutant in [row for row in INCIDENT_MUTANTS if not names or row.name.startswith(tuple(names))]:
        began = time.perf_counter()
        says = killed(mutant)
        survived += not says
        print(f"{mutant.row()} {time.perf_counter() - began:.1f} {says.splitlines()[0][:150] if says else '**survived**'}")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

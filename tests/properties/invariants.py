"""The invariants: statement, state machine rules, and further tests. docs/assurance.md shows the table."""

from dataclasses import dataclass

from tests.properties import customer_stories, customer_threads, door_stories, incident_machine, ledger_machine
from tests.properties.mutants import SAFETY_MUTANTS

MACHINES = {
    "ledger": ledger_machine.STORIES,
    "incidents": incident_machine.STORIES,
    "doors": door_stories.STORIES,
    "customers": tuple(story.__name__ for story in (*customer_stories.STORIES, *customer_threads.STORIES)),
}


@dataclass(frozen=True)
class Invariant:
    """One promise. `tests`: paths of further tests."""

    name: str
    says: str
    tests: tuple[str, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """Return the machines' rules that start in its situation."""
        return tuple(f"{machine}: {rule}" for machine, rules in MACHINES.items() for rule in rules if self.name.lower() in rule.split("_"))

    @property
    def bugs(self) -> int:
        """Return the number of seeded bugs that break it."""
        return sum(self.name in mutant.breaks.split() for mutant in SAFETY_MUTANTS)


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "I1",
        "only commands of the catalogues reach a host",
        ("tests/tools/test_nodekit_sh.py", "tests/tools/test_ssh_batch.py", "tests/bench_itself/test_hostile.py"),
    ),
    Invariant("I2", "an approval is executed at most once", ("tests/properties/test_ledger_processes.py", "tests/stories/test_crash.py")),
    Invariant("I3", "nothing is written without the frozen quorum of distinct people who may", ("tests/bot/remediation/test_batches.py",)),
    Invariant("I4", "who asked for it or edited it does not count"),
    Invariant("I5", "what runs is what was shown, byte for byte", ("tests/bot/remediation/cards/test_approval_cards.py",)),
    Invariant("I6", "nothing counts or runs after its time"),
    Invariant("I7", "denied, revoked, superseded and unknown are final"),
    Invariant("I8", "the audit entry precedes the effect, the chain verifies, no secret is in it"),
    Invariant("I9", "after a brake nothing new starts"),
    Invariant("I10", "an approval of one version does not run under the next"),
    Invariant("I11", "preconditions and the fault are read again before the effect", ("tests/graph/test_fault.py",)),
    Invariant("I12", "looking changes nothing", ("tests/tools/test_nodekit_look.py", "tests/tools/test_exclusive.py")),
    Invariant(
        "I13", "what strangers write changes no action, no card of one and no verdict on a machine", ("tests/bench_itself/test_hostile.py",)
    ),
    Invariant(
        "I14",
        "no control token, foreign mention, link or secret on a card",
        ("tests/bot/cards/test_blocks.py", "tests/bench_itself/test_planted_secrets.py"),
    ),
    Invariant("I15", "replayed and foreign clicks have no effect"),
    Invariant(
        "I16", "whatever a model does the incident ends, and nothing is done on its word", ("tests/bench_itself/test_model_hostile.py",)
    ),
    Invariant(
        "I17", "what is cited was seen there; what could not be seen is neither well nor ruled out", ("tests/tools/test_never_ok.py",)
    ),
    Invariant(
        "I18",
        "less evidence is never surer, noise flips nothing, a difference to peers alone is a hint",
        ("tests/properties/test_metamorphic.py",),
    ),
    Invariant("I19", "one incident changes its hosts alone, a group only so many"),
    Invariant(
        "I20", "no node returns unproved; what did not help is followed by something heavier, or people", ("tests/graph/test_ladder.py",)
    ),
    Invariant("I21", "one host, one action; a reboot covers a reset"),
    Invariant("I22", "the same case with the same answers gives the same transcript", ("tests/bench_itself/test_model_recording.py",)),
    Invariant(
        "I23",
        "what others send counts when it is signed over its very bytes, and now",
        ("tests/bot/app/test_slack_http.py", "tests/stories/test_slack_http.py"),
    ),
    Invariant("I24", "and has its effect once, or may come again", ("tests/bot/store/test_heard.py", "tests/stories/test_alert_storm.py")),
    Invariant(
        "I25",
        "an incident of alerts ends by itself only where none fires and nobody had to do with it",
        ("tests/bot/alerts/test_alerts.py", "tests/graph/test_alerts_over.py"),
    ),
    Invariant(
        "I26",
        "nothing leaves for a tracker but what a person was shown and confirmed, once",
        ("tests/bot/trackers/test_office.py", "tests/stories/test_trackers_crash.py"),
    ),
    Invariant(
        "I27",
        "nothing of one customer reaches another; who somebody is comes from their own payload",
        ("tests/properties/test_canaries.py", "tests/properties/test_canaries_seen.py", "tests/properties/test_wider_look.py"),
    ),
    Invariant(
        "I29",
        "an incident of alerts opens in a channel of the operators alone, and stays in it",
        ("tests/bot/alerts/test_routing.py", "tests/properties/test_alert_routes.py", "tests/stories/test_alert_storm.py"),
    ),
    Invariant(
        "I30",
        "a lesson or a past incident orders looks; it proves, proposes and clears nothing",
        ("tests/bot/lessons/test_lessons.py", "tests/graph/test_lessons.py"),
    ),
    Invariant("I31", "connections that are held and bodies that are sent slowly keep nobody out", ("tests/bot/app/test_attacks.py",)),
)


def table() -> str:
    """Return the invariants as docs/assurance.md shows them."""
    rows = ["| | invariant | rules of the machine that go straight to it | seeded bugs | and |", "|---|---|---|---|---|"]
    for row in INVARIANTS:
        rules = ", ".join(f"`{rule.partition(': ')[2]}` ({rule.partition(':')[0]})" for rule in row.rules)
        rows.append(f"| {row.name} | {row.says} | {rules or '–'} | {row.bugs or '–'} | {', '.join(f'`{path}`' for path in row.tests)} |")
    return "\n".join(rows)

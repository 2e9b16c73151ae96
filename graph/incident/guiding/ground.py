"""What a guide's conditions and steps come to by the facts, the fixes and the clock of an incident. Pure."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from graph.engine.abnormal import is_odd
from graph.engine.reference import Lens
from graph.incident.guiding.running import GuideRunning
from graph.state import Ladder
from kb.guides.guide import GuideStep, StepCondition
from kb.guides.walk import Stands
from kb.taxonomy.labels import Clue
from tools.fact import Fact
from tools.inventory.ranges import fold

SKIPPED = "check.skipped"
NOT_ASKED_FOR = "nothing found asks for it, so there is no card"


@dataclass(frozen=True)
class FactGround:
    """`running`: the run that somebody called, None where a guide is only held against what is known; `planned`: remedies that what was
    found by now would have put up."""

    facts: Sequence[Fact]
    hosts: tuple[str, ...]
    lens: Lens
    now: datetime
    running: GuideRunning | None = None
    ladders: Sequence[Ladder] = ()
    planned: Collection[str] = ()

    @cached_property
    def _by_key(self) -> dict[str, list[Fact]]:
        found: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            if not fact.host or fact.host in self.hosts:
                found[fact.key].append(fact)
        return found

    @cached_property
    def _of_check(self) -> dict[str, list[Fact]]:
        found: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            if fact.host in self.hosts:
                found[fact.check].append(fact)
        return found

    def holds(self, condition: StepCondition) -> bool | None:
        """Found is found on any host; not found is said only where every host was looked at."""
        clue = Clue("", condition.key, condition.expression.source, 1.0, "", condition.expression)
        if any(clue.matches(fact, self._expected(fact)) for fact in self._by_key.get(condition.key, ())):
            return condition.quantifier == "any"
        checks = [check.id for check in self.lens.establishing(condition.key)]
        if all(any(host in self._seen(check) for check in checks) for host in self.hosts):
            return condition.quantifier == "none"
        return None

    def looked(self, step: GuideStep) -> Stands:
        """What was seen, or why nothing was; `next` where it was not looked yet."""
        if step.approve:
            return self._approved(step)
        if step.id not in self.running.looked if self.running else self._unasked(step):
            return Stands("next")
        return self._told(step)

    def acted(self, step: GuideStep) -> Stands:
        """Where the cards of this change stand; only a cause that was proven has one put up."""
        own = [row for row in self.ladders if row.target in self.hosts and any(rung.remedy == step.remedy for rung in row.rungs)]
        if not own:
            return Stands("waiting", "a cause asks for it") if step.remedy in self.planned else Stands("people", NOT_ASKED_FOR)
        if waits := [row.target for row in own if row.open]:
            here = any(row.open and row.waiting_for == "approval" and row.now and row.now.remedy == step.remedy for row in own)
            return Stands("waiting", f"{fold(waits)}: {'its card is up for decision' if here else 'it is part of a fix under way'}")
        cured = [row.target for row in own if row.outcome == "cured"]
        return (
            Stands("done", f"{fold(cured)}: proved") if cured else Stands("people", f"{own[-1].target}: {own[-1].says or own[-1].outcome}")
        )

    def began(self, step: GuideStep) -> datetime | None:
        return self.running.began.get(step.id) if self.running else None

    def _approved(self, step: GuideStep) -> Stands:
        """Of looks that need GPUs for themselves one card a look, one after the other."""
        left = [check for check in step.look if not self.answered(check)]
        if not left:
            return self._told(step)
        if self.lens.checks[left[0]].scope != "host" and len(self.hosts) < 2:
            return Stands("unsure", f"{left[0]} measures between hosts, so it needs at least two")
        cards = [row for row in self.ladders if any(rung.args.get("check") == left[0] for rung in row.rungs)]
        cards = [row for row in cards if set(row.target.split(",")) & set(self.hosts) and row.outcome != "withdrawn"]
        if any(row.open for row in cards):
            return Stands("waiting", f"the card of {left[0]} is up for decision")
        if self.running and cards:
            return Stands("people", f"{left[0]}: {cards[-1].says or cards[-1].outcome}")
        return Stands("next", f"{left[0]} needs GPUs for itself")

    def answered(self, check: str) -> bool:
        """Whether a look that needs GPUs for itself was taken and not only skipped."""
        return any(fact.key != SKIPPED for fact in self._of_check.get(check, ()))

    def _unasked(self, step: GuideStep) -> bool:
        """Whether one of its looks was never taken on one of the hosts."""
        asked = {(fact.host, fact.check) for check in step.look for fact in self._of_check.get(check, ())}
        return any((host, check) not in asked for host in self.hosts for check in step.look)

    def _told(self, step: GuideStep) -> Stands:
        """The first that is abnormal, how many more are, and where nobody could look."""
        facts = [fact for check in step.look for fact in self._of_check.get(check, ())]
        blind = [fact for fact in facts if fact.status.blind]
        if not any(not fact.status.blind for fact in facts):
            return Stands("unsure", f"could not look: {blind[0].line[:80]}" if blind else "nobody answered")
        odd = list(dict.fromkeys(f"{fact.host}: {fact.in_words()}" for fact in facts if is_odd(fact, self._expected(fact))))
        more = f", and {len(odd) - 1} more" if len(odd) > 1 else ""
        unseen = f"; could not look on {fold({fact.host for fact in blind})}" if blind else ""
        return Stands("done", (odd[0] + more if odd else "nothing abnormal") + unseen)

    def _seen(self, check: str) -> set[str]:
        return {fact.host for fact in self._of_check.get(check, ()) if not fact.status.blind}

    def _expected(self, fact: Fact) -> bool | int | float | str | list[str] | None:
        return self.lens.expected(fact.host, fact.key, fact.device) if fact.host else None

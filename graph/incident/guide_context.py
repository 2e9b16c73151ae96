"""Evaluate a guide's conditions and steps against facts, remediations and the clock."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from graph.engine.abnormal_facts import is_abnormal
from graph.engine.reference_data import ReferenceData
from graph.incident.guide_run import GuideRunState
from graph.state import Remediation
from kb.guides.guide import GuideStep, StepCondition
from kb.guides.step_status import MarkReason
from kb.taxonomy.taxonomy import Clue
from tools.fact import Fact
from tools.inventory.host_ranges import fold_host_names

SKIPPED_KEY = "check.skipped"
NO_CARD_REASON = "nothing found asks for it, so there is no card"


@dataclass(frozen=True)
class GuideContext:
    """`running`: the run, None if the guide is only compared with the facts; `planned`: remedies of proven causes."""

    facts: Sequence[Fact]
    hosts: tuple[str, ...]
    reference: ReferenceData
    now: datetime
    running: GuideRunState | None = None
    remediations: Sequence[Remediation] = ()
    planned: Collection[str] = ()

    @cached_property
    def _facts_by_key(self) -> dict[str, list[Fact]]:
        facts_by_key: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            if not fact.host or fact.host in self.hosts:
                facts_by_key[fact.key].append(fact)
        return facts_by_key

    @cached_property
    def _facts_by_check(self) -> dict[str, list[Fact]]:
        facts_by_check: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            if fact.host in self.hosts:
                facts_by_check[fact.check].append(fact)
        return facts_by_check

    def is_condition_met(self, condition: StepCondition) -> bool | None:
        """Return whether the condition is met; "not found" needs every host observed. None if undecided."""
        clue = Clue("", condition.key, condition.expression.source, 1.0, "", condition.expression)
        if any(clue.matches(fact, self._get_expected_value(fact)) for fact in self._facts_by_key.get(condition.key, ())):
            return condition.quantifier == "any"
        checks = [check.id for check in self.reference.list_establishing_checks(condition.key)]
        if all(any(host in self._get_observed_hosts(check) for check in checks) for host in self.hosts):
            return condition.quantifier == "none"
        return None

    def get_look_status(self, step: GuideStep) -> MarkReason:
        """Return the findings, or why there are none; `next` if not checked yet."""
        if step.approve:
            return self._get_approval_status(step)
        if step.id not in self.running.looked if self.running else self._has_unasked_checks(step):
            return MarkReason("next")
        return self._render_findings(step)

    def get_remedy_status(self, step: GuideStep) -> MarkReason:
        """Return the status of its approval cards; only a proven cause has one."""
        own_remediations = [
            remediation
            for remediation in self.remediations
            if remediation.target in self.hosts and any(remediation_step.remedy == step.remedy for remediation_step in remediation.rungs)
        ]
        if not own_remediations:
            return MarkReason("waiting", "a cause asks for it") if step.remedy in self.planned else MarkReason("people", NO_CARD_REASON)
        if waiting_targets := [remediation.target for remediation in own_remediations if remediation.is_open]:
            awaits_approval = any(
                remediation.is_open
                and remediation.waiting_for == "approval"
                and remediation.current_step
                and remediation.current_step.remedy == step.remedy
                for remediation in own_remediations
            )
            return MarkReason(
                "waiting",
                f"{fold_host_names(waiting_targets)}: {'its card is waiting for approval' if awaits_approval else 'it is part of a fix under way'}",
            )
        cured = [remediation.target for remediation in own_remediations if remediation.outcome == "cured"]
        return (
            MarkReason("done", f"{fold_host_names(cured)}: proved")
            if cured
            else MarkReason("people", f"{own_remediations[-1].target}: {own_remediations[-1].says or own_remediations[-1].outcome}")
        )

    def get_wait_start(self, step: GuideStep) -> datetime | None:
        return self.running.began.get(step.id) if self.running else None

    def _get_approval_status(self, step: GuideStep) -> MarkReason:
        """Return the status of exclusive checks: one card each, in sequence."""
        unanswered_checks = [check for check in step.look if not self.was_answered(check)]
        if not unanswered_checks:
            return self._render_findings(step)
        if self.reference.checks[unanswered_checks[0]].scope != "host" and len(self.hosts) < 2:
            return MarkReason("unsure", f"{unanswered_checks[0]} measures between hosts, so it needs at least two")
        cards = [
            remediation
            for remediation in self.remediations
            if any(remediation_step.args.get("check") == unanswered_checks[0] for remediation_step in remediation.rungs)
        ]
        cards = [
            remediation
            for remediation in cards
            if set(remediation.target.split(",")) & set(self.hosts) and remediation.outcome != "withdrawn"
        ]
        if any(remediation.is_open for remediation in cards):
            return MarkReason("waiting", f"the card of {unanswered_checks[0]} is waiting for approval")
        if self.running and cards:
            return MarkReason("people", f"{unanswered_checks[0]}: {cards[-1].says or cards[-1].outcome}")
        return MarkReason("next", f"{unanswered_checks[0]} needs GPUs for itself")

    def was_answered(self, check: str) -> bool:
        """Return whether an exclusive check ran and was not merely skipped."""
        return any(fact.key != SKIPPED_KEY for fact in self._facts_by_check.get(check, ()))

    def _has_unasked_checks(self, step: GuideStep) -> bool:
        asked_checks = {(fact.host, fact.check) for check in step.look for fact in self._facts_by_check.get(check, ())}
        return any((host, check) not in asked_checks for host in self.hosts for check in step.look)

    def _render_findings(self, step: GuideStep) -> MarkReason:
        facts = [fact for check in step.look for fact in self._facts_by_check.get(check, ())]
        unobserved = [fact for fact in facts if fact.status.blind]
        if not any(not fact.status.blind for fact in facts):
            return MarkReason("unsure", f"could not look: {unobserved[0].line[:80]}" if unobserved else "no answer")
        abnormal_lines = list(
            dict.fromkeys(f"{fact.host}: {fact.format_sentence()}" for fact in facts if is_abnormal(fact, self._get_expected_value(fact)))
        )
        more = f", and {len(abnormal_lines) - 1} more" if len(abnormal_lines) > 1 else ""
        unseen = f"; could not look on {fold_host_names({fact.host for fact in unobserved})}" if unobserved else ""
        return MarkReason("done", (abnormal_lines[0] + more if abnormal_lines else "nothing abnormal") + unseen)

    def _get_observed_hosts(self, check: str) -> set[str]:
        return {fact.host for fact in self._facts_by_check.get(check, ()) if not fact.status.blind}

    def _get_expected_value(self, fact: Fact) -> bool | int | float | str | list[str] | None:
        return self.reference.expected(fact.host, fact.key, fact.device) if fact.host else None

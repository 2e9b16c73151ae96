"""B7c: a plain tool loop that chooses among RackMedic's own passive checks and sees the facts that they read."""

from typing import Literal

from graph.model.prompt_texts import shorten_text
from tests.bench.arms.arm import Answer, Stage
from tests.bench.arms.model_arms import answer_of, costing, every_label, kept, line_of, report_of
from tests.bench.arms.rule_arms import Bench
from tests.bench.model.endpoint import Typed
from tools.fact import Fact

STEPS, MOST_FACTS, MOST_SAID = 20, 60, 24_000


class Step(Typed):
    """The answer to `prompts/check_agent.md`. `hosts`: where to look, or the machines at fault."""

    do: Literal["look", "answer"]
    check: str
    labels: list[str]
    hosts: list[str]


class CheckAgent:
    """B7c: at most twenty checks, each on the hosts it names."""

    def __init__(self, steps: int = STEPS) -> None:
        self._steps = steps

    async def solve(self, stage: Stage) -> Answer:
        line, bench, said = line_of(stage), Bench(stage), list[str]()
        labels, hosts = every_label(stage), list(stage.inventory.hosts)
        checks = {check.id: check for check in stage.knowledge.checks.values() if not check.exclusive}
        offered = {"Checks": [f"{name}  {check.asks}" for name, check in checks.items()], "Causes": labels, "Hosts": hosts}
        answer = answer_of(stage, ())
        for _ in range(self._steps):
            data = {"Report": report_of(stage), "What you read": shorten_text("\n".join(said), MOST_SAID) or "nothing yet"}
            step = await line.put("check_agent", offered, data, Step, labels=labels, hosts=hosts)
            if step is None:
                continue
            if step.do == "answer":
                answer = answer_of(stage, kept(step.labels, labels), kept(step.hosts, hosts))
                break
            if step.check not in checks:
                said.append(f"{step.check[:40]}: there is no such check")
                continue
            known = len(bench.facts)
            await bench.look([(host, step.check) for host in kept(step.hosts, hosts) or hosts])
            said += [_line(fact) for fact in bench.facts[known:]][:MOST_FACTS] or [f"{step.check}: read nothing"]
        return costing(answer, stage, bench.cost)


def _line(fact: Fact) -> str:
    value = f"{fact.key}={fact.value}" if fact.key else "nothing found"
    return f"{fact.host} {fact.check} {fact.device or ''} {value} ({fact.status.value}) {fact.line[:120]}"[:240]

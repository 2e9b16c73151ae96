"""B7: an agent with a shell. The simulated cluster refuses and counts unknown commands; commands that would change a
machine are counted from their text.
"""

import shlex
from typing import Literal

from graph.model.client import shorten_text
from tests.bench.arms.arm import Answer, Cost, Stage
from tests.bench.arms.model_arms import answer_of, costing, every_label, kept, line_of, report_of
from tests.bench.case_files.write_commands import writes
from tests.bench.model.endpoint import Typed
from tools.transport import Unreachable

STEPS, MOST_SHOWN, MOST_SAID = 20, 4_000, 24_000


class Step(Typed):
    """The answer to `prompts/agent.md`."""

    do: Literal["run", "answer"]
    host: str
    command: str
    labels: list[str]
    hosts: list[str]


class FreeAgent:
    """B7: chooses its own commands, at most twenty, and sees their output."""

    def __init__(self, steps: int = STEPS) -> None:
        self._steps = steps

    async def solve(self, stage: Stage) -> Answer:
        line, said, looks, wrote = line_of(stage), list[str](), Cost(), 0
        labels, hosts = every_label(stage), list(stage.inventory.hosts)
        answer = answer_of(stage, ())
        for _ in range(self._steps):
            data = {"Report": report_of(stage), "What you ran": shorten_text("\n".join(said), MOST_SAID) or "nothing yet"}
            step = await line.put("agent", {"Hosts": hosts, "Causes": labels}, data, Step, labels=labels)
            if step is None:
                continue
            if step.do == "answer":
                answer = answer_of(stage, kept(step.labels, labels), kept(step.hosts, hosts))
                break
            wrote += writes(step.command)
            shown, seconds = await _run(stage, step.host, step.command)
            looks += Cost(makespan=seconds, check_seconds=seconds, checks=1)
            said.append(f"$ {step.host}: {step.command[:400]}\n{shown[:MOST_SHOWN]}")
        return costing(answer, stage, looks, wrote)


async def _run(stage: Stage, host: str, command: str) -> tuple[str, float]:
    try:
        ran = await stage.transport.run(host, shlex.split(command), timeout=60.0, cap=200_000)
    except (ValueError, Unreachable) as error:
        return str(error), 0.0
    return ran.text + ran.stderr.decode("utf-8", "replace"), ran.seconds

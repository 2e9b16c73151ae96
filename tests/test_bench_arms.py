"""Arms on a few cases: the oracle is always right, models are asked or not run, and the product depends on evidence, not on names."""

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from deploy.sandbox.cluster.case import parse_case
from graph.endpoint import Reply, Trouble
from graph.prompts import Asked
from graph.reasoner import BriefGuess, Declined, Judgement, Ranking, Spent
from tests.bench.arm import Answer, Arm, NotRun
from tests.bench.arms import ARMS, MODEL_FREE, why_not
from tests.bench.arms_model import Access, AidAI, EverythingAndAsk, FreeAgent, ModelFailed, OneShot, RetrieveAndAsk
from tests.bench.arms_rules import Oracle, Product, Retrieval, TaxonomyOnly
from tests.bench.generate import cases
from tests.bench.score import grounded
from tests.bench.stand import everything, stand, without
from tests.bench.truth import ABSTAIN, NO_FAULT, read_truth
from tests.bench.work import Job, marked, permutation, work

ACCESS = Access("http://127.0.0.1:9", "key", "gpt-4o")


@cache
def easy(fault: str) -> dict[str, Any]:
    """The easy case of a fault."""
    return next(raw for raw in cases("easy", "arms") if raw["faults"][0]["id"] == fault)


def solve(arm: Arm, raw: Mapping[str, Any]) -> Answer:
    """What an arm says of a case."""

    async def run() -> Answer:
        case = parse_case(dict(raw))
        knowledge = without(frozenset(read_truth(case.truth).removed))
        async with stand(case, knowledge, oracle=isinstance(arm, Oracle)) as ready:
            answer = await arm.solve(ready.stage)
            assert ready.unchanged
            assert ready.meter.commands or not answer.cost.checks
            return answer

    return asyncio.run(run())


class Saying:
    """A reasoner that answers as told and counts."""

    def __init__(self, *first: str, verdict: str = "inconclusive") -> None:
        self.wanted, self.verdict, self.asked = first, verdict, list[str]()

    async def brief(self, incident: str, text: str, hosts: object) -> BriefGuess | Declined:
        return BriefGuess()

    async def rank(self, incident: str, brief: object, facts_digest: str, labels: Any) -> Ranking | Declined:
        self.asked.append("rank")
        return Ranking(tuple(label for want in self.wanted for label in labels if want.startswith(label) or label == want))

    async def judge(self, incident: str, hypothesis: Any, facts: Any) -> Judgement | Declined:
        self.asked.append(hypothesis.label)
        return Judgement(self.verdict if hypothesis.label in self.wanted else "rejected", cites=(0,))  # type: ignore[arg-type]

    async def questions(self, *_: object) -> tuple[str, ...] | Declined:
        return Declined("not here")

    def spent(self, incident: str) -> Spent:
        return Spent(len(self.asked), 100 * len(self.asked), 10, 0.001)


def test_arms_that_need_a_model_say_so_and_are_never_made_up() -> None:
    assert set(MODEL_FREE) == {"B0", "B1", "B4r", "B5", "B8", "B10"}
    for name, row in ARMS.items():
        assert bool(why_not(name, None)) == row.model
        assert not why_not(name, ACCESS)


@pytest.mark.parametrize("layer", ["easy", "hard", "composite", "unseen", "control"])
def test_the_oracle_is_always_right(layer: str) -> None:
    for raw in cases(layer, "oracle", 20):
        assert set(solve(Oracle(), raw).labels) == set(read_truth(raw["truth"]).labels)


def test_only_the_oracle_is_handed_the_cluster() -> None:
    async def run() -> None:
        async with stand(parse_case(easy("G07")), everything()) as ready:
            assert ready.stage.cluster is None

    asyncio.run(run())
    assert [name for name, row in ARMS.items() if row.sees_cluster] == ["B10"]


def test_retrieval_reads_the_ticket_and_touches_nothing() -> None:
    answer = solve(Retrieval(), easy("G07"))
    assert answer.cost.checks == 0
    assert len(answer.labels) == 1


def test_the_product_finds_a_fault_cites_it_and_costs_less_than_looking_at_everything() -> None:
    rows = work(Job(easy("G07"), ("B8", "B4r", "B5")))
    marks = {row["arm"]: marked(row, easy("G07")) for row in rows}
    assert marks["B8"].right
    assert grounded(marks["B8"])
    assert marks["B8"].truth.hosts == set(marks["B8"].answer.hosts)
    assert marks["B8"].answer.plans[0].startswith("drain_node > reboot")
    assert marks["B8"].answer.cost.makespan < marks["B4r"].answer.cost.makespan * 0.5
    assert marks["B5"].answer.cost.checks < marks["B4r"].answer.cost.checks
    assert all(mark.unsafe == 0 and mark.unchanged for mark in marks.values())


def test_the_walk_alone_never_says_that_nothing_is_wrong_before_it_has_looked() -> None:
    control = next(cases("control", 1, 1))
    assert solve(TaxonomyOnly(), control).labels in ((ABSTAIN,), (NO_FAULT,))


def test_a_label_that_was_removed_is_known_to_nobody() -> None:
    raw = next(cases("unseen", 3, 1))
    removed = frozenset(read_truth(raw["truth"]).removed)
    knowledge = without(removed)
    assert not removed & knowledge.taxonomy.leaves.keys()
    assert not removed & {row.label for row in knowledge.past}
    assert solve(Product(), raw).labels[0] not in removed


def test_other_names_for_the_labels_change_no_answer() -> None:
    new = permutation(5)
    assert all(old.rpartition(".")[0] == name.rpartition(".")[0] for old, name in new.items())
    assert len(set(new.values())) == len(new)
    for raw in cases("hard", "names", 2):
        plain, renamed = (work(Job(raw, ("B8",), permuted=seed))[0]["answer"]["labels"] for seed in (None, 5))
        assert plain == renamed


def test_another_attempt_meets_another_world_around_the_same_fault() -> None:
    case = parse_case(easy("G01"))

    async def hashes() -> list[str]:
        found = []
        for attempt in (0, 1, 0):
            async with stand(case, everything(), attempt=attempt) as ready:
                found.append(ready.before)
        return found

    first, second, again = asyncio.run(hashes())
    assert first == again != second


def test_one_call_on_the_ticket_takes_the_models_first_label() -> None:
    label = "GPU.BUS.Fallen_Off_Bus"
    model = Saying(label)
    answer = solve(OneShot(ACCESS, model), easy("G07"))
    assert answer.labels == (label,)
    assert (answer.cost.calls, answer.cost.checks) == (1, 0)
    assert solve(OneShot(ACCESS, Saying(NO_FAULT)), easy("G07")).labels == (NO_FAULT,)
    assert solve(OneShot(ACCESS, Saying()), easy("G07")).labels == (ABSTAIN,)


def test_retrieval_with_a_call_offers_what_similar_incidents_were() -> None:
    answer = solve(RetrieveAndAsk(ACCESS, Saying(*everything().taxonomy.leaves)), easy("G07"))
    assert answer.cost.calls == 1
    assert answer.labels[0] in everything().taxonomy.leaves


def test_everything_and_a_call_pays_for_every_check() -> None:
    answer = solve(EverythingAndAsk(ACCESS, Saying("GPU.BUS.Fallen_Off_Bus")), easy("G07"))
    assert answer.labels == ("GPU.BUS.Fallen_Off_Bus",)
    assert answer.cost.checks >= len(everything().checks) * len(easy("G07")["nodes"]) * 0.9


def test_aidai_verifies_what_history_suggests_then_walks_and_looks_again_for_every_sibling() -> None:
    label = "GPU.BUS.PCIe_Link_Downgraded"
    model = Saying("GPU.BUS.Fallen_Off_Bus", label, verdict="confirmed")
    model.wanted = (label,)
    answer = solve(AidAI(ACCESS, model), easy("G09"))
    assert answer.labels == (label,)
    assert model.asked[-1] == label
    assert answer.cost.checks > 0
    assert answer.cost.calls == len(model.asked)


def test_a_model_that_does_not_answer_is_no_result() -> None:
    class Mute(Saying):
        async def rank(self, *_: object, **__: object) -> Ranking | Declined:
            return Declined("over budget")

    with pytest.raises(NotRun, match="over budget"):
        solve(OneShot(ACCESS, Mute()), easy("G07"))


class Script:
    """An endpoint that plays the free agent's part."""

    model = "gpt-4o"

    def __init__(self, *steps: dict[str, Any] | Trouble) -> None:
        self.steps, self.heard = list(steps), list[str]()

    async def ask(self, asked: Asked, name: str, schema: Mapping[str, Any]) -> Reply | Trouble:
        self.heard.append(asked.user)
        step = self.steps.pop(0)
        return step if isinstance(step, Trouble) else Reply(json.dumps(step), 100, 10)


def _run(host: str, command: str) -> dict[str, Any]:
    return {"do": "run", "host": host, "command": command, "labels": [], "hosts": []}


def test_a_free_agent_sees_what_it_runs_and_pays_for_it() -> None:
    host = easy("G07")["faults"][0]["node"]
    done = {"do": "answer", "host": "", "command": "", "labels": ["GPU.BUS.Fallen_Off_Bus"], "hosts": [host]}
    script = Script(_run(host, "nvidia-smi -q -x"), done)
    answer = solve(FreeAgent(ACCESS, lambda: script), easy("G07"))
    assert (answer.labels, answer.hosts) == (("GPU.BUS.Fallen_Off_Bus",), (host,))
    assert "nvidia_smi_log" in script.heard[1]
    assert (answer.cost.calls, answer.cost.checks) == (2, 1)
    assert answer.cost.makespan > 0


def test_what_a_free_agent_may_not_run_is_refused_and_counted() -> None:
    host = easy("G07")["nodes"][0]

    async def run() -> int:
        async with stand(parse_case(easy("G07")), everything()) as ready:
            script = Script(
                _run(host, "nvidia-smi -r"), _run(host, "reboot"), _run("nowhere", "ls"), _run(host, "'"), {"do": "answer", "labels": []}
            )
            answer = await FreeAgent(ACCESS, lambda: script).solve(ready.stage)
            assert answer.labels == (ABSTAIN,)
            assert ready.unchanged
            return ready.cluster.unsafe_command_count

    assert asyncio.run(run()) == 2


def test_a_free_agent_that_never_answers_abstains() -> None:
    host = easy("G07")["nodes"][0]
    script = Script(*[_run(host, "uname -r")] * 3)
    assert solve(FreeAgent(ACCESS, lambda: script, steps=3), easy("G07")).labels == (ABSTAIN,)
    with pytest.raises(ModelFailed, match="gone"):
        solve(FreeAgent(ACCESS, lambda: Script(Trouble("gone"))), easy("G07"))


async def test_the_same_case_behind_real_ssh_is_solved_as_well() -> None:
    case = parse_case(easy("S10"))
    async with stand(case, everything(), transport="ssh") as ready:
        answer = await Product().solve(ready.stage)
        assert answer.labels == ("SYSTEM_SOFTWARE.STORAGE.Root_FS_Full",)
        assert ready.cluster.unsafe_command_count == 0
        assert ready.unchanged

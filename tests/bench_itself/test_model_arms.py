"""Model arms on a few cases: questions, order of checks, cost, and acceptance of offered ids only."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from graph.model.endpoint import EndpointFailure
from tests.bench.aidai.arm import CATEGORY_CHECKS, AidAI
from tests.bench.arms.arm import NotRun
from tests.bench.arms.check_agent import CheckAgent
from tests.bench.arms.free_agent import FreeAgent
from tests.bench.arms.model_arms import EverythingAndAsk, OneShot, RetrieveAndAsk
from tests.bench.arms.rule_arms import Product
from tests.bench.case_files.generate import cases
from tests.bench.case_files.truth import ABSTAIN, NO_FAULT
from tests.bench.case_files.write_commands import writes
from tests.bench.model.endpoint import ModelFailed
from tests.bench.run.setup import everything
from tests.support.fakes_bench_model import FakeModel, listed, solve

OFF_BUS, DOWNGRADED = "GPU.BUS.Fallen_Off_Bus", "GPU.BUS.PCIe_Link_Downgraded"


@cache
def easy(fault: str) -> dict[str, Any]:
    return next(raw for raw in cases("easy", "arms") if raw["faults"][0]["id"] == fault)


def causes(*labels: str, hosts: tuple[str, ...] = ()) -> FakeModel:
    return FakeModel(lambda name, user, schema: {"labels": list(labels), "hosts": list(hosts)})


async def test_one_call_on_the_ticket_takes_the_models_labels_and_looks_at_nothing() -> None:
    host = easy("G07")["faults"][0]["node"]
    model = causes(OFF_BUS, hosts=(host,))
    done = await solve(OneShot(), easy("G07"), model)
    assert (done.answer.labels, done.answer.hosts) == ((OFF_BUS,), (host,))
    assert (done.answer.cost.calls, done.answer.cost.tokens_in, done.answer.cost.checks) == (1, 100, 0)
    assert done.answer.cost.usd == pytest.approx((100 * 2.5 + 10 * 10) / 1e6)
    assert len(listed(model.asked[0][1], "Causes")) == len(everything().taxonomy.leaves) + 1
    assert (await solve(OneShot(), easy("G07"), causes(NO_FAULT, OFF_BUS))).answer.labels == (NO_FAULT,)
    assert (await solve(OneShot(), easy("G07"), causes())).answer.labels == (ABSTAIN,)


async def test_retrieval_with_a_call_offers_only_what_similar_incidents_were() -> None:
    model = FakeModel(lambda name, user, schema: {"labels": listed(user, "Causes")[1:2], "hosts": []})
    done = await solve(RetrieveAndAsk(), easy("G07"), model)
    offered = listed(model.asked[0][1], "Causes")
    assert 2 <= len(offered) <= 6
    assert done.answer.labels == (offered[1],)
    assert done.answer.cost.calls == 1


async def test_everything_and_a_call_pays_for_every_check_and_is_told_no_opinion_of_the_rules() -> None:
    model = causes(OFF_BUS)
    done = await solve(EverythingAndAsk(), easy("G07"), model)
    assert done.answer.labels == (OFF_BUS,)
    assert done.answer.cost.checks >= len(everything().checks) * len(easy("G07")["nodes"]) * 0.9
    findings = model.asked[0][1].partition("Findings:")[2]
    assert "fallen off the bus" in findings
    assert "nothing abnormal: " in findings
    assert not [label for label in everything().taxonomy.leaves if label in findings]


class Planner(FakeModel):
    """AidAI's agents: explore `path`, validate `valid`, choose `alike` as similar."""

    def __init__(self, *path: str, valid: tuple[str, ...] = (), alike: int = 0) -> None:
        super().__init__(self._say)
        self.path, self.valid, self.alike = path, valid, alike

    def _say(self, name: str, user: str, schema: Mapping[str, Any]) -> Any:
        match name:
            case "summary":
                return {"summary": "a job died"}
            case "rerank":
                return {"incidents": listed(user, "Past incidents")[: self.alike]}
            case "rank":
                return {"labels": [one for one in listed(user, "Causes") if any(_on_path(one, leaf) for leaf in self.path)]}
            case "judge":
                label = listed(user, "Suspected cause")[0].partition(" of ")[0]
                cites = [str(at) for at in range(user.partition("Findings:")[2].count("\n") - 2)]
                return {"verdict": "confirmed" if label in self.valid else "rejected", "because": "so it is", "cites": cites}
            case "conclusion":
                return {"causes": listed(user, "Causes"), "report": "done"}
        return {"labels": [OFF_BUS, DOWNGRADED], "hosts": []}


def _on_path(node: str, leaf: str) -> bool:
    return leaf == node or leaf.startswith(f"{node}.")


async def test_aidai_verifies_both_historical_hypotheses_before_anything_else() -> None:
    model = Planner()
    await solve(AidAI(), easy("G09"), model)
    assert model.names[:2] == ["summary", "rerank"]
    first = [name for name in model.names if name in ("judge", "rank")]
    assert 1 <= first.index("rank") <= 2
    assert "judge" in first[: first.index("rank")]


async def test_aidai_ends_after_history_where_a_hypothesis_of_it_is_valid() -> None:
    model = Planner(valid=tuple(everything().taxonomy.leaves))
    done = await solve(AidAI(), easy("G09"), model)
    assert "rank" not in model.names
    assert model.names[-1] == "conclusion"
    assert 1 <= len(done.answer.labels) <= 2
    assert done.answer.cost.calls == len(model.asked)


async def test_aidai_explores_every_branch_it_did_not_prune_also_after_a_valid_cause() -> None:
    other = "SYSTEM_SOFTWARE.STORAGE.Root_FS_Full"
    model = Planner(OFF_BUS, DOWNGRADED, other, valid=(DOWNGRADED, other))
    done = await solve(AidAI(), easy("G09"), model)
    assert set(done.answer.labels) == {DOWNGRADED, other}
    assert model.names.count("rank") == 5  # the root, two categories, two branches
    assert model.names[-1] == "conclusion"
    assert done.answer.evidence


async def test_aidai_gives_the_planner_what_ancestors_saw_and_nothing_of_siblings() -> None:
    model = Planner(OFF_BUS, DOWNGRADED)
    await solve(AidAI(), easy("G09"), model)
    ranks = [user for name, user in model.asked if name == "rank"]
    findings = [user.partition("Findings:")[2] for user in ranks]
    assert "none" in findings[0]
    assert "nothing abnormal: smi, nvlink" in findings[1] or " smi: " in findings[1]
    judged = [user.partition("Findings:")[2] for name, user in model.asked if name == "judge"][-2:]
    assert len(set(judged)) == 2


async def test_aidai_looks_again_for_every_sibling_and_one_check_at_a_time() -> None:
    one = await solve(AidAI(), easy("G09"), Planner(OFF_BUS))
    two = await solve(AidAI(), easy("G09"), Planner(OFF_BUS, DOWNGRADED))
    leaf = everything().taxonomy.get_leaf(DOWNGRADED)
    again = {*leaf.checks, *leaf.confirms} & everything().checks.keys()
    assert two.answer.cost.checks - one.answer.cost.checks >= len(again)
    assert two.answer.cost.makespan > one.answer.cost.makespan


async def test_aidai_stops_early_where_no_child_is_relevant_and_then_suggests() -> None:
    model = Planner()
    done = await solve(AidAI(), easy("G09"), model)
    assert model.names.count("rank") == 1
    assert model.names[-1] == "causes"
    assert done.answer.labels == (OFF_BUS,)


def test_every_category_of_the_taxonomy_has_a_row_of_table_7() -> None:
    assert set(CATEGORY_CHECKS) == set(everything().taxonomy.list_children(""))
    assert {check for checks in CATEGORY_CHECKS.values() for check in checks} <= set(everything().checks)


async def test_the_product_asks_at_most_what_a_ticket_means_where_the_machines_decide() -> None:
    model = causes()
    done = await solve(Product(model=True), easy("G07"), model)
    assert done.answer.labels == (OFF_BUS,)
    assert model.names in ([], ["read"])
    assert done.answer.cost.calls == len(model.asked)


async def test_without_a_line_an_arm_is_not_run() -> None:
    from deploy.sandbox.cluster.cases.reader import parse_case
    from tests.bench.run.setup import stand

    for arm in (OneShot(), RetrieveAndAsk(), EverythingAndAsk(), AidAI(), FreeAgent(), CheckAgent(), Product(model=True)):
        async with stand(parse_case(easy("S10")), everything()) as ready:
            with pytest.raises(NotRun, match="no model"):
                await arm.solve(ready.stage)


@pytest.mark.parametrize(
    "arm", [OneShot(), RetrieveAndAsk(), EverythingAndAsk(), AidAI(), FreeAgent(), CheckAgent()], ids=lambda arm: type(arm).__name__
)
async def test_a_model_that_does_not_answer_is_no_result(arm: Any) -> None:
    with pytest.raises(ModelFailed, match="gone"):
        await solve(arm, easy("S10"), FakeModel(lambda *_: EndpointFailure("the endpoint is gone")))


async def test_the_product_goes_on_without_a_model_that_fails_and_the_run_is_still_no_result_of_it() -> None:
    raw = next(raw for raw in cases("unseen", 3, 8) if (raw["ticket"]["text"]))
    done = await solve(Product(model=True), raw, FakeModel(lambda *_: EndpointFailure("the endpoint is gone")))
    assert done.answer.labels
    assert bool(done.line.dead) == bool(done.line.told)


def _run(host: str, command: str) -> dict[str, Any]:
    return {"do": "run", "host": host, "command": command, "labels": [], "hosts": []}


def _done(*labels: str, hosts: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"do": "answer", "host": "", "command": "", "labels": list(labels), "hosts": list(hosts)}


def script(*steps: Any) -> FakeModel:
    left = list(steps)
    return FakeModel(lambda name, user, schema: left.pop(0))


async def test_a_free_agent_sees_what_it_runs_and_pays_for_it() -> None:
    host = easy("G07")["faults"][0]["node"]
    model = script(_run(host, "nvidia-smi -q -x"), _done(OFF_BUS, hosts=(host,)))
    done = await solve(FreeAgent(), easy("G07"), model)
    assert (done.answer.labels, done.answer.hosts) == ((OFF_BUS,), (host,))
    assert "nvidia_smi_log" in model.asked[1][1]
    assert (done.answer.cost.calls, done.answer.cost.checks) == (2, 1)
    assert done.answer.cost.makespan > 0
    assert (done.unsafe, done.answer.writes) == (0, 0)


async def test_what_a_free_agent_may_not_run_is_refused_and_writes_are_counted() -> None:
    host = easy("G07")["nodes"][0]
    steps = ("nvidia-smi -r", "sudo reboot", "dmesg | tail -5", "'", "")
    done = await solve(FreeAgent(), easy("G07"), script(*(_run(host, one) for one in steps), _run("nowhere", "ls"), "prose", _done()))
    assert done.answer.labels == (ABSTAIN,)
    assert done.answer.writes == 2
    assert done.unsafe >= 3
    assert done.answer.cost.calls == 8


async def test_a_tool_loop_sees_the_facts_of_the_checks_it_chooses_and_of_no_others() -> None:
    host = easy("G07")["faults"][0]["node"]
    steps = [{"do": "look", "check": check, "hosts": [host], "labels": []} for check in ("dmesg", "rm -rf /")]
    answer = {"do": "answer", "check": "", "hosts": [host], "labels": [OFF_BUS]}
    model = script(*steps, answer)
    done = await solve(CheckAgent(), easy("G07"), model)
    assert (done.answer.labels, done.answer.hosts) == ((OFF_BUS,), (host,))
    assert "kernel.xid=79" in model.asked[1][1]
    assert "there is no such check" in model.asked[2][1]
    assert (done.answer.cost.calls, done.answer.cost.checks, done.unsafe) == (3, 1, 0)


async def test_a_free_agent_that_never_answers_abstains() -> None:
    host = easy("G07")["nodes"][0]
    done = await solve(FreeAgent(steps=3), easy("G07"), script(*[_run(host, "uname -r")] * 3))
    assert done.answer.labels == (ABSTAIN,)


WRITE = """sudo reboot;systemctl restart nvidia-fabricmanager;nvidia-smi -i 3 --gpu-reset;nvidia-smi -r;nvidia-smi -pl 300;kill -9 4711
echo 1 > /sys/bus/pci/rescan;dmesg >> log.txt;bash -c 'rm -rf /tmp/x';ls && sudo -n modprobe -r nvidia;ps aux | xargs kill
scontrol update nodename=n1 state=drain;scancel 12;docker restart job;mount -o remount,rw /;mount -a;sed -i s/a/b/ /etc/fstab;tee /etc/x
ip link set ib0 up;env A=b timeout 5 /usr/sbin/rmmod nvidia_uvm;apt-get -y install x;kubectl -n kube-system cordon n1;sysctl -w vm.x=1
x=$(pkill python);sh -c "systemctl stop docker";ipmitool chassis power cycle;ibportstate 4 1 reset;nvidia-smi mig -cgi 9;mkfs.xfs /dev/sdb"""
READ = """nvidia-smi;nvidia-smi -q -x;nvidia-smi dmon -c 1;nvidia-smi topo -m;dmesg -T | tail -100;journalctl -k --since -1h 2>/dev/null
systemctl status nvidia-fabricmanager;cat /proc/mounts;mount;mount | grep nfs;ip -s link show;ibstat;scontrol show node n1;docker ps -a
grep -r 'rm -rf' /var/log;ls -la / 2>&1;echo "a > b";kill -l;kubectl get pods;lspci -vvv;awk '$3 > 4' /proc/meminfo;docker logs job
sudo dmidecode -t memory;rpm -qa;dpkg -l;ethtool ib0;sysctl vm.swappiness;crontab -l;cat x | sort;ipmitool sel list;modprobe -n nvidia;'"""


def test_what_would_change_a_machine_is_told_from_what_would_not() -> None:
    split = [one for text in (WRITE, READ) for line in text.splitlines() for one in line.split(";")]
    wrong = [one for one in split if writes(one) != (one in {part for line in WRITE.splitlines() for part in line.split(";")})]
    assert wrong == []

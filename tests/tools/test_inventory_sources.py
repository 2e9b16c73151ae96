"""Inventories from Slurm, Kubernetes and Ansible: parsers, and how sources merge with a file's rows."""

import contextlib
import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.inventory.host_ranges import expand_host_range
from tools.inventory.inventory import BadInventory, Inventory, parse_inventory
from tools.inventory.job_lookup import JobHosts, NoHostsReason, SlurmJobFinder
from tools.inventory.sources import ansible, kubernetes, slurm
from tools.inventory.sources.loader import open_inventory
from tools.inventory.sources.source import BadSource, run_here
from tools.transport import CommandResult, Transport, Unreachable

pytestmark = pytest.mark.slow


PLAIN = """\
NodeName=gpu-001 Arch=x86_64 CoresPerSocket=56 Gres=gpu:h100:8(S:0-1) NodeAddr=10.0.0.1 NodeHostName=gpu-001 OS=Linux 5.15.0 #1 SMP State=IDLE Partitions=train,all MCS_label=N/A
NodeName=gpu-002 Arch=x86_64 Gres=gpu:h100:8 NodeAddr=gpu-002 State=IDLE+DRAIN Partitions=train,all Reason=Xid 79, Owner=ops [root@2026-05-20T03:00:00]
NodeName=cpu-001 Arch=x86_64 Gres=(null) NodeAddr=10.0.1.1 State=IDLE Partitions=all
"""
JSON = json.dumps(
    {
        "nodes": [
            {"name": "gpu-001", "address": "10.0.0.1", "gres": "gpu:h100:8(S:0-1)", "partitions": ["train", "all"], "state": ["IDLE"]},
            {"name": "gpu-002", "address": "gpu-002", "gres": "gpu:h100:8", "partitions": ["train", "all"], "state": ["IDLE", "DRAIN"]},
            {"name": "cpu-001", "address": "10.0.1.1", "gres": "", "partitions": ["all"]},
        ],
        "errors": [],
    }
)
JOB = """\
JobId=4711 JobName=pre train
   UserId=alice(2071) GroupId=ml(2000) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Partition=train AllocNode:Sid=login1:77 ReqNodeList=(null) ExcNodeList=(null)
   NodeList=gpu-[001-002]
   BatchHost=gpu-001
   NumNodes=2 NumCPUs=224 NumTasks=16 CPUs/Task=14 ReqB:S:C:T=0:0:*:*
     Nodes=gpu-[001-002] CPU_IDs=0-111 Mem=0 GRES=gpu:h100:8(IDX:0-7)
   WorkDir=/home/alice/run
"""


@pytest.mark.parametrize(
    "text", [PLAIN, JSON, PLAIN.replace(" Arch", "\n   Arch").replace(" Gres", "\n   Gres")], ids=["o", "json", "blocks"]
)
def test_slurm_gives_gpu_nodes_by_partition_with_their_addresses(text: str) -> None:
    rows = slurm.parse_nodes(text)
    assert rows.groups == {"train": ["gpu-001", "gpu-002"], "all": ["gpu-001", "gpu-002"]}
    assert rows.hosts == {"gpu-001": {"address": "10.0.0.1"}}


def test_a_cluster_that_names_no_gpus_gives_all_its_nodes() -> None:
    assert slurm.parse_nodes("NodeName=a1 Partitions=p\nNodeName=a2 Partitions=p\n").groups == {"p": ["a1", "a2"]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no node"),
        ("slurm_load_node error: Unable to contact slurm controller", "begins with no NodeName="),
        ("{", "is no JSON"),
        ('{"nodes": 1}', "`nodes` is missing"),
        ('{"nodes": [{"name": "a1"}, {}]}', "nodes[1].name"),
        ("NodeName=-o Partitions=p", "NodeName '-o' is no host name"),
    ],
)
def test_bad_slurm_output_names_field_or_line(text: str, told: str) -> None:
    with pytest.raises(BadSource) as bad:
        slurm.parse_nodes(text)
    assert told in str(bad.value)


def test_a_job_tells_hosts_ranks_and_environment() -> None:
    job = slurm.parse_job(JOB)
    assert (job.id, job.hosts, job.ranks, job.state) == ("4711", ("gpu-001", "gpu-002"), 16, "RUNNING")
    assert job.environment["SLURM_JOB_NODELIST"] == "gpu-[001-002]"
    assert job.environment["SLURM_SUBMIT_DIR"] == "/home/alice/run"
    document = {"jobs": [{"job_id": 4711, "nodes": "gpu-[001-002]", "tasks": {"set": True, "number": 16}, "job_state": ["RUNNING"]}]}
    assert (slurm.parse_job(json.dumps(document)).hosts, slurm.parse_job(json.dumps(document)).ranks) == (job.hosts, 16)


def tasks(*rows: str) -> str:
    """Return records of an array or heterogeneous job as scontrol 22.05 prints them."""
    return "\n\n".join(f"{row}\n   JobState=RUNNING Reason=None\n   Partition=train AllocNode:Sid=ctl:0\n   Power=\n   " for row in rows)


def test_an_array_is_all_of_its_tasks_and_their_hosts() -> None:
    job = slurm.parse_job(
        tasks(
            "JobId=1 ArrayJobId=1 ArrayTaskId=4-9%2 JobName=wrap NodeList=(null) NumTasks=1",
            "JobId=8 ArrayJobId=1 ArrayTaskId=1 JobName=wrap NodeList=gpu-002 NumTasks=1",
            "JobId=7 ArrayJobId=1 ArrayTaskId=0 JobName=wrap NodeList=gpu-[001-002] NumTasks=8",
        )
    )
    assert (job.id, job.hosts, job.ranks, job.tasks, job.state) == ("1", ("gpu-002", "gpu-001"), 10, 8, "RUNNING")
    assert job.environment["SLURM_JOB_NAME"] == "wrap"
    assert "SLURM_JOB_NODELIST" not in job.environment


def test_a_task_of_an_array_is_called_as_people_call_it() -> None:
    job = slurm.parse_job(tasks("JobId=7 ArrayJobId=1 ArrayTaskId=0 JobName=wrap NodeList=gpu-001 NumTasks=1"))
    assert (job.id, job.hosts, job.tasks) == ("1_0", ("gpu-001",), 1)


def test_a_job_of_several_parts_is_all_of_them() -> None:
    parts = [f"JobId={n} HetJobId=2 HetJobOffset={n - 2} JobName=wrap NodeList=gpu-00{n} NumTasks=4" for n in (2, 3)]
    job = slurm.parse_job(tasks(*parts))
    assert (job.id, job.hosts, job.ranks, job.tasks) == ("2", ("gpu-002", "gpu-003"), 8, 2)
    unset, rows = {"set": False, "number": 0}, [("2", "gpu-002"), ("3", "gpu-003")]
    document = {
        "jobs": [{"job_id": int(n), "het_job_id": {"set": True, "number": 2}, "array_job_id": unset, "nodes": host} for n, host in rows]
    }
    assert (slurm.parse_job(json.dumps(document)).id, slurm.parse_job(json.dumps(document)).hosts) == ("2", job.hosts)


def test_a_waiting_job_has_no_hosts_and_an_unknown_one_is_refused() -> None:
    assert slurm.parse_job("JobId=1 JobState=PENDING\n NodeList=(null) NumTasks=1").hosts == ()
    with pytest.raises(BadSource, match="Invalid job id"):
        slurm.parse_job("slurm_load_jobs error: Invalid job id specified")


@given(st.text(max_size=300))
def test_any_text_is_rows_or_a_refusal(text: str) -> None:
    for read in (slurm.parse_nodes, slurm.parse_job, kubernetes.parse_nodes, ansible.parse_list):
        with contextlib.suppress(BadSource):
            read(text)


def node(name: str, **more: Any) -> dict[str, Any]:
    labels = more.pop("labels", {})
    addresses = [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "10.1.0.9"}]
    return {"metadata": {"name": name, "labels": labels}, "status": {"addresses": addresses, "capacity": more}}


def test_kubernetes_gives_gpu_nodes_by_pool() -> None:
    items = [
        node("ip-10-1-0-9.ec2.internal", **{"nvidia.com/gpu": "8"}, labels={"eks.amazonaws.com/nodegroup": "h100"}),
        node("lost", **{"nvidia.com/gpu": "0"}),
        node("plain", cpu="8"),
    ]
    rows = kubernetes.parse_nodes(json.dumps({"kind": "List", "items": items}))
    assert rows.groups == {"kubernetes": ["ip-10-1-0-9.ec2.internal", "lost"], "h100": ["ip-10-1-0-9.ec2.internal"]}
    assert rows.hosts["lost"] == {"address": "10.1.0.9"}


@pytest.mark.parametrize(
    ("text", "told"),
    [("x", "no JSON"), ("{}", "`items`"), ('{"items": [{}]}', "items[0].metadata.name"), ('{"items": []}', "no node has nvidia.com/gpu")],
)
def test_bad_kubernetes_output_names_the_field(text: str, told: str) -> None:
    with pytest.raises(BadSource) as bad:
        kubernetes.parse_nodes(text)
    assert told in str(bad.value)


INI = """
bastion ansible_host=192.0.2.1
[train]
gpu-[001:003] ansible_port=2222   # the new ones
gpu-010 ansible_user=root
[train:vars]
ansible_user=ops
ansible_ssh_common_args='-o ProxyJump=jump@bastion:2200 -o X=y'
[infer]
inf-[a:b]
[gpu:children]
train
infer
[gpu:vars]
ansible_ssh_private_key_file=/etc/key
ansible_user=nobody
[all:vars]
ansible_python_interpreter=/usr/bin/python3
"""
YAML = """
all:
  hosts: {bastion: {ansible_host: 192.0.2.1}}
  children:
    gpu:
      vars: {ansible_ssh_private_key_file: /etc/key, ansible_user: nobody}
      children:
        train:
          vars: {ansible_user: ops, ansible_ssh_common_args: "-o ProxyJump=jump@bastion:2200"}
          hosts:
            gpu-[001:003]: {ansible_port: 2222}
            gpu-010: {ansible_user: root}
        infer:
          hosts: {"inf-[a:b]": }
"""


def nobody(inventory: Inventory) -> Transport:
    """Fail if a host is contacted."""
    raise AssertionError(f"nobody asks {', '.join(inventory.hosts)}")


@pytest.fixture
def with_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put this environment's real Ansible on PATH, beside user settings that must be ignored."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.delenv("ANSIBLE_CONFIG", raising=False)


async def of_ansible(where: Path, **more: Any) -> Inventory:
    """Return the inventory of a file that names only an Ansible inventory."""
    file = where.parent / "inventory.yaml"
    file.write_text(json.dumps({"sources": [{"ansible": str(where), **more}]}))
    return await open_inventory(file, nobody)


SEALED = r'!vault "$ANSIBLE_VAULT;1.1;AES256\n6231\n"'
LISTED = {
    "_meta": {"hostvars": {"n1": {"ansible_user": "ops", "secret": "hunter2"}}},
    "all": {"children": ["ungrouped", "outer"]},
    "outer": {"hosts": ["n2"], "children": ["train"]},
    "train": {"hosts": ["n1"]},
}


@pytest.mark.usefixtures("with_ansible")
@pytest.mark.parametrize("form", ["ini", "yaml"])
async def test_ansible_gives_groups_ranges_and_the_nearest_variables(form: str, tmp_path: Path) -> None:
    file = tmp_path / f"hosts.{form}"
    file.write_text(INI if form == "ini" else YAML)
    inventory = await of_ansible(file)
    hosts = inventory.hosts
    assert inventory.groups["train"] == ("gpu-001", "gpu-002", "gpu-003", "gpu-010")
    assert set(inventory.groups["gpu"]) == {*inventory.groups["train"], "inf-a", "inf-b"}
    assert inventory.groups["ungrouped"] == ("bastion",)
    two = hosts["gpu-002"]
    assert (two.port, two.user, two.key, two.jump, two.group) == (2222, "ops", "/etc/key", "jump@bastion:2200", "train")
    assert (hosts["gpu-010"].user, hosts["inf-a"].user, hosts["bastion"].address) == ("root", "nobody", "192.0.2.1")


@pytest.mark.usefixtures("with_ansible")
async def test_variables_of_group_vars_and_host_vars_count_as_they_do_for_ansible(tmp_path: Path) -> None:
    for folder, name, text in (
        ("group_vars", "train.yml", "ansible_user: ops\nansible_port: 2022\nansible_become_password: hunter2\n"),
        ("host_vars", "gpu-001.yml", "ansible_host: 10.0.0.1\nansible_port: 2200\n"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    (tmp_path / "hosts.ini").write_text("[train]\ngpu-[001:002]\n")
    inventory = await of_ansible(tmp_path / "hosts.ini")
    one, two = inventory.hosts["gpu-001"], inventory.hosts["gpu-002"]
    assert (one.user, one.port, one.address) == ("ops", 2200, "10.0.0.1")
    assert (two.user, two.port, two.address) == ("ops", 2022, "gpu-002")
    assert "hunter2" not in inventory.model_dump_json()


@pytest.mark.usefixtures("with_ansible")
async def test_a_user_s_ansible_cfg_counts_only_where_the_row_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own.cfg"
    own.write_text("[defaults]\nhash_behaviour = merge\n[inventory]\nenable_plugins = yaml\n")
    monkeypatch.setenv("ANSIBLE_CONFIG", str(own))
    (tmp_path / "hosts.ini").write_text("[train]\nn1\n")
    assert set((await of_ansible(tmp_path / "hosts.ini")).hosts) == {"n1"}
    with pytest.raises(BadInventory, match="Completely failed to parse"):
        await of_ansible(tmp_path / "hosts.ini", config=str(own))


@pytest.mark.usefixtures("with_ansible")
@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("hosts.ini", "[a]\nn1 secret=hunter2 loose\n", "Completely failed to parse inventory source"),
        ("hosts.yml", "all:\n  hosts:\n    n1: {ansible_password: hunter2, ansible_port: [}\n", "hosts.yml:3"),
        ("hosts.yml", "all:\n  hosts: {n1: {secret: hunter2}}\n  guests: {}\n", "Skipping unexpected key (guests) in group (all)"),
        ("hosts.ini", "[a]\nn1 ansible_host={{ip}} secret=hunter2\n", "host n1: ansible_host is a template"),
        ("hosts.ini", "[a]\nn1 ansible_port=ssh secret=hunter2\n", "host n1: ansible_port 'ssh' is no port"),
        ("hosts.yml", f"all: {{hosts: {{n1: {{ansible_user: {SEALED}}}}}}}\n", "host n1: ansible_user is encrypted"),
        ("hosts.yml", "all: {hosts: {n1: {ansible_user: [hunter2]}}}\n", "host n1: ansible_user is no text"),
        ("hosts.ini", "[a:children]\nb\n[b:children]\na\n[b]\nn1\n", "ansible-inventory: "),
        ("hosts.ini", "", "the inventory names no host"),
    ],
)
async def test_a_bad_ansible_inventory_is_refused_by_host_and_variable_and_quotes_no_other_value(
    name: str, text: str, told: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInventory) as bad:
        await of_ansible(tmp_path / name)
    assert told in str(bad.value)
    assert "hunter2" not in str(bad.value)


async def test_where_ansible_is_not_installed_its_saved_answer_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "env").symlink_to("/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "hosts.ini").write_text("[train]\nn1\n")
    with pytest.raises(BadInventory, match=r"sources\.0: ansible-inventory: cannot be run here; install ansible-core, or save"):
        await of_ansible(tmp_path / "hosts.ini")
    (tmp_path / "hosts.json").write_text(json.dumps(LISTED))
    inventory = await of_ansible(tmp_path / "hosts.json")
    assert (inventory.groups, inventory.hosts["n1"].user) == ({"outer": ("n2", "n1"), "train": ("n1",)}, "ops")


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ("[", "is no JSON"),
        ("[]", "is no JSON object"),
        ("{}", "names no host"),
        ('{"a": {"hosts": ["-bad"]}}', "'-bad' is no host name"),
        ('{"a": {"children": ["b"]}, "b": {"children": ["a"], "hosts": ["n1"]}}', "its own child (a > b > a)"),
        ('{"_meta": {"hostvars": {"n1": {"ansible_port": 70000}}}, "a": {"hosts": ["n1"]}}', "host n1: ansible_port '70000' is no port"),
    ],
)
def test_a_bad_answer_of_ansible_names_what_is_wrong(listed: str, told: str) -> None:
    with pytest.raises(BadSource) as bad:
        ansible.parse_list(listed)
    assert told in str(bad.value)


def test_of_two_variables_for_one_thing_the_later_counts_and_no_variable_becomes_an_option() -> None:
    both = {"ansible_ssh_user": "new", "ansible_user": "old"}
    listed = {"_meta": {"hostvars": {"n1": both}}, "a": {"hosts": ["n1"]}}
    assert ansible.parse_list(json.dumps(listed)).hosts["n1"] == {"user": "new"}
    assert ansible.build_list_argv(Path("/x/-y"))[-3:] == ("ansible-inventory", "--inventory=/x/-y", "--list")
    with pytest.raises(BadSource, match="comma"):
        ansible.build_list_argv(Path("/x/a,b"))


@pytest.mark.usefixtures("with_ansible")
async def test_a_file_takes_hosts_from_its_sources_and_has_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "hosts.ini").write_text(INI)
    (tmp_path / "nodes.txt").write_text(PLAIN)
    (tmp_path / "inventory.yaml").write_text(
        f"""
defaults: {{user: rackmedic, key: /etc/id, known_hosts: /etc/known}}
sources:
  - ansible: {tmp_path / "hosts.ini"}
  - slurm: {tmp_path / "nodes.txt"}
groups:
  train: {{sku: dgx-h100-8, tenant: acme}}
hosts:
  gpu-001: {{user: special}}
"""
    )
    inventory = await open_inventory(tmp_path / "inventory.yaml", nobody)
    first, second = inventory.hosts["gpu-001"], inventory.hosts["gpu-002"]
    assert (first.user, first.address, first.port, first.key) == ("special", "10.0.0.1", 2222, "/etc/key")
    assert (second.user, second.sku, second.tenant) == ("ops", "dgx-h100-8", "acme")
    assert inventory.hosts["inf-a"].known_hosts == "/etc/known"


async def test_a_source_can_stand_where_a_file_is_expected(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(JSON)
    inventory = await open_inventory(Path(f"slurm:{tmp_path / 'nodes.json'}"), nobody)
    assert [host.name for host in inventory.select_hosts("train")] == ["gpu-001", "gpu-002"]
    assert inventory.slurm == ()


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        ("x", "sources: must be a list"),
        ("[{chef: x}]", "sources.0: must be one of slurm, kubernetes, ansible"),
        ("[{slurm: '', config: /x}]", "sources.0: must be one of slurm, kubernetes, ansible"),
        ("[{ansible: ''}]", "sources.0: ansible: name the inventory file"),
        ("[{ansible: /no/such}, {kubernetes: /no/such}]", "sources.1: /no/such: cannot be read"),
        ("[{slurm: login9}]", "sources.0: slurm: 'login9' is not among the file's own hosts"),
    ],
)
async def test_a_bad_source_is_named_by_its_place(tmp_path: Path, sources: str, told: str) -> None:
    (tmp_path / "inventory.yaml").write_text(f"sources: {sources}\n")
    with pytest.raises(BadInventory) as bad:
        await open_inventory(tmp_path / "inventory.yaml", nobody)
    assert any(told in problem for problem in bad.value.problems), bad.value.problems


class Login:
    """A host with Slurm's commands; old versions have no --json."""

    def __init__(self, answers: Mapping[tuple[str, ...], CommandResult]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.asked.append((host, tuple(argv)))
        if tuple(argv) not in self.answers:
            raise Unreachable(host, "no route to host")
        return self.answers[tuple(argv)]

    async def aclose(self) -> None: ...


async def test_slurm_is_asked_on_a_host_in_json_first_and_plainly_where_it_is_old(tmp_path: Path) -> None:
    login = Login(
        {
            slurm.NODES_JSON_COMMAND: CommandResult(b"", b"scontrol: unrecognized option '--json'", 1),
            slurm.NODES_PLAIN_COMMAND: CommandResult(PLAIN.encode()),
        }
    )

    def reach(inventory: Inventory) -> Transport:
        assert set(inventory.hosts) == {"login1"}
        return login

    (tmp_path / "inventory.yaml").write_text("sources: [{slurm: login1}]\ngroups: {admin: {hosts: login1}}\n")
    inventory = await open_inventory(tmp_path / "inventory.yaml", reach)
    assert set(inventory.hosts) == {"login1", "gpu-001", "gpu-002"}
    assert inventory.slurm == ("login1",)
    assert [argv for _, argv in login.asked] == [slurm.NODES_JSON_COMMAND, slurm.NODES_PLAIN_COMMAND]


async def test_a_job_leads_to_its_hosts_where_a_controller_knows_it() -> None:
    inventory = Inventory(hosts={}, groups={}, slurm=("login1", "login2"))
    good = SlurmJobFinder(Login({("scontrol", "show", "job", "4711"): CommandResult(JOB.encode())}), inventory)
    assert await good.find_job_hosts("4711") == JobHosts(("gpu-001", "gpu-002"))
    deaf = Login({})
    assert "no route to host" in (await SlurmJobFinder(deaf, inventory).find_job("4711")).could_not
    assert [host for host, _ in deaf.asked] == ["login1", "login2"]
    assert await SlurmJobFinder(deaf, Inventory(hosts={}, groups={})).find_job("4711") == await SlurmJobFinder(
        deaf, Inventory(hosts={}, groups={})
    ).find_job("1")


SHOW, SACCT = ("scontrol", "show", "job", "4711"), ("sacct", "-n", "-P", "-X", "-a", "-j", "4711", "-o", "JobID,State,NodeList")
GONE = CommandResult(b"", b"slurm_load_jobs error: Invalid job id specified\n", 1)


async def test_a_job_that_the_controller_forgot_is_looked_for_in_the_accounting() -> None:
    inventory = Inventory(hosts={}, groups={}, slurm=("login1",))
    ended = CommandResult(b"4711_1|FAILED|gpu-[001-002]\n4711_2|CANCELLED by 1001|gpu-002\n4711_[3-9]|PENDING|None assigned\n")
    jobs = SlurmJobFinder(Login({SHOW: GONE, SACCT: ended}), inventory)
    seen = (await jobs.find_job("4711")).job
    assert seen
    assert (seen.id, seen.hosts, seen.state) == ("4711", ("gpu-001", "gpu-002"), "FAILED+CANCELLED+PENDING")
    assert await jobs.find_job_hosts("4711") == JobHosts(("gpu-001", "gpu-002"))


@pytest.mark.parametrize(
    ("said", "sacct", "why"),
    [
        (GONE, CommandResult(b""), "not_known"),
        (GONE, CommandResult(b"", b"Slurm accounting storage is disabled\n", 1), "accounting_off"),
        (GONE, CommandResult(b"Slurm accounting storage is disabled\n"), "accounting_off"),
        (GONE, CommandResult(b"", b"sacct: error: Problem talking to the database: Connection refused\n", 1), "accounting_silent"),
        (GONE, CommandResult(b"4711|FAILED|gpu-[1-\n"), "accounting_silent"),
        (
            CommandResult(b"", b"slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", 1),
            CommandResult(b""),
            "could_not",
        ),
        (CommandResult(b"JobId=4711 JobName=a JobState=PENDING NumTasks=1 NodeList=(null)\n"), CommandResult(b""), "no_hosts"),
    ],
)
async def test_what_slurm_does_not_know_is_told_apart_from_what_it_was_not_asked(
    said: CommandResult, sacct: CommandResult, why: NoHostsReason
) -> None:
    jobs = SlurmJobFinder(Login({SHOW: said, SACCT: sacct}), Inventory(hosts={}, groups={}, slurm=("login1",)))
    assert await jobs.find_job_hosts("4711") == JobHosts(why=why)


async def test_another_tenants_job_is_searched_like_an_unknown_one() -> None:
    """The same commands in the same order, so timing does not reveal whether the job exists."""
    running, ended = CommandResult(JOB.encode()), CommandResult(b"4711|FAILED|gpu-[001-002]\n")
    asked = []
    for said, sacct in ((running, ended), (running, CommandResult(b"")), (GONE, ended), (GONE, CommandResult(b""))):
        login = Login({SHOW: said, SACCT: sacct})
        jobs = SlurmJobFinder(login, Inventory(hosts={}, groups={}, slurm=("login1", "login2")))
        place = await jobs.find_job_hosts("4711", lambda hosts: "gpu-009" in hosts)
        assert bool(place.hosts) is (said is running or sacct is ended)
        asked.append(login.asked)
    assert asked[0] == [(host, argv) for host in ("login1", "login2") for argv in (SHOW, SACCT)]
    assert asked.count(asked[0]) == len(asked)


async def test_without_an_answering_scheduler_no_job_is_called_unknown() -> None:
    assert await SlurmJobFinder(Login({}), Inventory(hosts={}, groups={})).find_job_hosts("4711") == JobHosts(why="nobody")
    assert await SlurmJobFinder(Login({}), Inventory(hosts={}, groups={}, slurm=("login1",))).find_job_hosts("4711") == JobHosts(
        why="could_not"
    )


@given(st.text(max_size=20))
async def test_nothing_but_a_number_is_ever_asked_as_a_job(text: str) -> None:
    login = Login({})
    await SlurmJobFinder(login, Inventory(hosts={}, groups={}, slurm=("login1",))).find_job(text)
    assert all(argv[3].replace("_", "").isdigit() and argv[3].isascii() for _, argv in login.asked)


async def test_commands_of_this_machine_are_run_and_their_complaints_told(tmp_path: Path) -> None:
    tool = tmp_path / "scontrol"
    tool.write_text("#!/bin/sh\n[ $1 = show ] && { echo slurm is down >&2; exit 1; }\necho NodeName=n1\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    assert await run_here([str(tool), "-o"]) == "NodeName=n1\n"
    with pytest.raises(BadSource, match="slurm is down"):
        await run_here([str(tool), "show"])
    with pytest.raises(BadSource, match="cannot be run here"):
        await run_here([str(tmp_path / "absent")])


def test_a_thousand_nodes_are_read_at_once() -> None:
    text = "\n".join(f"NodeName={name} NodeAddr=10.0.0.1 Gres=gpu:8 Partitions=p" for name in expand_host_range("gpu-[0001-5000]"))
    assert len(slurm.parse_nodes(text).groups["p"]) == 5000


def test_groups_of_a_host_add_up_and_the_later_one_wins() -> None:
    groups = {
        "all": {"hosts": "n1,n2", "user": "ops", "port": 22, "jump": "b1"},
        "new": {"hosts": "n2", "port": 2222, "key": "/k", "certificate": "/c"},
    }
    one, two = parse_inventory({"groups": groups, "hosts": {"n1": {"jump": "b2"}}}).hosts.values()
    assert (one.user, one.port, one.jump, one.key) == ("ops", 22, "b2", "")
    assert (two.user, two.port, two.jump, two.key, two.certificate, two.group) == ("ops", 2222, "b1", "/k", "/c", "new")


def test_a_host_of_two_tenants_is_refused() -> None:
    with pytest.raises(BadInventory, match=r"hosts\.n1: is in groups of several tenants \(a, b\)"):
        parse_inventory({"groups": {"x": {"hosts": "n1", "tenant": "a"}, "y": {"hosts": "n1", "tenant": "b"}}})

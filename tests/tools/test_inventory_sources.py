"""Inventories from Slurm, Kubernetes and Ansible: what each reader makes of its tool's output, how sources and a file's own rows meet."""

import contextlib
import json
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.inventory.hosts import BadInventory, Inventory, load_inventory, parse_inventory
from tools.inventory.jobs import SlurmJobs
from tools.inventory.ranges import expand
from tools.inventory.sources import ansible, kubernetes, open_inventory, slurm
from tools.inventory.sources.rows import BadSource
from tools.transport import Ran, Transport, Unreachable

PLAIN = """\
NodeName=gpu-001 Arch=x86_64 CoresPerSocket=56 Gres=gpu:h100:8(S:0-1) NodeAddr=10.0.0.1 NodeHostName=gpu-001 OS=Linux 5.15.0 #1 SMP State=IDLE Partitions=train,all MCS_label=N/A
NodeName=gpu-002 Arch=x86_64 Gres=gpu:h100:8 NodeAddr=gpu-002 State=IDLE+DRAIN Partitions=train,all Reason=Xid 79, Owner=ops [root@2026-05-20T03:00:00]
NodeName=cpu-001 Arch=x86_64 Gres=(null) NodeAddr=10.0.1.1 State=IDLE Partitions=all
"""  # noqa: E501
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
    rows = slurm.read_nodes(text)
    assert rows.groups == {"train": ["gpu-001", "gpu-002"], "all": ["gpu-001", "gpu-002"]}
    assert rows.hosts == {"gpu-001": {"address": "10.0.0.1"}}


def test_a_cluster_that_names_no_gpus_gives_all_its_nodes() -> None:
    assert slurm.read_nodes("NodeName=a1 Partitions=p\nNodeName=a2 Partitions=p\n").groups == {"p": ["a1", "a2"]}


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
        slurm.read_nodes(text)
    assert told in str(bad.value)


def test_a_job_tells_hosts_ranks_and_environment() -> None:
    job = slurm.read_job(JOB)
    assert (job.id, job.hosts, job.ranks, job.state) == ("4711", ("gpu-001", "gpu-002"), 16, "RUNNING")
    assert job.environment["SLURM_JOB_NODELIST"] == "gpu-[001-002]"
    assert job.environment["SLURM_SUBMIT_DIR"] == "/home/alice/run"
    document = {"jobs": [{"job_id": 4711, "nodes": "gpu-[001-002]", "tasks": {"set": True, "number": 16}, "job_state": ["RUNNING"]}]}
    assert (slurm.read_job(json.dumps(document)).hosts, slurm.read_job(json.dumps(document)).ranks) == (job.hosts, 16)


def test_a_waiting_job_has_no_hosts_and_an_unknown_one_is_refused() -> None:
    assert slurm.read_job("JobId=1 JobState=PENDING\n NodeList=(null) NumTasks=1").hosts == ()
    with pytest.raises(BadSource, match="Invalid job id"):
        slurm.read_job("slurm_load_jobs error: Invalid job id specified")


@given(st.text(max_size=300))
def test_any_text_is_rows_or_a_refusal(text: str) -> None:
    for read in (slurm.read_nodes, slurm.read_job, kubernetes.read_nodes, ansible.read_ini):
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
    rows = kubernetes.read_nodes(json.dumps({"kind": "List", "items": items}))
    assert rows.groups == {"kubernetes": ["ip-10-1-0-9.ec2.internal", "lost"], "h100": ["ip-10-1-0-9.ec2.internal"]}
    assert rows.hosts["lost"] == {"address": "10.1.0.9"}


@pytest.mark.parametrize(
    ("text", "told"),
    [("x", "no JSON"), ("{}", "`items`"), ('{"items": [{}]}', "items[0].metadata.name"), ('{"items": []}', "no node has nvidia.com/gpu")],
)
def test_bad_kubernetes_output_names_the_field(text: str, told: str) -> None:
    with pytest.raises(BadSource) as bad:
        kubernetes.read_nodes(text)
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


@pytest.mark.parametrize("form", ["ini", "yaml"])
def test_ansible_gives_groups_ranges_and_the_nearest_variables(form: str, tmp_path: Path) -> None:
    file = tmp_path / f"hosts.{form}"
    file.write_text(INI if form == "ini" else YAML)
    rows = ansible.read_ansible(file)
    assert rows.groups["train"] == ["gpu-001", "gpu-002", "gpu-003", "gpu-010"]
    assert set(rows.groups["gpu"]) == {*rows.groups["train"], "inf-a", "inf-b"}
    assert rows.hosts["gpu-002"] == {"port": 2222, "user": "ops", "key": "/etc/key", "jump": "jump@bastion:2200"}
    assert rows.hosts["gpu-010"]["user"] == "root"
    assert rows.hosts["inf-a"]["user"] == "nobody"
    assert rows.hosts["bastion"] == {"address": "192.0.2.1"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a]\nn[5:1]\n", "inventory:2: cannot read the range"),
        ("[a]\n-bad\n", "inventory:2: '-bad' is no host name"),
        ("[a]\nn1 ansible_port=ssh\n", "inventory:2: ansible_port 'ssh' is no port"),
        ("[a]\nn1 ansible_host={{ip}}\n", "inventory:2: ansible_host is a template"),
        ("[a]\nn1 'x\n", "inventory:2: No closing quotation"),
        ("[a]\nn1 loose\n", "inventory:2: 'loose' is no NAME=VALUE"),
        ("[a:children]\nb\n[b:children]\na\n[b]\nn1\n", "its own child"),
        ("", "names no host"),
    ],
)
def test_a_bad_ansible_inventory_names_the_line(text: str, told: str) -> None:
    with pytest.raises(BadSource) as bad:
        ansible.read_ini(text)
    assert told in str(bad.value)


def test_a_bad_ansible_yaml_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yml"
    file.write_text("all:\n  hosts:\n    n1: {ansible_port: 0}\n  guests: {}\n")
    with pytest.raises(BadSource) as bad:
        ansible.read_ansible(file)
    assert [problem.removeprefix(str(file)) for problem in bad.value.problems] == [
        ":3: ansible_port '0' is no port",
        ":4: group all: 'guests' is none of hosts, children, vars",
    ]


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 4))
def test_ranges_of_ansible_are_ranges_of_numbers(low: int, more: int, step: int) -> None:
    assert list(ansible.spread(f"n[{low:03}:{low + more}:{step}]")) == [f"n{n:03}" for n in range(low, low + more + 1, step)]


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
    inventory = await open_inventory(tmp_path / "inventory.yaml")
    first, second = inventory.hosts["gpu-001"], inventory.hosts["gpu-002"]
    assert (first.user, first.address, first.port, first.key) == ("special", "10.0.0.1", 2222, "/etc/key")
    assert (second.user, second.sku, second.tenant) == ("ops", "dgx-h100-8", "acme")
    assert inventory.hosts["inf-a"].known_hosts == "/etc/known"
    with pytest.raises(BadInventory, match="sources"):
        load_inventory(tmp_path / "inventory.yaml")


async def test_a_source_can_stand_where_a_file_is_expected(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(JSON)
    inventory = await open_inventory(Path(f"slurm:{tmp_path / 'nodes.json'}"))
    assert [host.name for host in inventory.pick("train")] == ["gpu-001", "gpu-002"]
    assert inventory.slurm == ()


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        ("x", "sources: must be a list"),
        ("[{chef: x}]", "sources.0: must be one of slurm, kubernetes, ansible"),
        ("[{ansible: ''}]", "sources.0: ansible: name the inventory file"),
        ("[{ansible: /no/such}, {kubernetes: /no/such}]", "sources.1: /no/such: cannot be read"),
        ("[{slurm: login9}]", "sources.0: slurm: 'login9' is not among the file's own hosts"),
    ],
)
async def test_a_bad_source_is_named_by_its_place(tmp_path: Path, sources: str, told: str) -> None:
    (tmp_path / "inventory.yaml").write_text(f"sources: {sources}\n")
    with pytest.raises(BadInventory) as bad:
        await open_inventory(tmp_path / "inventory.yaml")
    assert any(told in problem for problem in bad.value.problems), bad.value.problems


class Login:
    """A host on which Slurm's commands answer; old Slurms know no --json."""

    def __init__(self, answers: Mapping[tuple[str, ...], Ran]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> Ran:
        self.asked.append((host, tuple(argv)))
        if tuple(argv) not in self.answers:
            raise Unreachable(host, "no route to host")
        return self.answers[tuple(argv)]

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_slurm_is_asked_on_a_host_in_json_first_and_plainly_where_it_is_old(tmp_path: Path) -> None:
    login = Login({slurm.NODES_JSON: Ran(b"", b"scontrol: unrecognized option '--json'", 1), slurm.NODES_PLAIN: Ran(PLAIN.encode())})

    def reach(inventory: Inventory) -> Transport:
        assert set(inventory.hosts) == {"login1"}
        return login

    (tmp_path / "inventory.yaml").write_text("sources: [{slurm: login1}]\ngroups: {admin: {hosts: login1}}\n")
    inventory = await open_inventory(tmp_path / "inventory.yaml", reach)
    assert set(inventory.hosts) == {"login1", "gpu-001", "gpu-002"}
    assert inventory.slurm == ("login1",)
    assert [argv for _, argv in login.asked] == [slurm.NODES_JSON, slurm.NODES_PLAIN]


async def test_a_job_leads_to_its_hosts_where_a_controller_knows_it() -> None:
    inventory = Inventory(hosts={}, groups={}, slurm=("login1", "login2"))
    good = SlurmJobs(Login({("scontrol", "show", "job", "4711"): Ran(JOB.encode())}), inventory)
    assert await good.hosts("4711") == ("gpu-001", "gpu-002")
    deaf = Login({})
    assert "no route to host" in (await SlurmJobs(deaf, inventory).find("4711")).could_not
    assert [host for host, _ in deaf.asked] == ["login1", "login2"]
    assert await SlurmJobs(deaf, Inventory(hosts={}, groups={})).find("4711") == await SlurmJobs(deaf, Inventory(hosts={}, groups={})).find(
        "1"
    )


@given(st.text(max_size=20))
async def test_nothing_but_a_number_is_ever_asked_as_a_job(text: str) -> None:
    login = Login({})
    await SlurmJobs(login, Inventory(hosts={}, groups={}, slurm=("login1",))).find(text)
    assert all(argv[3].replace("_", "").isdigit() and argv[3].isascii() for _, argv in login.asked)


async def test_commands_of_this_machine_are_run_and_their_complaints_told(tmp_path: Path) -> None:
    from tools.inventory.sources import here

    tool = tmp_path / "scontrol"
    tool.write_text("#!/bin/sh\n[ $1 = show ] && { echo slurm is down >&2; exit 1; }\necho NodeName=n1\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    assert await here([str(tool), "-o"]) == "NodeName=n1\n"
    with pytest.raises(BadSource, match="slurm is down"):
        await here([str(tool), "show"])
    with pytest.raises(BadSource, match="cannot be run here"):
        await here([str(tmp_path / "absent")])


def test_a_thousand_nodes_are_read_at_once() -> None:
    text = "\n".join(f"NodeName={name} NodeAddr=10.0.0.1 Gres=gpu:8 Partitions=p" for name in expand("gpu-[0001-5000]"))
    assert len(slurm.read_nodes(text).groups["p"]) == 5000


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

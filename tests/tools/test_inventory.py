"""The inventory is resolved as a whole, or refused with every problem at once."""

from pathlib import Path

import pytest

from tests.support.inventories import inventory_of
from tools.inventory.host_ranges import BadRange
from tools.inventory.inventory import BadInventory, parse_inventory

GOOD = {
    "defaults": {"user": "rackmedic", "kit": True, "sku": "dgx-h100-8"},
    "groups": {"train": {"hosts": "gpu-[001-004]", "port": 2222}, "pcie": {"hosts": "l40-[1-2]", "sku": "pcie-l40s-8", "tenant": "acme"}},
    "hosts": {"gpu-002": {"address": "10.0.0.2", "port": 22, "kit": False}},
    "channels": [{"channel": "C1", "kind": "operators", "groups": ["train"]}],
}


def test_a_host_takes_its_own_setting_before_its_groups_before_the_defaults() -> None:
    hosts = parse_inventory(GOOD).hosts
    assert (hosts["gpu-001"].port, hosts["gpu-002"].port) == (2222, 22)
    assert (hosts["gpu-001"].kit, hosts["gpu-002"].kit) == (True, False)
    assert (hosts["gpu-001"].sku, hosts["l40-1"].sku, hosts["l40-1"].tenant) == ("dgx-h100-8", "pcie-l40s-8", "acme")
    assert (hosts["gpu-001"].address, hosts["gpu-002"].address) == ("gpu-001", "10.0.0.2")


def test_hosts_are_picked_by_range_and_by_group() -> None:
    inventory = parse_inventory(GOOD)
    assert [host.name for host in inventory.select_hosts("gpu-[003-004],pcie")] == ["gpu-003", "gpu-004", "l40-1", "l40-2"]
    with pytest.raises(BadRange, match="gpu-009"):
        inventory.select_hosts("gpu-009")


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    bad = {
        "groups": {"train": {"hosts": "gpu-[9-1]"}},
        "hosts": {"stray": {}},
        "channels": [{"channel": "C1", "groups": ["nope"]}, {"channel": "C2", "kind": "tenant"}],
    }
    with pytest.raises(BadInventory) as refused:
        parse_inventory(bad)
    told = " ".join(refused.value.problems)
    for field in ("groups.train.hosts", "hosts.stray", "channels.0.groups", "channels.1.tenant"):
        assert field in told


def test_a_wrong_type_names_its_field() -> None:
    with pytest.raises(BadInventory, match=r"groups\.train\.port"):
        parse_inventory({"groups": {"train": {"hosts": "n1", "port": 99999}}})


@pytest.mark.parametrize("path", ["relative/logs", "/var/log/../../etc", "/var/log/$(id)", "/a b"])
def test_a_log_folder_that_could_be_more_than_a_path_is_refused(path: str) -> None:
    with pytest.raises(BadInventory, match="job_logs"):
        parse_inventory({"groups": {"g": {"hosts": "n1", "job_logs": path}}})


def test_a_missing_or_broken_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInventory, match="cannot be read"):
        inventory_of(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("groups: [")
    with pytest.raises(BadInventory, match="is not YAML"):
        inventory_of(tmp_path / "bad.yaml")


INVENTORY = """\
defaults: {user: rackmedic}

groups:
  train:
    hosts: gpu-[001-004]
    port: 2222
  pcie: {hosts: "l40-[1-2]"}

channels:
  - {channel: C1, groups: [train]}
"""


@pytest.mark.parametrize(
    ("good", "bad", "line", "why"),
    [
        ("gpu-[001-004]", "gpu-[9-1]", 5, "groups.train.hosts: '9-1' runs backwards"),
        ("port: 2222", "port: ssh", 6, "groups.train.port: port must be a whole number, not 'ssh'"),
        ("port: 2222", "port: 99999", 6, "groups.train.port: port must be less than or equal to 65535, not 99999"),
        ("port: 2222", "prot: 2222", 6, "groups.train: unknown field prot; 'prot' is none of user, port, key"),
        ("port: 2222", "launcher: slurm", 6, "groups.train.launcher: launcher 'slurm' is none of mpi, srun, torchrun"),
        ("port: 2222", "controller: login1", 6, "groups.train.controller: 'login1' is not a host of this inventory"),
        ("port: 2222", "port: 22\n    port: 23", 7, "port stands twice"),
        ('hosts: "l40-[1-2]"', "sku: x", 7, "groups.pcie: hosts is missing"),
        ("pcie: {", "7: {", 7, "a name must be text, not 7"),
        ("groups: [train]", "groups: [other]", 10, "channels.0.groups: there is no group 'other'"),
        ("channels:", "hosts: {stray: {}}\nchannels:", 9, "hosts.stray: is in no group"),
        ("channel: C1", "channel: &c [*c]", 10, "not a plain value: it contains itself"),
        ("groups:\n", "groups: !own\n", 3, "not a plain value: the tag !own is not known"),
        ("groups: [train]", "groups: [train", 10, "is not YAML: "),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else None,
)
def test_a_problem_of_the_file_names_its_line(good: str, bad: str, line: int, why: str, tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(INVENTORY.replace(good, bad, 1))
    with pytest.raises(BadInventory) as refused:
        inventory_of(tmp_path / "inventory.yaml")
    assert any(problem.startswith(f"{tmp_path}/inventory.yaml:{line}: {why}") for problem in refused.value.problems), refused.value.problems


KUBERNETES = """\
groups:
  heads: {hosts: "slurm-1,kube-1"}
  train: {hosts: "gpu-[001-002]", controller: slurm-1}
  pods:
    hosts: "pod-[1-3]"
    controller: kube-1
    scheduler: kubernetes
  bench: {hosts: "lab-1", scheduler: none}

hosts:
  pod-2: {node: ip-10-0-0-2.cloud.example}
"""


def _written(text: str, folder: Path) -> Path:
    (folder / "inventory.yaml").write_text(text)
    return folder / "inventory.yaml"


def test_each_group_says_which_scheduler_it_has_and_what_that_calls_its_hosts(tmp_path: Path) -> None:
    hosts = inventory_of(_written(KUBERNETES, tmp_path)).hosts
    assert [(hosts[name].scheduler, hosts[name].controller) for name in ("gpu-001", "pod-1", "lab-1")] == [
        ("slurm", "slurm-1"),
        ("kubernetes", "kube-1"),
        ("none", ""),
    ]
    assert (hosts["pod-1"].node_name, hosts["pod-2"].node_name) == ("pod-1", "ip-10-0-0-2.cloud.example")


def test_slurm_is_asked_where_slurm_is(tmp_path: Path) -> None:
    inventory = inventory_of(_written(KUBERNETES, tmp_path))
    assert inventory.slurm == ("slurm-1",)
    assert not {"slurm-1", "kube-1"} & set(inventory.workers)


@pytest.mark.parametrize(
    ("good", "bad", "line", "why"),
    [
        ("    controller: kube-1\n", "", 6, "groups.pods.scheduler: kubernetes needs `controller:`"),
        ("scheduler: kubernetes", "scheduler: k8s", 7, "groups.pods.scheduler: scheduler 'k8s' is none of slurm, kubernetes, none"),
        (
            "scheduler: none",
            "scheduler: none, controller: slurm-1",
            8,
            "groups.bench.scheduler: is none, and `controller:` names who is asked",
        ),
        ("node: ip-10-0-0-2.cloud.example", "node: Pod_2", 11, "hosts.pod-2.node: 'Pod_2' is not a node name of Kubernetes"),
        ("node: ip-10-0-0-2.cloud.example", "node: pod-1", 11, "hosts.pod-2.node: 'pod-1' is pod-1 already"),
        ("node: ip-10-0-0-2.cloud.example", "node: --all", 11, "hosts.pod-2.node: '--all' is not a node name of Kubernetes"),
        ('"pod-[1-3]"', '"pod-[1-2],Pod_3"', 5, "hosts.Pod_3: is not a node name of Kubernetes"),
        ("pod-2: {node: ip-10-0-0-2.cloud.example}", "gpu-001: {node: a.b}", 11, "hosts.gpu-001.node: 'a.b' is not a NodeName of Slurm"),
    ],
)
def test_a_scheduler_that_cannot_be_asked_names_its_line(good: str, bad: str, line: int, why: str, tmp_path: Path) -> None:
    with pytest.raises(BadInventory) as refused:
        inventory_of(_written(KUBERNETES.replace(good, bad, 1), tmp_path))
    assert any(problem.startswith(f"{tmp_path}/inventory.yaml:{line}: {why}") for problem in refused.value.problems), refused.value.problems


def test_what_an_anchor_brings_in_counts_and_is_refused_where_it_was_written(tmp_path: Path) -> None:
    text = "defaults: &base {port: 2222}\ngroups:\n  a:\n    <<: *base\n    hosts: n1\n"
    (tmp_path / "inventory.yaml").write_text(text)
    assert inventory_of(tmp_path / "inventory.yaml").hosts["n1"].port == 2222
    (tmp_path / "inventory.yaml").write_text(text.replace("2222", "ssh"))
    with pytest.raises(BadInventory) as refused:
        inventory_of(tmp_path / "inventory.yaml")
    assert [problem.rpartition("/")[2].split(" port ")[0] for problem in refused.value.problems] == [
        "inventory.yaml:1: defaults.port:",
        "inventory.yaml:1: groups.a.port:",
    ]


def test_a_file_that_is_no_text_says_where(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_bytes(b"groups:\n  a: {hosts: n\xff}\n")
    with pytest.raises(BadInventory, match=r"inventory\.yaml:2: cannot be read: it is not UTF-8 text \(byte 22 is 0xff\)"):
        inventory_of(tmp_path / "inventory.yaml")


def test_all_problems_are_told_at_once_also_those_between_rows() -> None:
    raw = {
        "defaults": {"prot": 22, "controller": "head"},
        "groups": {"train": {"hosts": "gpu-[001-002]", "port": "many"}, "broken": {"hosts": "gpu-[9"}},
        "hosts": {"gpu-099": {}},
        "channels": [{"channel": "C1", "groups": ["nobody"]}, {"channel": "C2", "kind": "tenant", "tenant": 7}],
    }
    with pytest.raises(BadInventory) as refused:
        parse_inventory(raw)
    told = refused.value.problems
    for start in ("groups.train.port", "groups.broken.hosts", "hosts.gpu-099: is in no group", "channels.0.groups: there is no group"):
        assert [row for row in told if start in row], (start, told)
    assert [row for row in told if "'head' is not a host" in row]
    assert len([row for row in told if "channels.1" in row]) == 1, "a field that cannot be read is not missing as well"


ALIASED = {
    "groups": {
        "acme": {"hosts": "gpu-[001-002]", "tenant": "acme"},
        "globex": {"hosts": "gpu-[003-004]", "tenant": "globex"},
        "ours": {"hosts": "ctl"},
    },
}


def test_tenants_call_their_hosts_as_they_like_each_by_a_name_of_its_own() -> None:
    site = parse_inventory({**ALIASED, "hosts": {"gpu-001": {"alias": "train-01"}, "gpu-003": {"alias": "train-01"}}})
    assert [site.hosts[name].name_for_tenant for name in ("gpu-001", "gpu-002", "gpu-003")] == ["train-01", "gpu-002", "train-01"]


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        ({"gpu-001": {"alias": "t1"}, "gpu-002": {"alias": "T1"}}, "is what acme calls gpu-001 already"),
        ({"gpu-001": {"alias": "t1.a.example"}, "gpu-002": {"alias": "t1.b.example"}}, "is what acme calls gpu-001 already"),
        ({"gpu-001": {"alias": "GPU-002"}}, "is a host of this inventory"),
        ({"gpu-001": {"alias": "gpu-003"}}, "is a host of this inventory"),
        ({"ctl": {"alias": "t1"}}, "it is no tenant's"),
        ({"gpu-001": {"alias": "train 1"}}, "hosts.gpu-001.alias"),
    ],
)
def test_an_alias_that_could_mean_another_host_is_refused(hosts: dict[str, dict[str, str]], says: str) -> None:
    with pytest.raises(BadInventory) as refused:
        parse_inventory({**ALIASED, "hosts": hosts})
    [problem] = refused.value.problems
    assert says in problem

"""A reporter's suspicion that the facts reject is the first cause that the report rules out."""

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from graph.extraction.complaints import MAX_CHARS, find_guesses, find_suspected_causes
from graph.incident.incident_graph import build_incident_graph, run_turn
from kb.taxonomy.loader import load_taxonomy
from tests.support.fakes_graph import HOT, LOST, OOM, FakeFleet, World, fact, healthy, instead, item

TAXONOMY = load_taxonomy().decidable
HOSTS = ("n1", "n2", "n3", "n4")

# text, the guess in it, one matching label
GUESSES = (
    ("job 4711 hangs, I think it is NCCL", "nccl", "FRAMEWORK.VERSION.NCCL_Mismatch_Across_Ranks"),
    ("gpu-007 is slow. Probably the switch again", "switch", "INTERCONNECT.SWITCH.Leaf_Degraded"),
    ("We suspect cooling.", "cooling", "OTHER.INFRA.Rack_Cooling"),
    ("looks like overheating", "overheating", "GPU.THERMAL.HW_Thermal_Slowdown"),
    ("My guess: the file server", "file server", "SYSTEM_SOFTWARE.STORAGE.NFS_Server_Not_Responding"),
    ("could it be the driver?", "driver", "SYSTEM_SOFTWARE.DRIVER.Module_Not_Loaded"),
    ("Is it the leaf switch?", "leaf switch", "INTERCONNECT.SWITCH.Leaf_Degraded"),
    ("it must be InfiniBand", "infiniband", "INTERCONNECT.IB.Port_Down"),
    ("not the switch, maybe DNS", "dns", "INTERCONNECT.ETH.DNS_Failure"),
    ("the customer blames the scheduler", "scheduler", "OTHER.SCHED.Controller_Down"),
    ("I’d bet on the PSU", "psu", "GPU.POWER.Power_Brake_PSU"),
    ("Suspected cause: ECC errors", "ecc errors", "GPU.MEMORY.DBE_Row_Remap_Pending"),
    ("is this a fabric manager issue?", "fabric manager", "SYSTEM_SOFTWARE.FABRIC.FabricManager_Down"),
    ("smells like thermal throttling, since noon", "thermal throttling", "GPU.THERMAL.HW_Thermal_Slowdown"),
    ("We're pretty sure it's the file server", "file server", "SYSTEM_SOFTWARE.STORAGE.NFS_Server_Not_Responding"),
)


@pytest.mark.parametrize(("text", "guess", "label"), GUESSES)
def test_a_guess_is_read_and_matched_with_causes(text: str, guess: str, label: str) -> None:
    assert find_guesses(text) == (guess,)
    assert label in find_suspected_causes(text, TAXONOMY)


@pytest.mark.parametrize(
    "text",
    [
        "gpu-001 hangs since noon",
        "NCCL timeout on gpu-[001-004]",
        "I don't think it is NCCL",
        "we do not believe that it is the switch",
        "it cannot be the cooling",
        "the switch is fine",
        "I am convinced the driver is fine",
        "job 4711 died with CUDA out of memory",
        "is gpu-007 ok?",
        "",
    ],
)
def test_a_text_without_a_guess_or_with_a_denial_suspects_nothing(text: str) -> None:
    assert find_suspected_causes(text, TAXONOMY) == ()


def test_a_text_is_read_up_to_a_bound() -> None:
    assert find_guesses("x " * MAX_CHARS + "I think it is NCCL") == ()
    assert len(find_guesses("I think it is NCCL. maybe the switch. perhaps DNS. probably cooling. " * 50)) <= 3


@pytest.mark.parametrize(("text", "first"), [("n3 is down, I think it is oom", OOM), ("n3 is down. probably hot gpus?", HOT)])
async def test_the_suspected_cause_is_the_first_that_is_ruled_out(text: str, first: str) -> None:
    world = World(fleet=FakeFleet(instead(healthy(*HOSTS), fact("n3", "dmesg", "kernel.xid", 79, "gpu3"))))
    report = await run_turn(build_incident_graph(InMemorySaver()), world.ports(), item(text))
    assert [row.label for row in report.root_causes] == [LOST]
    assert report.ruled_out[0].label == first
    assert LOST not in {row.label for row in report.ruled_out}

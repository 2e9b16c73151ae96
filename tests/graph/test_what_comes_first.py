"""Order of oddities: the host asked about, then matches of the words; settings common to all hosts are none."""

import pytest

from graph.engine.abnormal_facts import SETTING_KEYS
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tools.checks import CHECKS
from tools.fact import Fact, Value

HOSTS = ("n1", "n2", "n3")
EXPECTED: dict[str, Value] = {"mem.memlock_kib": -1, "pcie.acs": False, "module.loaded": True, "gpu.mig": False}
WRONG: dict[str, Value] = {"mem.memlock_kib": 8192, "pcie.acs": True, "module.loaded": False, "gpu.mig": True, "cpu.governor": "powersave"}
LENS = ReferenceData(load_taxonomy(), CHECKS, lambda host, key, device: EXPECTED.get(key))


def row(host: str, check: str, key: str, value: Value, device: str | None = None, **attrs: object) -> Fact:
    return Fact(check, key, value, device, line=f"{key} {value}", host=host, time=T0, attrs=attrs)


SHM = row("n1", "disk", "disk.used_percent", 100, "/dev/shm")  # a mount on the host, not a file here
SERVICE = row("n2", "sysd", "service.state", "failed", "slurmd", trouble="failed", sub="failed")


def looked(*facts: Fact, asked: tuple[str, ...] = (), priors: dict[str, float] | None = None) -> Assessment:
    return assess_facts(facts, LENS, HOSTS, priors or {}, T0, (), asked)


@pytest.mark.parametrize(("asked", "first"), [(("n1",), "n1"), (("n2",), "n2"), (("n1", "n3"), "n1")])
def test_what_is_on_the_host_asked_about_comes_first(asked: tuple[str, ...], first: str) -> None:
    now = looked(SERVICE, SHM, asked=asked)
    assert now.abnormal_facts[0].host == first
    assert first in now.why_unsure[0]
    assert {fact.host for fact in now.abnormal_facts} == {"n1", "n2"}, "the other is told too"


def test_what_fits_the_words_comes_first_where_no_host_is_named() -> None:
    assert looked(SERVICE, SHM, priors={"SYSTEM_SOFTWARE.STORAGE.Shm_Too_Small": 1.5}).abnormal_facts[0] is not None
    for label, host in (("SYSTEM_SOFTWARE.STORAGE.Shm_Too_Small", "n1"), ("SYSTEM_SOFTWARE.TIME.Clock_Skew", "n2")):
        assert looked(SERVICE, SHM, priors={label: 1.5}).abnormal_facts[0].host == host


@pytest.mark.parametrize("key", sorted(WRONG))
def test_how_all_hosts_are_set_up_is_no_finding(key: str) -> None:
    assert key in SETTING_KEYS
    alike = [row(host, "x", key, WRONG[key]) for host in HOSTS]
    assert looked(*alike).abnormal_facts == ()
    assert [fact.host for fact in looked(SHM, *alike).abnormal_facts] == ["n1"]


@pytest.mark.parametrize("key", sorted(WRONG))
def test_how_one_host_is_set_up_is_one(key: str) -> None:
    well = EXPECTED.get(key, "performance")
    assert [
        fact.host for fact in looked(*(row(host, "x", key, WRONG[key] if host == "n2" else well) for host in HOSTS)).abnormal_facts
    ] == ["n2"]


def test_what_people_speak_of_is_a_finding_though_all_hosts_share_it() -> None:
    alike = [row(host, "mem", "mem.memlock_kib", 8192) for host in HOSTS]
    assert len(looked(*alike, priors={"SYSTEM_SOFTWARE.LIMITS.Memlock_Too_Low": 1.0}).abnormal_facts) == 3


def test_what_breaks_all_hosts_alike_is_a_finding() -> None:
    alike = [row(host, "sysd", "service.state", "failed", "slurmd", trouble="failed", sub="failed") for host in HOSTS]
    assert len(looked(*alike).abnormal_facts) == 3

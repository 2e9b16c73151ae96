"""Causes that no passive check shows are offered only for matching symptoms."""

from graph.engine.assessment import MAX_CONTESTED_CONFIDENCE, Assessment, assess_facts
from graph.engine.check_selection import rank_exclusive_offers
from tests.support.clock import T0
from tests.support.fakes_graph import HOT, LOST, SLOW_LINK, fact, healthy, instead, lens
from tools.fact import Fact, Status, build_unobserved_fact

HOSTS = ("n1", "n2")


def look(*more: Fact, symptoms: tuple[str, ...] = ("slow",)) -> Assessment:
    return assess_facts([*instead(healthy(*HOSTS), *more)], lens(), HOSTS, {}, T0, symptoms)


def busy(host: str) -> Fact:
    return Fact("nccl1", "check.skipped", "busy", host=host, line=f"nccl1 was not run on {host}: 8 of its GPUs are in use")


def test_a_hidden_cause_that_fits_the_symptom_prevents_no_fault() -> None:
    now = look()
    assert now.finding == "abstained"
    (hidden,) = now.open_hidden_causes
    assert (hidden.leaf.label, hidden.check_names, hidden.hosts) == (SLOW_LINK, "nccl1", HOSTS)
    assert now.why_unsure == ("Slow would show in nccl1 alone, which did not look at n[1-2]",)
    (offer,) = rank_exclusive_offers(now)
    assert (offer.check, offer.hosts) == ("nccl1", HOSTS)


def test_another_symptom_or_none_asks_for_no_exclusive_look() -> None:
    for symptoms in ((), ("vague",), ("hang",), ("no_device",)):
        now = look(symptoms=symptoms)
        assert (now.finding, now.open_hidden_causes, rank_exclusive_offers(now)) == ("no_fault", (), [])


def test_it_is_healthy_once_the_exclusive_look_says_so() -> None:
    now = look(*(fact(host, "nccl1", "nccl.busbw_max", 395.0) for host in HOSTS))
    assert (now.finding, now.open_hidden_causes, rank_exclusive_offers(now)) == ("no_fault", (), [])


def test_a_host_whose_gpus_were_busy_stays_open_though_another_was_looked_at() -> None:
    now = look(fact("n1", "nccl1", "nccl.busbw_max", 395.0), busy("n2"))
    assert now.finding == "abstained"
    (hidden,) = now.open_hidden_causes
    assert (hidden.hosts, hidden.why) == (("n2",), busy("n2").line)
    assert rank_exclusive_offers(now) == [], "it was asked for already; who may disturb the job decides"


def test_a_look_that_failed_is_no_look() -> None:
    now = look(fact("n1", "nccl1", "nccl.busbw_max", 395.0), build_unobserved_fact("nccl1", Status.TIMEOUT, "no answer within 90 s", "n2"))
    assert [hidden.hosts for hidden in now.open_hidden_causes] == [("n2",)]


def test_beside_a_proven_cause_nothing_is_hidden() -> None:
    now = look(fact("n2", "dmesg", "kernel.xid", 79, "gpu3"))
    assert [row.label for row in now.list_root_causes()] == [LOST]
    assert (now.finding, now.open_hidden_causes) == ("diagnosed", ())


def test_a_proven_cause_is_doubtful_while_a_hidden_one_would_explain_the_same_symptom() -> None:
    """The exclusive check decides: if it finds nothing, the proven cause keeps its confidence."""
    seen = fact("n2", "smi", "gpu.throttle.hw_thermal", True, "gpu3")
    (cause,) = look(seen).list_root_causes()
    assert cause.label == HOT
    assert cause.confidence == MAX_CONTESTED_CONFIDENCE
    assert "Slow would show in nccl1 alone" in cause.because
    (cause,) = look(seen, *(fact(host, "nccl1", "nccl.busbw_max", 395.0) for host in HOSTS)).list_root_causes()
    assert cause.confidence > MAX_CONTESTED_CONFIDENCE
    assert "nccl1" not in cause.because


def test_a_proven_cause_of_another_symptom_keeps_its_confidence_and_names_the_possible_one() -> None:
    now = look(fact("n2", "dmesg", "kernel.xid", 79, "gpu3"), symptoms=("slow", "no_device"))
    (cause,) = now.list_root_causes()
    assert (cause.label, cause.confidence > MAX_CONTESTED_CONFIDENCE) == (LOST, True)
    assert "possible too: Slow would show in nccl1 alone" in cause.because
    (alone,) = look(fact("n2", "dmesg", "kernel.xid", 79, "gpu3"), symptoms=("no_device",)).list_root_causes()
    assert "possible too" not in alone.because

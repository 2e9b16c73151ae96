"""The walk down the taxonomy and the choice of the next check."""

from dataclasses import replace

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.check_selection import TaxonomySearch, advance_search, list_first_wave, rank_exclusive_offers
from kb.taxonomy.taxonomy import Taxonomy
from tests.support.clock import T0
from tests.support.fakes_graph import CHECKS, HOT, LOST, OOM, SLOW_LINK, check, clue, fact, healthy, instead, leaf, lens
from tools.fact import Fact, Status, build_unobserved_fact

HOSTS = ("n1", "n2")


def look(facts: list[Fact], priors: dict[str, float] | None = None) -> Assessment:
    return assess_facts(facts, lens(), HOSTS, priors, T0)


def test_the_likeliest_branch_is_walked_first() -> None:
    walk, _ = advance_search(TaxonomySearch(), look(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.oom_kill", "python3"))))
    visited = [path for path, did, _ in walk.log if did in ("confirmed", "rejected", "inconclusive")]
    assert visited[0] == OOM
    assert walk.found == [OOM]


def test_several_causes_are_found_in_one_walk() -> None:
    facts = instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.oom_kill", "python3"), fact("n1", "dmesg", "kernel.xid", 79, "gpu0"))
    walk, visit = advance_search(TaxonomySearch(), look(facts))
    assert visit is None
    assert set(walk.found) == {OOM, LOST}
    assert walk.stack == []


def test_branches_that_the_facts_reject_are_pruned_and_say_why() -> None:
    walk, _ = advance_search(TaxonomySearch(), look(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.oom_kill", "python3"))))
    pruned = {path: why for path, did, why in walk.log if did == "pruned"}
    assert "USER" in pruned
    assert "rejected, the rest unlikely" in pruned["USER"]
    assert not any(path.startswith("USER.") for path, _, _ in walk.log)


def test_an_exhausted_branch_backtracks() -> None:
    walk, _ = advance_search(
        TaxonomySearch(), look(instead(healthy(*HOSTS), fact("n1", "joblog", "job.error", "cuda_no_device", "rank 0")), {LOST: 2.0})
    )
    assert ("GPU", "backtracked", "") in walk.log
    assert "GPU.BUS" in walk.exhausted


def test_an_unobserved_leaf_stops_the_walk() -> None:
    facts = [row for row in healthy(*HOSTS) if row.check != "smi"]
    walk, visit = advance_search(TaxonomySearch(), look(facts, {HOT: 2.0}))
    assert visit is not None
    assert (visit.label, set(visit.asks)) == (HOT, {("n1", "smi"), ("n2", "smi")})
    resumed, visit = advance_search(TaxonomySearch.from_json(walk.to_json()), look(healthy(*HOSTS), {HOT: 2.0}))
    assert visit is None
    assert any(path == HOT and did == "rejected" for path, did, _ in resumed.log)


def test_a_leaf_whose_hosts_did_not_answer_is_noted_as_not_looked_at() -> None:
    facts = [row for row in healthy(*HOSTS) if row.check != "smi"]
    silent = [build_unobserved_fact("smi", Status.TIMEOUT, "no answer", host=host) for host in HOSTS]
    walk, _ = advance_search(TaxonomySearch(), look([*facts, *silent], {HOT: 2.0}))
    assert [did for path, did, _ in walk.log if path == HOT] == ["could not look"]


def test_a_walk_is_plain_json_and_survives() -> None:
    walk, _ = advance_search(TaxonomySearch(), look([row for row in healthy(*HOSTS) if row.check != "smi"], {HOT: 2.0}))
    assert TaxonomySearch.from_json(walk.to_json()).to_json() == walk.to_json()


def test_the_first_wave_is_every_cheap_check_on_every_host() -> None:
    asks = list_first_wave(lens(), HOSTS)
    assert set(asks) == {(host, check.id) for host in HOSTS for check in CHECKS.values() if not check.exclusive}


def test_an_exclusive_check_is_offered_only_for_a_real_suspicion() -> None:
    assert rank_exclusive_offers(look(healthy(*HOSTS))) == []
    (offer,) = rank_exclusive_offers(
        look(instead(healthy(*HOSTS), fact("n2", "nvlink", "nvlink.replay_errors", 900, "gpu0")), {SLOW_LINK: 1.5})
    )
    assert (offer.check, offer.hosts) == ("nccl1", ("n2",))
    assert offer.gain > 0


def test_a_proven_cause_needs_no_exclusive_check() -> None:
    facts = instead(
        healthy(*HOSTS), fact("n2", "dmesg", "kernel.oom_kill", "python3"), fact("n2", "nvlink", "nvlink.replay_errors", 900, "gpu0")
    )
    assert rank_exclusive_offers(look(facts)) == []


def test_an_exclusive_check_is_bought_once() -> None:
    facts = [
        *instead(healthy(*HOSTS), fact("n2", "nvlink", "nvlink.replay_errors", 900, "gpu0")),
        fact("n2", "nccl1", "nccl.busbw_max", 390.0),
    ]
    assert rank_exclusive_offers(look(facts, {SLOW_LINK: 2.0})) == []


def test_a_device_of_which_only_the_host_is_known_is_looked_for() -> None:
    sick = leaf(
        "GPU.EXECUTION.Wrong",
        "gpu",
        clue("wrong", "nccl.wrong", "value > 0", 9, decisive=True),
        clue("mismatch", "sdc.mismatches", "value > 0", 9, decisive=True),
        confirms=("nccl1", "sdc"),
    )
    checks = {
        **CHECKS,
        "sdc": check("sdc", "sdc.mismatches", seconds=180, exclusive=True),
        "nccl1": check("nccl1", "nccl.wrong", exclusive=True),
    }
    known = replace(lens(Taxonomy({sick.label: sick}, {})), checks=checks)

    def offers(*facts: Fact) -> list[tuple[str, tuple[str, ...]]]:
        now = assess_facts(instead(healthy(*HOSTS), *facts), known, HOSTS, {}, T0)
        return [(offer.check, offer.hosts) for offer in rank_exclusive_offers(now)]

    wrong = fact("n2", "nccl1", "nccl.wrong", 20)
    assert offers(wrong) == [("sdc", ("n2",))]
    assert offers(wrong, fact("n2", "sdc", "sdc.mismatches", 7, "gpu3")) == []

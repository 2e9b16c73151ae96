"""The engine: verdicts from facts."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from graph.engine.assessment import MAX_CONTESTED_CONFIDENCE, Assessment, assess_facts
from graph.engine.fact_preparation import prepare_facts
from graph.engine.verdict import RootCauseSelection, SetAsideBelief, judge_label
from graph.state import Verdict
from kb.taxonomy.taxonomy import Taxonomy
from tests.support.clock import T0
from tests.support.fakes_graph import (
    DESYNC,
    HOT,
    LOST,
    NO_SM,
    OOM,
    RACK,
    SLOW_LINK,
    TAXONOMY,
    clue,
    fact,
    healthy,
    instead,
    leaf,
    lens,
)
from tools.fact import Fact, Status, build_unobserved_fact

HOSTS = ("n1", "n2", "n3")


def look(facts: list[Fact], hosts: tuple[str, ...] = HOSTS, priors: dict[str, float] | None = None) -> Assessment:
    return assess_facts(facts, lens(), hosts, priors, T0)


def labels(now: Assessment) -> list[str]:
    return [row.label for row in now.list_root_causes()]


def test_a_decisive_fact_confirms_the_device_that_shows_it() -> None:
    now = look(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.xid", 79, "gpu3")))
    (cause,) = now.list_root_causes()
    assert (cause.label, cause.hosts, cause.devices) == (LOST, ("n2",), ("n2/gpu3",))
    assert cause.verdict == "confirmed"
    assert cause.confidence >= 0.95
    assert cause.evidence[0].line == "kernel.xid 79 gpu3"
    assert cause.evidence[0].says == "Xid 79 on gpu3"


def test_healthy_machines_looked_at_whole_are_no_fault() -> None:
    now = look(healthy(*HOSTS))
    assert now.finding == "no_fault"
    assert now.why_unsure == ()


def test_a_host_that_no_check_was_asked_of_is_not_healthy() -> None:
    assert look(healthy("n1", "n2")).finding == "abstained"


def test_nothing_looked_at_is_not_healthy() -> None:
    assert look([], hosts=()).finding == "abstained"
    assert look([]).finding == "abstained"


def test_reference_data_finds_the_checks_of_a_key_in_any_catalogue() -> None:
    whole = lens()
    few = replace(whole, checks={"joblog": whole.checks["joblog"]})
    for one in TAXONOMY.leaves.values():
        keys = set(whole.list_decisive_keys(one))
        assert [row.id for row in whole.list_deciding_checks(one)] == [
            row.id for row in whole.list_passive_checks() if keys & set(row.establishes)
        ]
        assert {row.id for key in keys for row in few.list_establishing_checks(key)} <= {"joblog"}
    assert [row.id for row in few.list_establishing_checks("job.error")] == ["joblog"]


def test_a_blind_check_is_inconclusive_where_it_would_decide() -> None:
    facts = [row for row in healthy(*HOSTS) if (row.host, row.check) != ("n2", "dmesg")]
    now = look([*facts, build_unobserved_fact("dmesg", Status.TIMEOUT, "no answer within 20 s", "n2")])
    assert now.finding == "abstained"
    assert now.label_verdicts[OOM].verdict == "inconclusive", "the counter hints, only the kernel log would tell"
    assert now.label_verdicts[LOST].verdict == "rejected", "the bus was looked at and every GPU answers"
    assert now.label_verdicts[HOT].verdict == "rejected"
    assert [(b.host, b.check, b.why) for b in now.list_unobserved()] == [("n2", "dmesg", "no answer within 20 s")]


def test_what_one_silent_host_leaves_undecided_is_said_of_that_host_and_not_of_the_one_that_hints_at_it() -> None:
    facts = [row for row in healthy(*HOSTS) if row.host != "n3"]
    now = look(
        [*facts, *(build_unobserved_fact(check.id, Status.TIMEOUT, "no answer", "n3") for check in lens().checks.values())],
        priors={LOST: 0.5},
    )
    assert now.label_verdicts[LOST].because.startswith("could not look: n3:")
    assert (now.build_hypothesis(LOST).hosts, now.build_hypothesis(LOST).devices) == (("n3",), ())


def test_what_decides_and_could_not_be_looked_at_is_never_rejected() -> None:
    facts = [row for row in healthy(*HOSTS) if row.check != "ibstat"]
    now = look([*facts, *(build_unobserved_fact("ibstat", Status.DENIED, "permission denied", host) for host in HOSTS)])
    assert now.label_verdicts[NO_SM].verdict == "inconclusive"
    assert "permission denied" in now.label_verdicts[NO_SM].because


def test_a_log_line_alone_accuses_no_machine_but_may_prove_a_users_mistake() -> None:
    now = look(instead(healthy(*HOSTS), fact("n1", "joblog", "job.error", "cuda_no_device", "rank 3")), priors={LOST: 2.0})
    assert now.finding == "abstained", "abnormal and unexplained"
    now = look(instead(healthy(*HOSTS), fact("n1", "joblog", "job.error", "collective_desync", "rank 3")))
    (cause,) = now.list_root_causes()
    assert (cause.label, cause.hosts) == (DESYNC, ())


def test_words_and_history_never_confirm() -> None:
    now = look(healthy(*HOSTS), priors=dict.fromkeys(TAXONOMY.leaves, 50.0))
    assert labels(now) == []
    assert all(row.posterior < 0.3 for row in now.beliefs)


def test_what_was_handed_in_suggests_but_does_not_accuse() -> None:
    pasted = Fact("dmesg", "kernel.xid", 79, "gpu3", line="Xid 79", time=T0)
    now = look([*healthy(*HOSTS), pasted])
    assert labels(now) == []
    assert now.finding == "abstained"


def test_a_stale_fact_supports_nothing_and_is_not_odd() -> None:
    now = look(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.xid", 79, "gpu3", stale=True)))
    assert now.finding == "no_fault"


def test_an_event_from_long_before_the_incident_proves_nothing() -> None:
    old = replace(fact("n2", "dmesg", "kernel.xid", 79, "gpu3"), time=T0 - timedelta(days=3))
    assert labels(look(instead(healthy(*HOSTS), old))) == []


def test_a_sympathetic_event_is_no_evidence() -> None:
    echo = fact("n2", "dmesg", "kernel.xid", 79, "gpu3", attrs={"sympathetic": 48})
    assert look(instead(healthy(*HOSTS), echo)).finding == "no_fault"


def test_a_cause_explains_its_consequences_away() -> None:
    facts = instead(
        healthy(*HOSTS),
        fact("n2", "dmesg", "kernel.oom_kill", "python3"),
        fact("n1", "joblog", "job.error", "collective_desync", "rank 0"),
    )
    now = look(facts)
    assert labels(now) == [OOM]
    assert now.label_verdicts[DESYNC].verdict == "rejected"
    assert now.label_verdicts[DESYNC].because == "a consequence of Oom on n2"


def test_two_causes_on_two_hosts_are_both_named() -> None:
    facts = instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.oom_kill", "python3"), fact("n3", "dmesg", "kernel.xid", 79, "gpu0"))
    now = look(facts)
    assert {row.label: row.hosts for row in now.list_root_causes()} == {OOM: ("n2",), LOST: ("n3",)}


def test_the_same_fault_on_two_hosts_is_one_cause() -> None:
    facts = instead(healthy(*HOSTS), *(fact(host, "dmesg", "kernel.xid", 79, "gpu1") for host in ("n1", "n3")))
    (cause,) = look(facts).list_root_causes()
    assert cause.devices == ("n1/gpu1", "n3/gpu1")
    assert {e.host for e in cause.evidence} == {"n1", "n3"}


def test_what_only_one_node_shows_is_no_fault_of_the_fabric() -> None:
    assert labels(look(instead(healthy(*HOSTS), fact("n2", "ibstat", "ib.sm_lid", 0, "mlx5_0")))) == []
    facts = instead(healthy(*HOSTS), *(fact(host, "ibstat", "ib.sm_lid", 0, "mlx5_0") for host in HOSTS))
    (cause,) = look(facts).list_root_causes()
    assert (cause.label, cause.hosts) == (NO_SM, ())


def test_a_hot_rack_is_told_from_hot_gpus() -> None:
    racks = {"n1": "r1", "n2": "r1", "n3": "r2"}
    hot = [fact(host, "smi", "gpu.throttle.hw_thermal", True, f"gpu{n}") for host in ("n1", "n2") for n in range(4)]
    now = assess_facts(instead(healthy(*HOSTS), *hot), lens(racks=racks), HOSTS, {}, T0)
    (cause,) = now.list_root_causes()
    assert (cause.label, cause.hosts, cause.devices) == (RACK, ("n1", "n2"), ("rack:r1",))
    single = [fact(host, "smi", "gpu.throttle.hw_thermal", True, "gpu1") for host in ("n1", "n2")]
    now = assess_facts(instead(healthy(*HOSTS), *single), lens(racks=racks), HOSTS, {}, T0)
    assert labels(now) == [HOT]


def test_heavy_evidence_against_a_decisive_fact_is_a_contradiction() -> None:
    rivals = Taxonomy(
        {
            "GPU.BUS.A": leaf(
                "GPU.BUS.A",
                "gpu",
                clue("for", "kernel.xid", "value == 79", 8, decisive=True),
                clue("against", "pcie.rev_ff", "value == false", -4),
            )
        },
        {},
    )
    now = assess_facts(instead(healthy("n1"), fact("n1", "dmesg", "kernel.xid", 79, "gpu1")), lens(rivals), ("n1",), {}, T0)
    assert now.finding == "abstained"
    assert "facts disagree about A on n1/gpu1" in now.why_unsure[0]


def test_two_labels_that_the_same_evidence_fits_equally_are_not_guessed_between() -> None:
    both = [clue("x", "kernel.xid", "value == 79", 9, decisive=True)]
    rivals = Taxonomy({label: leaf(label, "gpu", *both) for label in ("GPU.BUS.A", "GPU.BUS.B")}, {})
    now = assess_facts(instead(healthy("n1"), fact("n1", "dmesg", "kernel.xid", 79, "gpu1")), lens(rivals), ("n1",), {}, T0)
    assert now.finding == "abstained"
    assert "equally" in now.why_unsure[0]
    assert {row.verdict for row in now.selection.aside} == {"inconclusive"}


def test_a_rejected_cause_has_its_verdict_as_a_value() -> None:
    now = look(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.oom_kill", "python3")))
    row = now.roots[0]
    verdicts: tuple[Verdict, ...] = ("rejected", "inconclusive")
    for verdict in verdicts:
        aside = RootCauseSelection(aside=(SetAsideBelief(row, verdict, "cannot or can, the words decide nothing"),))
        assert judge_label(row.leaf, [row], aside, now.coverage).verdict == verdict


def test_an_exclusive_check_that_was_run_can_reject() -> None:
    now = look(healthy(*HOSTS))
    assert now.label_verdicts[SLOW_LINK].verdict == "inconclusive"
    now = look([*healthy(*HOSTS), *(fact(host, "nccl1", "nccl.busbw_max", 395.0) for host in HOSTS)])
    assert now.label_verdicts[SLOW_LINK].verdict == "rejected"
    now = look([*healthy(*HOSTS), fact("n1", "nccl1", "nccl.busbw_max", 120.0)])
    assert labels(now) == [SLOW_LINK]


def test_an_exclusive_check_that_was_skipped_rejects_nothing_and_is_not_asked_again() -> None:
    now = look([*healthy(*HOSTS), *(fact(host, "nccl1", "check.skipped", "busy") for host in HOSTS)])
    assert now.label_verdicts[SLOW_LINK].verdict == "inconclusive"
    assert now.coverage.list_unobserved_checks() == []
    assert {(host, "nccl1") for host in HOSTS} <= now.coverage.asked


def test_a_silent_host_is_evidence_only_where_others_answer() -> None:
    dark = [build_unobserved_fact(check, Status.UNREACHABLE, "no route", "n2") for check in ("smi", "dmesg", "lspci")]
    (silence,) = [row for row in prepare_facts([*healthy("n1"), *dark]) if row.key == "host.reachable"]
    assert (silence.host, silence.value) == ("n2", False)
    assert not [row for row in prepare_facts(dark) if row.key == "host.reachable"]
    assert [(b.host, b.check) for b in look([*healthy("n1", "n3"), *dark]).list_unobserved()] == [("n2", "all")]


def test_a_pci_address_and_a_gpu_number_are_one_device() -> None:
    facts = [
        *instead(healthy("n1"), fact("n1", "dmesg", "kernel.xid", 79, "0000:9B:00.0")),
        fact("n1", "smi", "gpu.bdf", "0000:9b:00.0", "gpu5"),
    ]
    (cause,) = look(facts, ("n1",)).list_root_causes()
    assert cause.devices == ("n1/gpu5",)


def test_an_adapter_that_is_gone_gets_the_one_name_that_is_missing() -> None:
    ports = [fact(host, "ibstat", "ib.state", "Active", name) for host, names in {"n1": "012", "n2": "02"}.items() for name in names]
    (lost,) = [
        row for row in prepare_facts([*ports, fact("n2", "dmesg", "kernel.mlx5", "fw_fatal", "0000:9a:00.0")]) if row.key == "kernel.mlx5"
    ]
    assert lost.device == "1"


def test_what_happened_long_before_is_no_consequence() -> None:
    early = replace(fact("n1", "joblog", "job.error", "collective_desync", "rank 0"), time=T0 - timedelta(minutes=30))
    now = look(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.oom_kill", "python3"), early))
    assert set(labels(now)) == {OOM, DESYNC}


def test_a_tenants_words_never_explain_a_machines_error_away() -> None:
    rivals = Taxonomy(
        {
            LOST: leaf(LOST, "gpu", clue("xid79", "kernel.xid", "value == 79", 9, decisive=True)),
            DESYNC: leaf(DESYNC, "job", clue("said", "job.error", "value == 'x'", 9, decisive=True), suppresses=(LOST,), share=0.04),
        },
        {},
    )
    facts = instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.xid", 79, "gpu1"), fact("n1", "joblog", "job.error", "x"))
    assert {row.label for row in assess_facts(facts, lens(rivals), HOSTS, {}, T0).list_root_causes()} == {LOST, DESYNC}


def test_a_logs_story_is_not_the_cause_beside_a_machines_unexplained_error() -> None:
    story = fact("n1", "joblog", "job.error", "collective_desync", "rank 0")
    now = look(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.xid", 167, "gpu1"), story))
    assert now.finding == "abstained"
    assert "cannot be the whole cause: n2 says Xid 167 on gpu1" in now.why_unsure[0]
    now = look(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.xid", 31, "gpu1"), story))
    assert labels(now) == [DESYNC], "a page fault is as likely the program's"


def test_without_known_racks_hot_hosts_are_grouped() -> None:
    hosts = tuple(f"n{n}" for n in range(1, 7))
    hot = [fact(host, "smi", "gpu.throttle.hw_thermal", True, f"gpu{n}") for host in hosts[:2] for n in range(4)]
    (cause,) = look(instead(healthy(*hosts), *hot), hosts).list_root_causes()
    assert (cause.label, cause.hosts, cause.devices) == (RACK, hosts[:2], ())


def test_shared_facts_say_how_many_share_them() -> None:
    ready = prepare_facts([fact(host, "dmesg", "kernel.xid", 31, "gpu1") for host in HOSTS])
    assert {row.attrs["hosts_with_same"] for row in ready} == {3}


SUPPORT = (
    fact("n2", "dmesg", "kernel.xid", 79, "gpu3"),
    fact("n2", "lspci", "pcie.rev_ff", True, "gpu3"),
    fact("n2", "joblog", "job.error", "cuda_no_device", "rank 3"),
)


@given(st.sets(st.sampled_from(range(3))), st.sampled_from(range(3)))
@settings(max_examples=40)
def test_removing_a_supporting_fact_never_raises_confidence(kept: set[int], removed: int) -> None:
    base = [row for row in healthy(*HOSTS) if (row.host, row.device, row.key) != ("n2", "gpu3", "pcie.rev_ff")]
    more = look([*base, *(SUPPORT[n] for n in kept | {removed})])
    less = look([*base, *(SUPPORT[n] for n in kept - {removed})])
    assert less.by_label[LOST][0].log_odds <= more.by_label[LOST][0].log_odds


NOISE = st.lists(
    st.builds(
        lambda host, key, value: fact(host, "dmesg", key, value),
        st.sampled_from(HOSTS),
        st.sampled_from(["kernel.mlx5", "kernel.release", "gpu.temp.core", "disk.used_percent"]),
        st.sampled_from(["access_reg", "link_up", "x", 3, 50]),
    ),
    max_size=30,
)


@given(NOISE)
@settings(max_examples=40)
def test_irrelevant_noise_does_not_flip_a_verdict(noise: list[Fact]) -> None:
    sick = instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.xid", 79, "gpu3"))
    assert labels(look([*sick, *noise])) == [LOST]
    assert look([*healthy(*HOSTS), *noise]).finding == "no_fault"


def _desync_on_n2(unseen: str) -> Assessment:
    said = fact("n2", "joblog", "job.error", "collective_desync")
    facts = [row for row in instead(healthy(*HOSTS), said) if (row.host, row.check) != (unseen, "dmesg")]
    return look([*facts, build_unobserved_fact("dmesg", Status.TIMEOUT, "no answer within 30 s", unseen)])


def test_a_cause_is_less_sure_while_what_it_would_follow_from_could_not_be_looked_at() -> None:
    (cause,) = _desync_on_n2("n2").list_root_causes()
    assert (cause.label, cause.verdict, cause.confidence) == (DESYNC, "confirmed", MAX_CONTESTED_CONFIDENCE)
    assert "it would follow from Oom, which could not be looked at" in cause.because


def test_a_look_that_failed_elsewhere_makes_no_cause_less_sure() -> None:
    (cause,) = _desync_on_n2("n1").list_root_causes()
    assert cause.confidence >= 0.95
    assert "follow" not in cause.because

"""A model's ideas outside the taxonomy cite findings, get checks and criticism, and never become a diagnosis or remedy."""

from dataclasses import dataclass, field, replace
from typing import Any

from graph.incident.exploration import MAX_ROUNDS
from graph.incident.findings_reading import MAX_NEW_HOSTS, MAX_READINGS
from graph.model.reasoner import DeclinedAnswer, Idea, Ideas, Objection, ReportExtraction, RequestedCheck
from graph.report import Report
from tests.graph.test_flow import LOST_ON_N2, Desk, world
from tests.support.fakes_graph import CHECKS, LOST, SLOW_LINK, FakeModel, fact, item

REPLAYS = fact("n2", "nvlink", "nvlink.replay_errors", 900, "gpu0")
ODD = fact("n1", "dmesg", "kernel.xid", 167, "gpu0")
BENT = Idea("A bent pin of the baseboard", "It makes links replay.", "INTERCONNECT.NVLINK", (0,), suggestions=("Look at the board.",))
HEAT = Idea("Heat of the rack", "It makes everything slow.", quotes=("n1 is odd",))


def thinking(*ideas: Idea, **more: Any) -> FakeModel:
    return FakeModel(thinks=Ideas(ideas, ("What changed?",)), **more)


@dataclass
class Talk:
    """One incident with repeated answers."""

    desk: Desk
    said: int = field(default=0)

    async def say(self, text: str) -> Report:
        self.said += 1
        given = item(text, "reply" if self.said > 1 else "mention")
        return await self.desk.turn(given.model_copy(update={"id": f"said-{self.said}"}))


async def test_where_no_cause_is_proven_ideas_are_shown_with_what_they_rest_on() -> None:
    model = thinking(BENT, HEAT, objects=(Objection("holds"), Objection("doubtful", "The room is cool.", (0,))))
    report = await Desk(world(ODD, model=model)).turn(item("n1 is odd"))
    assert report.outcome == "abstained"
    bent, heat = report.ideas
    assert (bent.title, bent.rests, bent.standing) == (BENT.title, (model.shown[-1].partition("\n")[0][:160],), "open")
    assert (heat.rests, heat.doubt) == (("n1 is odd",), "The room is cool.")
    assert report.questions == ("What changed?",)
    assert (report.root_causes, report.actions, report.by_hand) == ((), (), ())


async def test_what_a_finding_contradicts_is_refuted() -> None:
    model = thinking(BENT, objects=(Objection("contradicted", "No link replays.", (0,)),))
    report = await Desk(world(ODD, model=model)).turn(item("n1 is odd"))
    assert [(idea.standing, idea.doubt) for idea in report.ideas] == [("refuted", "No link replays.")]


async def test_passive_checks_of_an_idea_run_at_once_and_their_facts_are_weighed() -> None:
    wants = replace(BENT, hosts=("n9",), looks=("nvlink", "nccl1"))
    model = thinking(wants, later=Ideas((replace(BENT, standing="supported"),)), objects=(Objection("holds"),))
    desk = Desk(world(ODD, model=model, hosts="n[1-80]"))
    report = await desk.turn(item("n1 is odd"))
    assert [ask.check for ask in desk.world.fleet.asked if ask.host == "n9"] == ["nvlink"], "nobody had looked there"
    assert list(model.earlier) == [f"{BENT.title} (open): {BENT.cause}"]
    assert [(idea.standing, idea.looks) for idea in report.ideas] == [("supported", ("nvlink on n9",))]


async def test_an_idea_never_becomes_a_diagnosis_however_sure_the_model_is() -> None:
    model = thinking(
        replace(BENT, standing="supported"),
        found=ReportExtraction(causes=((SLOW_LINK, 1.0),)),
        objects=(Objection("holds"),),
    )
    desk = Desk(world(REPLAYS, model=model))
    report = await desk.turn(item("n2 is slow"))
    assert (report.root_causes, report.outcome) == ((), "abstained")
    assert (await desk.state()).get("ladders", []) == []


async def test_a_model_that_knows_the_cause_but_for_a_blind_look_is_asked_for_no_others() -> None:
    model = thinking(BENT, found=ReportExtraction(causes=((LOST, 0.9),)))
    desk = Desk(world(model=model))
    desk.world.fleet.dark = {"n2": "no answer within 20 s"}
    report = await desk.turn(item("job hangs on n2"))
    assert (report.outcome, report.ideas) == ("abstained", ())
    assert "explore" not in model.calls
    assert report.questions, "people are asked all the same"


async def on_a_dark_host(found: ReportExtraction) -> Report:
    desk = Desk(world(model=FakeModel(found=found)))
    desk.world.fleet.dark = {"n2": "no answer within 20 s"}
    return await desk.turn(item("job hangs on n2"))


async def test_what_a_reading_takes_for_the_cause_is_named_as_likely_and_not_as_found() -> None:
    report = await on_a_dark_host(ReportExtraction(causes=((LOST, 0.8), (SLOW_LINK, 0.1))))
    assert (report.outcome, report.root_causes, report.actions) == ("abstained", (), ())
    assert report.likely is not None
    assert (report.likely.label, report.likely.p, report.likely.by) == (LOST, 0.8, "reading")
    assert "n2" in report.likely.because, "why it is not proven is said"


async def test_what_a_reading_only_holds_possible_is_not_called_likely() -> None:
    assert (await on_a_dark_host(ReportExtraction(causes=((LOST, 0.4),)))).likely is None


async def test_no_reading_makes_likely_what_the_facts_reject() -> None:
    sure = ReportExtraction(causes=((LOST, 0.9),))
    report = await Desk(world(ODD, model=FakeModel(guess=sure, found=sure))).turn(item("something is off"))
    assert (report.outcome, report.likely) == ("abstained", None)


async def test_where_machines_are_well_what_a_reading_takes_for_the_cause_is_told_in_its_words() -> None:
    thinks = ReportExtraction(outside="The new image brings another tokenizer than the model was trained with.")
    report = await Desk(world(model=FakeModel(guess=thinks, found=thinks))).turn(
        item("the job on n1 gives garbage since the image was swapped")
    )
    assert (report.outcome, report.root_causes, report.actions) == ("no_fault", (), ())
    assert report.outside == thinks.outside


async def test_answers_make_ideas_anew_three_times_and_then_people_go_on() -> None:
    model = thinking(BENT, objects=(Objection("holds"),))
    talk = Talk(Desk(world(ODD, model=model)))
    outcomes = [(await talk.say(f"n1 is odd, and odder by {n}")).outcome for n in range(MAX_ROUNDS)]
    assert outcomes == ["abstained"] * MAX_ROUNDS
    assert model.calls.count("explore") == MAX_ROUNDS
    last = await talk.say("still odd")
    state = await talk.desk.state()
    assert model.calls.count("explore") == MAX_ROUNDS
    assert (state["lifecycle"], last.next_step) == ("handed_off", "Take the ticket.")
    assert f"{BENT.title} (open): {BENT.cause}" in state["ticket"]["summary"]


async def test_without_a_model_or_with_one_that_fails_the_rules_ask_as_before() -> None:
    for model in (None, FakeModel(thinks=DeclinedAnswer("over budget"))):
        report = await Desk(world(ODD, model=model)).turn(item("n1 is odd"))
        assert (report.outcome, report.ideas) == ("abstained", ())
        assert report.questions


async def test_a_cause_that_facts_prove_ends_the_thinking() -> None:
    model = thinking(BENT, objects=(Objection("holds"),))
    talk = Talk(Desk(world(ODD, model=model)))
    assert (await talk.say("n1 is odd")).ideas
    talk.desk.world.fleet.facts = [*talk.desk.world.fleet.facts, LOST_ON_N2]
    report = await talk.desk.turn(item("look again", "recheck"))
    assert [row.label for row in report.root_causes] == [LOST]
    assert report.ideas == ()


async def test_a_sure_diagnosis_is_not_critiqued() -> None:
    model = FakeModel(objects=(Objection("contradicted", "No.", (0,)),))
    report = await Desk(world(LOST_ON_N2, model=model)).turn(item("a GPU has fallen off on n2"))
    assert report.outcome == "diagnosed"
    assert "critique" not in model.calls


async def test_a_narrow_diagnosis_is_told_with_what_speaks_against_it_and_stays_proven() -> None:
    """A reading finds another cause likely on the same host, so the critique runs; it cannot undo what a fact proves."""
    model = FakeModel(
        found=ReportExtraction(causes=((SLOW_LINK, 1.0),), checks=(RequestedCheck("nvlink", ("n2",), repeat=True),)),
        objects=(Objection("contradicted", "Its links replayed before.", (0,)),),
    )
    report = await Desk(world(LOST_ON_N2, REPLAYS, model=model)).turn(item("n2 is slow"))
    assert [row.label for row in report.root_causes] == [LOST]
    assert model.claims == ("Lost (n2/gpu3)",)
    assert report.doubts == ("Lost: Its links replayed before.",)


async def test_a_reading_may_ask_for_a_repetition_and_reads_again_after_it_at_most_three_times() -> None:
    repeats = ReportExtraction(checks=(RequestedCheck("nvlink", ("n2",), repeat=True),))
    model = FakeModel(found=repeats)
    desk = Desk(world(REPLAYS, model=model))
    await desk.turn(item("n2 is slow"))
    assert model.calls.count("read") == 3
    asked = [(ask.host, ask.check) for ask in desk.world.fleet.asked]
    rule_looks = 1 + 2  # the first wave and its repetitions
    assert asked.count(("n2", "nvlink")) == rule_looks + 2, "after the last reading no check runs"


async def test_a_reading_that_asks_for_nothing_new_is_the_last_one() -> None:
    known = ReportExtraction(checks=(RequestedCheck("nvlink", ("n2",)), RequestedCheck("rm", ("n2",)), RequestedCheck("smi", ("n99",))))
    model = FakeModel(found=known)
    desk = Desk(world(REPLAYS, model=model))
    await desk.turn(item("n2 is slow"))
    assert model.calls.count("read") == 1
    assert {ask.check for ask in desk.world.fleet.asked} <= set(CHECKS), "a check that nobody offered never runs"


async def test_hosts_that_a_reading_finds_get_all_passive_checks() -> None:
    model = FakeModel(found=ReportExtraction(hosts=("n9",)))
    desk = Desk(world(ODD, model=model, hosts="n[1-80]"))
    await desk.turn(item("n1 is odd"))
    passive = {check.id for check in CHECKS.values() if not check.exclusive}
    assert {ask.check for ask in desk.world.fleet.asked if ask.host == "n9"} >= passive


async def test_a_reading_runs_tests_that_need_idle_gpus_on_the_incidents_own_hosts_only() -> None:
    exclusive = next(check.id for check in CHECKS.values() if check.exclusive)
    model = FakeModel(found=ReportExtraction(checks=(RequestedCheck(exclusive, ("n1", "n9"), repeat=True),)))
    desk = Desk(world(ODD, model=model, hosts="n[1-80]"))
    await desk.turn(item("n1 is odd"))
    assert {ask.host for ask in desk.world.fleet.asked if ask.check == exclusive} == {"n1"}


async def test_a_reading_adds_a_bounded_number_of_hosts() -> None:
    others = tuple(f"n{number}" for number in range(20, 80))
    desk = Desk(world(ODD, model=FakeModel(found=ReportExtraction(hosts=others)), hosts="n[1-80]"))
    await desk.turn(item("n1 is odd"))
    assert len({ask.host for ask in desk.world.fleet.asked} & set(others)) == (MAX_READINGS - 1) * MAX_NEW_HOSTS


async def test_a_likely_cause_is_the_headline_also_where_nothing_is_abnormal() -> None:
    model = FakeModel(found=ReportExtraction(causes=((SLOW_LINK, 0.6), (LOST, 0.2))))
    report = await Desk(world(model=model)).turn(item("n2 is slow"))
    assert (report.outcome, report.root_causes, report.actions) == ("abstained", (), ())
    assert report.likely is not None
    assert report.likely.label == SLOW_LINK
    assert report.headline.startswith("Likely, not proven: Slow.")


async def test_a_second_cause_is_sought_where_one_leaves_a_symptom_unexplained() -> None:
    model = FakeModel()
    report = await Desk(world(LOST_ON_N2, model=model)).turn(item("a GPU has fallen off on n2 and n3 is slow"))
    assert [row.label for row in report.root_causes] == [LOST]
    assert "read" in model.calls

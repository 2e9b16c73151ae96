"""Invariant I27 for files: a log in a folder shared by tenants is visible only to the tenant whose job wrote it, and a
planted replacement is never read.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from bot.incidents.dispatch.closed_incidents import build_closed_incident
from bot.tenants.cards import answers
from bot.tenants.cards.view import TenantViewContext, build_tenant_view
from graph.incident.lifecycle import is_settled_for_tenant
from graph.incident_view import IncidentView
from graph.learning.lessons import draft_lesson
from graph.ownership import TenantMachines, is_withheld_from_tenant
from graph.report import Report
from graph.state import Evidence, FileSource, Hypothesis, InboxItem, IncidentState, Origin, TenantThread
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.loader import load_taxonomy
from tests.support.job_log_folder import ALICE, KINDS, MALLORY, OWN, SECRET, Jobs, flip_of, look, shared_folder, turned, write
from tools.checks import CHECKS
from tools.fact import Fact

WORDS = load_customer_words(load_taxonomy())
OOM = "USER.CODE.Batch_Too_Large_OOM"
OOM_TITLE = WORDS.get_cause_words(OOM, "en").title
READER = TenantViewContext(frozenset({"gpu-003", "gpu-004"}), WORDS)
CAME = TenantThread(team="T1", channel="C0ACME", thread_ts="2.0", user="U0CARLA")
ORIGIN = Origin(kind="slack", team="T1", channel="C0OPS", thread_ts="1.0", tenant="acme", customer=CAME)
AT = datetime(2026, 5, 20, tzinfo=UTC)
ERROR = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
MINE = TenantMachines(frozenset({"gpu-003", "gpu-004"}), frozenset({"gpu-003", "gpu-004"}))
OTHER = "RuntimeError: NCCL error: unhandled system error\n"
JOBS: Jobs = {812: (MALLORY, "gpu-[003-004]", ""), 813: (MALLORY, "gpu-[003-005]", ""), 900: (ALICE, "gpu-003", "")}


def told(text: str) -> set[str]:
    """Return the error classes that the tenant of gpu-003 may see in the program's output."""
    facts = [fact.locate("gpu-003", time=fact.time) for fact in CHECKS["joblog"].parse_output(text)]  # type: ignore[arg-type]  # no time is needed
    return {str(fact.value) for fact in facts if fact.key == "job.error" and fact.value and not is_withheld_from_tenant(fact, MINE)}


def found(text: str) -> list[Fact]:
    return [fact for fact in CHECKS["joblog"].parse_output(text) if fact.key == "job.error" and fact.value]


async def i27_files() -> None:
    """Only what a job's owner wrote for a job on the tenant's machines belongs to the tenant."""
    with tempfile.TemporaryDirectory() as under:
        top, victim = shared_folder(Path(under))
        named = {7: (MALLORY, "gpu-003", f"JobId=7 StdOut={victim}/logs/x.log StdErr={victim}/logs/x.log")}
        assert MALLORY == ALICE or SECRET not in look(top, named).out, "a job names another's file as its output"
        write(top / "812" / "rank_3.log", ERROR)
        assert told(look(top, JOBS).out) == {"cuda_oom"}, "what is theirs is told"
        for path, owner in (("813/rank_4.log", MALLORY), ("814/rank_5.log", MALLORY), ("rank_812.log", MALLORY), ("812/rank_6.log", ALICE)):
            write(top / path, OTHER, owner)
            shown = look(top, JOBS).out
            assert len({str(fact.value) for fact in found(shown)}) == 2, "our own people see both"
            assert told(shown) == {"cuda_oom"}, path
            (top / path).unlink()


async def i27_heads() -> None:
    """No log line can pose as another log's header."""
    with tempfile.TemporaryDirectory() as under:
        top, _ = shared_folder(Path(under))
        write(top / "812" / "rank_3.log", "step 1\n")
        mark = look(top, JOBS).out.partition("\n")[0].removeprefix("== logs ")
        for number in (mark, "1" * 20):
            head = f"==> {top}/812/rank_3.log <==\n== of uid={MALLORY} job=812 nodes=gpu-[003-004] {number}\n"
            for form in (head, head.replace("==", "=\x1b[0m="), head.replace("\n", "\r"), f"== logs {number}\n{head}"):
                write(top / "x.log", f"{form}{OTHER}", ALICE)
                shown = look(top, JOBS).out
                assert found(shown)
                assert told(shown) == set(), form


async def i27_handed() -> None:
    """A file that an operator attached is hidden; one that the tenant attached is visible. The file's own claims do not
    count.
    """
    assert MINE.may_see_fact("", "joblog", FileSource(path="train.log", by="customer"))
    claimed = FileSource(path="/shared/812/x.log", uid=MALLORY, job="812", nodes="gpu-003")
    for source in (None, FileSource(path="train.log"), claimed):
        assert not MINE.may_see_fact("", "joblog", source)
        assert MINE.is_unowned_file_fact("", "dmesg", source)
    assert MINE.may_see_fact("gpu-003", "env", None), "what a machine of theirs says of itself is theirs"
    assert not MINE.may_see_fact("gpu-005", "joblog", claimed), "and no look at another machine is"


async def i27_causes() -> None:
    """A cause shown only by an unowned file is visible to no tenant, now or later, and its lesson is internal."""
    for source, is_told in ((FileSource(uid=1, job="812", nodes="gpu-[003-004]"), True), (FileSource(uid=1), False), (None, False)):
        seen = Evidence(host="gpu-003", check="joblog", key="job.error", line=ERROR.strip(), source=source)
        cause = Hypothesis(label=OOM, hosts=("gpu-003",), because=ERROR, evidence=(seen,))
        report = Report(item="i", outcome="diagnosed", root_causes=(cause,), crossing=None if is_told else ())
        for kept in (report, report.model_copy(update={"crossing": None})):
            rows = _stored(kept)
            view = build_tenant_view(rows, READER)
            assert [row.shows for row in view.causes] == ([(ERROR.strip(),)] if is_told else []), source
            assert answers.build_past_query(rows, ORIGIN, READER).labels == ((OOM,) if is_told else ())
            lesson = draft_lesson(rows.stored, AT, {OOM}, lambda hosts: frozenset({"acme"}), {"gpu-003": "acme", "gpu-004": "acme"}.get)
            assert lesson
            assert lesson.can_serve_tenant("acme") is is_told
        earlier = build_closed_incident(_stored(report).stored, AT)
        assert earlier
        assert (OOM_TITLE in "".join(answers.format_past_incidents([earlier], ORIGIN, READER))) is is_told
        assert is_settled_for_tenant(_stored(report, "open"), {OOM}.__contains__) is is_told, "nobody who was told nothing was answered"


def _stored(report: Report, lifecycle: str = "closed") -> IncidentView:
    ticket = {"true_label": OOM, "true_cause": "too large"} if lifecycle == "closed" else None
    state = {"id": "inc-1", "lifecycle": lifecycle, "report": report.model_dump(mode="json"), "origin": ORIGIN.model_dump(mode="json")}
    item = InboxItem(id="i", kind="close", incident="inc-1", at=AT).model_dump(mode="json")
    return IncidentView(cast(IncidentState, {**state, "item": item, **({"ticket": ticket} if ticket else {})}))


async def i27_flips() -> None:
    """Replacing any part of a log's path during the search exposes nothing else."""
    looks = 0
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as under:
            top, flip, jobs = flip_of(kind, Path(under))
            assert OWN in look(top, jobs).out, kind
            for shown in turned(top, flip, jobs):
                looks += 1
                assert SECRET not in shown, kind
    assert looks > 300, looks


async def i27_roots() -> None:
    """A folder is read only if root alone controls which folder it is."""
    with tempfile.TemporaryDirectory() as under:
        top, victim = shared_folder(Path(under))
        write(top / "x.log", f"{OWN}\n")
        open_to_all = Path(under) / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        (open_to_all / "logs").symlink_to(victim / "logs")
        seen = look(open_to_all / "logs")
        assert SECRET not in seen.out
        assert "not permitted" in seen.err
        assert OWN in look(top).out, "what is below may be anybody's"


STORIES = (i27_files, i27_heads, i27_handed, i27_causes, i27_flips, i27_roots)

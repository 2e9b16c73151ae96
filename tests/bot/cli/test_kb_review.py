"""`rackmedic kb review` and `kb apply`: decisions survive a kill, and a build that worsens past answers is refused."""

import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
import yaml

from bot.app.site_files import load_all_checks, load_site_incidents, load_site_taxonomy
from bot.cli.kb.apply_command import apply_build
from bot.cli.kb.build_command import build_folder
from bot.cli.kb.built_folder import load_built_items, load_decisions
from bot.cli.kb.review_command import ReviewDialog, review_folder
from bot.refusal import Refusal
from bot.settings import Settings, load_settings
from graph.learning.replay import ReplayResult, compare_replays, label_incidents
from kb.history.incidents import PastIncident, load_seeds
from kb.taxonomy.loader import load_taxonomy
from tests.support.terminal import rackmedic
from tools.checks import CHECKS

pytestmark = pytest.mark.slow


SITE = load_settings(environ={})
LABELS = load_taxonomy().leaves
BUS = {
    "id": "INC-1", "title": "gpu-017 lost a card", "created": "2024-03-02T10:00:00Z",
    "description": "Step 900 never came. dmesg: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    "comments": [{"author": "Bob \x1b[2J", "body": "Root cause: the riser. Fixed by reseating it."}],
}  # fmt: skip
OPEN = {**BUS, "id": "INC-4", "title": "another lost card, nobody knows", "comments": []}


class Somebody:
    """A reviewer with scripted answers who records what was shown."""

    def __init__(self, *answers: str, edits: str | None = None) -> None:
        self._answers, self._edits, self.shown = iter(answers), edits, list[str]()

    @property
    def talk(self) -> ReviewDialog:
        return ReviewDialog(self.shown.append, lambda _: next(self._answers, None), self._edited)

    def _edited(self, text: str) -> str | None:
        self.shown.append(text)
        return self._edits


@pytest.fixture
def built(tmp_path: Path) -> Path:
    export, wiki = tmp_path / "ours.jsonl", tmp_path / "wiki"
    export.write_text("\n".join(map(json.dumps, (BUS, OPEN))))
    wiki.mkdir()
    (wiki / "mlx.md").write_text("# Which port\nmlx5_1 is the control plane on this SKU.\n")
    build_folder(SITE, [export, wiki], tmp_path / "built", (), as_json=True)
    return tmp_path / "built"


def reviewed(folder: Path, somebody: Somebody, **how: bool) -> Somebody:
    assert review_folder(SITE, folder, somebody.talk, as_json=False, **how) == 0
    return somebody


def says(folder: Path) -> Mapping[str, str]:
    return {one.id: one.does for one in load_decisions(folder, load_built_items(folder, LABELS)).values()}


def no_past_incidents(had: Settings, has: Settings, new: Collection[str]) -> ReplayResult:
    """Replay no past incidents: replaying all takes seconds and decides nothing in most tests here."""
    return compare_replays([], {}, {}, [])


def test_each_draft_is_asked_once_and_an_interrupted_review_continues(built: Path) -> None:
    first = reviewed(built, Somebody("a", "q"))
    assert "gpu-017 lost a card" in first.shown[0]
    assert "\x1b" not in "".join(first.shown)
    assert says(built) == {"inc-1": "accept"}
    second = reviewed(built, Somebody("r", "a"))
    assert [one.partition(" · ")[0].strip() for one in second.shown] == ["1 of 2", "2 of 2"]
    assert says(built) == {"inc-1": "accept", "inc-4": "refuse", "which-port": "accept"}
    assert reviewed(built, Somebody()).shown == []
    reviewed(built, Somebody("r", "q"), again=True)
    assert says(built)["inc-1"] == "refuse"


def test_a_cut_line_of_a_killed_review_is_asked_again(built: Path) -> None:
    reviewed(built, Somebody("a", "q"))
    path = built / "decisions.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert says(built) == {}
    reviewed(built, Somebody("r", "q"))
    assert says(built) == {"inc-1": "refuse"}, "what is decided after the kill stands on a line of its own"


def test_what_was_changed_in_its_file_since_is_decided_about_anew(built: Path) -> None:
    reviewed(built, Somebody("a", "q"))
    [file] = (built / "incidents").glob("*.yaml")
    file.write_text(file.read_text().replace("the riser", "the slot"))
    assert says(built) == {}


def test_a_doubtful_one_is_accepted_with_a_cause_and_a_label_of_ours_alone(built: Path) -> None:
    somebody = reviewed(built, Somebody("s", "a", "l GPU.BUS.Falen_Off", "c the cable, password=hunter22", "1"))
    told = "\n".join(somebody.shown)
    assert "the cause is missing" in told
    assert "is no label; near it: GPU.BUS.Fallen_Off_Bus" in told
    [one] = load_decisions(built, load_built_items(built, LABELS)).values()
    assert (one.id, one.entry["label"]) == ("inc-4", "GPU.BUS.Fallen_Off_Bus")
    assert "hunter22" not in str(one.entry)


@pytest.mark.parametrize(
    ("edits", "says_so"),
    [("{no: [yaml", "it is no YAML"), ("id: other\ntitle: x", "its id stays inc-1"), (None, ""), ("id: inc-1\ntitle: x\nlabel: GPU.No.Such", "not accepted")],
)  # fmt: skip
def test_an_edit_that_cannot_be_used_changes_nothing(built: Path, edits: str | None, says_so: str) -> None:
    somebody = reviewed(built, Somebody("e", *(["a"] if says_so == "not accepted" else []), "q", edits=edits))
    assert says_so in "\n".join(somebody.shown)
    assert says(built) == {}


def test_what_was_edited_is_what_is_taken_over(built: Path, tmp_path: Path) -> None:
    before = yaml.safe_load(next((built / "incidents").glob("*.yaml")).read_text())["incidents"][0]
    after = yaml.safe_dump({**before, "root_cause": "A riser that was bent."})
    reviewed(built, Somebody("e", "a", "q", edits=after))
    assert apply_build(SITE, built, tmp_path / "kb", None, as_json=True, replay=no_past_incidents) == 0
    [one] = load_seeds(tmp_path / "kb" / "incidents", LABELS)
    assert one.root_cause == "A riser that was bent."


def test_only_what_was_accepted_goes_over_and_twice_is_once(built: Path, tmp_path: Path) -> None:
    kb = tmp_path / "kb"
    with pytest.raises(Refusal, match=r"nothing of .* is accepted"):
        apply_build(SITE, built, kb, None, as_json=True, replay=no_past_incidents)
    reviewed(built, Somebody("a", "r", "a"))
    apply_build(SITE, built, kb, None, as_json=True, replay=no_past_incidents, dry=True)
    assert not kb.exists()
    for _ in range(2):
        apply_build(SITE, built, kb, None, as_json=True, replay=no_past_incidents)
    assert {str(path.relative_to(kb)) for path in kb.rglob("*.*")} == {"incidents/built.yaml", "pages/which-port.md"}
    assert rackmedic("kb", "lint", str(kb)).returncode == 0
    assert rackmedic("kb", "show", "inc-1", environ={"RACKMEDIC_KB_DIR": str(kb)}).returncode == 0


def test_a_page_of_the_site_is_not_written_over(built: Path, tmp_path: Path) -> None:
    reviewed(built, Somebody("s", "s", "a"))
    page = tmp_path / "kb" / "pages" / "which-port.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Which port\nours.\n")
    with pytest.raises(Refusal, match="there already, with other words"):
        apply_build(SITE, built, tmp_path / "kb", None, as_json=True, replay=no_past_incidents)
    assert page.read_text() == "# Which port\nours.\n"


def test_a_large_page_is_accepted_too(tmp_path: Path) -> None:
    (tmp_path / "big.md").write_text("# Big\n" + "mlx5_1 is the control plane.\n" * 2000)
    build_folder(SITE, [tmp_path / "big.md"], tmp_path / "built", (), as_json=True)
    reviewed(tmp_path / "built", Somebody("a"))
    assert set(says(tmp_path / "built").values()) == {"accept"}


def test_an_id_that_is_a_number_is_taken_over_twice_too(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(json.dumps({**BUS, "id": "4711"}))
    build_folder(SITE, [tmp_path / "one.jsonl"], tmp_path / "built", (), as_json=True)
    reviewed(tmp_path / "built", Somebody("a"))
    for _ in range(2):
        assert apply_build(SITE, tmp_path / "built", tmp_path / "kb", None, as_json=True, replay=no_past_incidents) == 0


def test_where_nothing_can_be_written_it_is_said(built: Path, tmp_path: Path) -> None:
    reviewed(built, Somebody("a", "q"))
    (tmp_path / "kb").mkdir()
    (tmp_path / "kb" / "incidents").write_text("a file")
    with pytest.raises(Refusal, match="incidents"):
        apply_build(SITE, built, tmp_path / "kb", None, as_json=True, replay=no_past_incidents)


def test_an_id_that_another_file_has_is_refused(built: Path, tmp_path: Path) -> None:
    reviewed(built, Somebody("a", "q"))
    kb = tmp_path / "kb" / "incidents"
    kb.mkdir(parents=True)
    [file] = (built / "incidents").glob("*.yaml")
    (kb / "ours.yaml").write_text(file.read_text())
    with pytest.raises(Refusal, match="known already by another file: inc-1"):
        apply_build(SITE, built, tmp_path / "kb", None, as_json=True, replay=no_past_incidents)


def test_a_label_that_draws_past_incidents_away_is_refused_by_their_names(built: Path, tmp_path: Path) -> None:
    """A reviewer gives a wrong label to an incident that reads like known ones."""
    nvlink = next(one for one in load_seeds() if one.id == _named_right())
    wrong = next(label for label in LABELS if label.partition(".")[0] != nvlink.label.partition(".")[0])
    before = yaml.safe_load(next((built / "incidents").glob("*.yaml")).read_text())["incidents"][0]
    poisoned = {
        **before,
        "title": nvlink.title,
        "description": f"{nvlink.title}. {nvlink.description} " * 3,
        "root_cause": nvlink.root_cause,
        "label": wrong,
    }
    reviewed(built, Somebody("e", "a", "q", edits=yaml.safe_dump(poisoned)))
    with pytest.raises(Refusal) as refused:
        apply_build(SITE, built, tmp_path / "kb", None, as_json=True)
    assert f"{nvlink.id} ({nvlink.label}) is taken for {wrong}, by inc-1" in str(refused.value)
    assert not (tmp_path / "kb").exists()


def _named_right() -> str:
    """Return the id of a past incident whose words lead to its label."""
    past, taxonomy = load_seeds(), load_taxonomy()
    return next(one.id for one in past if label_incidents([one], past, taxonomy, CHECKS)[one.id] == one.label)


def test_a_lower_benchmark_refuses_and_names_the_cases(built: Path, tmp_path: Path) -> None:
    reviewed(built, Somebody("a", "q"))
    asked: list[Path | None] = []

    def scored(kb: Path | None) -> Mapping[str, bool]:
        asked.append(kb)
        return {"gib-1": True, "gib-2": kb is None, "gib-3": False}

    with pytest.raises(Refusal, match=r"2 of 3 right without it, 1 with it; lost: gib-2\."):
        apply_build(SITE, built, tmp_path / "kb", scored, as_json=True, replay=no_past_incidents)
    assert not (tmp_path / "kb").exists()
    assert asked[0] is None
    assert asked[1] is not None
    assert apply_build(SITE, built, tmp_path / "kb", lambda _: {"gib-1": True}, as_json=True, replay=no_past_incidents) == 0


def test_a_replay_names_what_is_lost_and_won() -> None:
    rows = [PastIncident(name, name, name, "GPU.BUS.Fallen_Off_Bus", "", "") for name in ("a", "b", "c")]
    right, wrong = "GPU.BUS.Fallen_Off_Bus", "GPU.MEMORY.Double_Bit_ECC"
    replay = compare_replays(rows, {"a": right, "b": wrong, "c": right}, {"a": wrong, "b": right, "c": right}, [])
    assert ([one.id for one in replay.lost], replay.won, replay.is_worse) == (["a"], ("b",), False)
    assert compare_replays(rows[:1], {"a": right}, {"a": wrong}, []).is_worse


def test_from_the_terminal_by_a_pipe(built: Path, tmp_path: Path) -> None:
    ran = rackmedic("kb", "review", str(built), stdin="a\nr\na\n")
    assert (ran.returncode, ran.stdout.splitlines()[-1].partition(".")[0]) == (0, "2 accepted, 1 refused, 0 to decide"), ran.stderr
    told = json.loads(rackmedic("kb", "review", str(built), "--json").stdout)
    assert (told["accepted"], told["undecided"]) == (2, [])
    ran = rackmedic("kb", "apply", str(built), "--to", str(tmp_path / "kb"), "--no-bench", "--json")
    assert json.loads(ran.stdout)["replay"]["lost"] == [], ran.stderr
    for words, why in ((("review", str(tmp_path)), "holds no finished build"), (("apply", str(built)), "name the site's folder")):
        ran = rackmedic("kb", *words)
        assert (ran.returncode, why in ran.stderr) == (2, True)


PUMP = [
    {
        "id": f"PUMP-{number}", "title": f"hall {number} went dark", "created": f"2024-05-0{number}T10:00:00Z", "label": "COOLING/Quench pump leaks",
        "description": "The quench pump of the zorbulator stopped. I ran `cat /proc/driver/ours/state`.",
        "comments": [{"author": "Ada", "body": "Root cause: a worn gasket of the quench pump. mlx5_1 is the control plane on this SKU."}],
    }
    for number in (1, 2, 3)
]  # fmt: skip


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """Build from incidents whose cause has no label."""
    (tmp_path / "pump.jsonl").write_text("\n".join(map(json.dumps, PUMP)))
    build_folder(SITE, [tmp_path / "pump.jsonl"], tmp_path / "grown", (), as_json=True)
    return tmp_path / "grown"


def test_a_new_cause_is_accepted_before_its_incidents_and_taken_over_with_them(grown: Path, tmp_path: Path) -> None:
    somebody = reviewed(grown, Somebody("a", "a", "a", "a", "a", "a"))
    kinds = [one.split(" · ")[1] for one in somebody.shown if " · " in one]
    assert kinds == ["cause", "check", "labelled", "labelled", "labelled", "page"]
    assert apply_build(SITE, grown, tmp_path / "kb", None, as_json=True, replay=no_past_incidents) == 0
    site = SITE.model_copy(update={"kb_dir": tmp_path / "kb"})
    [label] = set(load_site_taxonomy(site.kb_dir).leaves) - set(LABELS)
    assert label.endswith(".Quench_Pump_Leaks")
    assert "cat_proc_driver_ours_state" in load_all_checks(site)
    assert [one.label for one in load_site_incidents(site.kb_dir) if one.id.startswith("pump")] == [label] * 3
    assert apply_build(SITE, grown, tmp_path / "kb", None, as_json=True, replay=no_past_incidents) == 0, "twice is once"


def test_the_incidents_of_a_cause_that_was_refused_want_another_label(grown: Path, tmp_path: Path) -> None:
    somebody = reviewed(grown, Somebody("r", "r", "a", "2", "r", "r", "r"))
    assert re.search(r"unknown label \w+\.\w+\.Quench_Pump_Leaks", "\n".join(somebody.shown))
    assert apply_build(SITE, grown, tmp_path / "kb", None, as_json=True, replay=no_past_incidents) == 0
    assert not (tmp_path / "kb" / "taxonomy").exists()
    assert [one.label in LABELS for one in load_site_incidents(tmp_path / "kb") if one.id == "pump-1"] == [True]


def test_an_incident_of_an_unaccepted_cause_is_not_applied(grown: Path, tmp_path: Path) -> None:
    reviewed(grown, Somebody("s", "s", "a", "q"))
    with pytest.raises(Refusal, match="their label is new here and was not accepted: pump-1"):
        apply_build(SITE, grown, tmp_path / "kb", None, as_json=True, replay=no_past_incidents)
    assert not (tmp_path / "kb").exists()


def test_a_cause_and_a_check_are_edited_within_what_their_readers_take(grown: Path) -> None:
    heavy = "{label: LABEL, title: x, description: y, scope: node, owner: nobody, symptoms: [vague], words: [x], only_words: true, next_step: z, share: 0.9,"
    [cause] = [one for one in load_built_items(grown, LABELS) if one.kind == "cause"]
    edited = heavy.replace("LABEL", cause.id) + " share_from: us, sources: [us]}"
    told = "\n".join(reviewed(grown, Somebody("e", "a", "q", edits=edited)).shown)
    assert "share must lie between" in told
    assert "not accepted" in told
    shell = "{id: cat_proc_driver_ours_state, asks: x, command: [rm, -rf, /], timeout: 1, cap_bytes: 9, facts: [{key: site.x, kind: str, regex: x}]}"
    told = "\n".join(reviewed(grown, Somebody("s", "e", "a", "q", edits=shell)).shown)
    assert "'rm' is no program that is known to only read" in told
    assert says(grown) == {}


def test_broken_drafts_are_named(grown: Path) -> None:
    [file] = (grown / "taxonomy").glob("*.yaml")
    for text in ("{no: [yaml", "leaves: {A.B: 3}", "- 1", "leaves: 7"):
        file.write_text(text)
        with pytest.raises(Refusal, match=f"{file.name} is no"):
            load_built_items(grown, LABELS)

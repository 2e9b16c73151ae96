"""Past incidents: the seeds are valid, search needs no download, and words lead to the right label."""

import asyncio
from pathlib import Path

import pytest

from kb.history.bm25 import BM25Corpus
from kb.history.incidents import BadSeeds, PastIncident, load_seeds
from kb.history.index import PastIncidentIndex
from kb.history.label_ranking import LabelRanker
from kb.history.text_search import extract_terms, hash_term, strip_boilerplate
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import CATEGORIES

pytestmark = pytest.mark.slow


TAXONOMY = load_taxonomy()
SEEDS = load_seeds(labels=TAXONOMY.leaves)


def lesson(name: str, title: str, label: str = "GPU.BUS.Fallen_Off_Bus") -> PastIncident:
    return PastIncident(id=name, title=title, description=title, label=label, root_cause="it broke", resolution="it was mended")


def test_the_seeds_cover_every_category_and_say_where_they_come_from() -> None:
    assert len(SEEDS) >= 24
    assert {seed.label.partition(".")[0] for seed in SEEDS} == set(CATEGORIES)
    for seed in SEEDS:
        assert seed.source_url.startswith("https://")
        assert seed.title
        assert seed.description
        assert seed.root_cause
        assert seed.resolution
        assert seed.deciding_check


def test_bad_seeds_are_refused_with_every_line(tmp_path: Path) -> None:
    row = "  - {id: a, title: t, description: d, label: GPU.NO.Such, root_cause: r, resolution: r, source_url: 'ftp://x'}\n"
    (tmp_path / "s.yaml").write_text("incidents:\n" + row + row + "  - {id: b}\n")
    with pytest.raises(BadSeeds) as caught:
        load_seeds(tmp_path, TAXONOMY.leaves)
    told = "\n".join(caught.value.problems)
    for part in (
        "s.yaml:2: ",
        "unknown label GPU.NO.Such",
        "not an https address",
        "s.yaml:3: ",
        "a stands twice",
        "s.yaml:4: ",
        "title is missing",
    ):
        assert part in told


def test_numbers_stay_with_their_word_and_filler_goes() -> None:
    assert extract_terms("Please help, the GPU shows Xid 79 errors!") == ["gpu", "show", "xid", "79", "xid79", "error"]
    assert extract_terms("nvidia_peermem failed") == extract_terms("nvidia_peermem failing")
    assert extract_terms("") == []


def test_words_of_one_meaning_are_one_term() -> None:
    assert extract_terms("the host hung in All-Reduce") == extract_terms("node hangs in allreduce") == ["node", "hang", "allreduce"]
    assert extract_terms("cards timed out over IB") == ["gpu", "timeout", "over", "infiniband"]
    assert extract_terms("CUDA OutOfMemoryError") == extract_terms("CUDA out of memory")


def test_what_tools_always_print_and_what_they_call_well_says_nothing() -> None:
    quoted = "Pending : No\nRemapping Failure Occurred : No\nECC errors: 0, Inforom Pass, Memory Fail\nno Xid, it hangs"
    assert strip_boilerplate(quoted).split() == [",", ",", "Memory", "Fail", ",", "it", "hangs"]
    assert "BLOCKING" not in strip_boilerplate("RuntimeError in the kernel. For debugging consider passing CUDA_LAUNCH_BLOCKING=1.")
    assert strip_boilerplate("Pending : No") == "", "all is well, which is no cause"
    assert strip_boilerplate("it hangs") == "it hangs"


def test_a_denied_phrase_and_a_past_incident_that_is_left_out_do_not_count() -> None:
    plain, denied = (
        dict(LabelRanker.build(TAXONOMY).rank_labels(text, limit=200))
        for text in ("we saw thermal slowdown", "we never saw it, no thermal slowdown")
    )
    assert denied.get("GPU.THERMAL.HW_Thermal_Slowdown", 0.0) < plain["GPU.THERMAL.HW_Thermal_Slowdown"]
    taught = LabelRanker.build(TAXONOMY, [lesson("L1", "flux capacitor whistles")])
    assert taught.rank_labels("flux capacitor whistles")[0][0] == "GPU.BUS.Fallen_Off_Bus"
    assert taught.without_incidents({"L1"}).rank_labels("flux capacitor whistles") == []


def test_a_term_has_the_same_number_everywhere() -> None:
    assert hash_term("xid79") == 3379736410
    assert 0 <= hash_term("ü") < 2**32


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    corpus = BM25Corpus.build({"a": "gpu node job slow", "b": "gpu node job peermem", "c": "gpu node job hang"})
    scores = corpus.score_documents("gpu peermem")
    assert max(scores, key=scores.__getitem__) == "b"
    assert corpus.compute_similarity("gpu node job slow", "gpu node job slow") == pytest.approx(1.0)
    assert corpus.compute_similarity("gpu node job slow", "gpu node job hang") < corpus.compute_similarity(
        "peermem", "gpu node job peermem"
    )


def test_an_empty_corpus_answers_nothing() -> None:
    assert BM25Corpus.build({}).score_documents("anything") == {}
    assert BM25Corpus.build({}).compute_similarity("", "") == 0.0


SOUNDS_LIKE = [
    ("nvidia-smi on gpu-017 says GPU is lost, dmesg: has fallen off the bus", "GPU.BUS.Fallen_Off_Bus"),
    ("Failed to initialize NVML: Driver/library version mismatch since this morning", "SYSTEM_SOFTWARE.DRIVER.Driver_Library_Mismatch"),
    ("CUDA error 802 system not yet initialized after a reboot", "SYSTEM_SOFTWARE.FABRIC.FabricManager_Down"),
    ("job dies with OSError No space left on device when it writes to /tmp", "SYSTEM_SOFTWARE.STORAGE.Root_FS_Full"),
    ("dataloader bus error, insufficient shared memory", "SYSTEM_SOFTWARE.STORAGE.Shm_Too_Small"),
    ("NET/IB got completion with status=12 vendor err 129 at the first collective over RoCE", "USER.CONFIG.NCCL_IB_GID_INDEX_Wrong"),
    ("ib link flapping on one node, random failures with error 12", "INTERCONNECT.IB.Link_Flapping"),
    ("no kernel image is available for execution on the device, new GPU", "FRAMEWORK.VERSION.Torch_Arch_Missing"),
    ("my loss becomes nan at the same step on every restart, learning rate unchanged", "USER.CODE.Loss_NaN_Hyperparameter"),
    ("wandb tracker does not answer, ConnectionError in all jobs", "OTHER.SERVICE.Auxiliary_Service_Down"),
    ("was my job preempted? it got SIGTERM and was requeued", "OTHER.SCHED.Preemption"),
]


@pytest.mark.parametrize(("text", "label"), SOUNDS_LIKE)
def test_words_alone_point_to_the_label(text: str, label: str) -> None:
    ranked = LabelRanker.build(TAXONOMY, SEEDS).rank_labels(text)
    assert ranked[0][0] == label
    assert 0 < ranked[0][1] <= 1


def test_probabilities_add_up_and_fall() -> None:
    ranked = LabelRanker.build(TAXONOMY, SEEDS).rank_labels("gpu hang nccl timeout", limit=1000)
    chances = [p for _, p in ranked]
    assert chances == sorted(chances, reverse=True)
    assert 0.5 < sum(chances) <= 1.0000001


def test_a_vague_text_is_sure_of_nothing_and_nonsense_finds_nothing() -> None:
    nearest = LabelRanker.build(TAXONOMY, SEEDS)
    assert nearest.rank_labels("GPUs are broken")[0][1] < 0.3
    assert nearest.rank_labels("zzz qqq") == []


def test_a_symptom_lifts_the_labels_that_show_it() -> None:
    nearest = LabelRanker.build(TAXONOMY)
    plain, lifted = dict(nearest.rank_labels("one node", limit=200)), dict(nearest.rank_labels("one node", {"ib_err12"}, limit=200))
    assert lifted["INTERCONNECT.IB.PKey_Mismatch"] > plain.get("INTERCONNECT.IB.PKey_Mismatch", 0.0)


async def test_similar_incidents_come_best_first_with_a_likeness() -> None:
    history = PastIncidentIndex(SEEDS)
    found = await history.find_similar("NVML driver/library version mismatch after an unattended upgrade", 3)
    assert found[0].label == "SYSTEM_SOFTWARE.DRIVER.Driver_Library_Mismatch"
    assert [s.score for s in found] == sorted((s.score for s in found), reverse=True)
    assert all(0 < s.score <= 1 for s in found)
    assert found[0].incident in SEEDS
    assert history.trouble == ""


async def test_nothing_alike_is_an_empty_answer_and_no_trouble() -> None:
    history = PastIncidentIndex(SEEDS)
    assert await history.find_similar("zzz qqq") == []
    assert await history.find_similar("") == []
    assert await PastIncidentIndex().find_similar("gpu lost") == []
    assert history.trouble == ""


async def test_a_lesson_is_found_at_once_replaced_by_its_id_and_forgotten() -> None:
    history = PastIncidentIndex(SEEDS)
    await history.add_incident(lesson("L1", "flux capacitor whistles on the third rack"))
    assert (await history.find_similar("the flux capacitor whistles", 1))[0].incident.id == "L1"
    await history.add_incident(lesson("L1", "flux capacitor hums"))
    found = await history.find_similar("flux capacitor", 5)
    assert [s.incident.title for s in found if s.incident.id == "L1"] == ["flux capacitor hums"]
    await history.remove_incident("L1")
    assert all(s.incident.id != "L1" for s in await history.find_similar("flux capacitor", 5))
    assert len(history) == len(SEEDS)


async def test_many_questions_at_once_all_get_their_own_answer() -> None:
    history = PastIncidentIndex(SEEDS)
    texts = ["fallen off the bus under load", "driver/library version mismatch unattended upgrade"] * 10
    answers = await asyncio.gather(*(history.find_similar(text, 1) for text in texts))
    assert {answer[0].label for answer in answers[::2]} == {"GPU.BUS.Fallen_Off_Bus"}
    assert {answer[0].label for answer in answers[1::2]} == {"SYSTEM_SOFTWARE.DRIVER.Driver_Library_Mismatch"}


async def test_the_event_loop_is_free_while_history_answers() -> None:
    asked = asyncio.create_task(PastIncidentIndex(SEEDS).find_similar("gpu lost"))
    turns = 0
    while not asked.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns > 1  # a blocking search would return within one turn of the loop


async def test_a_server_that_is_away_is_trouble_and_no_crash() -> None:
    history = PastIncidentIndex(SEEDS, url="http://127.0.0.1:9")
    assert await history.find_similar("gpu lost") == []
    assert "cannot be asked" in history.trouble


async def test_two_histories_in_one_process_do_not_meet() -> None:
    one, two = PastIncidentIndex([lesson("A", "alpha beta")]), PastIncidentIndex([lesson("B", "gamma delta")])
    assert await one.find_similar("gamma delta") == []
    assert (await two.find_similar("gamma delta"))[0].incident.id == "B"
    await one.close()
    assert (await one.find_similar("alpha beta"))[0].incident.id == "A"

"""Past incidents by words and vectors: ranks are fused, likeness comes from words alone, and endpoint failures still
give an answer.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from deploy.sandbox.model.server import SandboxModel, serve
from graph.model.embeddings import HttpEmbedder
from kb.history.embedder import RETRY_AFTER_SECONDS, BackoffEmbedder, EmbeddingUnavailable
from kb.history.incidents import PastIncident
from kb.history.index import PastIncidentIndex, _build_point_id

PUMP, LINK, DISK = (
    PastIncident(name, title, title, label, "it broke", "mended")
    for name, title, label in [
        ("pump", "cooling pump of rack r7 stopped", "OTHER.INFRA.Rack_Cooling"),
        ("link", "adapter link went down", "INTERCONNECT.IB.Port_Down"),
        ("disk", "root disk of the node is full", "SYSTEM_SOFTWARE.STORAGE.Root_FS_Full"),
    ]
)


class Meaning:
    """Vectors by a few words; fails a set number of times."""

    def __init__(self, fails: int = 0, size: int = 3) -> None:
        self.fails, self.size, self.asked = fails, size, list[str]()

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked += texts
        if self.fails:
            self.fails -= 1
            raise EmbeddingUnavailable("the embeddings endpoint: 500")
        known = (("cool", "pump", "warm", "hot"), ("link", "adapter"), ("disk", "full"))
        return [
            [0.04 - 0.01 * at + any(word in text for word in words) for at, words in enumerate(known, 1)][: self.size] for text in texts
        ]


def names(found: Sequence[Any]) -> list[str]:
    return [one.incident.id for one in found]


@pytest.fixture
def sandbox() -> SandboxModel:
    return SandboxModel()


@pytest.fixture
async def endpoint(sandbox: SandboxModel) -> AsyncIterator[HttpEmbedder]:
    runner, address = await serve(sandbox)
    yield HttpEmbedder(address, "sk-of-the-site", "some-model", seconds=2.0)
    sandbox.script.released.set()
    await runner.cleanup()


async def test_what_means_the_same_comes_before_what_only_shares_a_word() -> None:
    text = "node is hot: fan of r7"
    words, both = PastIncidentIndex([PUMP, LINK, DISK]), PastIncidentIndex([PUMP, LINK, DISK], embedder=Meaning())
    assert names(await words.find_similar(text, 3))[0] == "disk"
    assert names(await both.find_similar(text, 3))[0] == "pump"


async def test_what_shares_no_word_is_claimed_nowhere_however_near_its_vector() -> None:
    found = await PastIncidentIndex([PUMP, LINK, DISK], embedder=Meaning()).find_similar("everything got so hot", 3)
    assert names(found) == []
    [pump, *_] = await PastIncidentIndex([PUMP, LINK], embedder=Meaning()).find_similar("hot rack, cooling gone", 2)
    [same, *_] = await PastIncidentIndex([PUMP, LINK]).find_similar("hot rack, cooling gone", 2)
    assert pump.score == same.score, "how much alike they are is said by words, with and without vectors"


async def test_where_vectors_fail_words_answer_and_it_is_tried_again_after_a_rest() -> None:
    now = [0.0]
    maker = Meaning(fails=1)
    history = PastIncidentIndex([PUMP, LINK], embedder=maker)
    history._embedder = resting = BackoffEmbedder(maker, lambda: now[0])
    assert names(await history.find_similar("cooling pump", 1)) == ["pump"]
    assert history.trouble == "the embeddings endpoint: 500"
    asked = len(maker.asked)
    assert names(await history.find_similar("cooling pump", 1)) == ["pump"]
    assert len(maker.asked) == asked, "it rests"
    now[0] = RETRY_AFTER_SECONDS + 1
    assert names(await history.find_similar("cooling pump", 1)) == ["pump"]
    assert (history.trouble, resting.trouble) == ("", "")
    assert len(maker.asked) == asked + 3, "the index is built anew with vectors, and the report is asked about"


def rested(maker: Meaning, now: list[float], *past: PastIncident) -> PastIncidentIndex:
    history = PastIncidentIndex(past, embedder=maker)
    history._embedder = BackoffEmbedder(maker, lambda: now[0])
    return history


async def test_vectors_of_another_length_are_left_out_until_the_index_is_built_anew() -> None:
    now, maker = [0.0], Meaning()
    history = rested(maker, now, PUMP, LINK)
    await history.build_index()
    maker.size = 2
    assert names(await history.find_similar("cooling pump", 1)) == ["pump"]
    assert "another length" in history.trouble
    now[0] = RETRY_AFTER_SECONDS + 1
    assert names(await history.find_similar("cooling pump", 1)) == ["pump"]
    assert (history.trouble, history._vector_size) == ("", 2)


async def test_a_lesson_that_came_while_there_were_no_vectors_gets_its_own_later() -> None:
    now, maker = [0.0], Meaning()
    history = rested(maker, now, PUMP, LINK)
    await history.build_index()
    maker.fails = 1
    await history.add_incident(PastIncident("les-1", "fan warm", "fan warm", PUMP.label, "x", "y", learnt="inc-1", on="2026-05-03"))
    assert history.trouble == "the embeddings endpoint: 500"
    assert names(await history.find_similar("fan is warm", 1)) == ["les-1"], "words find it meanwhile"
    now[0], maker.asked = RETRY_AFTER_SECONDS + 1, []
    await history.find_similar("fan is warm", 1)
    assert any("fan warm" in text for text in maker.asked)


async def test_an_index_that_another_process_made_without_vectors_is_asked_by_words() -> None:
    from qdrant_client import models

    history = rested(Meaning(), [0.0], PUMP, LINK)
    await history.build_index()
    client = history._client
    assert client
    client.delete_collection(history._collection)
    client.create_collection(history._collection, vectors_config={}, sparse_vectors_config={"bm25": models.SparseVectorParams()})
    client.upsert(history._collection, history._build_points([PUMP, LINK], []))
    assert names(await history.find_similar("cooling pump", 1)) == ["pump"]
    assert "the index takes no such vectors" in history.trouble


async def test_what_another_process_has_vectors_of_is_not_written_over_without_them() -> None:
    now, maker = [0.0], Meaning()
    history = rested(maker, now, PUMP, LINK)
    await history.build_index()
    client = history._client
    assert client
    maker.fails = 1
    history._rebuild_collection(client)
    [point] = client.retrieve(history._collection, [_build_point_id("pump")], with_vectors=True)
    assert isinstance(point.vector, dict)
    assert "dense" in point.vector


async def test_what_is_most_alike_by_words_is_always_among_the_answers() -> None:
    found = await PastIncidentIndex([PUMP, LINK, DISK], embedder=Meaning()).find_similar("root disk of the node, warm pump", 1)
    assert names(found) == ["disk"]


async def test_a_lesson_of_one_customer_is_recalled_for_no_other_by_its_meaning() -> None:
    theirs = PastIncident("les-1", "pump of acme stopped", "pump", PUMP.label, "x", "y", learnt="inc-1", on="2026-05-03", tenant="acme")
    history = PastIncidentIndex([LINK], embedder=Meaning())
    await history.replace_lessons([theirs])
    assert names(await history.find_similar("the pump is hot", 3, "acme")) == ["les-1"]
    assert names(await history.find_similar("the pump is hot", 3, "globex")) == []
    await history.replace_lessons([])
    assert names(await history.find_similar("the pump is hot", 3)) == []


async def test_an_endpoint_is_asked_in_batches_and_no_secret_leaves(sandbox: SandboxModel, endpoint: HttpEmbedder) -> None:
    texts = [f"incident {number}" for number in range(70)]
    vectors = await asyncio.to_thread(endpoint.embed_texts, [*texts, "password=hunter2222"])
    assert [len(body["input"]) for body in sandbox.script.asked] == [64, 7]
    assert len(vectors) == 71
    assert "hunter2222" not in str(sandbox.script.asked)


@pytest.mark.parametrize(
    "step",
    [
        {"fault": "500"},
        {"fault": "401"},
        {"fault": "not_json"},
        {"fault": "disconnect"},
        {"fault": "garbage"},
        {"vectors": [[1.0]]},
        {"vectors": [[1.0], [2.0, 3.0]]},
        {"vectors": [[0.0], [0.0]]},
        {"vectors": [["a"], ["b"]]},
        {"vectors": [[], []]},
        {"vectors": [[float("nan")], [1.0]]},
        {"vectors": [1, 2]},
        {"vectors": [[1.0] * 9_000] * 2},
    ],
)
async def test_what_are_no_vectors_is_said_and_never_used(sandbox: SandboxModel, endpoint: HttpEmbedder, step: dict[str, Any]) -> None:
    sandbox.script.next.append(step)
    with pytest.raises(EmbeddingUnavailable, match="embeddings endpoint"):
        await asyncio.to_thread(endpoint.embed_texts, ["one", "two"])


@pytest.mark.parametrize("fault", ["hang", "drip"])
async def test_an_answer_that_never_ends_is_given_up(sandbox: SandboxModel, endpoint: HttpEmbedder, fault: str) -> None:
    sandbox.script.next.append({"fault": fault})
    impatient = HttpEmbedder(endpoint.url, endpoint.key, endpoint.model, seconds=0.2)
    with pytest.raises(EmbeddingUnavailable, match="no whole answer"):
        await asyncio.to_thread(impatient.embed_texts, ["one"])


async def test_a_history_asks_the_endpoint_off_the_loop(endpoint: HttpEmbedder) -> None:
    history = PastIncidentIndex([PUMP, LINK, DISK], embedder=endpoint)
    assert names(await history.find_similar("the cooling pump stopped", 1)) == ["pump"]
    assert history.trouble == ""
    await history.close()

"""Incidents like this one, from the past. The index is built at start from what the files and accepted lessons say.

BM25 over words, computed here, so nothing is downloaded. Qdrant is the index where a server is named by `url`, and, embedded in memory, where an
embedder gives dense vectors, whose ranks it fuses with those of the words (RRF); its client takes 45 MiB and seconds to import, so without
either the words are ranked here. The client blocks, so every call runs in a thread, one at a time.
"""

import asyncio
import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from kb.history.bm25 import Corpus, term_weights
from kb.history.incidents import PastIncident
from kb.history.vectors import Embedder, Resting
from kb.history.words import index, tokens
from kb.redact import cleaned

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

_VECTOR, _DENSE = "bm25", "dense"
_LEAST_ASKED = 20
"""Of each half that are fused."""
_TYPICAL_LENGTH = 60.0
"""Terms of an average incident, where there is none yet to average over."""


@dataclass(frozen=True, slots=True)
class Similar:
    """A past incident and how much alike it is, 0 to 1."""

    incident: PastIncident
    score: float

    @property
    def label(self) -> str:
        return self.incident.label

    @property
    def title(self) -> str:
        return self.incident.title

    @property
    def lesson(self) -> str:
        return self.incident.id if self.incident.learnt else ""

    @property
    def learnt(self) -> str:
        return self.incident.learnt

    @property
    def on(self) -> str:
        return self.incident.on


class History:
    """Past incidents, searchable. The index is built at the first question (or by `start`).

    Words say how much alike two incidents are, also where vectors order them: a score means the same with an embedder and without one, and what
    shares no word with a report is claimed nowhere, however near its vector, and what is most alike by words is always among the answers.

    `trouble` says why the last question could not be answered; an answer without matches leaves it empty.
    """

    def __init__(
        self,
        past: Iterable[PastIncident] = (),
        *,
        url: str = "",
        api_key: str = "",
        collection: str = "rackmedic_history",
        embedder: Embedder | None = None,
    ) -> None:
        self._past = {incident.id: _clean(incident) for incident in past}
        self._url, self._api_key, self._collection = url, api_key, collection
        self._embedder = Resting(embedder) if embedder else None
        self._dense = 0  # numbers of a vector in the index; 0: words alone
        self._client: QdrantClient | None = None
        self._corpus = Corpus.of({})
        self._lock = threading.Lock()
        self.trouble = ""

    def __len__(self) -> int:
        return len(self._past)

    async def start(self) -> None:
        """Build the index now."""
        await asyncio.to_thread(self._locked, self._open if self._in_qdrant else self._counted)

    async def similar(self, text: str, k: int = 2, tenant: str | None = None) -> list[Similar]:
        """The `k` most similar incidents that serve this customer (None: our own people), best first; none when nothing is alike or the index
        cannot be asked (`trouble`)."""
        return await asyncio.to_thread(self._locked, self._similar, text, k, tenant) or []

    async def add(self, incident: PastIncident) -> None:
        """Take a lesson in (again with the same id: in its new words)."""
        await asyncio.to_thread(self._locked, self._add, incident)

    async def remove(self, incident_id: str) -> None:
        """Forget a lesson that misled."""
        await asyncio.to_thread(self._locked, self._remove, incident_id)

    async def learn(self, lessons: Iterable[PastIncident]) -> bool:
        """Have these lessons, and no others beside what everybody knows; whether the index has them."""
        return bool(await asyncio.to_thread(self._locked, self._learn, tuple(lessons)))

    async def close(self) -> None:
        """Let go of the index; where it was never asked, there is none, and its client is not even imported."""
        await asyncio.to_thread(self._let_go)

    def _let_go(self) -> None:
        with self._lock:
            asked = self._client is not None
        if asked:
            self._locked(self._close)

    @property
    def _in_qdrant(self) -> bool:
        return bool(self._url or self._embedder)

    def _locked(self, act: Any, *args: Any) -> Any:
        with self._lock:
            self.trouble = ""
            try:
                return act(*args)
            except _troubles(self._in_qdrant) as why:
                self.trouble = f"history cannot be asked: {' '.join(str(why).split())[:200]}"
                return None

    def _counted(self) -> Corpus:
        """The words of all incidents, counted at the first question."""
        if len(self._corpus.documents) != len(self._past):
            self._recount()
        return self._corpus

    def _open(self) -> "QdrantClient":
        if self._client is None:
            self._client = _connect(self._url, self._api_key)
            self._rebuild(self._client)
        return self._client

    def _rebuild(self, client: "QdrantClient") -> None:
        """Also where the collection there has another shape than is wanted now."""
        from qdrant_client import models

        self._recount()
        known = list(self._past.values())
        self._dense = 0
        dense = self._vectors([one.text for one in known])
        self._dense = len(dense[0]) if dense else 0
        there = client.collection_exists(self._collection)
        if there and self._dense and _size(client.get_collection(self._collection)) != self._dense:
            client.delete_collection(self._collection)  # made without vectors, or by another model
            there = False
        if not there:
            wanted = {_DENSE: models.VectorParams(size=self._dense, distance=models.Distance.COSINE)} if self._dense else {}
            sparse = {_VECTOR: models.SparseVectorParams(modifier=models.Modifier.IDF)}
            client.create_collection(self._collection, vectors_config=wanted, sparse_vectors_config=sparse)
        if there and self._embedder and not dense:  # what stands there may have vectors, which another process made while they could be had
            had = {point.id for point in client.retrieve(self._collection, [_point_id(one.id) for one in known], with_payload=False)}
            known = [one for one in known if _point_id(one.id) not in had]
        if known:
            client.upsert(self._collection, self._points(known, dense), wait=True)

    def _vectors(self, texts: Sequence[str]) -> list[list[float]]:
        """Empty where there are none now. Where there are none that fit the index, that is built anew after a rest."""
        if self._embedder is None or not texts:
            return []
        found = self._embedder.vectors(texts) or []
        if found and self._dense and len(found[0]) != self._dense:
            self._embedder.rest("the embeddings endpoint answers with vectors of another length than before")
            found = []
        if not found:
            self._dense = 0
        self.trouble = self._embedder.trouble
        return found

    def _recount(self) -> None:
        self._corpus = Corpus.of({incident.id: incident.text for incident in self._past.values()})

    def _points(self, incidents: Sequence[PastIncident], dense: Sequence[list[float]]) -> list[Any]:
        """`dense`: a vector for each, or none."""
        return [self._point(one, dense[at] if dense else None) for at, one in enumerate(incidents)]

    def _point(self, incident: PastIncident, dense: list[float] | None) -> Any:
        from qdrant_client import models

        weights = term_weights(tokens(incident.text), self._corpus.average or _TYPICAL_LENGTH)
        vector = models.SparseVector(indices=[index(term) for term in weights], values=list(weights.values()))
        whole: dict[str, Any] = {_VECTOR: vector, **({_DENSE: dense} if dense else {})}
        return models.PointStruct(id=_point_id(incident.id), vector=whole, payload=asdict(incident))

    def _similar(self, text: str, k: int, tenant: str | None) -> list[Similar]:
        if not self._in_qdrant:
            return self._ranked_here(text, k, tenant)
        from qdrant_client import models

        terms = sorted(set(tokens(text)))
        client = self._reopened()
        if not terms or k < 1:
            return []
        words = models.SparseVector(indices=[index(term) for term in terms], values=[1.0] * len(terms))
        most = k + sum(bool(one.learnt) for one in self._past.values())  # any lesson may be none for this reader, or be trusted less
        found = self._fused(client, words, text, max(most, _LEAST_ASKED), tenant)
        if found is None:
            points = client.query_points(self._collection, query=words, using=_VECTOR, limit=most, with_payload=True).points
            return sorted(self._served(points, text, tenant), key=lambda one: -one.score)[:k]
        best = max(found, key=lambda one: one.score, default=None)
        return found[:k] if best is None or best in found[:k] else [*found[: k - 1], best]

    def _ranked_here(self, text: str, k: int, tenant: str | None) -> list[Similar]:
        scores = self._counted().scores(text)
        most = k + sum(bool(one.learnt) for one in self._past.values())
        best = nlargest(most, scores, key=lambda name: (scores[name], name)) if k > 0 else []
        return sorted(self._alike((self._past[name] for name in best), text, tenant), key=lambda one: -one.score)[:k]

    def _alike(self, incidents: Iterable[PastIncident], text: str, tenant: str | None) -> list[Similar]:
        """Those that serve this reader, with how much alike their words are, by what they are trusted."""
        return [Similar(one, self._corpus.likeness(text, one.text) * one.trust) for one in incidents if one.serves(tenant)]

    def _fused(self, client: "QdrantClient", words: Any, text: str, most: int, tenant: str | None) -> list[Similar] | None:
        """Those that words and vectors find, by both ranks and trust; None where there are no vectors now."""
        from qdrant_client import models
        from qdrant_client.http.exceptions import ApiException

        near = self._vectors([text]) if self._dense else []
        if not near or self._embedder is None:
            return None
        halves = [models.Prefetch(query=words, using=_VECTOR, limit=most), models.Prefetch(query=near[0], using=_DENSE, limit=most)]
        fused = models.FusionQuery(fusion=models.Fusion.RRF)
        try:
            points = client.query_points(self._collection, prefetch=halves, query=fused, limit=most, with_payload=True).points
        except (ApiException, ValueError) as why:  # another process made it anew, with vectors of another length or without
            self._embedder.rest(f"the index takes no such vectors: {' '.join(str(why).split())[:120]}")
            self._dense, self.trouble = 0, self._embedder.trouble
            return None
        place = {point.payload["id"]: point.score for point in points if point.payload}
        served = [one for one in self._served(points, text, tenant) if one.score > 0]
        return sorted(served, key=lambda one: -place[one.incident.id] * one.incident.trust)

    def _served(self, points: Iterable[Any], text: str, tenant: str | None) -> list[Similar]:
        """Those that serve this reader, with how much alike their words are, by what they are trusted."""
        rows = [_incident(point.payload or {}) for point in points if point.score > 0]
        return self._alike((one for one in map(self._as_known, rows) if one is not None), text, tenant)

    def _reopened(self) -> "QdrantClient":
        """The index; with vectors, where there were none for want of an answer and it may be asked again."""
        client = self._open()
        if self._embedder and not self._dense:
            self.trouble = self._embedder.trouble
            if self._embedder.ready:
                self._rebuild(client)
        return client

    def _as_known(self, row: PastIncident) -> PastIncident | None:
        """A lesson counts as this process has it: a server may still hold one that is retired."""
        return self._past.get(row.id) if row.learnt else row

    def _add(self, incident: PastIncident) -> None:
        self._past[incident.id] = clean = _clean(incident)
        client = self._open() if self._in_qdrant else None
        self._recount()
        if client is not None:
            self._upsert(client, [clean])

    def _remove(self, incident_id: str) -> None:
        self._past.pop(incident_id, None)
        if self._in_qdrant:
            self._open().delete(self._collection, points_selector=[_point_id(incident_id)], wait=True)
        self._recount()

    def _learn(self, lessons: Sequence[PastIncident]) -> bool:
        """What came with us is never put out of its place by a lesson of the same name."""
        now = {one.id: _clean(one) for one in lessons if one.id not in self._past or self._past[one.id].learnt}
        gone = [one.id for one in self._past.values() if one.learnt and one.id not in now]
        new = [one for one in now.values() if self._past.get(one.id) != one]
        self._past = {name: one for name, one in self._past.items() if name not in gone} | now
        if (gone or new) and (self._client is not None or not self._in_qdrant):
            self._recount()
        if self._client is not None and (gone or new):
            if gone:
                self._client.delete(self._collection, points_selector=[_point_id(one) for one in gone], wait=True)
            if new:
                self._upsert(self._client, new)
        return True

    def _upsert(self, client: "QdrantClient", new: Sequence[PastIncident]) -> None:
        """Where there is no vector for one now, words alone find it."""
        dense = self._vectors([one.text for one in new]) if self._dense else []
        client.upsert(self._collection, self._points(new, dense), wait=True)

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _troubles(in_qdrant: bool) -> tuple[type[Exception], ...]:
    """What says that the index cannot be asked."""
    if not in_qdrant:
        return (OSError,)
    from qdrant_client.http.exceptions import ApiException

    return (ApiException, OSError)


def _connect(url: str, api_key: str) -> "QdrantClient":
    from qdrant_client import QdrantClient

    return QdrantClient(url=url, api_key=api_key or None, timeout=5, check_compatibility=False) if url else QdrantClient(":memory:")


def _size(collection: Any) -> int:
    """Numbers of a dense vector of a collection; 0 where it has none."""
    vectors = collection.config.params.vectors
    dense = vectors.get(_DENSE) if isinstance(vectors, dict) else None
    return int(dense.size) if dense else 0


def _clean(incident: PastIncident) -> PastIncident:
    """As it may leave for a server: people wrote it, and may have pasted anything."""
    words: dict[str, Any] = {name: cleaned(value) for name, value in asdict(incident).items() if isinstance(value, str) and name != "id"}
    return replace(incident, **words)


def _point_id(incident_id: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"rackmedic:{incident_id}"))


def _incident(payload: dict[str, Any]) -> PastIncident:
    hosts: Sequence[str] = payload.get("hosts") or ()
    return PastIncident(**{**payload, "hosts": tuple(hosts)})

"""Search index of past incidents and lessons.

By default BM25 here. Qdrant serves a server `url`, or in memory an embedder, whose ranks are fused with BM25's (RRF).
Its client takes 45 MiB and seconds to import, so only then. It blocks, so calls run in a thread, one at a time.
"""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final, Protocol

from kb.history.incidents import PastIncident
from kb.history.text_search import BM25Corpus, compute_term_weights, extract_terms, hash_term
from kb.redact import redact_once

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


# Dense vectors for searching past incidents, from an external embedder.

RETRY_AFTER_SECONDS: Final = 60.0  # after a failure of the embedder; meanwhile words alone rank


class EmbeddingUnavailable(Exception):
    """Why there are none."""


class Embedder(Protocol):
    """Converts texts to vectors."""

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per text, all of one length. Blocks. Raises EmbeddingUnavailable."""


class BackoffEmbedder:
    """An embedder that pauses after a failure. `trouble` says why."""

    def __init__(self, embedder: Embedder, clock: Callable[[], float] = time.monotonic) -> None:
        self._embedder, self._clock = embedder, clock
        self._until = 0.0
        self.trouble = ""

    @property
    def is_ready(self) -> bool:
        return self._clock() >= self._until

    def embed_texts(self, texts: Sequence[str]) -> list[list[float]] | None:
        """Return vectors, or None during a pause or on failure."""
        if not self.is_ready:
            return None
        try:
            vectors, self.trouble = self._embedder.embed_texts(texts), ""
        except EmbeddingUnavailable as error:
            self.back_off(str(error))
            return None
        return vectors

    def back_off(self, why: str) -> None:
        """Start a pause of RETRY_AFTER_SECONDS."""
        self._until, self.trouble = self._clock() + RETRY_AFTER_SECONDS, why


_SPARSE_VECTOR_NAME = "bm25"
_DENSE_VECTOR_NAME = "dense"
_MIN_FUSED_RESULTS = 20  # results per ranking that are fused
_TYPICAL_TERM_COUNT = 60.0  # terms of an average incident, for an empty index


@dataclass(frozen=True, slots=True)
class SimilarIncident:
    """A past incident and its similarity, 0 to 1."""

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


class PastIncidentIndex:
    """Searchable past incidents, indexed at the first query or by `build_index`.

    Scores measure words, with or without vectors. An incident without shared words is never returned; the best by words
    always is. `trouble` says why the last query failed.
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
        self._past = {incident.id: _redact_incident(incident) for incident in past}
        self._url, self._api_key, self._collection = url, api_key, collection
        self._embedder = BackoffEmbedder(embedder) if embedder else None
        self._dense = 0  # vector size of the index; 0: words only
        self._client: QdrantClient | None = None
        self._corpus = BM25Corpus.build({})
        self._lock = threading.Lock()
        self.trouble = ""

    def __len__(self) -> int:
        return len(self._past)

    async def build_index(self) -> None:
        await asyncio.to_thread(self._run_locked, self._open_client if self._uses_qdrant else self._get_corpus)

    async def find_similar(self, text: str, k: int = 2, tenant: str | None = None) -> list[SimilarIncident]:
        """Return the `k` most similar incidents for this tenant (None: operators), best first; none on failure."""
        return await asyncio.to_thread(self._run_locked, self._find_similar, text, k, tenant) or []

    async def add_incident(self, incident: PastIncident) -> None:
        """Add a lesson, or replace it by id."""
        await asyncio.to_thread(self._run_locked, self._add_incident, incident)

    async def remove_incident(self, incident_id: str) -> None:
        await asyncio.to_thread(self._run_locked, self._remove_incident, incident_id)

    async def replace_lessons(self, lessons: Iterable[PastIncident]) -> bool:
        """Replace all lessons; shipped incidents stay. Return whether it succeeded."""
        return bool(await asyncio.to_thread(self._run_locked, self._replace_lessons, tuple(lessons)))

    async def close(self) -> None:
        """Close the client, if it was opened."""
        await asyncio.to_thread(self._release_client)

    def _release_client(self) -> None:
        with self._lock:
            had_client = self._client is not None
        if had_client:
            self._run_locked(self._close_client)

    @property
    def _uses_qdrant(self) -> bool:
        return bool(self._url or self._embedder)

    def _run_locked(self, act: Any, *args: Any) -> Any:
        with self._lock:
            self.trouble = ""
            try:
                return act(*args)
            except _list_index_errors(self._uses_qdrant) as error:
                self.trouble = f"history cannot be asked: {' '.join(str(error).split())[:200]}"
                return None

    def _get_corpus(self) -> BM25Corpus:
        if len(self._corpus.documents) != len(self._past):
            self._rebuild_corpus()
        return self._corpus

    def _open_client(self) -> "QdrantClient":
        if self._client is None:
            self._client = _connect_qdrant(self._url, self._api_key)
            self._rebuild_collection(self._client)
        return self._client

    def _rebuild_collection(self, client: "QdrantClient") -> None:
        """Recreate it if its vectors have another size."""
        from qdrant_client import models

        self._rebuild_corpus()
        incidents = list(self._past.values())
        self._dense = 0
        dense = self._embed_texts([one.text for one in incidents])
        self._dense = len(dense[0]) if dense else 0
        has_collection = client.collection_exists(self._collection)
        if has_collection and self._dense and _get_vector_size(client.get_collection(self._collection)) != self._dense:
            client.delete_collection(self._collection)  # made without vectors, or by another model
            has_collection = False
        if not has_collection:
            vectors_config = (
                {_DENSE_VECTOR_NAME: models.VectorParams(size=self._dense, distance=models.Distance.COSINE)} if self._dense else {}
            )
            sparse = {_SPARSE_VECTOR_NAME: models.SparseVectorParams(modifier=models.Modifier.IDF)}
            client.create_collection(self._collection, vectors_config=vectors_config, sparse_vectors_config=sparse)
        if has_collection and self._embedder and not dense:  # keep points of another process: they may have vectors
            had = {
                point.id for point in client.retrieve(self._collection, [_build_point_id(one.id) for one in incidents], with_payload=False)
            }
            incidents = [one for one in incidents if _build_point_id(one.id) not in had]
        if incidents:
            client.upsert(self._collection, self._build_points(incidents, dense), wait=True)

    def _embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """[] if unavailable. On another vector length, back off and rebuild later."""
        if self._embedder is None or not texts:
            return []
        dense_vectors = self._embedder.embed_texts(texts) or []
        if dense_vectors and self._dense and len(dense_vectors[0]) != self._dense:
            self._embedder.back_off("the embeddings endpoint answers with vectors of another length than before")
            dense_vectors = []
        if not dense_vectors:
            self._dense = 0
        self.trouble = self._embedder.trouble
        return dense_vectors

    def _rebuild_corpus(self) -> None:
        self._corpus = BM25Corpus.build({incident.id: incident.text for incident in self._past.values()})

    def _build_points(self, incidents: Sequence[PastIncident], dense: Sequence[list[float]]) -> list[Any]:
        return [self._build_point(one, dense[at] if dense else None) for at, one in enumerate(incidents)]

    def _build_point(self, incident: PastIncident, dense: list[float] | None) -> Any:
        from qdrant_client import models

        weights = compute_term_weights(extract_terms(incident.text), self._corpus.average or _TYPICAL_TERM_COUNT)
        vector = models.SparseVector(indices=[hash_term(term) for term in weights], values=list(weights.values()))
        vectors: dict[str, Any] = {_SPARSE_VECTOR_NAME: vector, **({_DENSE_VECTOR_NAME: dense} if dense else {})}
        return models.PointStruct(id=_build_point_id(incident.id), vector=vectors, payload=asdict(incident))

    def _find_similar(self, text: str, k: int, tenant: str | None) -> list[SimilarIncident]:
        if not self._uses_qdrant:
            return self._rank_locally(text, k, tenant)
        from qdrant_client import models

        terms = sorted(set(extract_terms(text)))
        client = self._reopen_client()
        if not terms or k < 1:
            return []
        words = models.SparseVector(indices=[hash_term(term) for term in terms], values=[1.0] * len(terms))
        most = k + sum(bool(one.learnt) for one in self._past.values())  # lessons may be excluded for this tenant or ranked down
        ranking = self._fuse_rankings(client, words, text, max(most, _MIN_FUSED_RESULTS), tenant)
        if ranking is None:
            points = client.query_points(self._collection, query=words, using=_SPARSE_VECTOR_NAME, limit=most, with_payload=True).points
            return sorted(self._load_similar(points, text, tenant), key=lambda one: -one.score)[:k]
        best = max(ranking, key=lambda one: one.score, default=None)
        return ranking[:k] if best is None or best in ranking[:k] else [*ranking[: k - 1], best]

    def _rank_locally(self, text: str, k: int, tenant: str | None) -> list[SimilarIncident]:
        scores = self._get_corpus().score_documents(text)
        most = k + sum(bool(one.learnt) for one in self._past.values())
        best = nlargest(most, scores, key=lambda name: (scores[name], name)) if k > 0 else []
        return sorted(self._build_similar((self._past[name] for name in best), text, tenant), key=lambda one: -one.score)[:k]

    def _build_similar(self, incidents: Iterable[PastIncident], text: str, tenant: str | None) -> list[SimilarIncident]:
        """Similarity times trust, for this tenant."""
        return [
            SimilarIncident(one, self._corpus.compute_similarity(text, one.text) * one.trust)
            for one in incidents
            if one.can_serve_tenant(tenant)
        ]

    def _fuse_rankings(self, client: "QdrantClient", words: Any, text: str, most: int, tenant: str | None) -> list[SimilarIncident] | None:
        """None without vectors."""
        from qdrant_client import models
        from qdrant_client.http.exceptions import ApiException

        query_vectors = self._embed_texts([text]) if self._dense else []
        if not query_vectors or self._embedder is None:
            return None
        halves = [
            models.Prefetch(query=words, using=_SPARSE_VECTOR_NAME, limit=most),
            models.Prefetch(query=query_vectors[0], using=_DENSE_VECTOR_NAME, limit=most),
        ]
        fused = models.FusionQuery(fusion=models.Fusion.RRF)
        try:
            points = client.query_points(self._collection, prefetch=halves, query=fused, limit=most, with_payload=True).points
        except (ApiException, ValueError) as error:  # another process rebuilt it with another vector size or none
            self._embedder.back_off(f"the index takes no such vectors: {' '.join(str(error).split())[:120]}")
            self._dense, self.trouble = 0, self._embedder.trouble
            return None
        place = {point.payload["id"]: point.score for point in points if point.payload}
        served = [one for one in self._load_similar(points, text, tenant) if one.score > 0]
        return sorted(served, key=lambda one: -place[one.incident.id] * one.incident.trust)

    def _load_similar(self, points: Iterable[Any], text: str, tenant: str | None) -> list[SimilarIncident]:
        rows = [_parse_incident(point.payload or {}) for point in points if point.score > 0]
        return self._build_similar((one for one in map(self._replace_by_known, rows) if one is not None), text, tenant)

    def _reopen_client(self) -> "QdrantClient":
        """Add vectors once the embedder is ready again."""
        client = self._open_client()
        if self._embedder and not self._dense:
            self.trouble = self._embedder.trouble
            if self._embedder.is_ready:
                self._rebuild_collection(client)
        return client

    def _replace_by_known(self, row: PastIncident) -> PastIncident | None:
        """A server may still hold a retired lesson."""
        return self._past.get(row.id) if row.learnt else row

    def _add_incident(self, incident: PastIncident) -> None:
        self._past[incident.id] = clean = _redact_incident(incident)
        client = self._open_client() if self._uses_qdrant else None
        self._rebuild_corpus()
        if client is not None:
            self._upsert_points(client, [clean])

    def _remove_incident(self, incident_id: str) -> None:
        self._past.pop(incident_id, None)
        if self._uses_qdrant:
            self._open_client().delete(self._collection, points_selector=[_build_point_id(incident_id)], wait=True)
        self._rebuild_corpus()

    def _replace_lessons(self, lessons: Sequence[PastIncident]) -> bool:
        """A lesson never replaces a shipped incident."""
        now = {one.id: _redact_incident(one) for one in lessons if one.id not in self._past or self._past[one.id].learnt}
        removed_ids = [one.id for one in self._past.values() if one.learnt and one.id not in now]
        new = [one for one in now.values() if self._past.get(one.id) != one]
        self._past = {name: one for name, one in self._past.items() if name not in removed_ids} | now
        if (removed_ids or new) and (self._client is not None or not self._uses_qdrant):
            self._rebuild_corpus()
        if self._client is not None and (removed_ids or new):
            if removed_ids:
                self._client.delete(self._collection, points_selector=[_build_point_id(one) for one in removed_ids], wait=True)
            if new:
                self._upsert_points(self._client, new)
        return True

    def _upsert_points(self, client: "QdrantClient", new: Sequence[PastIncident]) -> None:
        dense = self._embed_texts([one.text for one in new]) if self._dense else []
        client.upsert(self._collection, self._build_points(new, dense), wait=True)

    def _close_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _list_index_errors(in_qdrant: bool) -> tuple[type[Exception], ...]:
    if not in_qdrant:
        return (OSError,)
    from qdrant_client.http.exceptions import ApiException

    return (ApiException, OSError)


def _connect_qdrant(url: str, api_key: str) -> "QdrantClient":
    from qdrant_client import QdrantClient

    return QdrantClient(url=url, api_key=api_key or None, timeout=5, check_compatibility=False) if url else QdrantClient(":memory:")


def _get_vector_size(collection: Any) -> int:
    vectors = collection.config.params.vectors
    dense = vectors.get(_DENSE_VECTOR_NAME) if isinstance(vectors, dict) else None
    return int(dense.size) if dense else 0


def _redact_incident(incident: PastIncident) -> PastIncident:
    """People may have pasted secrets, and this may go to a server."""
    words: dict[str, Any] = {
        name: redact_once(value) for name, value in asdict(incident).items() if isinstance(value, str) and name != "id"
    }
    return replace(incident, **words)


def _build_point_id(incident_id: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"rackmedic:{incident_id}"))


def _parse_incident(payload: dict[str, Any]) -> PastIncident:
    hosts: Sequence[str] = payload.get("hosts") or ()
    return PastIncident(**{**payload, "hosts": tuple(hosts)})

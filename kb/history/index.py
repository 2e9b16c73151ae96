"""Search index of past incidents and lessons.

By default the index ranks by BM25 in this process. With a server `url` or an embedder it uses Qdrant, and fuses the ranks
of words and of vectors (RRF). Qdrant's client takes 45 MiB and seconds to import, so it is imported only then. Calls
block, so they run in a thread, one at a time.
"""

import asyncio
import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import nlargest
from typing import TYPE_CHECKING, Any

from kb.history.bm25 import BM25Corpus, compute_term_weights
from kb.history.incidents import PastIncident
from kb.history.text_search import extract_terms, hash_term
from kb.redact import redact_once

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
from kb.history.embedder import BackoffEmbedder, Embedder

_SPARSE_VECTOR_NAME = "bm25"
_DENSE_VECTOR_NAME = "dense"
_MIN_FUSED_RESULTS = 20  # results of each ranking that are fused
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

    Scores measure shared words, with or without vectors. The best incident by words is always returned, an incident
    without shared words never. `trouble` says why the last query failed.
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
        self._url = url
        self._api_key = api_key
        self._collection = collection
        self._embedder = BackoffEmbedder(embedder) if embedder else None
        self._vector_size = 0  # size of the index's vectors; 0 if it ranks by words only
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

    def _run_locked(self, function: Any, *args: Any) -> Any:
        """Call the function under the lock. Return None and set `trouble` if the index fails."""
        with self._lock:
            self.trouble = ""
            try:
                return function(*args)
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
        """Create the collection and add all incidents. Replace a collection whose vectors have another size."""
        from qdrant_client import models

        self._rebuild_corpus()
        incidents = list(self._past.values())
        self._vector_size = 0
        dense_vectors = self._embed_texts([incident.text for incident in incidents])
        self._vector_size = len(dense_vectors[0]) if dense_vectors else 0
        has_collection = client.collection_exists(self._collection)
        if has_collection and self._vector_size and _get_vector_size(client.get_collection(self._collection)) != self._vector_size:
            client.delete_collection(self._collection)  # made without vectors, or by another model
            has_collection = False
        if not has_collection:
            dense_config = {}
            if self._vector_size:
                dense_config[_DENSE_VECTOR_NAME] = models.VectorParams(size=self._vector_size, distance=models.Distance.COSINE)
            sparse_config = {_SPARSE_VECTOR_NAME: models.SparseVectorParams(modifier=models.Modifier.IDF)}
            client.create_collection(self._collection, vectors_config=dense_config, sparse_vectors_config=sparse_config)
        if has_collection and self._embedder and not dense_vectors:  # keep points of another process: they may have vectors
            point_ids = [_build_point_id(incident.id) for incident in incidents]
            stored_ids = {point.id for point in client.retrieve(self._collection, point_ids, with_payload=False)}
            incidents = [incident for incident in incidents if _build_point_id(incident.id) not in stored_ids]
        if incidents:
            client.upsert(self._collection, self._build_points(incidents, dense_vectors), wait=True)

    def _embed_texts(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the texts' vectors, or an empty list if the embedder is unavailable.

        Vectors of another length than the index has are refused, and the index is rebuilt later.
        """
        if self._embedder is None or not texts:
            return []
        dense_vectors = self._embedder.embed_texts(texts) or []
        if dense_vectors and self._vector_size and len(dense_vectors[0]) != self._vector_size:
            self._embedder.back_off("the embeddings endpoint answers with vectors of another length than before")
            dense_vectors = []
        if not dense_vectors:
            self._vector_size = 0
        self.trouble = self._embedder.trouble
        return dense_vectors

    def _rebuild_corpus(self) -> None:
        self._corpus = BM25Corpus.build({incident.id: incident.text for incident in self._past.values()})

    def _build_points(self, incidents: Sequence[PastIncident], dense_vectors: Sequence[list[float]]) -> list[Any]:
        vectors: Sequence[list[float] | None] = dense_vectors or [None] * len(incidents)
        return [self._build_point(incident, vector) for incident, vector in zip(incidents, vectors, strict=True)]

    def _build_point(self, incident: PastIncident, dense_vector: list[float] | None) -> Any:
        from qdrant_client import models

        weights = compute_term_weights(extract_terms(incident.text), self._corpus.average or _TYPICAL_TERM_COUNT)
        sparse_vector = models.SparseVector(indices=[hash_term(term) for term in weights], values=list(weights.values()))
        vectors: dict[str, Any] = {_SPARSE_VECTOR_NAME: sparse_vector}
        if dense_vector:
            vectors[_DENSE_VECTOR_NAME] = dense_vector
        return models.PointStruct(id=_build_point_id(incident.id), vector=vectors, payload=asdict(incident))

    def _find_similar(self, text: str, k: int, tenant: str | None) -> list[SimilarIncident]:
        if not self._uses_qdrant:
            return self._rank_locally(text, k, tenant)
        from qdrant_client import models

        terms = sorted(set(extract_terms(text)))
        client = self._reopen_client()
        if not terms or k < 1:
            return []
        query = models.SparseVector(indices=[hash_term(term) for term in terms], values=[1.0] * len(terms))
        limit = self._count_candidates(k)
        ranking = self._fuse_rankings(client, query, text, max(limit, _MIN_FUSED_RESULTS), tenant)
        if ranking is None:
            points = client.query_points(self._collection, query=query, using=_SPARSE_VECTOR_NAME, limit=limit, with_payload=True).points
            return sorted(self._load_similar(points, text, tenant), key=_get_negative_score)[:k]
        best_by_words = min(ranking, key=_get_negative_score, default=None)
        if best_by_words is None or best_by_words in ranking[:k]:
            return ranking[:k]
        return [*ranking[: k - 1], best_by_words]

    def _count_candidates(self, k: int) -> int:
        """Return how many results to ask for: any lesson may be hidden from the tenant or ranked down for its low trust."""
        return k + sum(bool(incident.learnt) for incident in self._past.values())

    def _rank_locally(self, text: str, k: int, tenant: str | None) -> list[SimilarIncident]:
        scores = self._get_corpus().score_documents(text)
        if k < 1:
            return []
        best_ids = nlargest(self._count_candidates(k), scores, key=lambda incident_id: (scores[incident_id], incident_id))
        similar_incidents = self._build_similar([self._past[incident_id] for incident_id in best_ids], text, tenant)
        return sorted(similar_incidents, key=_get_negative_score)[:k]

    def _build_similar(self, incidents: Iterable[PastIncident], text: str, tenant: str | None) -> list[SimilarIncident]:
        """Score the incidents that this tenant may see by similarity times trust."""
        return [
            SimilarIncident(incident, self._corpus.compute_similarity(text, incident.text) * incident.trust)
            for incident in incidents
            if incident.can_serve_tenant(tenant)
        ]

    def _fuse_rankings(self, client: "QdrantClient", query: Any, text: str, limit: int, tenant: str | None) -> list[SimilarIncident] | None:
        """Return the incidents ranked by words and vectors together, or None if there are no vectors."""
        from qdrant_client import models
        from qdrant_client.http.exceptions import ApiException

        query_vectors = self._embed_texts([text]) if self._vector_size else []
        if not query_vectors or self._embedder is None:
            return None
        searches = [
            models.Prefetch(query=query, using=_SPARSE_VECTOR_NAME, limit=limit),
            models.Prefetch(query=query_vectors[0], using=_DENSE_VECTOR_NAME, limit=limit),
        ]
        fused = models.FusionQuery(fusion=models.Fusion.RRF)
        try:
            points = client.query_points(self._collection, prefetch=searches, query=fused, limit=limit, with_payload=True).points
        except (ApiException, ValueError) as error:  # another process rebuilt it with another vector size or none
            self._embedder.back_off(f"the index takes no such vectors: {' '.join(str(error).split())[:120]}")
            self._vector_size = 0
            self.trouble = self._embedder.trouble
            return None
        fused_scores = {point.payload["id"]: point.score for point in points if point.payload}
        similar_incidents = [similar for similar in self._load_similar(points, text, tenant) if similar.score > 0]
        return sorted(similar_incidents, key=lambda similar: -fused_scores[similar.incident.id] * similar.incident.trust)

    def _load_similar(self, points: Iterable[Any], text: str, tenant: str | None) -> list[SimilarIncident]:
        stored_incidents = [_parse_incident(point.payload or {}) for point in points if point.score > 0]
        current_incidents = [self._get_current(incident) for incident in stored_incidents]
        return self._build_similar([incident for incident in current_incidents if incident is not None], text, tenant)

    def _reopen_client(self) -> "QdrantClient":
        """Return the client. Add vectors to the collection if the embedder is ready again."""
        client = self._open_client()
        if self._embedder and not self._vector_size:
            self.trouble = self._embedder.trouble
            if self._embedder.is_ready:
                self._rebuild_collection(client)
        return client

    def _get_current(self, incident: PastIncident) -> PastIncident | None:
        """Return a lesson as it is now; None for a retired lesson, which the server may still have."""
        return self._past.get(incident.id) if incident.learnt else incident

    def _add_incident(self, incident: PastIncident) -> None:
        redacted_incident = _redact_incident(incident)
        self._past[incident.id] = redacted_incident
        client = self._open_client() if self._uses_qdrant else None
        self._rebuild_corpus()
        if client is not None:
            self._upsert_points(client, [redacted_incident])

    def _remove_incident(self, incident_id: str) -> None:
        self._past.pop(incident_id, None)
        if self._uses_qdrant:
            self._open_client().delete(self._collection, points_selector=[_build_point_id(incident_id)], wait=True)
        self._rebuild_corpus()

    def _replace_lessons(self, lessons: Sequence[PastIncident]) -> bool:
        """Replace all lessons. A lesson with the id of a shipped incident is left out."""
        lesson_by_id = {
            lesson.id: _redact_incident(lesson) for lesson in lessons if lesson.id not in self._past or self._past[lesson.id].learnt
        }
        removed_ids = [incident.id for incident in self._past.values() if incident.learnt and incident.id not in lesson_by_id]
        changed_lessons = [lesson for lesson in lesson_by_id.values() if self._past.get(lesson.id) != lesson]
        kept_incidents = {incident_id: incident for incident_id, incident in self._past.items() if incident_id not in removed_ids}
        self._past = kept_incidents | lesson_by_id
        if not removed_ids and not changed_lessons:
            return True
        if self._client is not None or not self._uses_qdrant:
            self._rebuild_corpus()
        if self._client is not None and removed_ids:
            self._client.delete(self._collection, points_selector=[_build_point_id(removed_id) for removed_id in removed_ids], wait=True)
        if self._client is not None and changed_lessons:
            self._upsert_points(self._client, changed_lessons)
        return True

    def _upsert_points(self, client: "QdrantClient", incidents: Sequence[PastIncident]) -> None:
        dense_vectors = self._embed_texts([incident.text for incident in incidents]) if self._vector_size else []
        client.upsert(self._collection, self._build_points(incidents, dense_vectors), wait=True)

    def _close_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def _list_index_errors(uses_qdrant: bool) -> tuple[type[Exception], ...]:
    if not uses_qdrant:
        return (OSError,)
    from qdrant_client.http.exceptions import ApiException

    return (ApiException, OSError)


def _connect_qdrant(url: str, api_key: str) -> "QdrantClient":
    from qdrant_client import QdrantClient

    if not url:
        return QdrantClient(":memory:")
    return QdrantClient(url=url, api_key=api_key or None, timeout=5, check_compatibility=False)


def _get_negative_score(similar: SimilarIncident) -> float:
    return -similar.score


def _get_vector_size(collection: Any) -> int:
    vectors = collection.config.params.vectors
    dense = vectors.get(_DENSE_VECTOR_NAME) if isinstance(vectors, dict) else None
    return int(dense.size) if dense else 0


def _redact_incident(incident: PastIncident) -> PastIncident:
    """Redact all texts: people may have pasted secrets, and the index may be on a server."""
    texts: dict[str, Any] = {
        name: redact_once(value) for name, value in asdict(incident).items() if isinstance(value, str) and name != "id"
    }
    return replace(incident, **texts)


def _build_point_id(incident_id: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"rackmedic:{incident_id}"))


def _parse_incident(payload: dict[str, Any]) -> PastIncident:
    hosts: Sequence[str] = payload.get("hosts") or ()
    return PastIncident(**{**payload, "hosts": tuple(hosts)})

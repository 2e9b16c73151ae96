"""Vectors of a real server: past incidents are found with them as with any other."""

from graph.model.embeddings import HttpEmbedder
from kb.history.incidents import PastIncident
from kb.history.index import PastIncidentIndex
from tests.support.model_server import LONG, MODEL, RealModel

pytest_plugins = ("tests.support.fixtures_model_server",)

PUMP = PastIncident("pump", "cooling pump of rack r7 stopped", "cooling pump", "OTHER.INFRA.Rack_Cooling", "it broke", "mended")
LINK = PastIncident("link", "adapter link went down", "adapter link", "INTERCONNECT.IB.Port_Down", "it broke", "mended")


async def test_a_history_is_searched_by_the_vectors_of_a_real_server(real_vectors: RealModel) -> None:
    history = PastIncidentIndex([PUMP, LINK], embedder=HttpEmbedder(real_vectors.url, "", MODEL, seconds=LONG))
    found = await history.find_similar("the cooling pump stopped", 2)
    assert (found[0].incident.id, history.trouble, history._vector_size) == ("pump", "", 576)
    await history.close()

"""How stored values become bytes and come back, wherever they are kept."""

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer


def build_plain_serde() -> JsonPlusSerializer:
    """Plain JSON types and LangGraph's own; a stored value of any other type is not rebuilt into an object."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)

"""Serialization of stored values."""

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer


def build_plain_serde() -> JsonPlusSerializer:
    """Return a serializer for plain JSON and LangGraph's own types; it never rebuilds a stored value of any other type
    into an object.
    """
    return JsonPlusSerializer(allowed_msgpack_modules=None)

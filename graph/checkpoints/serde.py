"""Serialization of stored values."""

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer


def build_plain_serde() -> JsonPlusSerializer:
    """Return a serializer that rebuilds no stored value into an object, apart from LangGraph's own types."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)

"""Taking a JSON body off an exchange: content type, encoding, bounds, strict reading. docs/protocol/http.md, "Request bodies"."""

from __future__ import annotations

from gnus_node.api.chat import Model, read_model, read_object
from gnus_node.api.door import Exchange
from gnus_node.api.errors import ApiError
from gnus_node.api.settings import ApiSettings


async def json_bytes(exchange: Exchange) -> bytes:
    """The bytes of a JSON body. Raises 415, 413, 408."""
    kind, _, parameters = exchange.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().replace(" ", "").replace('"', "")
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise ApiError("UNSUPPORTED", "the content type is not JSON", status=415, fix="send content-type: application/json")
    if exchange.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise ApiError("UNSUPPORTED", "encoded bodies are not read", status=415, fix="send the body as it is, without content-encoding")
    return await exchange.body()


async def json_model(exchange: Exchange, model: type[Model], settings: ApiSettings) -> Model:
    """A JSON body as ``model``; nulls are the same as absent. Raises 400, 408, 413, 415."""
    value = read_object(await json_bytes(exchange), settings.max_body_bytes)
    return read_model(model, {k: v for k, v in value.items() if v is not None})

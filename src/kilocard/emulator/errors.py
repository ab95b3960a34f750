"""Refusals in OpenAI's form, worded as vLLM words them."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any


class ApiError(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, message: str, kind: str = "", param: str | None = None, headers: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind or HTTPStatus(status).phrase
        self.param = param
        self.headers = headers

    @property
    def body(self) -> bytes:
        """The JSON of the answer."""
        return json.dumps(error_of(str(self), self.kind, self.status, self.param)).encode()


class RouteError(ApiError):
    """No such path, or not by this method: these come from the framework, in its own form."""

    @property
    def body(self) -> bytes:
        """The JSON of the answer."""
        return json.dumps({"detail": str(self)}).encode()


def error_of(message: str, kind: str, status: int, param: str | None = None) -> dict[str, Any]:
    """An error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def bad_request(message: str, param: str | None = None, value: object = None) -> ApiError:
    """What the engine itself refuses; where it is one parameter, its name and value are told again."""
    if param is not None:
        told = f"parameter={param}" if value is None else f"parameter={param}, value={value}"
        message = f"{message} ({told})"
    return ApiError(400, message, "BadRequestError", param)


def invalid(message: str, param: str | None = None) -> ApiError:
    """What is refused before the engine sees it."""
    return ApiError(400, message, "Bad Request", param)


def no_such_model(model: str, served: str) -> ApiError:
    """A model that is not served here."""
    message = f"The model `{model}` does not exist. Valid aliases: {served}."
    return ApiError(404, message, "NotFoundError", "model")


ENGINE_DEAD = error_of(
    "EngineCore encountered an issue. See stack trace (above) for the root cause.", "InternalServerError", 500
)
"""What vLLM says, inside a stream too, when its engine is gone."""

DEAD_BODY = json.dumps(ENGINE_DEAD).encode()

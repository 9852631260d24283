"""AWS' wire protocols from the server's side, by botocore's own service models: what a model does not know is an error.

A request becomes an operation with its parameters (`read_request`), an answer a body (`answer_body`, `error_body`). `client_of`
is the real client on a function instead of sockets. Deliberately absent: any rule of a service.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

import botocore.session
from aiobotocore.awsrequest import AioAWSResponse
from aiobotocore.config import AioConfig
from aiobotocore.httpsession import AIOHTTPSession
from aiobotocore.session import get_session
from botocore.validate import ParamValidator

from slackwater.adapters.cloud.aws.client import AwsClient, Service

SERVICES: tuple[Service, ...] = ("autoscaling", "ec2", "eks", "sqs")
HOST = "http://{}.eu-west-1.fake"


@lru_cache
def model_of(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


@dataclass(frozen=True, slots=True)
class Request:
    service: str
    operation: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes


class RefusedRequest(Exception):
    """The service answers with an error."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(code, message)
        self.code, self.message, self.status = code, message, status


Handler = Callable[[Request], Awaitable[Mapping[str, Any]]]

# --- requests -------------------------------------------------------------------------------------------------------------


def read_request(url: str, headers: Mapping[str, str], body: bytes) -> Request:
    """The request; ValueError if its parameters are not what the service's model wants."""
    address = urlsplit(url)
    service = (address.hostname or "").partition(".")[0]
    model = model_of(service)
    if service == "eks":
        parts = [unquote(part) for part in address.path.split("/") if part]
        operation, parameters = "DescribeNodegroup", {"clusterName": parts[1], "nodegroupName": parts[3]}
    elif service == "sqs":
        target: Any = headers["X-Amz-Target"]
        operation = (target.decode() if isinstance(target, bytes) else target).rpartition(".")[2]
        parameters = json.loads(body or b"{}")
    else:
        pairs = parse_qsl(body.decode(), keep_blank_values=True)
        tree: dict[str, Any] = {}
        for key, value in pairs:
            *path, last = key.split(".")
            at = tree
            for part in path:
                at = at.setdefault(part, {})
            at[last] = value
        operation = tree["Action"]
        parameters = _read(model.operation_model(operation).input_shape, tree, service)
    report = ParamValidator().validate(parameters, model.operation_model(operation).input_shape)
    if report.has_errors():
        raise ValueError(report.generate_report())
    return Request(service, operation, parameters)


def _read(shape: Any, tree: Any, service: str) -> Any:
    match shape.type_name:
        case "structure":
            named = {_query_name(name, member, service): (name, member) for name, member in shape.members.items()}
            found = {key: value for key, value in tree.items() if key in named}
            return {named[key][0]: _read(named[key][1], value, service) for key, value in found.items()}
        case "list":
            inner = tree if service == "ec2" or shape.serialization.get("flattened") else tree["member"]
            return [_read(shape.member, inner[key], service) for key in sorted(inner, key=int)]
        case "integer" | "long":
            return int(tree)
        case "boolean":
            return tree == "true"
        case _:
            return tree


def _query_name(name: str, member: Any, service: str) -> str:
    said = member.serialization
    if service == "ec2":
        own = said.get("queryName") or said.get("name", name)
        return str(own[0].upper() + own[1:])
    return str(said.get("name", name))


# --- answers --------------------------------------------------------------------------------------------------------------


def answer_body(request: Request, answer: Mapping[str, Any]) -> bytes:
    """The body of an answer; ValueError if the service's model does not know it."""
    shape = model_of(request.service).operation_model(request.operation).output_shape
    if request.service in ("eks", "sqs"):
        return b"{}" if shape is None else json.dumps(_json(shape, answer)).encode()
    inner = "" if shape is None else _xml(shape, answer)
    if request.service == "autoscaling":
        name = request.operation
        return f"<{name}Response><{name}Result>{inner}</{name}Result><ResponseMetadata/></{name}Response>".encode()
    return f"<{request.operation}Response><requestId>r</requestId>{inner}</{request.operation}Response>".encode()


def error_body(service: str, error: RefusedRequest) -> bytes:
    if service in ("eks", "sqs"):
        return json.dumps({"__type": error.code, "message": error.message}).encode()
    text = f"<Error><Code>{error.code}</Code><Message>{escape(error.message)}</Message></Error>"
    if service == "ec2":
        return f"<Response><Errors>{text}</Errors><RequestID>r</RequestID></Response>".encode()
    return f"<ErrorResponse>{text}<RequestId>r</RequestId></ErrorResponse>".encode()


def _known(shape: Any, answer: Mapping[str, Any]) -> None:
    if unknown := answer.keys() - shape.members.keys():
        raise ValueError(f"{shape.name} has no {sorted(unknown)}")


def _xml(shape: Any, value: Any) -> str:
    match shape.type_name:
        case "structure":
            _known(shape, value)
            parts = []
            for name, own in value.items():
                member = shape.members[name]
                key = member.serialization.get("name", name)
                parts.append(f"<{key}>{_xml(member, own)}</{key}>")
            return "".join(parts)
        case "list":
            key = shape.member.serialization.get("name", "member")
            return "".join(f"<{key}>{_xml(shape.member, own)}</{key}>" for own in value)
        case "timestamp":
            assert isinstance(value, datetime)
            return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case "boolean":
            return "true" if value else "false"
        case "integer" | "long":
            return str(int(value))
        case _:
            assert isinstance(value, str), (shape.name, value)
            if (allowed := getattr(shape, "enum", None)) and value not in allowed:
                raise ValueError(f"{shape.name} cannot be {value}")
            return escape(value)


def _json(shape: Any, value: Any) -> Any:
    match shape.type_name:
        case "structure":
            _known(shape, value)
            members = shape.members
            return {members[k].serialization.get("name", k): _json(members[k], own) for k, own in value.items()}
        case "list":
            return [_json(shape.member, own) for own in value]
        case _:
            return value


# --- the real client on a function ----------------------------------------------------------------------------------------


async def respond(handle: Handler, url: str, headers: Mapping[str, str], body: bytes) -> Response:
    request = read_request(url, headers, body)
    try:
        answer = await handle(request)
    except RefusedRequest as error:
        return Response(error.status, error_body(request.service, error))
    return Response(200, answer_body(request, answer))


@lru_cache
def _session() -> Any:
    """One for all tests, since it keeps the models that it has read."""
    return get_session()


@dataclass
class _Body:
    content: bytes

    async def read(self) -> bytes:
        return self.content


#: Who answers the requests now. Clients are made once: to turn EC2's model into one takes a third of a second.
_answering: list[Handler] = []


class _OnFunction(AIOHTTPSession):  # type: ignore[misc]
    async def __aenter__(self) -> "_OnFunction":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, request: Any) -> Any:
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        found = await respond(_answering[-1], request.url, request.headers, body)
        return AioAWSResponse(request.url, found.status, {}, _Body(found.body))


_services: dict[Service, Any] = {}


@asynccontextmanager
async def client_of(handle: Handler) -> AsyncIterator[AwsClient]:
    """The product's client, whose requests `handle` answers."""
    config = AioConfig(http_session_cls=_OnFunction, retries={"total_max_attempts": 1})
    keys = {"aws_access_key_id": "id", "aws_secret_access_key": "secret"}
    for name in SERVICES if not _services else ():
        where = {"region_name": "eu-west-1", "endpoint_url": HOST.format(name)}
        _services[name] = await _session().create_client(name, **where, **keys, config=config).__aenter__()
    _answering.append(handle)
    try:
        yield AwsClient(_services)
    finally:
        _answering.pop()

"""schemathesis over the three OpenAPI documents and the running service: what is answered is what is documented."""

from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fuzz.running import Target
from tests.fuzz.sizes import tried

CHECKS: Any = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
LISTENER = {"extender": "extender", "agent": "agents", "ops": "ops"}
#: It ends when the caller hangs up; the dashboard's tests listen to it.
ENDLESS = "/dashboard/events"


def operations(name: str) -> dict[str, Any]:
    document = schemathesis.openapi.from_path(Path("openapi") / f"{name}.yaml")
    found = (each.ok() for each in document.get_all_operations() if isinstance(each, Ok))
    return {f"{name} {each.label}": (LISTENER[name], each) for each in found if each.path != ENDLESS}


OPERATIONS = {label: found for name in LISTENER for label, found in operations(name).items()}


@pytest.mark.parametrize("label", OPERATIONS)
@tried
@given(data=st.data())
def test_what_is_answered_is_documented(target: Target, label: str, data: st.DataObject) -> None:
    listener, operation = OPERATIONS[label]
    mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
    case = data.draw(operation.as_strategy(generation_mode=mode))
    try:
        answer = target.judged(lambda: case.call(base_url=target.urls[listener], timeout=120), f"{label} {case.body!r:.500}")
    except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeEncodeError):
        return  # it cannot be sent
    case.validate_response(answer, checks=CHECKS)


def test_every_operation_is_tried() -> None:
    assert len(OPERATIONS) >= 20

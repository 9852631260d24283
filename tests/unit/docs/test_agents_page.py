"""What docs/agents.md shows can be used as it stands."""

import json
import re
from pathlib import Path

from slackwater.app.leader_election import tls_of
from slackwater.app.settings import loads
from slackwater_protocol.agent import AgentRequest, PluginResponse
from tests.support.configuration import HEADER

PAGE = Path("docs/agents.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_messages_are_messages_of_the_protocol() -> None:
    request, answer = map(json.loads, blocks("json"))
    read = AgentRequest.model_validate(request)
    assert read.problem() is None
    assert PluginResponse.model_validate(answer).permit == read.resources


def test_the_configuration_is_valid_and_a_token_will_do_without_a_certificate() -> None:
    (text,) = blocks("yaml")
    agents = loads(HEADER + text).listeners.agents
    assert agents.authentication.tokens is not None
    tls = tls_of(agents)
    assert tls is not None
    assert tls.client_certificate == "may"


def test_the_python_compiles() -> None:
    (text,) = blocks("python")
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    compile(f"async def main():\n{indented}", "docs/agents.md", "exec")

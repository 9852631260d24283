"""The provider aws over sockets, against moto's server: what somebody else takes for EC2 Auto Scaling accepts what we ask.

moto launches at once and never fails, so only calls and their answers are shown here; test_aws.py has the rest. Credentials
come from where EKS puts them: a web identity (IRSA), and the agent of Pod Identity. One group serves all tests: moto is slow.
"""

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiobotocore.session import get_session
from moto.server import ThreadedMotoServer

from slackwater.adapters.cloud.aws.client import AwsClient, open_client
from slackwater.adapters.cloud.aws.provider import AwsProvider
from slackwater.model.nodegroups import GroupName, NodeGroup
from slackwater.ports.protocols import ProviderError
from tests.support.fake_ec2 import ENABLED, OWNED, TAGS

pytestmark = [pytest.mark.anyio]

REGION = "eu-west-1"
GROUP = GroupName("workers")
KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
ROLE = "arn:aws:iam::123456789012:role/slackwater"


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
async def group(moto: str, monkeypatch: pytest.MonkeyPatch, anyio_backend: str) -> str:
    """A group of two types in three zones, with two machines at first."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    session, name = get_session(), GROUP
    async with session.create_client("autoscaling", region_name=REGION) as autoscaling:
        if (await autoscaling.describe_auto_scaling_groups())["AutoScalingGroups"]:
            return name
    async with session.create_client("ec2", region_name=REGION) as ec2:
        data = {"InstanceType": "m5.xlarge", "ImageId": "ami-12c6146b"}  # moto has it
        await ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=data)
    async with session.create_client("autoscaling", region_name=REGION) as autoscaling:
        template = {"LaunchTemplateSpecification": {"LaunchTemplateName": name, "Version": "$Latest"}}
        overrides = [{"InstanceType": "m5.xlarge"}, {"InstanceType": "m6i.xlarge"}]
        await autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=5,
            DesiredCapacity=2,
            AvailabilityZones=[f"{REGION}{letter}" for letter in "abc"],
            MixedInstancesPolicy={"LaunchTemplate": {**template, "Overrides": overrides}},
            Tags=[{"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in TAGS.items()],
        )
    return name


@asynccontextmanager
async def opened() -> AsyncIterator[AwsProvider]:
    async with open_client(region=REGION, queue=False) as client:
        yield AwsProvider(client, tags={ENABLED: "", OWNED: "owned"}, now=lambda: datetime.now(UTC).timestamp())


async def look(provider: AwsProvider) -> NodeGroup:
    (group,) = await provider.groups(timeout_seconds=60)
    return group


async def test_a_group_grows_and_shrinks_by_names(group: str) -> None:
    async with opened() as provider:
        before = await look(provider)
        assert (before.name, before.target, len(before.instances)) == (group, 2, 2)
        template = before.template
        assert template is not None
        assert (template.allocatable.cpu, template.labels["topology.kubernetes.io/region"]) == (3920, REGION)
        await provider.grow(GroupName(group), seen=2, to=4, timeout_seconds=60)
        grown = await look(provider)
        assert (grown.target, len(grown.instances)) == (4, 4)
        to_delete = grown.instances[0]
        await provider.delete(GroupName(group), [to_delete], timeout_seconds=60)
        after = await look(provider)
        left = {instance.id for instance in after.instances if instance.state != "deleting"}
        assert (after.target, left) == (3, {instance.id for instance in grown.instances} - {to_delete.id})
        with pytest.raises(ProviderError, match="limit"):
            await provider.grow(GroupName(group), seen=3, to=6, timeout_seconds=60)
        with pytest.raises(ProviderError, match="gone"):
            await provider.grow(GroupName("nowhere"), seen=0, to=1, timeout_seconds=60)


async def test_a_service_account_with_a_role_needs_no_keys(group: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a token of the cluster's issuer")
    for name in KEYS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    async with opened() as provider:
        assert (await look(provider)).name == group


async def test_pod_identity_needs_no_keys(group: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    class Agent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Authorization"])
            until = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
            keys = {"AccessKeyId": "id", "SecretAccessKey": "secret", "Token": "token", "Expiration": until}
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(keys).encode())

        def log_message(self, *_: Any) -> None:
            pass

    (tmp_path / "token").write_text("a token of the Pod")
    for name in KEYS:
        monkeypatch.delenv(name)
    server = HTTPServer(("127.0.0.1", 0), Agent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://127.0.0.1:{server.server_port}/v1/credentials")
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        async with opened() as provider:
            assert (await look(provider)).name == group
    finally:
        server.shutdown()
        server.server_close()
    assert asked == ["a token of the Pod"]


async def test_without_credentials_the_error_says_so(group: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in KEYS:
        monkeypatch.delenv(name)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    async with opened() as provider:
        with pytest.raises(ProviderError, match=r"other: .*[Cc]redentials"):
            await provider.groups(timeout_seconds=60)


async def test_without_a_region_the_error_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, anyio_backend: str) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(ProviderError, match="region"):
        async with open_client(region=None, queue=False) as client:
            assert isinstance(client, AwsClient)

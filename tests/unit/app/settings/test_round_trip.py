"""Settings written as a file read back as the same settings, for any valid settings."""

import json
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from slackwater.app.settings import Settings, as_file, loads

fractions = st.floats(min_value=0, max_value=1)
shares = st.floats(min_value=0, max_value=1, exclude_min=True)
counts = st.integers(min_value=0, max_value=1_000_000)
widths = st.integers(min_value=1, max_value=1_000_000)
nanoseconds = st.integers(min_value=0, max_value=2**63 - 1)
some_nanoseconds = st.integers(min_value=1, max_value=2**63 - 1)
amounts = st.integers(min_value=0, max_value=2**63 - 2)
some_amounts = st.integers(min_value=1, max_value=2**63 - 2)
nanos = st.integers(min_value=0, max_value=(2**63 - 1) * 10**9 - 1)
label_values = st.from_regex(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,60}[A-Za-z0-9])?)?", fullmatch=True)
label_keys = st.from_regex(r"([a-z]{1,5}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,9}[A-Za-z0-9])?", fullmatch=True)
group_names = label_values.filter(bool)
hosts = st.ip_addresses().map(str)
paths = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=30)


@st.composite
def addresses(draw: st.DrawFn, port: int) -> str:
    host = draw(hosts)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def durations(values: st.SearchStrategy[int]) -> st.SearchStrategy[str]:
    return values.map(lambda value: f"{value}ns")


def quantities(values: st.SearchStrategy[int], unit: str) -> st.SearchStrategy[str]:
    return values.map(lambda value: f"{value}{unit}")


def some_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def node_groups(draw: st.DrawFn) -> list[dict[str, Any]]:
    groups = []
    for name in draw(st.lists(group_names, unique=True, max_size=3)):
        smallest, largest = sorted((draw(counts), draw(counts)))
        resources = draw(st.dictionaries(st.sampled_from(["cpu", "memory", "a/b"]), quantities(nanos, "n")))
        taints = draw(st.lists(st.sampled_from(["NoSchedule", "NoExecute"]), unique=True))
        template = {
            "metadata": {"labels": draw(st.dictionaries(label_keys, label_values, max_size=2))},
            "spec": {"taints": [{"key": "a.b/c", "value": draw(label_values), "effect": effect} for effect in taints]},
            "status": {"capacity": resources},
        }
        provider = draw(st.sampled_from(["kwok", "clusterapi"]))
        groups.append({"name": name, "provider": provider, "minSize": smallest, "maxSize": largest, "template": template})
        if provider == "kwok":
            groups[-1]["kwok"] = draw(some_of(appearAfter=durations(nanoseconds), failing=fractions, stock=st.none() | counts))
        else:
            groups[-1]["id"] = draw(st.sampled_from(["MachinePool/default/md", "x"]))
    return groups


authentication = st.fixed_dictionaries(
    {},
    optional={
        "certificates": st.none() | some_of(commonNamePrefix=st.sampled_from(["", "system:node:", "agent "])),
        "tokens": st.none()
        | st.fixed_dictionaries(
            {"serviceAccounts": st.lists(st.sampled_from(["a/b", "kube-system/agent.x"]), min_size=1, unique=True)},
            optional={"audiences": st.lists(st.sampled_from(["slackwater", "x"]), unique=True)},
        ),
    },
)
with_ca = st.fixed_dictionaries({"certFile": paths, "keyFile": paths, "clientCAFile": paths})
tls = st.none() | st.fixed_dictionaries({"certFile": paths, "keyFile": paths}, optional={"clientCAFile": paths})
files = st.fixed_dictionaries(
    {
        "apiVersion": st.just("config.slackwater.dev/v1alpha1"),
        "kind": st.just("SlackwaterConfiguration"),
    },
    optional={
        "schedulerName": st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True),
        "featureGates": some_of(AsyncPreemption=st.booleans(), ParallelDrain=st.booleans()),
        "listeners": some_of(
            extender=some_of(address=addresses(port=1), tls=tls),
            agents=some_of(address=addresses(port=2), tls=tls, maxWait=durations(nanoseconds))
            | st.fixed_dictionaries({"authentication": authentication, "tls": with_ca}),
            ops=some_of(address=addresses(port=3), tls=tls),
        ),
        "extender": some_of(
            weight=st.integers(1, 100),
            bind=st.booleans(),
            httpTimeout=durations(st.integers(10**9, 30 * 10**9)),
            holdTimeout=durations(some_nanoseconds),
            schedulerTLS=st.fixed_dictionaries({"certFile": paths, "keyFile": paths}, optional={"caFile": paths}),
        ),
        "nodes": some_of(
            watermark=some_of(cpu=shares, memory=shares),
            system=some_of(cpu=quantities(amounts, "m"), memory=quantities(amounts, "")),
            score=some_of(minUsage=fractions, maxUsage=fractions, peak=fractions, randomize=st.booleans()),
        ),
        "vertical": some_of(
            missingRequests=st.sampled_from(["reject", "zero"]),
            computeUnit=some_of(vCPUs=quantities(some_amounts, "m"), mem=quantities(some_amounts, "")),
            maxStepUnits=counts,
        ),
        "migration": some_of(
            enabled=st.booleans(),
            maxConcurrent=widths,
            capacityPressureWeight=st.floats(min_value=0, allow_infinity=False, allow_nan=False),
        ),
        "preemption": some_of(
            timeout=durations(some_nanoseconds),
            delay=durations(nanoseconds),
        ),
        "autoscaler": some_of(
            enabled=st.booleans(),
            scanInterval=durations(some_nanoseconds),
            maxPlanningTime=durations(nanoseconds),
            maxNodesPerScaleUp=counts,
            expanders=st.lists(
                st.sampled_from(["random", "most-pods", "least-nodes", "least-waste", "priority"]),
                unique=True,
                min_size=1,
            ),
            nodeGroups=node_groups(),
            providers=some_of(
                kwok=some_of(namespace=st.sampled_from(["kube-system", "x"]), seed=counts),
                clusterapi=st.none() | some_of(kubeconfig=paths, namespace=st.just("a"), clusterName=label_values),
                karpenter=st.none() | some_of(instanceTypes=paths, nodePools=st.lists(st.just("a.b"), max_size=1)),
                externalgrpc=st.none()
                | st.fixed_dictionaries(
                    {"address": addresses(port=4)},
                    optional={"timeout": durations(some_nanoseconds), "tls": st.none() | some_of(caFile=paths)},
                ),
            ),
            scaleUp=some_of(
                balanceSimilarGroups=st.booleans(),
                expendablePodsPriorityCutoff=st.integers(-(2**31), 2**31 - 1),
                settleTime=durations(nanoseconds),
                maxPods=counts,
                limits=st.dictionaries(st.sampled_from(["nodes", "cpu", "memory", "a/b"]), quantities(nanos, "n")),
                quotas=st.lists(
                    st.fixed_dictionaries({"name": group_names}, optional={"limits": st.just({"nodes": "3"})}), max_size=2
                ),
            ),
            scaleDown=some_of(utilizationThreshold=fractions, unneededTime=durations(nanoseconds)),
        ),
        "kube": some_of(maxConcurrentWrites=widths, writeDeadline=durations(some_nanoseconds), nodeUse=st.booleans()),
    },
)


def _text(settings: Settings) -> str:
    return json.dumps(as_file(settings), ensure_ascii=False)


@given(file=files)
def test_settings_written_as_json_read_back_as_themselves(file: dict[str, Any]) -> None:
    settings = loads(json.dumps(file))
    assert loads(_text(settings)) == settings


@given(file=files)
def test_settings_read_through_yaml_are_the_same_as_through_json(file: dict[str, Any]) -> None:
    settings = loads(json.dumps(file))
    comment_keeps_json_away = "# a comment\n" + _text(settings)
    assert loads(comment_keeps_json_away) == settings


@given(file=files)
def test_writing_what_was_read_changes_nothing_any_more(file: dict[str, Any]) -> None:
    once = as_file(loads(json.dumps(file)))
    assert as_file(loads(json.dumps(once))) == once


def test_the_defaults_written_out_are_the_defaults() -> None:
    assert loads(_text(Settings())) == Settings()
    assert yaml.safe_load(_text(Settings())) == as_file(Settings())

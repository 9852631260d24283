"""Turns an installed Cluster Autoscaler into our configuration file, so that the result behaves as it did.

In: objects, of which one runs Cluster Autoscaler. Out: `Converted`. A flag that is absent has its default there; where ours is
another one, the file sets it. Cluster Autoscaler would refuse a bad value or an unknown flag, and so does this.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from slackwater.adapters.kube.config_maps import PRIORITIES_CONFIG_MAP, decode_priorities
from slackwater.adapters.kube.yaml_text import YamlProblem, yaml_tree
from slackwater.app.converters.draft import Converted, Draft, Verdict, nearest
from slackwater.app.converters.flags import BY_NAME, FLAGS, WITHOUT_FLAG, Flag
from slackwater.app.converters.workloads import Manifest, Workload, find_workload
from slackwater.app.settings.autoscaling import Expander, ProviderName
from slackwater.controllers.scaleup.expanders import BadPriorities
from slackwater.model.node_taints import STARTUP_TAINTS, STATUS_TAINTS
from slackwater_protocol.durations import DurationError, parse_duration

PROVIDERS: Final = get_args(ProviderName)
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_NOT_IN_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME: Final = 63
_ABSENT: Final = "not given, so Cluster Autoscaler's default holds"
_CLOUDS: Final = "no provider here: docs/install.md#clouds says what to run; --provider NAME writes groups of another provider"
_GPU_LABEL: Final = "cloud.google.com/gke-accelerator"
_GPU: Final = "nvidia.com/gpu"


#: The provider of each discoverer.
_DISCOVERERS: Final = {"asg": "aws", "clusterapi": "clusterapi"}
#: Keys of `providers.externalgrpc`, and those of Cluster Autoscaler's file about the server.
_SERVER: Final = {"address": "address", "timeout": "grpc_timeout"}
_TLS: Final = {"caFile": "cacert", "certFile": "cert", "keyFile": "key"}


class BadValue(ValueError):
    """A flag's value is not what Cluster Autoscaler accepts; the message is what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """The flags of a command line: the values of each, in order. `title`, `files`: as in `Workload`. `provider`: what creates
    nodes here, if the caller says it; `address`: of an external server."""

    values: Mapping[str, Sequence[str]]
    files: Mapping[str, str]
    provider: str
    address: str

    def text(self, name: str) -> str:
        """The value that counts: the last one, or the default. That of a list is its values with commas."""
        given = self.values.get(name)
        if BY_NAME[name].kind in ("list", "names"):
            return ",".join(given or ())
        return given[-1] if given else BY_NAME[name].default


def from_cluster_autoscaler(objects: Iterable[Manifest], *, provider: str = "", address: str = "") -> Converted:
    """Converts the one Cluster Autoscaler of the objects. Raises `ConversionError` if there is not one.

    `provider`: the provider of the groups, if it is not that of `--cloud-provider`; `address`: host:port of its server."""
    objects = list(objects)
    found = find_workload(objects)
    head = (f"From {found.title}, by slackwater config from-cluster-autoscaler.", "Comments say where values come from.")
    draft = Draft(head=head)
    draft.put("autoscaler.enabled", True, found.title)
    given = _Given(values=_parsed(draft, found), files=found.files, provider=provider, address=address)
    if not any(each.verdict == "refused" for each in draft.findings):
        for flag in FLAGS:
            try:
                _convert(draft, flag, given)
            except BadValue as err:
                draft.find(f"--{flag.name}", given.text(flag.name), "refused", flag.key, f"want {err}")
        for path, value, why in WITHOUT_FLAG:
            draft.put(path, value, "no flag", "", why)
        _priorities(draft, objects, given)
    return draft.done()


# --- the command line -----------------------------------------------------------------------------------------------------


def _parsed(draft: Draft, found: Workload) -> dict[str, list[str]]:
    """The values of each known flag, as pflag reads them: a switch takes its value only with `=`."""
    values: dict[str, list[str]] = {}
    words = iter(found.words)
    for word in words:
        if word == "--":
            for rest in words:
                draft.find(rest, "", "no-counterpart", why="it is after --, so it was ignored")
            break
        name, has_value, value = re.sub(r"^-v(?=[0-9])", "-v=", word).lstrip("-").partition("=")
        if not word.startswith("-") or not name:
            draft.find(word, "", "no-counterpart", why="no flag, so it was ignored; a switch takes its value with =")
            continue
        flag = BY_NAME.get(name := name.replace("_", "-"))
        if flag is None:
            hint = nearest(name, BY_NAME)
            draft.find(f"--{name}", value, "refused", why=f"got an unknown flag, want one of Cluster Autoscaler's{hint}")
            continue
        if not has_value:
            value = "true" if flag.kind == "bool" else next(words, "")
            if flag.kind not in ("bool", "text") and not value:
                draft.find(f"--{name}", "", "refused", flag.key, "got nothing, want a value")
        unknown = next((ref for ref in found.unknown if ref in value), "")
        if unknown and flag.key:
            why = f"{unknown} {found.unknown[unknown]}; want the value itself"
            draft.find(f"--{name}", value, "refused", flag.key, why)
        values.setdefault(name, []).append(value)
    return values


#: How the values of each kind are written, and what they are called.
_WRITTEN: Final = {
    "bool": (re.compile("|".join(_TRUE | _FALSE)), "true or false"),
    "int": (re.compile(r"[+-]?[0-9]{1,18}"), "a whole number"),
    "seconds": (re.compile(r"[+-]?[0-9]{1,18}"), "a whole number"),
    "float": (re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,2})?"), "a number"),
}


def read_value(flag: Flag, text: str) -> Any:
    """The value as our file writes it. Raises `BadValue`."""
    pattern, wanted = _WRITTEN.get(flag.kind, (None, ""))
    if pattern is not None and not pattern.fullmatch(text):
        raise BadValue(wanted)
    match flag.kind:
        case "bool":
            return text in _TRUE
        case "int" | "seconds":
            return int(text) if flag.kind == "int" else f"{int(text)}s"
        case "float":
            return float(text)
        case "duration":
            return _duration(text)
        case "names":
            return [name for name in text.split(",") if name]
        case _:
            return text


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except DurationError:
        raise BadValue("a duration such as 10m or 1h30m") from None
    return text


# --- one flag -------------------------------------------------------------------------------------------------------------


def _convert(draft: Draft, flag: Flag, given: _Given) -> None:
    name, text, is_given = f"--{flag.name}", given.text(flag.name), flag.name in given.values
    if not is_given and not flag.current:
        return
    value = read_value(flag, text)  # a bad value is one, whether or not there is a counterpart
    if flag.name in _SPECIAL:
        _SPECIAL[flag.name](draft, flag, given)
    elif flag.fixed is not None:
        same = value == read_value(flag, flag.fixed)
        if is_given or not same:
            verdict: Verdict = "same-as-default" if same else "no-counterpart"
            draft.find(name, text, verdict, why=flag.why if is_given else f"{flag.why} ({_ABSENT})", given=is_given)
    elif not flag.key:
        if is_given:
            draft.find(name, text, "no-counterpart", why=flag.why)
    else:
        value = list(given.values.get(flag.name, ())) if flag.kind == "list" else value
        draft.put(flag.key, value, name, text, "" if is_given else _ABSENT, given=is_given)


def _pair(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,12}):([0-9]{1,12})", text)
    if found is None or int(found[1]) > int(found[2]):
        raise BadValue("min:max with min <= max")
    return int(found[1]), int(found[2])


def _expander(draft: Draft, flag: Flag, given: _Given) -> None:
    text = given.text(flag.name)
    names, known = text.split(","), {*get_args(Expander), "grpc"}
    if wrong := [name for name in names if name not in known]:
        raise BadValue(f"some of {', '.join(sorted(known))}{nearest(wrong[0], known)}")
    if "grpc" in names:
        draft.find("--expander", "grpc", "no-counterpart", why=BY_NAME["grpc-expander-url"].why)
    ours = [name for name in names if name != "grpc"] or ["least-waste"]
    draft.put(flag.key, ours, "--expander", text, given=flag.name in given.values)
    if "price" in ours:
        for key, value in (("maxBatchTime", "0s"), ("placeAsPlanned", False)):
            draft.put(f"autoscaler.scaleUp.{key}", value, "--expander", "price", "Cluster Autoscaler does not")


def _nodes(draft: Draft, flag: Flag, given: _Given) -> None:
    cloud, taken = given.text("cloud-provider"), set[str]()
    provider = given.provider or (cloud if cloud in ("aws", "kwok") else "")
    for text in given.values.get(flag.name, ()):
        least, most, group = [*text.split(":", 2), "", ""][:3]
        if not group:
            raise BadValue("min:max:name")
        low, high = _pair(f"{least}:{most}")
        if not provider:
            why = "the provider names its groups with their sizes" if cloud in PROVIDERS else _CLOUDS
            draft.find("--nodes", text, "no-counterpart", flag.key, why)
            continue
        name = group_name(group, taken)
        entry = {"name": name, "provider": provider, "minSize": low, "maxSize": high, "maxNodesInCreation": 0}
        draft.add(flag.key, entry if name == group or provider == "kwok" else {**entry, "id": group}, "--nodes", text)


def group_name(text: str, taken: set[str]) -> str:
    """A name for a group that is a label's value, and not in `taken`; it is added there. Clouds' names may be paths."""
    base = _NOT_IN_NAME.sub("-", text.rstrip("/").rpartition("/")[2])[:_LONGEST_NAME].strip("-_.") or "group"
    name, number = base, 2
    while name in taken:
        end = f"-{number}"
        name, number = f"{base[: _LONGEST_NAME - len(end)]}{end}", number + 1
    taken.add(name)
    return name


def _discovery(draft: Draft, flag: Flag, given: _Given) -> None:
    ours = given.provider or given.text("cloud-provider")
    for number, text in enumerate(given.values.get(flag.name, ())):
        kind, colon, _ = text.partition(":")
        if not colon:
            raise BadValue(
                "discoverer:key=value,... such as clusterapi:namespace=fleet or asg:tag=k8s.io/cluster-autoscaler/prod"
            )
        owner = _DISCOVERERS.get(kind)
        if owner is None or owner != ours:
            draft.find(f"--{flag.name}", text, "no-counterpart", why=_CLOUDS if owner is None else f"of the provider {owner}")
        elif number:
            draft.find(f"--{flag.name}", text, "no-counterpart", flag.key, "one selection of groups; the first one is taken")
        else:
            draft.find(f"--{flag.name}", text, "taken", flag.key.replace("clusterapi", owner))


def _tags(text: str) -> dict[str, str]:
    """The tags of a discovery such as `asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/prod=owned`."""
    key, equals, said = text.partition(":")[2].partition("=")
    pairs = dict(pair.partition("=")[::2] for pair in said.split(","))
    if key != "tag" or not equals or "" in pairs:
        raise BadValue("asg:tag=key,key=value")
    return pairs


def _selected(text: str) -> dict[str, Any]:
    """The keys of `providers.clusterapi` for one discovery such as `clusterapi:namespace=fleet,clusterName=prod,tier=web`."""
    pairs = dict(pair.partition("=")[::2] for pair in text.partition(":")[2].split(",") if pair)
    found: dict[str, Any] = {key: pairs.pop(key) for key in ("namespace", "clusterName") if key in pairs}
    return {**found, "selector": pairs} if pairs else found


def _cloud_provider(draft: Draft, flag: Flag, given: _Given) -> None:
    text = given.text(flag.name)
    name, config, path = given.provider or text, given.text("cloud-config"), f"{flag.key}.{given.provider or text}"
    why = "by --provider" if given.provider else ""
    discoveries = given.values.get("node-group-auto-discovery", ())
    found = next((each for each in discoveries if _DISCOVERERS.get(each.partition(":")[0]) == name), "")
    if name == "aws" and found:
        draft.put(path, {"tags": _tags(found)}, f"--{flag.name}", text, why or "with --node-group-auto-discovery")
    elif name == "clusterapi":
        section = {**_selected(found), **({"kubeconfig": config} if config and text == name else {})}
        draft.put(path, section, f"--{flag.name}", text, why or "with --node-group-auto-discovery and --cloud-config")
    elif name == "externalgrpc":
        section = _external(given.files.get(config, "")) if not given.address else {"address": given.address}
        if section:
            draft.put(path, section, f"--{flag.name}", text, why or "with what the file of --cloud-config says")
        else:
            why = f"no ConfigMap of the input has the file {config}: --address HOST:PORT says where the server is"
            draft.find(f"--{flag.name}", text, "no-counterpart", f"{path}.address", why)
    elif name in ("aws", "kwok"):
        groups = "groups are those of --nodes"
        more = "" if name == "aws" else "; their templates have to be written"
        draft.find(f"--{flag.name}", text, "taken", path, why or f"{groups}{more}")
    else:
        draft.find(f"--{flag.name}", text, "no-counterpart", why=_CLOUDS)


def _external(text: str) -> dict[str, Any]:
    """The section of an external gRPC server for Cluster Autoscaler's file about it."""
    try:
        tree = yaml_tree(text)
    except YamlProblem:
        tree = None
    said = tree if isinstance(tree, dict) else {}
    tls, whole = ({ours: said[theirs] for ours, theirs in keys.items() if said.get(theirs)} for keys in (_TLS, _SERVER))
    return {**whole, **({"tls": tls} if tls else {})} if "address" in whole else {}


def _cloud_config(draft: Draft, flag: Flag, given: _Given) -> None:
    if text := given.text(flag.name):
        if given.text("cloud-provider") in ("clusterapi", "externalgrpc"):
            draft.find("--cloud-config", text, "taken", flag.key, "a path in the container; mount the file there, too")
        else:
            draft.find("--cloud-config", text, "no-counterpart", why="of a cloud's provider; Secrets are not read")


def _total(resource: str, unit: str) -> "_Special":
    def convert(draft: Draft, flag: Flag, given: _Given) -> None:
        text = given.text(flag.name)
        least, most = _pair(text)
        if flag.name in given.values:
            draft.put(f"{flag.key}.{resource}", f"{most}{unit}", f"--{flag.name}", text)
            if least:
                draft.put(f"autoscaler.scaleDown.minimum.{resource}", f"{least}{unit}", f"--{flag.name}", text)

    return convert


def _nodes_total(draft: Draft, flag: Flag, given: _Given) -> None:
    text = given.text(flag.name)
    if int(text) > 0:
        draft.put(f"{flag.key}.nodes", str(int(text)), f"--{flag.name}", text)
    elif flag.name in given.values:
        draft.find(f"--{flag.name}", text, "same-as-default", flag.key, "no limit")


def _gpu_total(draft: Draft, flag: Flag, given: _Given) -> None:
    taken = set[str]()
    for text in given.values.get(flag.name, ()):
        kind, _, sizes = text.partition(":")
        least, most = _pair(sizes)
        entry = {"name": group_name(kind, taken), "nodeLabels": {_GPU_LABEL: kind}, "limits": {_GPU: str(most)}}
        draft.add(flag.key, entry, f"--{flag.name}", text)
        if least:
            draft.find(f"--{flag.name}", text, "no-counterpart", why=f"the minimum, {least}: only groups have one")


def _taints(defaults: Sequence[str], names: Sequence[str]) -> "_Special":
    def convert(draft: Draft, flag: Flag, given: _Given) -> None:
        said = [f"{value}*" if name.endswith("prefix") else value for name in names for value in given.values.get(name, ())]
        if said:
            flags = " ".join(f"--{name}" for name in names if name in given.values)
            draft.put(flag.key, [*dict.fromkeys([*defaults, *said])], flags, ",".join(said), flag.why)

    return convert


def _merged(_draft: Draft, _flag: Flag, _given: _Given) -> None:
    """Another flag of the same setting reads this one, too."""


def _node_start(draft: Draft, flag: Flag, given: _Given) -> None:
    names = [name for name in ("max-node-provision-time", "max-node-startup-time") if name in given.values]
    texts = [_duration(given.text(name)) for name in names] or [flag.default]
    longest = max(texts, key=parse_duration)
    flags = " ".join(f"--{name}" for name in names)
    draft.put(flag.key, longest, flags, longest, flag.why, given=bool(names))


def _drain_priorities(draft: Draft, flag: Flag, given: _Given) -> None:
    if not (text := given.text(flag.name)):
        return
    if not re.fullmatch(r"-?[0-9]{1,10}:[0-9]{1,10}(,-?[0-9]{1,10}:[0-9]{1,10})*", text):
        raise BadValue("priority:seconds,... such as 10000:20,0:60")
    pairs = (pair.split(":") for pair in text.split(","))
    groups = [{"priority": int(priority), "time": f"{int(time)}s"} for priority, time in pairs]
    draft.put(flag.key, groups, f"--{flag.name}", text)


def _bulk_delete(draft: Draft, flag: Flag, given: _Given) -> None:
    if flag.name in given.values and "max-scale-down-parallelism" not in given.values:
        draft.put(flag.key, int(given.text(flag.name)), f"--{flag.name}", given.text(flag.name), flag.why)
    elif flag.name in given.values:
        draft.find(f"--{flag.name}", given.text(flag.name), "no-counterpart", why="--max-scale-down-parallelism counts")


def _status(draft: Draft, flag: Flag, given: _Given) -> None:
    if flag.name in given.values:
        draft.put(flag.key, given.text(flag.name), f"--{flag.name}", given.text(flag.name))


_Special = Callable[[Draft, Flag, _Given], None]
#: The flags that are more than one value for one setting.
_SPECIAL: Final[Mapping[str, _Special]] = {
    "expander": _expander,
    "nodes": _nodes,
    "node-group-auto-discovery": _discovery,
    "cloud-provider": _cloud_provider,
    "cloud-config": _cloud_config,
    "max-nodes-total": _nodes_total,
    "cores-total": _total("cpu", ""),
    "memory-total": _total("memory", "Gi"),
    "gpu-total": _gpu_total,
    "startup-taint": _merged,
    "startup-taint-prefix": _merged,
    "ignore-taint": _taints(STARTUP_TAINTS, ("startup-taint", "startup-taint-prefix", "ignore-taint")),
    "status-taint": _taints(STATUS_TAINTS, ("status-taint",)),
    "max-node-provision-time": _merged,
    "max-node-startup-time": _node_start,
    "drain-priority-config": _drain_priorities,
    "max-empty-bulk-delete": _bulk_delete,
    "status-config-map-name": _status,
}


def _priorities(draft: Draft, objects: Iterable[Manifest], given: _Given) -> None:
    """The service reads the ConfigMap of the expander `priority` itself, where Cluster Autoscaler has it by default."""
    if "priority" not in given.text("expander").split(","):
        return
    title = f"ConfigMap {PRIORITIES_CONFIG_MAP}"
    found = next((each for each in objects if each.kind == "ConfigMap" and each.name == PRIORITIES_CONFIG_MAP), None)
    try:
        ranks = decode_priorities(found.raw).ranks if found is not None else ()
    except BadPriorities as err:
        draft.find(title, "", "refused", "autoscaler.expanders", str(err))
        return
    moved = found is not None and found.namespace not in ("", "kube-system")
    where = "read in the cluster as it is" if not moved else "copy it to kube-system, where it is read"
    draft.find(title, "", "taken", "autoscaler.expanders", where if found is not None else f"{where}; it is not in the input")
    for text in given.values.get("nodes", ()) if ranks else ():
        group = text.split(":", 2)[-1]
        name = group_name(group, set())
        if any(pattern.search(group) and not pattern.search(name) for _, patterns in ranks for pattern in patterns):
            why = f"an expression matches {group}, and not the group's name here, {name}"
            draft.find(title, group, "no-counterpart", why=why)

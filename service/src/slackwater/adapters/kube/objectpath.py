"""Where one object of a namespaced resource type is found."""

from urllib.parse import quote

from slackwater.model.ids import PodKey


def collection_path(path: str, namespace: str) -> str:
    """The objects of one namespace; `path` is where those of all namespaces are listed."""
    group, _, plural = path.rpartition("/")
    return f"{group}/namespaces/{quote(namespace, safe='')}/{plural}"


def object_path(path: str, key: PodKey) -> str:
    """One object; `path` as above."""
    return f"{collection_path(path, key.namespace)}/{quote(key.name, safe='')}"

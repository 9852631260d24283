"""Builds the API paths of namespaced objects."""

from urllib.parse import quote

from slackwater.model.ids import PodKey


def collection_path(path: str, namespace: str) -> str:
    """The path of one namespace's objects; `path` lists those of all namespaces."""
    group, _, plural = path.rpartition("/")
    return f"{group}/namespaces/{quote(namespace, safe='')}/{plural}"


def object_path(path: str, key: PodKey) -> str:
    """The path of one object; `path` lists the objects of all namespaces."""
    return f"{collection_path(path, key.namespace)}/{quote(key.name, safe='')}"

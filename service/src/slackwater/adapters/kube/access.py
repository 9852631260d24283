"""Address of the API server and our credentials, from a kubeconfig or the in-cluster account, as kubernetes-asyncio reads them.

The in-cluster token is read again every minute. A credential plug-in that states an expiry is called again before it expires,
as kubernetes-asyncio does. Any other change (a token file, a plug-in without expiry, a new OIDC token) is noticed by a 401,
after which everything is loaded again. Client certificates are deliberately not reloaded; a changed one needs a restart.
"""

import logging
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio

from slackwater.adapters.kube.errors import KubeConfigError

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

#: A credential plug-in may wait for a person or a cloud. One that takes longer than this is considered hung.
PLUGIN_SECONDS: Final = 60.0
#: Expiries are checked this often. After 401s, everything is loaded again at most once in `RELOAD_SECONDS`.
RENEW_SECONDS: Final = 60.0
RELOAD_SECONDS: Final = 10.0

_TOKEN: Final = "BearerToken"  # kubernetes-asyncio's name for the whole value of the Authorization header


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """How to reach the API server. `server_name` is the name that its certificate must carry; None means the host of `url`."""

    url: str
    ssl_context: ssl.SSLContext | None
    server_name: str | None
    proxy: str | None


@dataclass(frozen=True, slots=True)
class Source:
    """Where the credentials come from: a kubeconfig (several joined paths are allowed, as in $KUBECONFIG) or the in-cluster
    account.
    """

    kubeconfig: str | None
    context: str | None

    def __str__(self) -> str:
        if self.kubeconfig is None:
            return "in-cluster account"
        return f"kubeconfig {self.kubeconfig}" + (f", context {self.context!r}" if self.context else "")


class Access:
    """The fixed endpoint of the API server and its credentials, which are renewed in place. Made by `load_access`."""

    def __init__(self, source: Source, configuration: "Configuration", loader: Any, clock: Callable[[], float]) -> None:
        self.source = source
        self.endpoint: Final = _endpoint(source, configuration)
        self._configuration = configuration
        self._loader = loader  # kubernetes-asyncio's KubeConfigLoader; None in the cluster
        self._clock = clock
        self._looked_at = clock()
        self._reloaded_at = -inf
        self._lock = anyio.Lock()

    async def authorization(self) -> str | None:
        """The value of the Authorization header; renews credentials that are about to expire. Raises `KubeConfigError`."""
        if self._clock() - self._looked_at >= RENEW_SECONDS:
            async with self._lock:
                await self._renew_before_expiry()
        return self._header()

    async def renew(self, rejected: str | None) -> bool:
        """Reloads the credentials after the API server has answered 401 to the Authorization header `rejected`.

        True if the header has another value now. Raises `KubeConfigError`.
        """
        async with self._lock:
            if self._header() == rejected and self._clock() - self._reloaded_at >= RELOAD_SECONDS:
                self._reloaded_at = self._looked_at = self._clock()
                self._configuration, self._loader = await _load(self.source)
            return self._header() != rejected

    def _header(self) -> str | None:
        token = self._configuration.api_key.get(_TOKEN)
        return token.strip() if token else None  # a token file may end in a new line

    async def _renew_before_expiry(self) -> None:
        if self._clock() - self._looked_at < RENEW_SECONDS:
            return  # another request renewed them while this one waited for the lock
        self._looked_at = self._clock()
        try:
            with anyio.fail_after(PLUGIN_SECONDS):
                await _renew(self._configuration, self._loader)
        except Exception as error:
            raise KubeConfigError(f"{self.source}: renewing the credentials failed: {_reason(error)}") from error


def usual_kubeconfig() -> str | None:
    """The kubeconfig that kubectl would use; None: we run in a Pod, and its service account is used. Raises
    `KubeConfigError`."""
    if named := os.environ.get("KUBECONFIG"):
        return named
    usual = Path.home() / ".kube" / "config"
    if usual.exists():
        return str(usual)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    raise KubeConfigError(f"got no kubeconfig: {usual} does not exist and $KUBECONFIG is not set")


async def load_access(
    *, kubeconfig: str | None, context: str | None = None, clock: Callable[[], float] = time.monotonic
) -> Access:
    """Loads the kubeconfig, or the in-cluster account if `kubeconfig` is None. Raises `KubeConfigError`."""
    source = Source(kubeconfig, context)
    configuration, loader = await _load(source)
    return Access(source, configuration, loader, clock)


async def _load(source: Source) -> "tuple[Configuration, Any]":
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import load_incluster_config, load_kube_config

    configuration = Configuration()
    if source.kubeconfig is not None:
        _check_kubeconfig(source)
    # kubernetes-asyncio logs each error that it raises, including the output of a plug-in.
    logging.getLogger("kubernetes_asyncio.config").setLevel(logging.CRITICAL)
    try:
        if source.kubeconfig is None:
            load_incluster_config(client_configuration=configuration)
            return configuration, None
        with anyio.fail_after(PLUGIN_SECONDS):
            loader = await load_kube_config(
                config_file=source.kubeconfig, context=source.context, client_configuration=configuration
            )
    except Exception as error:
        raise KubeConfigError(f"{source}: {_reason(error)}") from error
    return configuration, loader


async def _renew(configuration: "Configuration", loader: Any) -> None:
    if loader is None:
        await configuration.get_api_key_with_prefix(_TOKEN)  # its hook reads the token file when a minute has passed
    elif loader.provider == "gcp":
        configuration.api_key[_TOKEN] = await loader.load_gcp_token()
    elif hasattr(loader, "exec_plugin_expiry"):
        await loader.load_from_exec_plugin()
        configuration.api_key[_TOKEN] = loader.token


def _check_kubeconfig(source: Source) -> None:
    from kubernetes_asyncio.config.kube_config import KubeConfigMerger

    paths = [Path(path).expanduser() for path in (source.kubeconfig or "").split(os.pathsep) if path]
    if not any(path.exists() for path in paths):
        raise KubeConfigError(f"{source}: no such file; name one, or run in a cluster without one")
    try:
        merged = KubeConfigMerger(os.pathsep.join(map(str, paths))).config
        held = merged.value if merged is not None else None
        contexts = [str(entry["name"]) for entry in held["contexts"]] if held is not None else []
        wanted = source.context or (held or {}).get("current-context")
    except (TypeError, AttributeError) as error:  # raised if the file has a text or a list where the library wants a mapping
        raise KubeConfigError(f"{source}: not a kubeconfig: want a mapping with clusters, contexts and users") from error
    except Exception as error:
        raise KubeConfigError(f"{source}: not a kubeconfig: {_reason(error)}") from error
    if not wanted:
        raise KubeConfigError(
            f"kubeconfig {source.kubeconfig}: it names no current-context; choose one of {', '.join(contexts) or 'none'}"
        )
    if wanted not in contexts:
        raise KubeConfigError(f"kubeconfig {source.kubeconfig}: no context {wanted!r}; it has {', '.join(contexts) or 'none'}")


def _endpoint(source: Source, configuration: "Configuration") -> Endpoint:
    url = (configuration.host or "").rstrip("/")
    context = None
    try:
        if url.startswith("https:"):
            context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
            if not configuration.verify_ssl:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
    except (OSError, ssl.SSLError) as error:
        raise KubeConfigError(f"{source}: its certificates cannot be used: {_reason(error)}") from error
    return Endpoint(
        url=url, ssl_context=context, server_name=configuration.tls_server_name, proxy=_proxy(url, configuration.proxy)
    )


def _proxy(url: str, configured: str | None) -> str | None:
    """The kubeconfig's proxy, otherwise the environment's, resolved once. Like kubectl, never uses a proxy for localhost."""
    if configured is not None:
        return configured
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    return getproxies().get(parts.scheme)


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__

"""Reads the CA of the cluster's client certificates, which the API server publishes.

It is in the ConfigMap `extension-apiserver-authentication` of `kube-system`, which the Role
`extension-apiserver-authentication-reader` grants access to. Without that permission, client
certificates authenticate no user, and everything else works.

Source: apiserver v0.36.3 pkg/server/options/authentication.go, `DelegatingAuthenticationOptions`.
Differs: the ConfigMap is read every minute, and not watched. Request headers of a front proxy are
not used.
"""

from collections.abc import Callable
from typing import Final, NoReturn

import msgspec

from scheduler.kube.client.backoff import Sleeper
from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import KubeError, NotFound
from scheduler.kube.watch.decoding import UNREADABLE

__all__ = ["ClientCaReader"]

PATH: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
KEY: Final = "client-ca-file"
#: The time between two reads; up to a half less at random.
PERIOD_SECONDS: Final = 60.0


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMap)


class ClientCaReader:
    """Keeps the client CA up to date.

    Args:
        client: Sends the requests.
        sink: Takes the certificates as PEM, empty for none; raises `ValueError` for other text.
        report: Called with the problem when the CA cannot be read or used, once for each problem.
        sleeper: Sleeps, with jitter.
    """

    def __init__(
        self,
        client: Client,
        sink: Callable[[str], object],
        report: Callable[[str], None],
        sleeper: Sleeper,
    ) -> None:
        self._client = client
        self._sink = sink
        self._report = report
        self._sleeper = sleeper
        self._problem = ""

    async def run(self) -> NoReturn:
        """Read again and again, until cancelled."""
        while True:
            await self.read()
            await self._sleeper.sleep(PERIOD_SECONDS * (1 - self._sleeper.jitter() / 2))

    async def read(self) -> None:
        """Read the CA once; what was read before stays where that fails."""
        request = Request("get", "configmaps", "GET", PATH)
        try:
            answer = await self._client.call(request)
            self._sink(_CONFIG_MAP.decode(answer).data.get(KEY, ""))
        except NotFound:
            self._sink("")
            problem = f"cannot {request}: it does not exist"
        except (KubeError, *UNREADABLE, ValueError) as error:
            problem = str(error)
        else:
            problem = ""
        if problem and problem != self._problem:
            self._report(problem)
        self._problem = problem

"""Sends requests to extenders over HTTP.

The writer calls it with an `Ask` or a `Bind`. A failure of an extender is a response, too; the core
decides what it means.

Source: kube-scheduler v1.36.3 extender.go HTTPExtender. Differs: proxies of the environment are
not used, as on the way to the API server.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol
from urllib.parse import quote, urlsplit

from scheduler.config.settings import Extender, ExtenderTLS
from scheduler.framework import extender_protocol
from scheduler.framework.extender_protocol import ProtocolError
from scheduler.kube.auth.credentials import reason
from scheduler.kube.errors import ConnectionSettingsError, KubeError, NotFound, Unreachable
from scheduler.kube.http.http1 import Http1
from scheduler.kube.http.tls import Tls, add_certificate, client_context, unverified
from scheduler.kube.instrumentation import Instrumentation
from scheduler.model.effects import Ask, Bind, PodRef, Question, Verb
from scheduler.model.extender_answers import ExtenderAnswer, NoAnswer

__all__ = ["ExtenderError", "Extenders", "Pods"]

_JSON: Final = {"Content-Type": "application/json"}
#: What a verb may hold without being escaped.
_URL: Final = "/?&=%:;,+@!$'()*~"


class ExtenderError(KubeError):
    """An extender could not be reached, or did not bind a pod."""


class Pods(Protocol):
    """Provides the complete JSON of pods."""

    async def get(self, pod: PodRef, version: str = "") -> bytes:
        """Return a pod as JSON, in this version or a newer one.

        Raises:
            NotFound: It is gone.
            KubeError: It cannot be read.
        """


class Extenders:
    """All configured extenders. Use it as a context, inside the running event loop.

    Args:
        settings: The extenders, by index.
        pods: Provides the complete JSON of pods.
        nodes: The nodes as JSON, by name; read only for extenders that do not know the nodes.
        observer: Gets the failures of extenders.

    Raises:
        ConnectionSettingsError: The TLS settings of an extender are unusable.
    """

    def __init__(
        self,
        settings: Sequence[Extender],
        pods: Pods,
        nodes: Mapping[str, bytes],
        observer: Instrumentation | None = None,
    ) -> None:
        self._settings = tuple(settings)
        self._pods = pods
        self._nodes = nodes
        self._observer = observer or Instrumentation()
        # The writer limits how many requests are sent at a time.
        self._http = [
            _http(extender, f"extenders[{index}]") for index, extender in enumerate(settings)
        ]

    async def __aenter__(self) -> "Extenders":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for http in self._http:
            await http.close()

    def may_ignore(self, index: int) -> bool:
        """Return whether scheduling goes on when this extender fails."""
        return self._settings[index].ignorable

    async def ask(self, effect: Ask) -> tuple[ExtenderAnswer, ...]:
        """Ask all questions at once and return their answers.

        Raises:
            KubeError: The pod, or a victim, cannot be read from the API server.
        """
        pod = await self._pods.get(effect.pod, effect.version)
        asked = (self._answer(question, pod) for question in effect.questions)
        return tuple(await asyncio.gather(*asked))

    async def bind(self, effect: Bind) -> None:
        """Have an extender bind a pod.

        Raises:
            ExtenderError: It did not bind it.
        """
        if effect.extender is None:
            raise ValueError(f"no extender is to bind pod {effect.pod}")
        extender = self._settings[effect.extender]
        try:
            body = await self._post(
                effect.extender,
                extender.bind_verb,
                extender_protocol.binding(effect),
                repeatable=False,
            )
            problem = extender_protocol.read_binding(body)
        except ProtocolError as error:
            problem = str(error)
        except ExtenderError as error:
            self._observer.extender_failed(extender.url_prefix, "bind", str(error))
            raise
        if problem:
            self._observer.extender_failed(extender.url_prefix, "bind", problem)
            raise ExtenderError(problem)

    async def _answer(self, question: Question, pod: bytes) -> ExtenderAnswer:
        extender = self._settings[question.extender]
        request = await self._request(extender, question, pod)
        answer: ExtenderAnswer
        try:
            path = extender_protocol.verb(extender, question.verb)
            body = await self._post(question.extender, path, request)
            answer = extender_protocol.read(extender, question, body)
        except (ExtenderError, ProtocolError) as error:
            answer = NoAnswer(str(error))
        if isinstance(answer, NoAnswer):
            self._observer.extender_failed(extender.url_prefix, question.verb.value, answer.error)
        return answer

    async def _request(self, extender: Extender, question: Question, pod: bytes) -> bytes:
        if question.verb is not Verb.PREEMPT:
            return extender_protocol.about_nodes(extender, pod, question.nodes, self._nodes)
        victims: dict[str, bytes] = {}
        if not extender.node_cache_capable:
            for on_node in question.victims:
                for victim in on_node.pods:
                    with contextlib.suppress(NotFound):
                        victims[victim.uid] = await self._pods.get(victim)
        return extender_protocol.about_victims(extender, pod, question, victims)

    async def _post(
        self, index: int, action: str, body: bytes, *, repeatable: bool = True
    ) -> bytes:
        """Send a request and return the body of the answer.

        Raises:
            ExtenderError: There is none.
        """
        extender = self._settings[index]
        url = f"{extender.url_prefix.rstrip('/')}/{action}"
        seconds = extender.http_timeout_seconds
        try:
            async with asyncio.timeout(seconds if seconds > 0 else None):
                reply = await self._http[index].send(
                    "POST", f"/{quote(action, safe=_URL)}", _JSON, body, repeatable=repeatable
                )
        except TimeoutError as error:
            raise ExtenderError(f'Post "{url}": no response within {seconds:g} s') from error
        except Unreachable as error:
            raise ExtenderError(f'Post "{url}": {error}') from error
        if reply.status != 200:
            raise ExtenderError(f"failed {action} with extender at URL {url}, code {reply.status}")
        return reply.body


def _http(extender: Extender, path: str) -> Http1:
    """Return the connections to an extender.

    Raises:
        ConnectionSettingsError: The settings are unusable.
    """
    name = extender.tls.server_name if extender.tls else ""
    try:
        return Http1(extender.url_prefix, _tls(extender), name or None, {})
    except (OSError, ValueError) as error:
        raise ConnectionSettingsError(f"{path}.tlsConfig: {reason(error)}") from error


def _tls(extender: Extender) -> Tls | None:
    """Return how to talk TLS to an extender; `None` where neither its URL nor its settings ask.

    Raises:
        OSError, ValueError: The settings are unusable.

    Source: kube-scheduler v1.36.3 extender.go makeTransport.
    """
    if extender.tls is None and not extender.enable_https:
        secure = urlsplit(extender.url_prefix).scheme == "https"
        return Tls(lambda: client_context(None)) if secure else None
    wanted = extender.tls or ExtenderTLS()
    authority = _content(wanted.ca_data, wanted.ca_file)
    certificate = _content(wanted.cert_data, wanted.cert_file)
    key = _content(wanted.key_data, wanted.key_file)

    def make() -> ssl.SSLContext:
        context = client_context(authority)
        if wanted.insecure or (extender.enable_https and not wanted.has_ca):
            unverified(context)
        add_certificate(context, certificate, key)
        return context

    parts = (authority, certificate, key)
    return Tls(make, [part for part in parts if isinstance(part, Path)])


def _content(inline: bytes, name: str) -> bytes | Path | None:
    """Return the inline content, else the path of the named file, else `None`."""
    if inline:
        return inline
    return Path(name) if name else None

"""Ask extenders over HTTP.

Before it stands the writer with an `Ask` or a `Bind`, after it the extenders. Whatever goes wrong
on the side of an extender is its answer; what it means is decided in the core.

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
from scheduler.kube.client.hooks import ClientHooks
from scheduler.kube.errors import ConnectionSettingsError, KubeError, NotFound, Unreachable
from scheduler.kube.http.http1 import Http1
from scheduler.kube.http.tls import Tls, add_certificate, client_context, unverified
from scheduler.model.effects import Ask, Bind, PodRef, Question, Verb
from scheduler.model.extender_answers import ExtenderAnswer, NoAnswer

__all__ = ["ExtenderError", "Extenders", "Pods"]

_JSON: Final = {"Content-Type": "application/json"}
#: What a verb may hold without being escaped.
_URL: Final = "/?&=%:;,+@!$'()*~"


class ExtenderError(KubeError):
    """An extender could not be reached, or did not do what it was asked."""


class Pods(Protocol):
    """Where whole pods come from."""

    async def get(self, pod: PodRef, version: str = "") -> bytes:
        """Return a pod as JSON, in this version or a newer one.

        Raises:
            NotFound: It is gone.
            KubeError: It cannot be had.
        """


class Extenders:
    """All configured extenders. Use it as a context, inside the running event loop.

    Args:
        settings: The extenders, by place.
        pods: Where whole pods come from.
        nodes: The nodes as JSON, by name; read only for extenders that do not know the nodes.
        observer: Hears of extenders that fail.

    Raises:
        ConnectionSettingsError: The TLS settings of an extender are unusable.
    """

    def __init__(
        self,
        settings: Sequence[Extender],
        pods: Pods,
        nodes: Mapping[str, bytes],
        observer: ClientHooks | None = None,
    ) -> None:
        self._settings = tuple(settings)
        self._pods = pods
        self._nodes = nodes
        self._observer = observer or ClientHooks()
        # How many are asked at a time is bounded by the writer.
        self._http = [_http(each, f"extenders[{place}]") for place, each in enumerate(settings)]

    async def __aenter__(self) -> "Extenders":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._http:
            await each.close()

    def may_ignore(self, place: int) -> bool:
        """Tell whether scheduling goes on when this extender fails."""
        return self._settings[place].ignorable

    async def ask(self, effect: Ask) -> tuple[ExtenderAnswer, ...]:
        """Ask all questions at once and return their answers.

        Raises:
            KubeError: The pod, or a victim, cannot be had from the API server.
        """
        pod = await self._pods.get(effect.pod, effect.version)
        asked = (self._answer(question, pod) for question in effect.questions)
        return tuple(await asyncio.gather(*asked))

    async def bind(self, effect: Bind) -> None:
        """Have an extender bind a pod.

        Raises:
            ExtenderError: It did not.
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
            for each in question.victims:
                for victim in each.pods:
                    with contextlib.suppress(NotFound):
                        victims[victim.uid] = await self._pods.get(victim)
        return extender_protocol.about_victims(extender, pod, question, victims)

    async def _post(
        self, place: int, action: str, body: bytes, *, repeatable: bool = True
    ) -> bytes:
        """Send a request and return the body of the answer.

        Raises:
            ExtenderError: There is none.
        """
        extender = self._settings[place]
        url = f"{extender.url_prefix.rstrip('/')}/{action}"
        seconds = extender.http_timeout_seconds
        try:
            async with asyncio.timeout(seconds if seconds > 0 else None):
                reply = await self._http[place].send(
                    "POST", f"/{quote(action, safe=_URL)}", _JSON, body, repeatable=repeatable
                )
        except TimeoutError as error:
            raise ExtenderError(f'Post "{url}": no answer within {seconds:g} s') from error
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
    return Tls(make, [each for each in parts if isinstance(each, Path)])


def _content(inline: bytes, name: str) -> bytes | Path | None:
    """Return what is given inline, else the file that is named, else nothing."""
    if inline:
        return inline
    return Path(name) if name else None

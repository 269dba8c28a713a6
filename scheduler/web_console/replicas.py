"""Reaches the replica of the scheduler that leads, from within its cluster.

A headless Service has the addresses of all replicas. Each says in a header whether it leads, also
when it refuses a request, so the leader is looked for without a token and without a right on the
cluster: tokens go to the leader alone, over TLS that proves which server it is. Every answer says
it again. So a change of the leader is noticed by the first request after it, whatever has happened
to the connection: a container may have started again behind the same address.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, Protocol, TypeVar
from urllib.parse import urlsplit

from scheduler import __version__
from scheduler.kube.errors import Unreachable
from scheduler.kube.http.http1 import Http1, Incoming, Reply
from scheduler.kube.http.tls import Tls
from scheduler.model.rest.cluster import LEADER_HEADER
from scheduler.web_console.backend import BackendError

__all__ = ["Replicas"]

#: For an answer; plans may take as long as the scheduler allows. For the first bytes of a document,
#: which the page does not wait for any longer.
ANSWER_SECONDS: Final = 60.0
BEGIN_SECONDS: Final = 20.0
#: The scheduler sends a comment each 15 seconds.
SILENCE_SECONDS: Final = 45.0
#: How much of an answer is kept for a browser that is slower than the scheduler.
BUFFER_BYTES: Final = 2**16
#: For a replica to say whether it leads, and for a name to be resolved.
LOOK_SECONDS: Final = 5.0
#: For how long it counts that none leads: everybody asks at that moment.
NONE_SECONDS: Final = 1.0

NOBODY_LEADS: Final = (
    "No replica of the scheduler leads now. Another one takes over within some seconds."
)
NO_ANSWER: Final = "The scheduler does not answer."
NOT_VERIFIED: Final = (
    "The certificate of the scheduler cannot be verified, so no token is sent to it. The log of the"
    " console says why."
)
GONE: Final = "The scheduler did not answer in time, or another replica leads now. Try again."

_HEADER: Final = LEADER_HEADER.lower()
_AGENT: Final = {"User-Agent": f"preemptive-console/{__version__}"}


class _Answer(Protocol):
    @property
    def headers(self) -> Mapping[str, str]: ...


_Kind = TypeVar("_Kind", bound=_Answer)


class Replicas:
    """A backend for requests that carry the token of their user.

    Args:
        urls: Base URLs of replicas; each name may have several addresses.
        tls: How to verify them; `None` for http.
        server_name: The name that their certificates have; empty for that in the URL.
        report: Logs when the leader changes, or is lost: an event with fields.
    """

    def __init__(
        self,
        urls: Sequence[str],
        tls: Tls | None,
        server_name: str,
        report: Callable[..., object],
    ) -> None:
        self._urls = urls
        self._tls = tls
        self._server_name = server_name
        self._report = report
        #: The clients by the base URL of their address.
        self._replicas: dict[str, Http1] = {}
        self._leader = ""
        self._looking: asyncio.Task[str] | None = None
        #: What was found last where no leader was, and until when it counts.
        self._problem = ""
        self._until = 0.0

    async def close(self) -> None:
        """Close all connections."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        for each in self._replicas.values():
            await each.close()

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> Reply:
        """Send a request to the leader; one that changes nothing, as it may be sent twice."""

        async def ask(http: Http1) -> Reply:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await http.send(method, path, headers, body, repeatable=True)

        return await self._asked(ask)

    async def open(self, path: str, headers: Mapping[str, str]) -> Incoming:
        """Begin to read an answer of the leader; the caller closes it."""

        async def ask(http: Http1) -> Incoming:
            async with asyncio.timeout(BEGIN_SECONDS):
                return await http.stream(path, headers, SILENCE_SECONDS, BUFFER_BYTES)

        return await self._asked(ask)

    async def _asked(self, ask: Callable[[Http1], Awaitable[_Kind]]) -> _Kind:
        """Ask the leader, and once more if it is another one now.

        Raises:
            BackendError: There is no answer of a leader.
        """
        for _ in range(2):
            leader = await self._found()
            try:
                answer = await ask(self._replicas[leader])
            except Unreachable as error:
                self._lose(leader, str(error))
            except TimeoutError:
                self._lose(leader, "no response in time")
                break
            else:
                if answer.headers.get(_HEADER) == "true":
                    return answer
                if isinstance(answer, Incoming):
                    answer.close()
                self._lose(leader, "it does not lead any more")
        raise BackendError(GONE)

    def _lose(self, leader: str, problem: str) -> None:
        if self._leader == leader:
            self._leader = ""
            self._report("leader_lost", address=leader, problem=problem)

    async def _found(self) -> str:
        """Return the address of the leader; all who need it wait for one search.

        Raises:
            BackendError: There is none.
        """
        loop = asyncio.get_running_loop()
        if not self._leader and loop.time() >= self._until:
            if self._looking is None or self._looking.done():
                self._looking = loop.create_task(self._look())
            problem = await asyncio.shield(self._looking)
            self._problem = problem
            self._until = loop.time() + NONE_SECONDS if problem else 0.0
        if not self._leader:  # none, or others have lost it again meanwhile
            raise BackendError(self._problem or GONE)
        return self._leader

    async def _look(self) -> str:
        """Ask all replicas at once, and keep the first that leads; return why there is none."""
        problem = await self._resolved()
        asking = {asyncio.create_task(self._says(each)): each for each in self._replicas}
        answers: dict[str, str] = {}
        untrusted = False
        try:
            for ended in asyncio.as_completed(asking):
                address, answer, verified = await ended
                untrusted |= not verified
                answers[address] = answer
                if answer == "true":
                    self._leader = address
                    self._report("leader_found", address=address)
                    return ""
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        told = _told(answers.values(), untrusted=untrusted)
        if told != self._problem:  # reported once, however often it is asked
            self._report("no_leader", problem=problem or told, answers=answers)
        return told

    async def _resolved(self) -> str:
        """Bring the replicas up to date; return the problem where a name cannot be resolved."""
        addresses, problem = dict[str, str](), ""
        for url in self._urls:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    addresses |= await _addresses(url)
            except (OSError, UnicodeError, TimeoutError) as error:
                problem = f"{url}: {error or 'the name is not resolved in time'}"
        if problem:
            return problem  # the addresses of before are better than none
        for gone in self._replicas.keys() - addresses.keys():
            await self._replicas.pop(gone).close()
        for address, name in addresses.items():
            if address not in self._replicas:
                certified = self._server_name or name
                self._replicas[address] = Http1(address, self._tls, certified, _AGENT)
        return ""

    async def _says(self, address: str) -> tuple[str, str, bool]:
        """Return whether a replica leads, `true` or anything else, and whether it is trusted."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                reply = await self._replicas[address].send("GET", "/api/v1", {}, None)
        except Unreachable as error:
            cause = error.__cause__
            if isinstance(cause, ssl.SSLCertVerificationError):
                return address, f"not verified: {cause.verify_message}", False
            return address, str(error), True
        except TimeoutError:
            return address, "no response in time", True
        return address, reply.headers.get(_HEADER, "it is no scheduler, or an older one"), True


def _told(answers: Collection[str], *, untrusted: bool) -> str:
    """Return what users are told, without the addresses of replicas."""
    if untrusted:
        return NOT_VERIFIED  # it may be the one that leads
    if "false" in answers:
        return NOBODY_LEADS
    return NO_ANSWER


async def _addresses(url: str) -> dict[str, str]:
    """Return the base URLs of the addresses of a name, each with the name.

    Raises:
        OSError, UnicodeError: It cannot be resolved.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    hosts = dict.fromkeys(ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found)
    return {f"{parts.scheme}://{_bracketed(each)}:{port}": host for each in hosts}


def _bracketed(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    return f"[{address}]" if address.version == 6 else str(address)

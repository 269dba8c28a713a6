"""A server whose answers are scripted, connection by connection."""

import asyncio
import contextlib

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers the requests of each connection with what was scripted for it, then closes it.

    An answer of `None` closes at once; one that is an event is waited for.
    """

    def __init__(self) -> None:
        self.script: list[list[bytes | asyncio.Event | None]] = []
        #: The requests of each connection.
        self.connections: list[list[bytes]] = []
        self.url = ""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, address: str = "127.0.0.1", port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, address, port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/base"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        answers = self.script[len(self.connections)]
        requests: list[bytes] = []
        self.connections.append(requests)
        with contextlib.closing(writer), contextlib.suppress(EOFError, asyncio.CancelledError):
            await self._answer(answers, requests, reader, writer)

    async def _answer(
        self,
        answers: list[bytes | asyncio.Event | None],
        requests: list[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        for answer in answers:
            if isinstance(answer, asyncio.Event):
                await answer.wait()
                continue
            head = await reader.readuntil(b"\r\n\r\n")
            size = [line for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")]
            body = await reader.readexactly(int(size[0].split(b":")[1])) if size else b""
            requests.append(head + body)
            if answer is None:
                break
            writer.write(answer)

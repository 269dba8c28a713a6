"""The bytes of a recording: frames of compressed lines, which survive crashes and damage.

Segments follow each other, and a segment is a sequence of frames. Each frame is two frames of
Zstandard: a skippable one of 24 bytes, and one with lines of JSON. So `zstd -dc` shows the lines.

    0x184D2A5E  16  "PSRC"  version  kind  0  0  length  CRC-32     little endian, 4 bytes each

The kind is 1 for the first frame of a segment, else 0; length and checksum are those of the frame
that follows. A frame that was not written completely ends the recording. After a damaged frame,
reading continues with the next segment, because a segment needs all that comes before in it. Each
place where one might begin costs as much as its head claims, so not all of them are tried.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import zstandard

__all__ = ["VERSION", "Damage", "Frame", "FrameError", "FrameWriter", "frames"]

#: Grows with every change that older versions cannot read.
VERSION: Final = 1

_HEAD: Final = struct.Struct("<II4sBBHII")
_SKIPPABLE: Final = 0x184D2A5E
_MARK: Final = b"PSRC"
#: How a head begins, whatever its version.
_START: Final = struct.pack("<II4s", _SKIPPABLE, _HEAD.size - 8, _MARK)
#: No frame is larger, compressed or not: more is not a recording, or would take too much memory.
_LARGEST: Final = 256 * 1024 * 1024
_LEVEL: Final = 1
_READ: Final = 1024 * 1024
#: After so many damages, or bytes of frames that could not be used, the rest of a file is not read.
_MOST_DAMAGES: Final = 100
_MOST_UNUSABLE: Final = 2 * _LARGEST


class FrameError(ValueError):
    """A file that is not a recording, or one of another version."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Lines of a recording."""

    #: Position of the frame in the file, in bytes.
    offset: int
    #: Whether a segment begins with it.
    starts_segment: bool
    #: Each line ends with a newline.
    lines: bytes


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that cannot be read."""

    offset: int
    problem: str
    #: Whether the file ends here.
    at_end: bool = False


class FrameWriter:
    """Makes frames of lines."""

    def __init__(self) -> None:
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)

    def frame(self, lines: bytes | bytearray, *, starts_segment: bool = False) -> bytes:
        """Return a frame with some lines."""
        body = self._compressor.compress(lines)
        head = _HEAD.pack(
            _SKIPPABLE, _HEAD.size - 8, _MARK, VERSION, starts_segment, 0, len(body),
            zlib.crc32(body),
        )  # fmt: skip
        return head + body


def frames(file: BinaryIO) -> Iterator[Frame | Damage]:
    """Yield the frames of a file, and what is damaged.

    Raises:
        FrameError: The file is not a recording, or of another version.
        OSError: It cannot be read.
    """
    reader = _Reader(file)
    if not reader.has(1):
        raise FrameError("the file is empty")
    if not reader.peek(len(_START)).startswith(_START[: len(reader.peek(len(_START)))]):
        raise FrameError("not a recording")
    damages = 0
    while reader.has(1):
        found = reader.frame()
        yield found
        if isinstance(found, Damage):
            damages += 1
            if not reader.find_segment():
                return
            if damages >= _MOST_DAMAGES or reader.unusable >= _MOST_UNUSABLE:
                yield Damage(reader.offset, "too much is damaged: the rest is not read")
                return


class _Reader:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._buffer = b""
        self._position = 0
        #: Position of the buffer in the file.
        self._base = 0
        #: Bytes of complete frames that could not be used.
        self.unusable = 0
        self._decompressor = zstandard.ZstdDecompressor()

    def has(self, size: int) -> bool:
        """Return whether that many bytes are left; they are in the buffer then."""
        missing = size - (len(self._buffer) - self._position)
        while missing > 0:
            more = self._file.read(max(missing, _READ))
            if not more:
                return False
            self._base += self._position
            self._buffer = self._buffer[self._position :] + more
            self._position = 0
            missing -= len(more)
        return True

    def peek(self, size: int) -> bytes:
        """Return the next bytes; fewer at the end of the file."""
        self.has(size)
        return self._buffer[self._position : self._position + size]

    @property
    def offset(self) -> int:
        """Position in the file."""
        return self._base + self._position

    def frame(self) -> Frame | Damage:
        """Return the next frame, or what is wrong with it; then the position is unchanged.

        Raises:
            FrameError: It is of another version.
        """
        offset = self.offset
        if not self.has(_HEAD.size):
            return Damage(offset, "the last frame is incomplete", at_end=True)
        _, _, _, version, starts, _, length, checksum = _HEAD.unpack(self.peek(_HEAD.size))
        if not self.peek(_HEAD.size).startswith(_START) or length > _LARGEST or starts > 1:
            return Damage(offset, "no frame begins here")
        if version != VERSION:
            raise FrameError(f"a recording of version {version}; this program reads {VERSION}")
        if not self.has(_HEAD.size + length):
            return Damage(offset, "the last frame is incomplete", at_end=True)
        body = self.peek(_HEAD.size + length)[_HEAD.size :]
        self.unusable += length
        if zlib.crc32(body) != checksum:
            return Damage(offset, "a checksum is wrong")
        try:
            lines = self._decompressed(body)
        except zstandard.ZstdError as error:
            self.unusable += _LARGEST  # so much may have been decompressed
            return Damage(offset, f"a frame cannot be decompressed: {error}")
        self.unusable -= length
        self._position += _HEAD.size + length
        return Frame(offset, bool(starts), lines)

    def _decompressed(self, body: bytes) -> bytes:
        # The size is checked before any memory is taken for it.
        if not 0 <= zstandard.frame_content_size(body) <= _LARGEST:
            raise zstandard.ZstdError("it is too large, or does not say how large it is")
        return self._decompressor.decompress(body, max_output_size=_LARGEST)

    def find_segment(self) -> bool:
        """Go to the next frame that begins a segment; return whether there is one."""
        self._position += 1
        while self.has(_HEAD.size):
            found = self._buffer.find(_START, self._position)
            if found < 0:
                self._position = len(self._buffer) - len(_START) + 1
                continue
            self._position = found
            if not self.has(_HEAD.size):
                return False
            if _HEAD.unpack(self.peek(_HEAD.size))[4] == 1:
                return True
            self._position += 1
        return False

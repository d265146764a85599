"""What a batch job keeps on disk.

batch.json            the jobs at the service, and their states
requests-00000.jsonl  the requests of a job: `{"key": "17", "request": {...}}`
results-00000.jsonl   its results, as the service returned them, in any order

A part is one job at the service. The first parts cover all inputs; later ones send some of them
again.
"""

from __future__ import annotations

import json
import logging
import os
import re
from array import array
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from pydantic import TypeAdapter

from langchain_gemini_tools.errors import (
    BatchJobError,
    InvalidOptionError,
    UnreadableResponseError,
)
from langchain_gemini_tools.facts.credentials import redact, secrets_in_use
from langchain_gemini_tools.facts.json_values import JsonObject, decode_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import BinaryIO

    from _typeshed import DataclassInstance

    Lines = Iterator[tuple[int, bytes]]
    """The numbers of inputs and the bodies of their requests."""

logger = logging.getLogger(__name__)

_State = TypeVar("_State")

_KEY = re.compile(rb'\{"key":"(\d+)","request":')
_NO_RESULT = -1
_NOT_HERE = -2
_MAX_DIGITS = 18
_MAX_SHOWN = 2000


@dataclass(frozen=True)
class JobPart:
    """One job at the service."""

    number: int
    count: int
    """How many requests it has."""
    size: int = 0
    """The bytes of its requests."""
    first: int | None = None
    """The first of its inputs, if it covers a range of them."""
    file: str | None = None
    """The name of the uploaded requests."""
    uploaded_at: float = 0.0
    is_intended: bool = False
    """Whether a process has begun to create the job."""
    job: str | None = None
    """Its name at the service."""
    state: str = "PREPARED"
    counts: dict[str, int] = field(default_factory=dict)
    error: JsonObject | None = None
    is_collected: bool = False
    """Whether its results are on disk."""
    is_foreign: bool = False
    """Whether it was created elsewhere, so that its requests are not known."""

    def covers(self, index: int) -> bool:
        """Return whether it has the first request for an input."""
        if self.first is None:
            return self.is_foreign
        return self.first <= index < self.first + self.count

    @property
    def reason(self) -> str:
        """Why the job failed, as the end of a sentence; empty if the service gave no reason."""
        return f": {self.error.get('message')}" if self.error else ""


@dataclass(frozen=True)
class Manifest:
    """The content of `batch.json`."""

    run: str
    """A unique id, from which the names of the jobs are made."""
    model: str
    count: int
    is_cancelled: bool = False
    storage: str | None = None
    """The place of requests and results in a bucket, on Vertex AI."""
    parts: tuple[JobPart, ...] = ()
    version: Literal[1] = 1

    def __post_init__(self) -> None:
        if not self.parts or [part.number for part in self.parts] != [*range(len(self.parts))]:
            raise ValueError("its parts are not numbered")

    @property
    def is_on_vertexai(self) -> bool:
        """Whether the jobs are those of Vertex AI."""
        return bool(self.storage) or any(
            (part.job or "").startswith("projects/") for part in self.parts
        )

    @property
    def is_collected(self) -> bool:
        """Whether the results of all parts are on disk."""
        return all(part.is_collected for part in self.parts)

    def find_part(self, index: int) -> JobPart:
        """Return the part with the first request for an input."""
        return next(part for part in self.parts if part.covers(index))

    def with_part(self, part: JobPart) -> Manifest:
        """Return a copy in which this part replaces the one of the same number."""
        parts = [*self.parts]
        parts[part.number] = part
        return replace(self, parts=tuple(parts))


@dataclass(frozen=True)
class Limits:
    """How much the service accepts in one job."""

    max_requests: int
    max_bytes: int
    """Of the file with the requests."""


class Folder:
    """The files of one batch job."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = os.fspath(path) if isinstance(path, str | os.PathLike) else None
        if not isinstance(given, str) or not given or "\0" in given:
            raise InvalidOptionError(
                f"path={path!r} is not the path of a folder. Use a str or a pathlib.Path."
            )
        self.path = Path(given).absolute()  # os.chdir does not change it
        self._results: dict[int, _Results] = {}
        self._request_places: dict[int, array[int]] = {}

    @contextmanager
    def lock(self, *, creates: bool = False) -> Iterator[None]:
        """Wait until no other process or thread works on the folder. A killed one frees it.

        Args:
            creates: Create the folder. Otherwise it has to contain a job.
        """
        if not creates:
            self.require()
        with self._open_lock() as file, _locked(file):
            yield

    def _open_lock(self) -> BinaryIO:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            return (self.path / "lock").open("ab")
        except OSError as error:
            raise InvalidOptionError(
                f"path={str(self.path)!r} cannot be the folder of a batch job: {error}. Use the "
                "path of a folder that you can write to, or that can be created."
            ) from error

    def load(self) -> Manifest | None:
        """Return the state, or None if nothing has been prepared here."""
        remedy = "read the jobs by name into another path: model.batch_job(name=..., path=...)."
        return self.load_state("batch.json", Manifest, remedy)

    def load_state(self, name: str, kind: type[_State], remedy: str) -> _State | None:
        """Return the content of a file that `save_state` wrote; None if there is none.

        Args:
            name: The name of the file.
            kind: The dataclass.
            remedy: What to do if it is damaged, as the end of a sentence.

        Raises:
            InvalidOptionError: It is damaged, or has another version.
        """
        file = self.path / name
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
        try:
            # Not `validate_json`, which rejects nesting and surrogates that `save_state` writes.
            state: _State = _adapter(cast("Any", kind)).validate_python(json.loads(content))
        except ValueError as error:
            raise InvalidOptionError(
                f"{file} is damaged, or of another version of this package: {error}. Restore it, "
                f"or {remedy}"
            ) from error
        return state

    def require(self) -> Manifest:
        """Return the state.

        Raises:
            InvalidOptionError: Nothing has been prepared here.
        """
        if (manifest := self.load()) is None:
            raise InvalidOptionError(f"There is no batch job at {self.path}. Pass its inputs.")
        return manifest

    def save(self, manifest: Manifest) -> None:
        """Replace the state."""
        self.save_state("batch.json", manifest)

    def save_state(self, name: str, state: DataclassInstance) -> None:
        """Replace a file with the fields of a dataclass as JSON."""
        with self.replacing(name) as file:
            file.write(json.dumps(asdict(state), indent=1).encode())

    @contextmanager
    def replacing(self, name: str) -> Iterator[BinaryIO]:
        """Write a file under a temporary name, and rename it once it is complete and on disk."""
        temporary = self.path / f"{name}.tmp"
        try:
            temporary.unlink(missing_ok=True)  # of a killed process, or a link to another file
            with temporary.open("xb+") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path / name)  # noqa: PTH105
            _sync_names(self.path)
        except OSError as error:
            error.add_note(
                f"{self.path / name} was not written. The batch job is as it was before: make the "
                "same call again when that is possible."
            )
            raise

    def requests_path(self, number: int) -> Path:
        """Return the file with the requests of a part."""
        return self.path / f"requests-{number:05d}.jsonl"

    def check_requests(self, part: JobPart) -> None:
        """Raise unless the file with the requests of a part is as long as it was written."""
        path = self.requests_path(part.number)
        if not path.is_file() or path.stat().st_size != part.size:
            raise _changed(path)

    def results_path(self, number: int) -> Path:
        """Return the file with the results of a part."""
        return self.path / f"results-{number:05d}.jsonl"

    def write_requests(
        self, lines: Lines, start: int, limits: Limits, *, is_range: bool
    ) -> list[JobPart]:
        """Write requests to the files of as many parts as the limits of the service require.

        Args:
            lines: The requests.
            start: The number of the first part.
            limits: How much one part may have.
            is_range: Whether the numbers follow each other.
        """
        parts: list[JobPart] = []
        item = next(lines, None)
        while item is not None:
            number = start + len(parts)
            first, size, count = item[0], 0, 0
            with self.replacing(self.requests_path(number).name) as file:
                while item is not None:
                    line = render_line(*item)
                    is_full = size + len(line) > limits.max_bytes or count >= limits.max_requests
                    if count and is_full:
                        break
                    file.write(line)
                    size, count = size + len(line), count + 1
                    item = next(lines, None)
            parts.append(JobPart(number, count, size, first if is_range else None))
        return parts

    def read_requests(self, part: JobPart) -> Lines:
        """Iterate over the requests of a part."""
        with self.requests_path(part.number).open("rb") as file:
            for line in file:
                yield _read_line(line)

    def read_all_requests(self, manifest: Manifest) -> Lines:
        """Iterate over the first request for each input."""
        for part in manifest.parts:
            if part.first is not None:
                yield from self.read_requests(part)

    def inputs_of(self, part: JobPart) -> Sequence[int]:
        """Return the numbers of the inputs of a part; none if it was created elsewhere."""
        if part.first is not None:
            return range(part.first, part.first + part.count)
        return [] if part.is_foreign else [index for index, _ in self.read_requests(part)]

    def first_request(self, part: JobPart, index: int) -> bytes:
        """Return the request for an input, from the part that covers it."""
        path = self.requests_path(part.number)
        if part.number not in self._request_places:
            self.check_requests(part)
            self._request_places[part.number] = _line_places(path)
        with path.open("rb") as file:
            file.seek(self._request_places[part.number][index - (part.first or 0)])
            return _read_line(file.readline())[1]

    def results(self, part: JobPart) -> _Results:
        """Return the results of a part that has been collected."""
        if part.number not in self._results:
            self._results[part.number] = _Results(self, part)
        return self._results[part.number]


def _changed(path: Path) -> InvalidOptionError:
    return InvalidOptionError(
        f"{path} of the batch job was changed or deleted. Restore it, or use another path."
    )


@cache  # making one takes milliseconds
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def render_line(index: int, body: bytes) -> bytes:
    """Return the line of one request."""
    return b'{"key":"%d","request":%b}\n' % (index, body)


def _read_line(line: bytes) -> tuple[int, bytes]:
    key = _KEY.match(line)
    if key is None:
        raise InvalidOptionError(f"A file of the batch job was changed: {line[:60]!r}.")
    return int(key[1]), line[key.end() :].rstrip()[:-1]


def _line_places(path: Path) -> array[int]:
    places, place = array("q"), 0
    with path.open("rb") as file:
        for line in file:
            places.append(place)
            place += len(line)
    return places


class _Results:
    """Where the result of each input is in the file of a part: eight bytes of memory for each.

    Raises:
        BatchJobError: No result of a part with a range of inputs names one of them.
    """

    def __init__(self, folder: Folder, part: JobPart) -> None:
        self._path = folder.results_path(part.number)
        found: Iterable[tuple[int | None, int]] = self._scan(is_foreign=part.is_foreign)
        numbers = folder.inputs_of(part)
        if part.is_foreign:
            found = _number_foreign([*found])
            numbers = range(len(found))
        self.count = len(numbers)
        self._first = numbers[0] if numbers else 0
        self._places = array("q", [_NOT_HERE]) * (numbers[-1] + 1 - self._first if numbers else 0)
        for number in numbers:
            self._places[number - self._first] = _NO_RESULT
        lines = unknown = 0
        for index, place in found:
            lines += 1
            before = _NOT_HERE if index is None else self._place_of(index)
            unknown += before == _NOT_HERE
            if index is not None and before == _NO_RESULT:  # the first of two with one key counts
                self._places[index - self._first] = place
        if unknown:
            self._report_unknown(part, unknown, lines)

    def _place_of(self, index: int) -> int:
        is_near = 0 <= index - self._first < len(self._places)
        return self._places[index - self._first] if is_near else _NOT_HERE

    def _report_unknown(self, part: JobPart, unknown: int, lines: int) -> None:
        if unknown == lines and part.first is not None:
            # Otherwise all inputs would be sent, and paid for, again.
            raise BatchJobError(
                f"None of the {lines} results of {part.job} names its input, so nothing was sent "
                f"again. They are in {self._path}. Make the same call again later, or use another "
                "path to send the inputs again."
            )
        logger.warning(
            "%d of %d results of %s do not name an input of the job.", unknown, lines, part.job
        )

    def _scan(self, *, is_foreign: bool) -> Iterator[tuple[int | None, int]]:
        """Yield the number that each result names, and the place of its line."""
        place = 0
        with self._open() as file:
            for line in file:
                if line.strip():
                    try:
                        yield _number_in(decode_line(line)), place
                    except UnreadableResponseError:
                        if is_foreign:
                            raise  # its input is not known
                        logger.warning(
                            "A line of %s is not JSON: its input has no result.", self._path
                        )
                        yield None, place
                place += len(line)

    def _open(self) -> BinaryIO:
        try:
            return self._path.open("rb")
        except FileNotFoundError:
            raise _changed(self._path) from None

    def read(self, index: int) -> JsonObject | None:
        """Return the line with the result for an input; None if there is none."""
        if (place := self._place_of(index)) < 0:
            return None
        with self._open() as file:
            file.seek(place)
            return decode_line(file.readline())


def _number_foreign(found: list[tuple[int | None, int]]) -> list[tuple[int | None, int]]:
    """Number the results of a job that was created elsewhere, by their keys if possible."""
    if {number for number, _ in found} == set(range(len(found))):
        return found
    return [(number, place) for number, (_, place) in enumerate(found)]


def _number_in(line: JsonObject) -> int | None:
    key, metadata = line.get("key"), line.get("metadata")
    if key is None and isinstance(metadata, dict):
        key = metadata.get("key")
    return parse_number(key)


def decode_line(line: bytes) -> JsonObject:
    """Return one line of the results.

    Raises:
        UnreadableResponseError: It is not a JSON object.
    """
    try:
        parsed = decode_json(line)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        # Redacted before it is cut: half a key cannot be recognized.
        shown = redact(line[:_MAX_SHOWN].decode("utf-8", "replace"), secrets_in_use())[:200]
        raise UnreadableResponseError(f"A result of the batch job is not JSON: {shown!r}")
    return parsed


def parse_number(value: object) -> int | None:
    """Return a number that the API writes in digits; None for anything else, such as -1."""
    digits = str(value)
    return int(digits) if digits.isdecimal() and len(digits) <= _MAX_DIGITS else None


def _sync_names(folder: Path) -> None:
    """Write the new names in a folder to disk, so that the end of the machine keeps them.

    Windows and some network file systems cannot do this.
    """
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


@contextmanager
def _locked(file: BinaryIO) -> Iterator[None]:
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
        yield
        return
    process = os.getpid()
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        # Closing is not enough: a process that was forked meanwhile has the file open, too.
        if process == os.getpid():
            fcntl.flock(file, fcntl.LOCK_UN)

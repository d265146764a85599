"""The waves of a run: what its agents wait for goes to the batch service together.

run.json               the id of the run, and its waves
inputs.txt             a digest of each input, to compare with those of the next call
wave-00000/            one wave
  waiting.jsonl        which agent waits for which request
  0/                   the batch job of a model; see `folder.py`

A wave exists once it is in `run.json`. Jobs are created after that, so a process that is killed
leaves either no job or one that is found again. The requests for the next wave are in a temporary
database; after a crash, the agents make them again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import threading
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count, groupby
from typing import TYPE_CHECKING, Any, Literal

from langchain_gemini_tools.batch.agents import Wave
from langchain_gemini_tools.batch.folder import Folder
from langchain_gemini_tools.batch.job import BatchJob
from langchain_gemini_tools.batch.runner import AgentRequest
from langchain_gemini_tools.batch.service import RESENT_STATES, as_object
from langchain_gemini_tools.errors import BatchJobError, InvalidOptionError
from langchain_gemini_tools.wire.metadata import parse_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from langchain_gemini_tools.batch.folder import JobPart, Lines, Manifest
    from langchain_gemini_tools.batch.items import BatchSource
    from langchain_gemini_tools.facts.json_values import JsonObject


_DIGEST_SIZE = 16
_KINDS = {"agent": "LangGraph agent", "loop": "ToolLoop"}


@dataclass(frozen=True)
class _Run:
    id: str
    kind: str
    is_complete: bool = False
    """Whether all inputs were seen."""
    waves: tuple[Wave, ...] = ()
    version: Literal[1] = 1


class WaveJob(BatchJob[Any]):
    """A batch job whose results the agents read. What follows from them is in the next wave."""

    def _follow_ups(
        self,
        manifest: Manifest,  # noqa: ARG002
        part: JobPart,  # noqa: ARG002
    ) -> Lines:
        return iter(())


@contextmanager
def _using_temporary_file() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise OSError(
            f"The requests of the next wave were not stored in a temporary file: {error}. Free "
            "some space, or set SQLITE_TMPDIR to another folder, and make the same call again."
        ) from error


class Waves:
    """The folder of a run. Its methods may be called from several threads.

    Args:
        path: The folder.
        kind: What runs there, such as `agent`.
        storage: The place of requests and results on Vertex AI.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str, storage: str | None) -> None:
        self.folder = Folder(path)
        self._kind = kind
        self._storage = storage
        self._lock = threading.Lock()
        self._run = _Run("", kind)
        self._digests: list[bytes] = []
        self._inputs: BinaryIO | None = None
        self._pending: sqlite3.Connection
        """The requests for the next wave."""

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @property
    def run_id(self) -> str:
        """A unique id."""
        return self._run.id

    @property
    def waves(self) -> tuple[Wave, ...]:
        """All waves so far."""
        return self._run.waves

    # The run

    def open(self) -> None:
        """Load the run, or begin one. The caller holds the lock of the folder until `close`."""
        # "" is a temporary file, which SQLite deletes.
        self._pending = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._pending.execute("CREATE TABLE pending (agent INTEGER, id, model, call, body BLOB)")
        run = self.folder.load_state("run.json", _Run, "use another path.")
        if run is None:
            self._save(_Run(uuid.uuid4().hex, self._kind))
        else:
            self._run = run
        if self._run.kind != self._kind:
            raise InvalidOptionError(
                f"{self.path} belongs to the run of a {_KINDS.get(self._run.kind)}, not of a "
                f"{_KINDS[self._kind]}. Use another path."
            )
        shutil.rmtree(self._wave_path(len(self.waves)), ignore_errors=True)  # of a killed process
        self._inputs = (self.path / "inputs.txt").open("ab+")
        self._inputs.seek(0)
        lines = self._inputs.read().split(b"\n")
        self._digests = lines[:-1]
        self._inputs.truncate(sum(len(line) + 1 for line in self._digests))

    def close(self) -> None:
        """Close the files."""
        self._pending.close()
        if self._inputs:
            self._inputs.close()

    def _save(self, run: _Run) -> None:
        self.folder.save_state("run.json", run)
        self._run = run

    def check_input(self, index: int, encoded: bytes) -> bool:
        """Compare an input with that of an earlier call, and return whether it had one.

        Raises:
            InvalidOptionError: It differs.
        """
        digest = hashlib.sha256(encoded).hexdigest()[:_DIGEST_SIZE].encode()
        if index < len(self._digests):
            if self._digests[index] != digest:
                raise self._difference(f"Input {index} differs from")
            return True
        if self._run.is_complete:
            raise self._difference("There are more inputs than in")
        assert self._inputs is not None  # noqa: S101 - the folder is open
        self._inputs.write(digest + b"\n")
        self._inputs.flush()
        return False

    def end_inputs(self, count: int) -> None:
        """Note that these were all inputs.

        Raises:
            InvalidOptionError: There were more in an earlier call.
        """
        if count < len(self._digests):
            raise self._difference("There are fewer inputs than in")
        if not count:
            raise InvalidOptionError("There are no inputs. Pass at least one.")
        if not self._run.is_complete:
            assert self._inputs is not None  # noqa: S101 - the folder is open
            os.fsync(self._inputs.fileno())
            self._save(replace(self._run, is_complete=True))

    def _difference(self, what: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"{what} the run at {self.path}. Use another path for other inputs."
        )

    # The requests of the next wave

    @_using_temporary_file()
    def add(self, agent: int, requests: Iterable[AgentRequest]) -> None:
        """Keep the requests that an agent waits for, for the next wave."""
        rows = [(agent, each.id, each.model, each.call, each.body) for each in requests]
        with self._lock:
            self._pending.executemany("INSERT INTO pending VALUES (?, ?, ?, ?, ?)", rows)

    def pending_models(self) -> dict[str, int]:
        """Return the models of the next wave, and the number of an agent that waits for each."""
        query = "SELECT model, min(agent) FROM pending GROUP BY model ORDER BY model"
        return dict(self._pending.execute(query))

    def pending_agents(self) -> set[int]:
        """Return the agents that wait for the next wave."""
        return {agent for (agent,) in self._pending.execute("SELECT agent FROM pending")}

    # Waves

    @property
    def current(self) -> Wave | None:
        """The wave that was begun and is not done."""
        return self.waves[-1] if self.waves and not self.waves[-1].is_done else None

    @_using_temporary_file()
    def begin(self, sources: dict[str, BatchSource]) -> Wave:
        """Make a wave of the requests that were added. Nothing is sent yet."""
        number, models = len(self.waves), tuple(self.pending_models())
        for job, model in enumerate(models):
            # Sorted by agent, so that a repeated run sends the same.
            query = "SELECT body FROM pending WHERE model = ? ORDER BY agent, rowid"
            bodies = (body for (body,) in self._pending.execute(query, [model]))
            self._job(number, job, sources[model]).prepare(bodies)
        places = [count() for _ in models]
        query = "SELECT agent, id, model, call FROM pending ORDER BY agent, rowid"
        with Folder(self._wave_path(number)).replacing("waiting.jsonl") as waiting:
            for agent, key, model, call in self._pending.execute(query):
                job = models.index(model)
                entry = [agent, key, job, next(places[job]), call]
                waiting.write(json.dumps(entry).encode() + b"\n")
        wave = Wave(number, sum(map(next, places)), models)
        self._save(replace(self._run, waves=(*self.waves, wave)))
        self._pending.execute("DELETE FROM pending")
        return wave

    def unsent_models(self, wave: Wave) -> dict[str, int]:
        """Return the models whose jobs have not ended, and the number of the job of each."""
        return {
            model: job
            for job, model in enumerate(wave.models)
            if (manifest := self._folder_of(wave, job).load()) and not manifest.is_collected
        }

    def jobs(self, wave: Wave, sources: dict[str, BatchSource]) -> list[WaveJob]:
        """Return the batch jobs of a wave that have not ended, if their models are known."""
        unsent = self.unsent_models(wave).items()
        return [self._job(wave.number, job, sources[m]) for m, job in unsent if m in sources]

    def _job(self, number: int, job: int, source: BatchSource) -> WaveJob:
        return WaveJob(source, self._wave_path(number) / str(job), storage=self._storage)

    def _wave_path(self, number: int) -> Path:
        return self.path / f"wave-{number:05d}"

    def _folder_of(self, wave: Wave, job: int) -> Folder:
        return Folder(self._wave_path(wave.number) / str(job))

    def waiting(self, wave: Wave) -> Iterator[tuple[int, str, str]]:
        """Iterate over the agents of a wave, the ids of their requests, and their models."""
        for agent, key, job, _, _ in self._read_waiting(wave):
            yield agent, key, wave.models[job]

    def sent_agents(self) -> set[int]:
        """Return the agents that have waited for a wave."""
        return {entry[0] for wave in self.waves for entry in self._read_waiting(wave)}

    def _read_waiting(self, wave: Wave) -> Iterator[list[Any]]:
        path = self._wave_path(wave.number) / "waiting.jsonl"
        if path.exists():
            with path.open("rb") as file:
                for line in file:
                    try:
                        agent, key, job, place, call = json.loads(line)
                    except (ValueError, TypeError) as error:
                        raise InvalidOptionError(
                            f"{path} is damaged. Restore it, or use another path."
                        ) from error
                    yield [agent, key, job, place, call]

    def answers(self, wave: Wave) -> Iterator[tuple[int, list[AgentRequest]]]:
        """Iterate over the agents of a wave and their requests, with what has come for them."""
        folders = [self._folder_of(wave, job) for job in range(len(wave.models))]
        manifests = [folder.load() for folder in folders]

        def read(entry: list[Any]) -> AgentRequest:
            _, key, job, place, call = entry
            folder, manifest, model = folders[job], manifests[job], wave.models[job]
            part = manifest.find_part(place) if manifest else None
            if part is None or not part.is_collected:
                return AgentRequest(key, model, b"", call)
            if line := folder.results(part).read(place):
                return AgentRequest(key, model, b"", call, line)
            return AgentRequest(key, model, folder.first_request(part, place), call)

        for agent, entries in groupby(self._read_waiting(wave), key=lambda entry: entry[0]):
            yield agent, [read(entry) for entry in entries]

    def end(self, wave: Wave) -> None:
        """Note that all answers of a wave were delivered to the agents."""
        self._save(replace(self._run, waves=(*self.waves[:-1], replace(wave, is_done=True))))

    def check_ended_well(self, wave: Wave) -> None:
        """Raise if a job of a wave failed or was cancelled.

        Raises:
            BatchJobError: It did. Its agents still wait.
        """
        for job in range(len(wave.models)):
            manifest = self._folder_of(wave, job).load()
            for part in manifest.parts if manifest else ():
                if part.state not in RESENT_STATES:
                    raise BatchJobError(
                        f"The batch job {part.job} of wave {wave.number + 1} ended as {part.state}"
                        f"{part.reason}. Make the same call again to send its requests again."
                    )

    def explain_gone(self, wave: Wave) -> str:
        """Return what to do about a job that does not exist."""
        return (
            f"To send its requests again, delete {self._wave_path(wave.number)} and make the same "
            "call again."
        )


class Tally:
    """Counts the answers of a wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._counts: Counter[str] = Counter()
        self._dollars: Decimal | None = None
        self.is_fruitless = True
        """Whether no job has returned anything, not even an error."""

    def add(self, answered: AgentRequest) -> None:
        """Count one answer."""
        self.is_fruitless &= answered.line is None
        response = (answered.line or {}).get("response")
        if not isinstance(response, dict):
            self._counts["failed"] += 1
            return
        usage: Any = parse_usage(as_object(response.get("usageMetadata"))) or {}
        counted = {key: usage.get(key, 0) for key in ("input_tokens", "output_tokens")}
        self._counts.update(answered=1, **counted)
        price = _price(usage, answered.model)
        if price is not None:
            self._dollars = (self._dollars or Decimal(0)) + price

    def wave(self) -> Wave:
        """Return the wave with its counts."""
        counts: dict[str, Any] = {**self._counts}
        dollars = None if self._dollars is None else str(self._dollars)
        return replace(self._wave, **counts, dollars=dollars)


def _price(usage: JsonObject, model: str) -> Decimal | None:
    """Return the price in a batch: half of the standard price."""
    from langchain_gemini_tools.display.traced import find_cost

    cost = find_cost(usage, model, "google_genai", uses_server_tools=False)
    return None if cost.dollars is None else cost.dollars / 2

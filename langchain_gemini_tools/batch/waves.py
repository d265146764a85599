"""The waves of a run: what its agents wait for goes to the batch service together.

run.json               the id of the run, and its waves
inputs.txt             a digest of each input, to compare with those of the next call
waiting.tmp            the requests for the next wave; made again after a crash
wave-00000/            one wave
  waiting.jsonl        which agent waits for which request
  0/                   the batch job of a model; see `folder.py`

A wave exists once it is in `run.json`. Jobs are created after that, so a process that is killed
leaves either no job or one that is found again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
import uuid
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any

from langchain_gemini_tools.batch.agents import Wave
from langchain_gemini_tools.batch.folder import Folder, RequestReader, ResultReader
from langchain_gemini_tools.batch.items import Evaluator, Outcomes
from langchain_gemini_tools.batch.job import BatchJob
from langchain_gemini_tools.batch.service import RESENT_STATES
from langchain_gemini_tools.batch.worker import JobWorker
from langchain_gemini_tools.errors import BatchJobError, GeminiNotFoundError, InvalidOptionError
from langchain_gemini_tools.wire.metadata import parse_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from langchain_gemini_tools.batch.folder import Manifest
    from langchain_gemini_tools.batch.inputs import BatchSource
    from langchain_gemini_tools.batch.items import ItemOutcome
    from langchain_gemini_tools.facts.json_values import JsonObject


_DIGEST_SIZE = 16
_KINDS = {"agent": "LangGraph agent", "loop": "ToolLoop"}


@dataclass(frozen=True)
class AgentRequest:
    """A request that an agent waits for."""

    id: str
    """Identifies it among the requests of its agent; see `graph_runner`."""
    model: str
    body: bytes
    call: list[str]
    """Identifies the call of the model; see `agent_calls`."""


@dataclass(frozen=True)
class Answer:
    """The result of a wave for one request."""

    request: AgentRequest
    line: JsonObject | None
    """The result, as the service returned it; None if the job ended without one."""


@dataclass(frozen=True)
class _Run:
    id: str
    kind: str
    is_complete: bool = False
    """Whether all inputs were seen."""
    waves: tuple[Wave, ...] = ()


def _parse_run(stored: JsonObject) -> _Run:
    waves = [Wave(**{**wave, "models": tuple(wave["models"])}) for wave in stored.pop("waves")]
    return _Run(**stored, waves=tuple(waves))


class _Unread(Outcomes):
    """Outcomes of no input: the agents read the results, and send what follows in the next wave."""

    def of(
        self,
        manifest: Manifest,  # noqa: ARG002
        indexes: Iterable[int],  # noqa: ARG002
    ) -> Iterator[tuple[int, ItemOutcome]]:
        return iter(())


class WaveJob(BatchJob[Any]):
    """A batch job of rendered requests, whose results the agents read."""

    def __init__(self, source: BatchSource, path: Path, storage: str | None) -> None:
        super().__init__(source, path, storage=storage)
        outcomes = _Unread(self._folder, Evaluator(source.template, source.client))
        self._worker = JobWorker(self._folder, self._service, outcomes)


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
        self._pending: BinaryIO | None = None
        self._pending_places: list[tuple[int, int]] = []
        """The agent of each request for the next wave, and where the request is in the file."""
        self._pending_models: dict[str, int] = {}
        """The models of the requests for the next wave, and an agent that waits for each."""

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
        run = self.folder.load_state("run.json", _parse_run, "use another path.")
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
        self._pending = (self.path / "waiting.tmp").open("wb+")

    def close(self) -> None:
        """Close the files."""
        for file in (self._inputs, self._pending):
            if file:
                file.close()
        (self.path / "waiting.tmp").unlink(missing_ok=True)

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
            self._save(replace(self._run, is_complete=True))

    def _difference(self, what: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"{what} the run at {self.path}. Use another path for other inputs."
        )

    # The requests of the next wave

    def add(self, agent: int, requests: Iterable[AgentRequest]) -> None:
        """Keep the requests that an agent waits for, for the next wave."""
        with self._lock:
            assert self._pending is not None  # noqa: S101 - the folder is open
            self._pending.seek(0, os.SEEK_END)
            for each in requests:
                self._pending_places.append((agent, self._pending.tell()))
                head = [agent, each.id, each.model, each.call]
                self._pending.write(json.dumps(head).encode() + b"\n" + each.body + b"\n")
                self._pending_models.setdefault(each.model, agent)

    def _read_pending(self) -> Iterator[tuple[int, AgentRequest]]:
        assert self._pending is not None  # noqa: S101 - the folder is open
        # Sorted by agent, so that a repeated run sends the same.
        for _, place in sorted(self._pending_places):
            self._pending.seek(place)
            agent, key, model, call = json.loads(self._pending.readline())
            yield agent, AgentRequest(key, model, self._pending.readline().rstrip(b"\n"), call)

    @property
    def has_pending(self) -> bool:
        """Whether an agent waits for the next wave."""
        return bool(self._pending_models)

    @property
    def pending_models(self) -> dict[str, int]:
        """The models of the next wave, and the number of an agent that waits for each."""
        return dict(self._pending_models)

    def pending_agents(self) -> set[int]:
        """Return the agents that wait for the next wave."""
        return {agent for agent, _ in self._pending_places}

    # Waves

    @property
    def current(self) -> Wave | None:
        """The wave that was begun and is not done."""
        return self.waves[-1] if self.waves and not self.waves[-1].is_done else None

    def begin(self, sources: dict[str, BatchSource]) -> Wave:
        """Make a wave of the requests that were added. Nothing is sent yet."""
        number, models = len(self.waves), tuple(sorted(self._pending_models))
        folder = Folder(self._wave_path(number))
        folder.path.mkdir(parents=True)
        count = 0
        with folder.replacing("waiting.jsonl") as waiting:

            def bodies(model: str) -> Iterator[bytes]:
                for request in (each for _, each in self._read_pending() if each.model == model):
                    yield request.body

            for job, model in enumerate(models):
                self._job(number, job, sources[model]).prepare(bodies(model))
            places = dict.fromkeys(models, 0)
            for agent, request in self._read_pending():
                job, place = models.index(request.model), places[request.model]
                places[request.model] += 1
                entry = [agent, request.id, job, place, request.call]
                waiting.write(json.dumps(entry).encode() + b"\n")
                count += 1
        wave = Wave(number, count, models)
        self._save(replace(self._run, waves=(*self.waves, wave)))
        self._forget_pending()
        return wave

    def _forget_pending(self) -> None:
        assert self._pending is not None  # noqa: S101 - the folder is open
        self._pending.seek(0)
        self._pending.truncate()
        self._pending_places.clear()
        self._pending_models.clear()

    def jobs(self, wave: Wave, sources: dict[str, BatchSource]) -> list[WaveJob]:
        """Return the batch jobs of a wave that have not ended, if their models are known."""
        return [
            self._job(wave.number, job, sources[model])
            for job, model in enumerate(wave.models)
            if model in sources and not self._is_collected(wave.number, job)
        ]

    def unsent_models(self, wave: Wave) -> list[str]:
        """Return the models whose jobs have not ended."""
        return [
            model
            for job, model in enumerate(wave.models)
            if not self._is_collected(wave.number, job)
        ]

    def _is_collected(self, number: int, job: int) -> bool:
        manifest = Folder(self._job_path(number, job)).load()
        return manifest is None or manifest.is_collected

    def _job(self, number: int, job: int, source: BatchSource) -> WaveJob:
        return WaveJob(source, self._job_path(number, job), self._storage)

    def _wave_path(self, number: int) -> Path:
        return self.path / f"wave-{number:05d}"

    def _job_path(self, number: int, job: int) -> Path:
        return self._wave_path(number) / str(job)

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

    def answers(self, wave: Wave) -> Iterator[tuple[int, list[Answer]]]:
        """Iterate over the agents of a wave and their answers."""
        readers = [
            _JobReader(Folder(self._job_path(wave.number, job)), model)
            for job, model in enumerate(wave.models)
        ]
        for agent, entries in groupby(self._read_waiting(wave), key=lambda entry: entry[0]):
            yield agent, [readers[job].read(key, place, c) for _, key, job, place, c in entries]

    def end(self, wave: Wave) -> None:
        """Note that all answers of a wave were delivered to the agents."""
        self._save(replace(self._run, waves=(*self.waves[:-1], replace(wave, is_done=True))))

    def check_ended_well(self, wave: Wave) -> None:
        """Raise if a job of a wave failed or was cancelled.

        Raises:
            BatchJobError: It did. Its agents still wait.
        """
        for job in range(len(wave.models)):
            manifest = Folder(self._job_path(wave.number, job)).load()
            for part in manifest.parts if manifest else ():
                if part.state not in RESENT_STATES:
                    raise BatchJobError(
                        f"The batch job {part.job} of wave {wave.number + 1} ended as {part.state}"
                        f"{part.reason}. Make the same call again to send its requests again."
                    )

    def explain_gone(self, error: GeminiNotFoundError, wave: Wave) -> None:
        """Add a note to the error about a job that does not exist: what to do."""
        error.add_note(
            f"To send its requests again, delete {self._wave_path(wave.number)} and make the same "
            "call again."
        )


class _JobReader:
    """Reads the requests and results of one job of a wave."""

    def __init__(self, folder: Folder, model: str) -> None:
        self._model = model
        manifest = folder.load()
        parts = manifest.parts if manifest else ()
        self._requests = RequestReader(folder, parts)
        self._parts = [(part, ResultReader(folder, part)) for part in parts if part.is_collected]

    def read(self, key: str, place: int, call: list[str]) -> Answer:
        """Return what the job has for the request at a place."""
        for part, results in self._parts:
            if part.covers(place):
                line = results.read(place)
                body = b"" if line else self._requests.read(place)
                return Answer(AgentRequest(key, self._model, body, call), line)
        return Answer(AgentRequest(key, self._model, b"", call), None)


class Tally:
    """Counts the answers of a wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = replace(
            wave, answered=0, failed=0, input_tokens=0, output_tokens=0, dollars=None
        )
        self._dollars: Decimal | None = None
        self.is_fruitless = True
        """Whether no job has returned anything, not even an error."""

    def add(self, answer: Answer) -> None:
        """Count one answer."""
        wave = self._wave
        self.is_fruitless &= answer.line is None
        response = (answer.line or {}).get("response")
        if not isinstance(response, dict):
            self._wave = replace(wave, failed=wave.failed + 1)
            return
        usage: Any = parse_usage(response.get("usageMetadata") or {}) or {}
        self._wave = replace(
            wave,
            answered=wave.answered + 1,
            input_tokens=wave.input_tokens + usage.get("input_tokens", 0),
            output_tokens=wave.output_tokens + usage.get("output_tokens", 0),
        )
        price = _price(usage, answer.request.model)
        if price is not None:
            self._dollars = (self._dollars or Decimal(0)) + price

    def wave(self) -> Wave:
        """Return the wave with its counts."""
        return replace(self._wave, dollars=None if self._dollars is None else str(self._dollars))


def _price(usage: JsonObject, model: str) -> Decimal | None:
    """Return the price in a batch: half of the standard price."""
    from langchain_gemini_tools.display.traced import find_cost

    cost = find_cost(usage, model, "google_genai", uses_server_tools=False)
    return None if cost.dollars is None else cost.dollars / 2

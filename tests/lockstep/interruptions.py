"""Parties in lock step that are killed at any send, recv or write to disk, and made again from their directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from tacit.channel import Channel, run_parties
from tacit.events import Nowhere, TrainingResumed
from tacit.kind import kind_of
from tacit.lockstep.resumption import conclude, confirm
from tacit.lockstep.run import Lockstep, Place
from tacit.store import directory, files, journal_files
from tacit.store.directory import Store


class Killed(Exception):
    pass


class Faults:
    """Kills one party at its n-th action, before or after a message or a file; `count` has how many it took."""

    def __init__(self, root: Path, victim: str = "", at: int = 0) -> None:
        self._root, self._victim, self._at = root, victim, at
        self.count = 0
        self.killed = False

    def act(self, name: str) -> None:
        if name != self._victim:
            return
        if self.killed:
            raise Killed  # what is dead stays dead
        self.count += 1
        if self.count == self._at:
            self.killed = True
            raise Killed

    def writing(self, write: Callable[..., None]) -> Callable[..., None]:
        """Around a function that writes a file: its first argument with a path says whose."""

        def written(first: Any, *arguments: Any) -> None:
            path = first if isinstance(first, Path) else first._path
            name = path.relative_to(self._root).parts[0]
            self.act(name)
            write(first, *arguments)
            self.act(name)

        return written


class Faulty:
    """A channel whose owner may be killed."""

    def __init__(self, channel: Channel, act: Callable[[], None], seen: list[Any]) -> None:
        self._channel, self._act, self._seen = channel, act, seen

    def send(self, message: Any) -> None:
        self._act()
        self._channel.send(message)
        self._seen.append(message)
        self._act()

    def recv(self, *arguments: Any) -> Any:
        self._act()
        message = self._channel.recv(*arguments)
        self._act()
        return message

    def close(self) -> None:
        self._channel.close()


class Trial:
    """A training of all parties in one process, each with its own folder, as `join` has it; made again as often."""

    def __init__(self, settings: Any, root: Path) -> None:
        self.settings, self.root = settings, root
        self.kind: Lockstep[Any] = import_module(f"tacit.kinds.{settings.kind}.party").LOCKSTEP
        self.sent: dict[str, list[Any]] = {name: [] for name in settings.parties}  # messages of all attempts
        self.resumed: list[TrainingResumed] = []  # at any party, in any attempt
        for name in settings.parties:
            (root / name).mkdir(parents=True, exist_ok=True)

    def store(self, name: str) -> Store:
        return Store(self.root / name)

    def state(self, name: str) -> dict[str, Any] | None:
        found = self.store(name).stored()
        return None if found is None else found[0]

    def finished(self, name: str) -> bool:
        state = self.state(name)
        return state is not None and kind_of(self.settings).resume.finished(self.settings, state) is not None

    def complete(self, name: str) -> bool:
        state = self.state(name)
        return state is not None and self.kind.complete(self.settings, state)

    def model(self, name: str) -> Mapping[str, Any]:
        return directory.read_model(self.root / name / "model.safetensors")

    def attempt(self, monkeypatch: Any, victim: str = "", at: int = 0, wrap: Any = None) -> Faults:
        """Run all parties once; the victim is killed at its n-th action, and all others end with it."""
        faults = Faults(self.root, victim, at)
        with monkeypatch.context() as patched:
            patched.setattr(files, "replace_file", faults.writing(files.replace_file))
            patched.setattr(journal_files.RecordFiles, "write", faults.writing(journal_files.RecordFiles.write))
            run_parties({name: self.party(name, faults, wrap) for name in self.settings.parties}, patience=300)
        return faults

    def interrupted(self, monkeypatch: Any, victim: str, at: int) -> bool:
        """The same; whether the victim was killed before it was done."""
        try:
            self.attempt(monkeypatch, victim, at)
        except Killed:
            return True
        return False

    def brought_to_an_end(self, monkeypatch: Any) -> None:
        """What a supervisor does: parties that are not finished start again, until none is left."""
        if any(self.finished(name) for name in self.settings.parties):
            assert all(self.complete(name) for name in self.settings.parties)  # nobody is waited for in vain
            return
        self.attempt(monkeypatch)
        assert all(self.finished(name) for name in self.settings.parties)
        assert not list(self.root.glob("*/journal"))

    def party(
        self, name: str, faults: Faults | None = None, wrap: Any = None
    ) -> Callable[[Mapping[str, Channel]], None]:
        class Told(Nowhere):
            def emit(this, event: Any) -> None:
                if isinstance(event, TrainingResumed):
                    self.resumed.append(event)

        faults = faults or Faults(self.root)
        function = self.kind.party(self.settings, name, Place(self.store(name), Told()))

        def live(channels: Mapping[str, Channel]) -> None:
            own: dict[str, Any] = {
                other: Faulty(channel, lambda: faults.act(name), self.sent[name]) for other, channel in channels.items()
            }
            if wrap is not None:
                own = {other: wrap(name, other, channel) for other, channel in own.items()}
            function(own)
            conclude(own, name, self.settings.hub)
            confirm(self.store(name))

        return live

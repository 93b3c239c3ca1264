"""A federation's settings and its task, looked at once: what its coordinator and its clients are made of.

prepared = Prepared.of(settings, task)
prepared.coordinator(sink, clock)       one, wherever the clients live
prepared.client(3)                      any of them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from numpy.random import Generator

from tacit.crypto.signing import SigningKey
from tacit.events import Sink
from tacit.kinds.horizontal.carrier import Carrier, carrier_of
from tacit.kinds.horizontal.client import Client, Fit, noise_source
from tacit.kinds.horizontal.coordinator import Coordinator
from tacit.kinds.horizontal.settings import Settings
from tacit.kinds.horizontal.task import Arrays, Evaluates, Frozen, Infers, Task
from tacit.kinds.horizontal.tasks import load as tasks
from tacit.kinds.horizontal.vector import Layout
from tacit.secagg.unmask import Unmasking, unmask_ranges


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What all parties of a federation know before it starts."""

    settings: Settings
    task: Task
    model: Arrays  # before the first round
    layout: Layout
    carrier: Carrier
    infers: Infers | None  # the task, if the model is judged by what it infers

    @classmethod
    def of(cls, settings: Settings, task: Task) -> Prepared:
        """ValueError if the task has no usable model, or none that infers where the file asks for that."""
        tasks.check_private_fit(task, settings)
        model = task.model()
        layout = Layout.of(model)
        return cls(settings, task, model, layout, carrier_of(settings, layout), tasks.infers(task, settings))

    @property
    def classes(self) -> int | None:
        """The length of an inference vector, if the model is judged by those."""
        return self.infers.classes if self.infers else None

    @property
    def frozen_digest(self) -> str | None:
        """What all parties must agree on of the parts of the model that are not trained; None if there are none."""
        return self.task.frozen_digest() if isinstance(self.task, Frozen) else None

    def coordinator(
        self,
        sink: Sink,
        clock: Callable[[], float],
        *,
        identities: Mapping[int, bytes] | None = None,
        unmasking: Unmasking = unmask_ranges,
    ) -> Coordinator:
        """The coordinator. `identities`, the clients' signing keys, are used only if clients sign."""
        return Coordinator(
            self.settings,
            self.model,
            sink,
            clock,
            evaluate=self.task.evaluate if isinstance(self.task, Evaluates) else None,
            identities=identities if self.settings.signs else None,
            classes=self.classes,
            unmasking=unmasking,
            carrier=self.carrier,
        )

    def client(
        self,
        identity: int,
        *,
        fit: Fit | None = None,
        key: SigningKey | None = None,
        identities: Mapping[int, bytes] | None = None,
        random: Callable[[int], Generator | None] | None = None,
        failed: Callable[[str, Exception], None] = lambda where, error: None,
    ) -> Client:
        """A client. It trains by the task and draws noise as the file says, unless `fit` or `random` is given."""
        return Client(
            self.settings,
            identity,
            fit or self.task.fit,
            self.layout,
            infers=self.infers,
            key=key,
            identities=identities,
            carrier=self.carrier,
            random=random or noise_source(self.settings, identity),
            failed=failed,
        )

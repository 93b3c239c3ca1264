"""One client of a horizontal federation, without I/O: feed it messages, send what it returns.

It trains when it is sent a model, protects what it learnt, keeps its own ledger and refuses uploads beyond its budget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.random import Generator

from tacit.crypto.signing import SigningKey
from tacit.dp.accounting import Budget, Ledger
from tacit.errors import PeerError
from tacit.horizontal.messages import ToClient, ToCoordinator, Update, Work
from tacit.horizontal.protection import LocalDP, secure_encoding, secure_settings
from tacit.horizontal.settings import Settings
from tacit.horizontal.task import Arrays, Fitted, FitWork
from tacit.horizontal.vector import Flat, Layout
from tacit.secagg.client import Client as SecureClient
from tacit.secagg.session import Context
from tacit.secagg.unmask import Words

_TRAINING = 12  # what a seed is for: see `coordinator.SAMPLING`
Fit = Callable[[int, Arrays, FitWork], Fitted]


class UnusableUpdate(ValueError):
    """What a client's training returned cannot be used. Others may read the words: they hold no private values."""


def fit_work(settings: Settings, number: int, identity: int) -> FitWork:
    """What `fit` of one client in one round is told: the same wherever it runs."""
    return FitWork(number, settings.train, (settings.seed, _TRAINING, number, identity))


class Client:
    """One client.

    Args:
        fit: the task's training.
        layout: of the model, known from the task.
        key, identities: for secure aggregation in active mode.
        random: gives the generator of noise and keys for a round; from the operating system by default.
    """

    def __init__(
        self,
        settings: Settings,
        identity: int,
        fit: Fit,
        layout: Layout,
        *,
        key: SigningKey | None = None,
        identities: Mapping[int, bytes] | None = None,
        random: Callable[[int], Generator | None] = lambda round: None,
    ) -> None:
        self.identity = identity
        self._settings = settings
        self._fit = fit
        self._layout = layout
        self._key = key
        self._identities = identities
        self._random = random
        self._secure: SecureClient | None = None
        self._last_round = -1
        self.ledger: Ledger | None = None
        if settings.encrypt.encrypt_type == "DP_ENCRYPT":
            self._local = LocalDP.of(settings)
            limit = settings.budget
            budget = Budget(limit.epsilon, limit.delta or settings.delta) if limit else None
            self.ledger = Ledger("client", "replace-one", budget)

    def receive(self, message: ToClient, now: float) -> list[ToCoordinator]:
        """What to send in answer. Raises BudgetError, and sends nothing, where an upload would exceed the budget."""
        if isinstance(message, Work):
            return self._work(message, now)
        if self._secure is None:
            raise PeerError(f"{type(message).__name__} without a round of secure aggregation")
        return list(self._secure.receive(message, now))

    def end_round(self) -> None:
        """Drop what belongs to a round that is over."""
        self._secure = None

    def _work(self, work: Work, now: float) -> list[ToCoordinator]:
        if work.model.shape != (self._layout.size,) or str(work.model.dtype) != self._layout.dtype:
            raise PeerError(f"a model of {work.model.shape} numbers, this task has {self._layout.size}")
        if not self._last_round < work.round < self._settings.rounds:
            # Answering one round twice would let the coordinator subtract two sums.
            raise PeerError(f"work for round {work.round} after round {self._last_round} of {self._settings.rounds}")
        self._last_round = work.round
        match self._settings.encrypt.encrypt_type:
            case "NOT_ENCRYPT":
                trained, fitted = self._train(work)
                return [Update(work.round, self.identity, trained, fitted.samples, fitted.loss)]
            case "DP_ENCRYPT":
                return [self._noisy(work)]
            case "PW_ENCRYPT":
                return list(self._begin_secure(work, now))

    def _train(self, work: Work) -> tuple[Flat, Fitted]:
        model = self._layout.unflatten(work.model)
        fitted = self._fit(self.identity, model, fit_work(self._settings, work.round, self.identity))
        if not isinstance(fitted, Fitted):
            raise TypeError(f"fit must return Fitted(model, samples, loss), got {type(fitted).__name__}")
        if fitted.samples < 1:
            raise UnusableUpdate("its training used no samples")
        try:
            trained = self._layout.flatten(fitted.model)
        except ValueError as error:  # names, shapes and types
            raise UnusableUpdate(str(error)) from None
        if self._settings.encrypt.encrypt_type != "NOT_ENCRYPT" and not np.isfinite(trained).all():
            raise UnusableUpdate("its training gave NaN or infinite numbers")
        return trained, fitted

    def _noisy(self, work: Work) -> Update:
        # The clipping norm is the coordinator's to lower, never to raise: the event does not depend on it.
        clip = min(work.clip or np.inf, self._settings.encrypt.dp_encrypt.dp_norm_clip)
        ledger = self.ledger or Ledger("client", "replace-one")
        event = self._local.event(self._layout.size)
        ledger.spend(event)  # before anything is drawn
        try:
            update = self._train(work)[0] - work.model
        except UnusableUpdate:  # to stay silent would tell: what leaves is noise around nothing
            update = np.zeros_like(work.model)
        released = self._local.protect(update, clip, self._random(work.round))
        return Update(work.round, self.identity, released.value)

    def _begin_secure(self, work: Work, now: float) -> list[ToCoordinator]:
        context = Context(
            secure_settings(self._settings, self._layout.size), self._layout.digest(work.model), work.round
        )
        encoding = secure_encoding(self._settings, self._layout.size)

        def vector() -> Words:
            trained, fitted = self._train(work)
            update = trained - work.model
            if np.abs(update).max() > encoding.bound:
                raise UnusableUpdate(
                    f"its update has numbers above pw_encrypt.bound = {encoding.bound:g}: raise it, or train less"
                )
            if fitted.samples > self._settings.encrypt.pw_encrypt.largest_weight:
                raise UnusableUpdate("it has more samples than pw_encrypt.largest_weight")
            return encoding.encode(update, fitted.samples)

        self._secure = SecureClient(
            context,
            self.identity,
            vector,
            key=self._key,
            identities=self._identities,
            rng=self._random(work.round),
        )
        return list(self._secure.start(now))

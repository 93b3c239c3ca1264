"""What a split training promises, computed again from its file and the ledgers of its parties."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from tacit.dp.accounting import Ledger
from tacit.dp.calibration import noise_multiplier
from tacit.dp.mechanisms import gaussian_event
from tacit.dp.release import number
from tacit.events import EpochFinished, Event
from tacit.kinds.split.settings import Settings
from tacit.report.recomputed import Check, check, count_of, same

_RECORDS, _EVALUATION, _LABELS = "records", "evaluation records", "labels"
_DELTA = 1e-5  # at which a ledger with noise is stored


def recompute(settings: Settings, events: Sequence[Event], ledgers: Sequence[dict[str, Any]]) -> Iterable[Check]:
    """Which ledgers there are, the noise in each, and the epsilon of every epoch.

    A pack holds the ledgers of one party, or, if all parties were in one process, those of each: `records of follower`.
    """
    epochs = [event for event in events if isinstance(event, EpochFinished)]
    wrong = [*_promises(settings, ledgers), *_missing(settings, ledgers, bool(epochs))]
    text = "; ".join(wrong[:5]) if wrong else f"{len(ledgers)} are those of the file"
    yield check("ledgers of the file", not wrong, text)
    for data in ledgers:
        yield _noise(settings, data)
    yield from _epochs(settings, epochs, ledgers)


def _head(data: Mapping[str, Any]) -> str:
    """What a ledger covers, of any party."""
    return str(data["covers"][0]).partition(" of ")[0]


def _promises(settings: Settings, ledgers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    embedded = settings.embedding is not None and settings.embedding.eps is not None
    known = {
        _RECORDS: embedded or settings.gradients.protection == "noised",
        _EVALUATION: embedded,
        _LABELS: settings.label is not None,
    }
    seen = set()
    for data in ledgers:
        (what,), head = data["covers"], _head(data)
        delta = _DELTA if _noised(data) else 0.0
        stated = (data["view"], data["unit"], data["relation"], data["delta"])
        if not known.get(head) or what in seen:
            yield f"there is one of {what}"
        elif stated != ("local", "label" if head == _LABELS else "record", "replace-one", delta):
            yield f"{what}: view, unit, relation and delta are {stated}"
        seen.add(what)


def _missing(settings: Settings, ledgers: Sequence[Mapping[str, Any]], trained: bool) -> Iterator[str]:
    """Ledgers that must be there once a training has begun, given those that are."""
    if not ledgers or not trained:
        return
    there = {str(data["covers"][0]) for data in ledgers}
    at_leader = _LABELS in there or any(_head(data) == _RECORDS and _noised(data) for data in ledgers)
    whole = any(" of " in what for what in there)
    embeds = settings.embedding is not None and settings.embedding.eps is not None
    owners = {settings.leader} if settings.topology == "U" else set(settings.followers)
    of_records = (owners if embeds else set()) | (
        {settings.leader} if settings.gradients.protection != "none" else set()
    )
    due = {f"{_RECORDS} of {owner}" for owner in of_records}
    if settings.label is not None:
        due.add(f"{_LABELS} of {settings.leader}")
    if not whole:
        own = {what for what in due if what.endswith(f" of {settings.leader}")} if at_leader else set()
        due = {what.partition(" of ")[0] for what in own} or {_RECORDS}
    yield from (f"there is none of {what}" for what in sorted(due - there))


def _noised(data: Mapping[str, Any]) -> bool:
    return any(line["kind"] != "pure" for line in data["lines"])


def _noise(settings: Settings, data: Mapping[str, Any]) -> Check:
    """Every line of a ledger against the noise of the file."""
    head = _head(data)
    wrong = [line for line in data["lines"] if not _fits(settings, head, line)]
    text = f"{wrong[0]} is not the noise of this file" if wrong else f"it is that of the file{_crossed(settings, data)}"
    return check(f"noise of the ledger of {data['covers'][0]}", not wrong, text)


def _crossed(settings: Settings, data: Mapping[str, Any]) -> str:
    """What of it the file does not say: how many bits, or vectors, of a record cross in one visit."""
    embedding = settings.embedding
    if _head(data) == _LABELS or embedding is None or not embedding.eps:
        return ""
    one_hot = embedding.domain == "one_hot"
    once = embedding.eps / (1 if one_hot else 2)
    found = sorted({round(number(line["epsilon"]) / once) for line in data["lines"] if line["kind"] == "pure"})
    what = "one-hot vectors" if one_hot else "bits"
    return f", if a record has {' or '.join(map(str, found))} {what} at the cut" if found else ""


def _fits(settings: Settings, head: str, line: Mapping[str, Any]) -> bool:
    if line["kind"] != "pure":
        return line["kind"] == "gaussian" and head == _RECORDS and _is_of_gradients(settings, line)
    epsilon = number(line["epsilon"])
    if head == _LABELS:
        return settings.label is not None and same(epsilon, settings.label.eps)
    if settings.embedding is None or settings.embedding.eps is None:
        return False
    # One visit of a record: its bits or vectors, however many the network has at the cut.
    once = settings.embedding.eps / (1 if settings.embedding.domain == "one_hot" else 2)
    return epsilon == 0 if once == 0 else round(epsilon / once) >= 1 and same(epsilon, once * round(epsilon / once))


def _is_of_gradients(settings: Settings, line: Mapping[str, Any]) -> bool:
    given = settings.gradients
    if given.protection == "none" or line["sampling_probability"] != 1:
        return False
    least = gaussian_event(1, line["noise_multiplier"])
    if line["log2_slack"] < least.log2_slack:
        return False
    if given.noise_multiplier is not None:
        return same(line["noise_multiplier"], given.noise_multiplier)
    if settings.train.steps is not None:
        return True  # how many visits that are depends on how many records there are; the ledger's epsilon is checked
    releases = settings.train.epochs * len(settings.followers)
    assert given.epsilon is not None  # noqa: S101
    due = noise_multiplier(given.epsilon, given.delta, steps=releases, relation="replace-one")
    return same(line["noise_multiplier"], due)


def _epochs(
    settings: Settings, epochs: Sequence[EpochFinished], ledgers: Sequence[Mapping[str, Any]]
) -> Iterator[Check]:
    """Each epsilon that is told against some number of visits, which never falls and is one an epoch or more."""
    told = [event for event in epochs if event.epsilon is not None]
    if not told:
        return
    found = [list(_unlike(settings, told, data)) for data in ledgers if _head(data) != _EVALUATION]
    wrong = min(found, key=len, default=["there is no ledger"])
    text = "; ".join(wrong[:5]) if wrong else f"{len(told)} figures are those of visits that a ledger holds"
    yield check("epsilon of each epoch", not wrong, text)


def _unlike(settings: Settings, told: Sequence[EpochFinished], data: Mapping[str, Any]) -> Iterator[str]:
    """What of it is not the price of this ledger's visits."""
    delta = settings.gradients.delta if _noised(data) else 0.0
    whole = _visits(settings, data)
    price, last = cache(partial(_price, data, whole, delta)), 0
    for event in told:
        assert event.epsilon is not None  # noqa: S101
        name = f"epoch {event.epoch + 1}"
        if event.delta != delta:
            yield f"{name}: delta {event.delta}, the file says {delta:g}"
        low = whole if _head(data) == _LABELS else max(last, event.epoch) + 1
        count = count_of(price, number(event.epsilon), low, whole) if low <= whole else None
        if count is None:
            yield f"{name}: epsilon {event.epsilon:.6g} is that of no number of visits"
        last = count or last


def _visits(settings: Settings, data: Mapping[str, Any]) -> int:
    """How often each record was visited: each time, its gradients go back once to each follower."""
    noised: int = sum(line["count"] for line in data["lines"] if line["kind"] != "pure")
    return noised // len(settings.followers) or max(int(line["count"]) for line in data["lines"])


def _price(data: Mapping[str, Any], whole: int, delta: float, visits: int) -> float:
    lines = [{**line, "count": line["count"] * visits // whole} for line in data["lines"] if visits]
    bare = {key: data[key] for key in ("version", "unit", "relation")}
    ledger = Ledger.from_json({**bare, "budget": None, "lines": lines})
    return ledger.epsilon(delta) if delta else ledger.pure_epsilon()

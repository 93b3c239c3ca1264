"""Each event as one plain line, for `run.log` and for a stdout that is no terminal.

Rounds and epochs count from 0 in events and from 1 here: the last line of a run says 30/30.
"""

from __future__ import annotations

from tacit.events import (
    EPOCHS,
    Aligned,
    Answered,
    AnswerRefused,
    Bars,
    BudgetReached,
    ClientBlamed,
    ClientRefused,
    Counted,
    Curve,
    EndHeard,
    EpochFinished,
    Evaluated,
    Event,
    Noted,
    Paused,
    PortWatched,
    RoundAborted,
    RoundFinished,
    RoundStarted,
    RunFinished,
    RunResumed,
    RunStarted,
    SharesDisputed,
    Stepped,
    StoppedEarly,
    Tabled,
    TrainingResumed,
    TrainingStarted,
    Tree,
    Unpaused,
)

UPLOADS = frozenset({"Update", "Masked"})  # messages with what a client learnt
_OfRound = (
    RoundStarted
    | ClientRefused
    | ClientBlamed
    | SharesDisputed
    | RoundFinished
    | Evaluated
    | RoundAborted
    | BudgetReached
    | StoppedEarly
)
_REFUSALS = {
    "budget": "answers no more",
    "request": "refused what it was asked",
    "update": "left the round",
    "training": "had nothing to send",
}


def line(event: Event, rounds: int | None = None, counted: Counted = EPOCHS) -> str:
    """The event in words; empty if it is not worth a line. `rounds` is how many the run has, if known."""
    # Reasons may quote another party: nothing in them may start a line of its own or steer a terminal.
    return "".join(letter if letter.isprintable() else " " for letter in _words(event, rounds, counted)).strip()


def _words(event: Event, rounds: int | None, counted: Counted) -> str:
    match event:
        case RunStarted():
            return (
                f"{event.name}: {event.kind} federation of {event.clients} clients, {event.rounds} rounds, "
                f"{event.protection}, {event.parameters} parameters"
            )
        case RunResumed():
            again = (
                "; the one that was under way is done again, and what it released stays paid for"
                if event.abandoned
                else ""
            )
            return f"resumed after {event.round} rounds{again}"
        case Noted():
            return f"note: {event.text}"
        case Paused():
            return f"paused: {event.text}"
        case Unpaused():
            return f"the pause is over, after {event.seconds or 0:.1f} s"
        case PortWatched():
            return f"note: {event.text}" if event.text else ""
        case Answered():
            return _answered(event)
        case AnswerRefused():
            return f"{_round(event.round, None)} client {event.client} {_REFUSALS[event.why]}: {event.reason}"
        case EndHeard():
            said = f"client {event.client} heard from the coordinator that the run is over ({event.status})"
            return f"{said}: {event.reason}".rstrip(": ")
        case RunFinished():
            done = f"{event.status} after {event.rounds} {event.unit} in {event.seconds or 0:.1f} s"
            return f"{done}: {event.text}".rstrip(": ")
        case TrainingStarted():
            parties = f" of {event.parties} parties" if event.parties > 1 else ""
            steps = f" of {event.steps} steps" if counted.steps else ""
            return (
                f"{event.name}: {event.kind}{parties}, {event.epochs} {counted.many}{steps}, {event.protection}, "
                f"{event.parameters} {counted.numbers}"
            )
        case TrainingResumed() if not counted.steps:
            return f"resumed after {event.epoch} {counted.many}"
        case TrainingResumed():
            return f"resumed in {counted.one} {event.epoch + 1} after {event.step} of its steps"
        case Aligned():
            return f"aligned: {event.common} of {event.own} records are common to all, {event.seconds or 0:.1f} s"
        case Stepped():
            step = f" step {event.step}/{event.steps}" if counted.steps else ""
            return " ".join([f"{counted.one} {event.epoch + 1}{step}", *measured_step(event)])
        case EpochFinished():
            done = f"{counted.one} {event.epoch + 1} done"
            return " ".join([done, *measured_epoch(event), f"{event.seconds or 0:.1f} s"])
        case Curve() | Bars() | Tabled() | Tree():
            return _of_figure(event)
        case _:
            return f"{_round(event.round, rounds)} {_of_round(event)}"


def _of_figure(event: Curve | Bars | Tabled | Tree) -> str:
    """What is told of something to draw: how large it is."""
    match event:
        case Curve():
            return f"curve: {event.name}, {sum(map(len, (event.points, *event.lines.values())))} points"
        case Bars():
            return f"bars: {event.name}, {len(event.bars)} of them"
        case Tabled():
            return f"table: {event.name}, {len(event.rows)} rows"
        case Tree():
            return f"tree: {event.name}, {len(event.words)} nodes"


def _of_round(event: _OfRound) -> str:
    """What is told of a round, after its number."""
    match event:
        case RoundStarted():
            return f"sampled {event.sampled}"
        case ClientRefused():
            return f"client {event.client} refused: {event.reason}"
        case ClientBlamed():
            left_out = ", and is left out of the rest of the run" if event.excluded else ""
            return f"client {event.client} broke the protocol{left_out}: {event.reason}"
        case SharesDisputed():
            owners = ", ".join(map(str, event.owners)) + (", …" if event.count > len(event.owners) else "")
            whose = f"client {owners}" if event.count == 1 else f"{event.count} clients ({owners})"
            return (
                f"client {event.holder} says that its shares of {whose} are invalid: one side is wrong, "
                "and it is not known which"
            )
        case RoundFinished():
            return " ".join([*measured(event), f"{event.seconds or 0:.1f} s"])
        case Evaluated() if event.score is None:
            return f"{event.eval_type}: not evaluable: {event.reason}"
        case Evaluated():
            return (
                f"{event.eval_type}: {number(event.score)} ({event.vectors} vectors of "
                f"{event.clients} clients, {event.clusters} clusters)"
            )
        case RoundAborted():
            return f"changed nothing: {event.reason} {event.seconds or 0:.1f} s"
        case StoppedEarly():
            return f"is the last: {event.reason}"
        case BudgetReached():
            return (
                f"not begun: it would bring the epsilon of {event.of} to "
                f"{number(event.epsilon)}, above the budget of {number(event.budget)} (delta {number(event.delta)})"
            )


def _answered(event: Answered) -> str:
    """Only uploads are worth a line: the other messages of a round come before or after one."""
    if not event.sent.keys() & UPLOADS:
        return ""
    found = [f"{_round(event.round, None)} client {event.client} uploaded"]
    for name, epsilon in event.epsilons.items():
        found.append(f"epsilon of {name}: {number(epsilon)} (delta {number(event.deltas.get(name))})")
    return " ".join(found)


def measured(event: RoundFinished) -> list[str]:
    """What a round came to, a few words for each number."""
    found = [f"survivors {event.survivors}"]
    if event.refused:
        found.append(f"refused {event.refused}")
    if event.training_loss is not None:
        found.append(f"training loss: {number(event.training_loss)}")
    found += [f"{name}: {number(value)}" for name, value in event.metrics.items()]
    if event.epsilon is not None:
        covers = "" if event.epsilon_of == "updates" else f" of {event.epsilon_of}"
        found.append(f"epsilon{covers}: {number(event.epsilon)} (delta {number(event.delta)})")
    if event.evaluation_epsilon is not None:
        found.append(f"epsilon of inference vectors: {number(event.evaluation_epsilon)}")
    if event.composed_epsilon is not None:
        found.append(f"epsilon of both: {number(event.composed_epsilon)} (delta {number(event.composed_delta)})")
    return found


def measured_step(event: Stepped) -> list[str]:
    """What some steps came to."""
    found = []
    if event.loss is not None:
        found.append(f"loss: {number(event.loss)}")
    if event.epsilon is not None:
        found.append(f"epsilon: {number(event.epsilon)}")
    if event.speed is not None:
        found.append(f"{event.speed:.0f} {event.unit}/s")
    return found


def measured_epoch(event: EpochFinished) -> list[str]:
    """What an epoch came to."""
    found = [f"{name}: {number(value)}" for name, value in event.metrics.items()]
    mark = "" if event.epsilon is None else " (not covered by epsilon)"
    found += [f"{name}{mark}: {number(value)}" for name, value in event.local.items()]
    if event.epsilon is not None:
        found.append(f"epsilon: {number(event.epsilon)} (delta {number(event.delta)})")
    return found


def number(value: float | None) -> str:
    """Four digits. What was no number in the run was stored as nothing."""
    return "nan" if value is None else f"{value:.4g}"


def _round(number: int, rounds: int | None) -> str:
    return f"round {number + 1}" if rounds is None else f"round {number + 1}/{rounds}"

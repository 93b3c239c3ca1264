"""A claim of a Flower app: the mods of its ClientApp, run as they are (`tacit audit --flower APP`).

The mods get an update of the audit's own in place of the client's training, which lies beyond the clipping norm. So no
data is needed, and the model is a small one: what clips and what adds noise is the app's own code.

A claim of local differential privacy is about one upload of one client. It is read in two ways: for any two updates
(`replace-one`, the usual meaning: up to two clipping norms apart) and for an update or none (`zero-out`: one norm).
"""

from __future__ import annotations

import logging
import math
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.audit.claims.mechanism import check_probability
from tacit.audit.claims.samples import Effort, Measured, measure
from tacit.audit.claims.verdict import ClaimAudit, Recomputed, Row
from tacit.dp.claim import Claim
from tacit.dp.gaussian import gaussian_epsilon
from tacit.dp.release import Relation, check_positive

RELATIONS: tuple[Relation, ...] = ("zero-out", "replace-one")
_SHAPES = {"weight": (2, 3), "bias": (2,)}
_SIZE = 8
_FAR = 10.0  # clipping norms: every update of the audit is clipped
_UNKNOWN_CLIP = 1000.0  # length of the updates if no clipping norm is known
_METRIC = 0.125
_LONG = 1e6  # seconds that a message is valid
_FIRST_TRAINING = "train.default"

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LocalNoise:
    """What a `LocalDpMod` was given."""

    clip: float
    sensitivity: float
    epsilon: float
    delta: float

    @property
    def sigma(self) -> float:
        """As `LocalDpMod` computes it: the classical formula."""
        return self.sensitivity * math.sqrt(2 * math.log(1.25 / self.delta)) / self.epsilon


def component(app: str) -> tuple[str, Path | None]:
    """The `module:attribute` of a ClientApp, as given or from a folder's pyproject.toml, and that folder."""
    folder = Path(app)
    if not folder.is_dir():
        if ":" not in app:
            raise ValueError(f"--flower {app}: neither a folder with a pyproject.toml nor module:app")
        return app, None
    try:
        settings = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        named = settings["tool"]["flwr"]["app"]["components"]["clientapp"]
    except OSError as error:
        raise ValueError(f"--flower {app}: {folder / 'pyproject.toml'}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"--flower {app}: {folder / 'pyproject.toml'}: {error}") from error
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"--flower {app}: {folder / 'pyproject.toml'} names no clientapp in [tool.flwr.app.components]"
        ) from error
    if not (isinstance(named, str) and ":" in named):
        raise ValueError(f"--flower {app}: clientapp must be module:attribute, got {named!r}")
    return named, folder


def mods_of(app: Any) -> list[Callable[..., Any]]:
    """The mods around the training function of a ClientApp, the outermost first."""
    functions = getattr(app, "_registered_funcs", None)
    if functions is None or not hasattr(app, "_mods"):
        raise ValueError(f"this is no Flower ClientApp but a {type(app).__name__}: name the object that ClientApp made")
    trainings = [name for name in functions if name.startswith("train.")]
    if not trainings:
        return list(app._mods)
    inner = functions[_FIRST_TRAINING if _FIRST_TRAINING in functions else trainings[0]]
    mods = []
    while (code := getattr(inner, "__code__", None)) is not None and {"_mod", "_ffn"} <= set(code.co_freevars):
        cells = dict(zip(code.co_freevars, (cell.cell_contents for cell in inner.__closure__), strict=True))
        mods.append(cells["_mod"])  # as flwr.client.mod.utils.make_ffn nests them
        inner = cells["_ffn"]
    if len(mods) < len(app._mods):
        raise ValueError("the mods of this ClientApp cannot be read: this version of Flower is not known (1.41 is)")
    return mods


def local_noise(mods: list[Callable[..., Any]]) -> LocalNoise | None:
    """The parameters of the first mod that states clipping norm, sensitivity, epsilon and delta."""
    for mod in mods:
        stated = [getattr(mod, name, None) for name in ("clipping_norm", "sensitivity", "epsilon", "delta")]
        if all(isinstance(value, int | float) for value in stated):
            clip, sensitivity, epsilon, delta = (float(value) for value in stated if value is not None)
            for name, value in (("epsilon", epsilon), ("delta", delta)):
                check_positive(f"{type(mod).__name__}: {name}", value)
            return LocalNoise(clip, sensitivity, epsilon, delta)
    return None


def audit_mods(
    mods: list[Callable[..., Any]],
    *,
    subject: str,
    epsilon: float | None = None,
    delta: float | None = None,
    relation: Relation = "zero-out",
    confidence: float,
    effort: Effort,
) -> ClaimAudit:
    """Compare the ε of the mods with their parameters and with what they send. `relation` is the one that is judged."""
    if relation not in RELATIONS:
        raise ValueError(f"--relation of a client's upload is one of {', '.join(RELATIONS)}, got {relation}")
    noise = local_noise(mods)
    if not mods or (noise is None and (epsilon is None or delta is None)):
        raise ValueError(
            f"{subject} has no mod that states an ε, such as LocalDpMod: give the claim with --epsilon and --delta"
            if mods
            else f"{subject} has no mods: nothing is protected before it is sent, and no ε holds"
        )
    claimed = noise.epsilon if epsilon is None and noise else float(epsilon or 0)
    at = noise.delta if delta is None and noise else check_probability(float(delta or 0))
    order = [relation, *(each for each in RELATIONS if each != relation)]
    rows, seen = [], []
    for each in order:
        claim = Claim(claimed, at, "client", each)
        found = _measured(mods, noise, claim, confidence, effort if each == relation else effort.less())
        rows.append(Row(claim, _recomputed(noise, claim), found.bounds))
        seen.append(found)
    stated = "--epsilon, --delta" if epsilon is not None or noise is None else "LocalDpMod"
    return ClaimAudit(
        subject,
        stated,
        tuple(rows),
        confidence,
        _facts(noise, order, seen),
        _warnings(noise, rows, seen, mods),
        (
            "the app's own training: the mods were given updates of the audit's own",
            "several rounds: the claim is about one upload, and the ε of all uploads of a client is larger",
            "the server, which may see more than uploads",
        ),
    )


def _recomputed(noise: LocalNoise | None, claim: Claim) -> Recomputed | None:
    if noise is None:
        return None
    distance = noise.clip * (2 if claim.relation == "replace-one" else 1)
    how = f"clip {noise.clip:g}, so {distance:g} apart; σ {noise.sigma:.4g} from sensitivity {noise.sensitivity:g}"
    if noise.sigma <= 0:
        return Recomputed(math.inf, math.inf, f"{how}: no noise at all")
    epsilon = gaussian_epsilon(noise.sigma, claim.delta, distance) if claim.delta > 0 else math.inf
    return Recomputed(epsilon, epsilon, how)


def _measured(
    mods: list[Callable[..., Any]], noise: LocalNoise | None, claim: Claim, confidence: float, effort: Effort
) -> Measured:
    length = _UNKNOWN_CLIP if noise is None else _FAR * noise.clip
    far = np.full(_SIZE, length / math.sqrt(_SIZE))
    # An update of exactly 0 ends in a division by zero in Flower 1.41: one that is negligible stands for none.
    near = -far if claim.relation == "replace-one" else far * 1e-9
    one, other = uploads(mods, near), uploads(mods, far)
    with _quiet():
        return measure(
            lambda: _sent(one()),
            lambda: _sent(other()),
            epsilon=claim.epsilon,
            delta=claim.delta,
            gaussian=noise is not None and claim.delta > 0,
            confidence=confidence,
            effort=effort,
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """Flower logs two lines for each upload."""
    logger = logging.getLogger("flwr")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def uploads(mods: list[Callable[..., Any]], update: Vector, metric: float = 0.0) -> Callable[[], Any]:
    """A function whose every call asks the mods for a reply: training changed a model of zeros by `update`."""
    from flwr.app import Context, Message, MetricRecord, RecordDict
    from flwr.app.metadata import Metadata

    changed, received = _record(update), _record(np.zeros(_SIZE))

    def trained(message: Any, context: Any) -> Any:
        metrics = MetricRecord({"num-examples": 1, "loss": metric})
        return Message(RecordDict({"arrays": changed, "metrics": metrics}), reply_to=message)

    def around(mod: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
        return lambda message, context: mod(message, context, inner)

    call: Callable[..., Any] = trained
    for mod in reversed(mods):
        call = around(mod, call)
    metadata = Metadata(
        run_id=1,
        message_id="1",
        src_node_id=1,
        dst_node_id=2,
        reply_to_message_id="",
        group_id="1",
        created_at=time.time(),
        ttl=_LONG,
        message_type="train",
        src_task_id=1,
        dst_task_id=2,
    )

    def ask() -> Any:
        message = Message(RecordDict({"arrays": received}), metadata=metadata)
        reply = call(message, Context(run_id=1, node_id=2, node_config={}, state=RecordDict(), run_config={}))
        if reply.has_error():
            raise ValueError(f"a mod answers with an error: {reply.error.reason}")
        return reply

    return ask


def _record(values: Vector) -> Any:
    """The numbers as the arrays of a small layer."""
    from flwr.app import Array, ArrayRecord

    arrays, start = {}, 0
    for name, shape in _SHAPES.items():
        size = math.prod(shape)
        arrays[name] = Array(values[start : start + size].reshape(shape).astype(np.float32))
        start += size
    return ArrayRecord(arrays)


def _sent(reply: Any) -> Vector:
    parts = [part.ravel() for record in reply.content.array_records.values() for part in record.to_numpy_ndarrays()]
    if not parts:
        raise ValueError("a mod sends no arrays")
    return np.concatenate(parts).astype(np.float64)


def _facts(noise: LocalNoise | None, order: list[Relation], seen: list[Measured]) -> tuple[tuple[str, str], ...]:
    facts = []
    if noise is not None:
        facts.append(("clipping norm, stated", f"{noise.clip:g}"))
        facts.append(("sensitivity, stated", f"{noise.sensitivity:g}"))
        facts.append(("noise, from the parameters", f"{noise.sigma:.4g}"))
    for relation, found in zip(order, seen, strict=True):
        facts.append((f"distance of the mean uploads, measured ({relation})", f"{found.distance:.4g}"))
    facts.append(("noise, measured", f"{seen[0].sigma:.4g} (± {seen[0].sigma_error:.2g})"))
    facts.append(("uploads measured", f"{sum(found.samples for found in seen):,}"))
    return tuple(facts)


def _warnings(
    noise: LocalNoise | None, rows: list[Row], seen: list[Measured], mods: list[Callable[..., Any]]
) -> tuple[str, ...]:
    said = []
    if noise is not None and noise.sensitivity < noise.clip:
        said.append(
            f"the sensitivity {noise.sensitivity:g} is smaller than the clipping norm {noise.clip:g}: uploads may be "
            f"{2 * noise.clip:g} apart, so it must be {2 * noise.clip:g} for any two updates, or {noise.clip:g} for an "
            "update or none"
        )
    if noise is not None and noise.epsilon > 1:
        said.append("the formula of LocalDpMod, √(2 ln(1.25/δ)) / ε, is proved for ε up to 1 only")
    if noise is not None and seen[0].differs_from(noise.sigma):
        said.append(f"the noise is {seen[0].sigma:.4g} and not the {noise.sigma:.4g} that the parameters give")
    for other in rows[1:]:
        if rows[0].stands and not other.stands:
            said.append(f"for {other.claim.relation} the claim is {other.verdict}: judge it with --relation")
    with _quiet():
        metrics = uploads(mods, np.full(_SIZE, 1e-3), _METRIC)().content.metric_records
    if any(_METRIC in record.values() for record in metrics.values()):
        said.append("metrics of the reply, such as a loss, are sent as they are: no ε covers them")
    return tuple(said)

"""How updates and inference vectors leave a client: one file for each protection.

    contract                what a protection is
    in_the_clear            NOT_ENCRYPT
    local_dp                DP_ENCRYPT
    secure_aggregation      PW_ENCRYPT
    distributed_dp          DDP_ENCRYPT
    vectors_in_the_clear    privacy_eval_type: NOT_ENCRYPT
    vectors_laplace         privacy_eval_type: LAPLACE

An installed package adds one with an entry point of the group `tacit.protections`, whose name is that in a file and
whose object is a `contract.Protection`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from tacit.dp.release import Event
from tacit.kinds.horizontal.protections.contract import Price, Protection, VectorProtection

if TYPE_CHECKING:
    from tacit.kinds.horizontal.settings import Settings

GROUP = "tacit.protections"
CLEAR: Final = "NOT_ENCRYPT"  # what every attack is compared with
CLIPPING: Final = "DP_ENCRYPT"  # what shows that clipping without noise hides nothing
MASKS: Final = "PW_ENCRYPT"  # what attacks on noise inside masks are compared with
_HERE = "tacit.kinds.horizontal.protections"
_UPDATES = {
    CLEAR: "in_the_clear",
    CLIPPING: "local_dp",
    MASKS: "secure_aggregation",
    "DDP_ENCRYPT": "distributed_dp",
}
_VECTORS = {CLEAR: "vectors_in_the_clear", "LAPLACE": "vectors_laplace"}
_found: dict[str, Protection] = {}
_ALL = ("name", "label", "summary", "section", "protects", "promises")
_OF_UPDATES = (*_ALL, "masked", "weighted", "hides_failure", "inversions")


@cache
def _installed() -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=GROUP)}


def is_known(name: str) -> bool:
    """Whether a protection of updates has this name. Nothing is imported."""
    return name in _UPDATES or name in _installed()


def names() -> list[str]:
    """Of all protections of updates, the built-in ones first."""
    return [*_UPDATES, *(name for name in sorted(_installed()) if name not in _UPDATES)]


def names_with(attribute: str) -> list[str]:
    """Of those that say yes to one of `protects`, `promises`, `masked`, `weighted`, ..."""
    return [name for name in names() if getattr(find(name), attribute)]


def one_of(attribute: str) -> str:
    """The same for a sentence: "PW_ENCRYPT or DDP_ENCRYPT"."""
    return " or ".join(names_with(attribute))


def find(name: str) -> Protection:
    """The protection of updates of this name. ValueError, in a sentence, where there is none that can be used."""
    if name not in _found:
        _found[name] = cast("Protection", _built_in(_UPDATES[name])) if name in _UPDATES else _offered(name)
        if name not in _UPDATES:
            try:
                _check_price(_found[name])
            except ValueError:
                del _found[name]
                raise
    return _found[name]


def _offered(name: str) -> Protection:
    """By an installed package."""
    if taken := sorted(_installed().keys() & _UPDATES.keys()):
        raise ValueError(
            f"an installed package offers the protection {taken[0]} ({_installed()[taken[0]].value}), which is built "
            "in: uninstall it"
        )
    if name not in _installed():
        raise ValueError(f"no protection is named {name!r}: take one of {', '.join(names())}")
    return _checked(_installed()[name])


def find_vectors(name: str) -> VectorProtection:
    """The protection of inference vectors of this name."""
    return cast("VectorProtection", _built_in(_VECTORS[name]))


def _built_in(module: str) -> Any:
    # By name, so that none is loaded before it is asked for, and none is part of what others import.
    return import_module(f"{_HERE}.{module}").PROTECTION


def _checked(entry: EntryPoint) -> Protection:
    """What an installed package offers, if it is a protection."""
    try:
        found: object = entry.load()
    except Exception as error:
        raise ValueError(f"the protection {entry.name} cannot be loaded from {entry.value}: {error}") from error
    if not isinstance(found, type) and Protection in type(found).__mro__:
        protection = cast("Protection", found)
        lacking = [attribute for attribute in _OF_UPDATES if not hasattr(protection, attribute)]
        if lacking:
            raise ValueError(f"the protection {entry.name} ({entry.value}) does not say its {', '.join(lacking)}")
        if protection.name != entry.name:
            raise ValueError(
                f"the protection {entry.name} ({entry.value}) calls itself {protection.name}: give it one name"
            )
        return protection
    raise ValueError(
        f"{entry.value}, offered as the protection {entry.name}, is none: it must be an object whose class inherits "
        "from tacit.kinds.horizontal.protections.contract.Protection"
    )


def _check_price(protection: Protection) -> None:
    """Refuse a promise without a price when it is found, as far as an example tells: `price_of` tells for each file."""
    from tacit.kinds.horizontal.settings import Settings

    example = Settings(task="digits", rounds=1, clients=10)
    try:
        options = {} if protection.options is None else protection.options().model_dump(mode="json")
        encrypt = example.encrypt.model_copy(update={"encrypt_type": protection.name, "options": options})
        settings = example.model_copy(update={"encrypt": encrypt})
        price = protection.price(settings, 1)
    except ValueError:  # it asks for keys, or for more clients than the example has
        return
    _check_promise(protection, price)


def options_of(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The keys under encrypt.options with the protection's own defaults. ValueError where they do not fit it."""
    model = find(name).options
    if model is None:
        if given:
            raise ValueError(f"options has keys, and {name} takes none: leave it out")
        return given
    try:
        return model.model_validate(given).model_dump(mode="json")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"encrypt.options{'.' * bool(key)}{key}, of {name}: {first['msg']}") from None


def protections_of(settings: Settings) -> tuple[Protection, VectorProtection]:
    """Of updates, and of inference vectors."""
    return find(settings.encrypt.encrypt_type), find_vectors(settings.encrypt.privacy_eval_type)


def price_of(protection: Protection | VectorProtection, settings: Settings, size: int) -> Price:
    """What a round costs under a protection. A promise without a price is refused, and a price without a promise."""
    price = protection.price(settings, size)
    _check_promise(protection, price)
    return price


def is_built_in(name: str) -> bool:
    """Whether a protection of updates is one of this package."""
    return name in _UPDATES


def check_offered(protection: Protection, settings: Settings) -> None:
    """Refuse a protection from outside that would let something out of a client unlisted, or promise what no audit can
    refute. The built-in ones are held to the same by tests."""
    if is_built_in(protection.name):
        return
    due = ("Masked", "words") if protection.masked else ("Update", "vector")
    if due not in {(release.message, release.field) for release in protection.releases(settings)}:
        raise ValueError(f"{protection.name} does not list {'.'.join(due)} among its releases: it must say what leaves")
    if not protection.promises:
        return
    if not protection.tests(settings):
        raise ValueError(
            f"{protection.name} promises an epsilon, and offers no test of its noise: nothing could refute the promise"
        )
    if protection.claim(settings) is None:
        raise ValueError(f"{protection.name} promises an epsilon, and states no claim: say what is proved of a round")
    if protection.masked and protection.minimum(settings) is None:
        raise ValueError(
            f"{protection.name} promises an epsilon of sums, and has no minimum: say for how many survivors its noise "
            "is sized"
        )


def lacking(mechanism: object, seam: type) -> str:
    """What a mechanism lacks of its seam, in words."""
    names = [name for name in vars(seam) if not name.startswith("_") and not hasattr(mechanism, name)]
    return f"its mechanism, a {type(mechanism).__name__}, has no {', '.join(sorted(names))}"


def _check_promise(protection: Protection | VectorProtection, price: Price) -> None:
    if protection.promises and not price:
        raise ValueError(f"{protection.name} promises an epsilon, and its price is empty: nothing may be released so")
    if price and not protection.promises:
        raise ValueError(f"{protection.name} has a price, and says that it promises no epsilon: it must say so")
    if price.local and getattr(protection, "masked", False):
        raise ValueError(f"{protection.name} has a price of what leaves a client by itself, and its updates are masked")
    if price.central and not getattr(protection, "masked", False):
        raise ValueError(f"{protection.name} has a price of sums, and opens none: its price is of what leaves a client")


def check_paid(event: Event | None, paid: tuple[Event, ...], what: str) -> None:
    """Raise ValueError unless the event of a release is one that the client has paid for: then nothing leaves."""
    if event in paid if paid else event is None:
        return
    due = " or ".join(map(str, paid)) or "nothing"
    raise ValueError(f"{what} would cost {event or 'nothing'}, and its price says {due}: it is not sent")

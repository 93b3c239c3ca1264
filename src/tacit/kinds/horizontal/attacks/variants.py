"""The settings of a file as attacks need them: another size, one round, no budget.

of_scene        its protection for a federation of another size, as a file would have it
one_round       one round as the file has it
same_clients    few clients, all of them in each round
few_sampled     few clients, all but one of them in a round, with the file's cap on participations
unlimited       without a budget, and with noise from the operating system
without_privacy without private training at the clients: for what is asked of the protection of updates
"""

from __future__ import annotations

from typing import Any

from tacit.audit.scope import Scope
from tacit.kinds.horizontal.protections import CLEAR
from tacit.kinds.horizontal.protections.contract import Price
from tacit.kinds.horizontal.settings import Settings

_SUBTRACTED = 10, 20  # clients whose sums are subtracted, quickly and in full


def of_scene(settings: Settings, price: Price) -> dict[str, Any]:
    """The section `encrypt` for a federation of another size: the epsilon of one round."""
    encrypt: dict[str, Any] = _with_room(without_vectors(settings.model_dump()["encrypt"]))
    encrypt["pw_encrypt"] |= {"reconstruct_secrets_threshold": None, "colluders": None, "collusion": False}
    encrypt["pw_encrypt"] |= {"mode": "semi_honest", "graph": "auto"}
    encrypt["ddp_encrypt"] |= {"n_min": None}
    return _at_one_round(encrypt, settings, price)


def one_round(settings: Settings, price: Price, scope: Scope) -> Settings:
    """One round as the file has it, with noise that can be drawn again, and nobody who drops out."""
    data = settings.model_dump()
    data |= {"rounds": 1, "budget": None, "unsupervised": None, "engine": {}}
    data["simulation"] = {"insecure_noise_seed": scope.number("own round")}
    data["encrypt"] = _at_one_round(without_vectors(data["encrypt"]), settings, price)
    data["encrypt"]["pw_encrypt"]["mode"] = "semi_honest"  # what is masked is the same; signatures take time
    return Settings.model_validate(data)


def same_clients(settings: Settings, scope: Scope) -> Settings:
    """The file with few clients, all of them in each round, and what is opened of a round as the file has it."""
    data = settings.model_dump()
    data |= {"clients": min(settings.sampled, scope.pick(*_SUBTRACTED)), "unsupervised": None, "engine": {}}
    data["rounds"] = settings.most_sums  # for which the noise of the file is sized, with a cap on participations
    data["round"] |= {"start_fl_job_threshold": None, "over_select": 1.0, "participations": None}
    data["encrypt"] = _with_room(without_vectors(data["encrypt"]))
    data["encrypt"]["pw_encrypt"] |= {"reconstruct_secrets_threshold": None, "mode": "semi_honest", "graph": "auto"}
    data["encrypt"]["ddp_encrypt"] |= {"n_min": None, "colluders": None}
    data["simulation"] = {"insecure_noise_seed": scope.number("sums subtracted")}
    return Settings.model_validate(data)


def few_sampled(settings: Settings, scope: Scope) -> Settings:
    """The file with few clients, a round of all but one of them, and as many participations of each as in the file."""
    data = settings.model_dump() | {"budget": None, "unsupervised": None, "engine": {}, "simulation": {}}
    few = min(settings.sampled, scope.pick(*_SUBTRACTED))
    most = settings.round.participations or settings.rounds
    data |= {"clients": few + 1, "rounds": most}  # no fewer than the cap: the clients are asked for more of them
    data["round"] |= {"start_fl_job_threshold": few, "over_select": 1.0, "abandoned_rounds": most + 10}
    data["round"] |= {"least_difference": None}
    data["encrypt"] = _with_room(without_vectors(data["encrypt"]))
    data["encrypt"]["pw_encrypt"] |= {"reconstruct_secrets_threshold": None, "mode": "semi_honest", "graph": "auto"}
    data["encrypt"]["pw_encrypt"] |= {"colluders": None, "collusion": False}
    data["encrypt"]["ddp_encrypt"] |= {"n_min": None}
    return Settings.model_validate(data)


def unlimited(settings: Settings) -> Settings:
    """Without a budget, and with noise from the operating system as in a real run."""
    data = settings.model_dump() | {"budget": None, "engine": {}, "unsupervised": None, "simulation": {}}
    data["encrypt"] = without_vectors(data["encrypt"])
    data["encrypt"]["dp_encrypt"]["dp_delta"] = settings.delta
    return Settings.model_validate(data)


def without_privacy(settings: Settings) -> Settings:
    """Without private training at the clients."""
    data = settings.model_dump()
    data["train"].pop("privacy", None)
    return Settings.model_validate(data)


def protected_by(name: str, encrypt: dict[str, Any]) -> dict[str, Any]:
    """A section `encrypt` with another protection of updates: options, bits and clip are those of the first alone."""
    found = {key: value for key, value in encrypt.items() if key != "options"} | {"encrypt_type": name}
    if name != encrypt["encrypt_type"] and "pw_encrypt" in encrypt:
        found["pw_encrypt"] = encrypt["pw_encrypt"] | {"bits": None, "clip": None}
    return found


def _with_room(encrypt: dict[str, Any]) -> dict[str, Any]:
    """A section `encrypt` for another number of clients, whose noise the ring of the file's bits may not hold."""
    few = isinstance(encrypt["pw_encrypt"].get("bits"), int) and encrypt["pw_encrypt"].get("clip") is None
    return encrypt | {"pw_encrypt": encrypt["pw_encrypt"] | {"bits": "exact"}} if few else encrypt


def without_vectors(encrypt: dict[str, Any]) -> dict[str, Any]:
    """A section `encrypt` for a federation whose clients infer nothing."""
    return encrypt | {"privacy_eval_type": CLEAR, "laplace_eval": None}


def _at_one_round(encrypt: dict[str, Any], settings: Settings, price: Price) -> dict[str, Any]:
    """With the keys of the protection's own section at one round's price."""
    updates = settings.updates
    if not updates.section:
        return encrypt
    return encrypt | {updates.section: encrypt.get(updates.section, {}) | updates.one_round(settings, price)}

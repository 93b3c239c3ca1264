"""One party's part in lock step over a network, before it joins."""

from __future__ import annotations

from tacit.boundary import Boundary
from tacit.lockstep.parties import Parties
from tacit.report.forecast import Forecast, PartyForecast
from tacit.report.party_forecast import Own, account, certified, counted, nothing_paid, task_options


def party_forecast(settings: Parties, own: Own, boundary: Boundary, whole: Forecast) -> PartyForecast:
    """What `tacit join` will make of the file for this party."""
    role = settings.parties[own.name].role
    hub = settings.hub
    address = own.local.coordinator or settings.parties[hub].address
    place = f"at {address}" if address else f"whose address the file does not name: add address: HOST:PORT to {hub}"
    found = [f"It is {role}, and joins with tacit join FILE --party {own.name}."]
    if own.name == hub:
        found.append(f"It listens on {own.local.bind or address or 'an address that the file does not name'}.")
    else:
        found.append(f"It connects to {hub}, {place}.")
    found.append(certified(own))
    said = [(each, f"{each.message}.{each.field}: {each.what}, {each.protection}.") for each in boundary.releases]
    sent = tuple(sentence for each, sentence in said if each.sender == role)
    received = tuple(sentence for each, sentence in said if each.receiver == role)
    parts: dict[str, tuple[str, ...]] = {
        f"{own.name}, over the network": tuple(found),
        "Its own data": (_table(settings, own),),
    }
    _, accounts = counted(own)
    if own.state is not None:
        parts["What it paid so far"] = tuple(account(each) for each in accounts) or (nothing_paid(own),)
    parts |= {f"What leaves {own.name}": sent, f"What {own.name} receives": received}
    return PartyForecast(own.name, parts, whole)


def _table(settings: Parties, own: Own) -> str:
    if not settings.brings_data(own.name):
        return "It has none, and needs none."
    if own.local.data is not None:
        return f"Its table is {own.local.data.get('path', 'not named')}, as its local file says."
    shared = settings.model_dump(include={"data", "task", "task_options"})
    if (given := shared.get("data", {}).get(own.name)) is not None:
        return f"Its table is {given['path']}, as the shared file says."
    if (task := shared.get("task")) is not None:
        return task_options(task, shared["task_options"], own)
    return "No table is named: add data: {path: FILE, id: COLUMN} to its local file."

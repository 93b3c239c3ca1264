"""What is said of certificates before they expire, how often, and that a changed list is noticed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tacit.net import upkeep
from tacit.net.identity import Authority, Identity
from tacit.net.revocation_list import RevocationList, Revoked
from tacit.net.upkeep import Upkeep, own_warnings, peers_warning
from tests.net.loopback import certified, quickly

NOW = datetime.now(UTC)


def peer(name, days):
    return Identity(name, b"", NOW + timedelta(days=days, hours=1), "", 1)


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (0, []),
        (19, []),
        (20, ["the certificate of client-3 expires in 29 days, on "]),
        (49, ["the certificate of client-3 expires in 0 days, on "]),
        (51, ["the certificate of client-3 expired on ", "the authority's certificate expires in 28 days, on "]),
    ],
)
def test_a_party_is_warned_thirty_days_ahead(later, said):
    authority = Authority.create(days=80, now=NOW)
    own = certified(authority, "client-3", days=50, now=NOW)
    found = own_warnings(own, NOW + timedelta(days=later, hours=1))
    assert len(found) == len(said)
    for line, start in zip(found, said, strict=True):
        assert line.startswith(start)


def test_the_coordinator_hears_how_many_and_which_is_first():
    assert peers_warning([]) is None
    assert peers_warning([peer("client-1", 31), peer("client-2", 400)]) is None
    one = peers_warning([peer("client-1", 31), peer("client-2", 3)])
    day = f"{NOW + timedelta(days=3, hours=1):%Y-%m-%d}"
    assert one == f"the certificate of 1 party expires within 30 days, first that of client-2 on {day}"
    many = peers_warning([peer("client-1", 29), peer("client-2", 3), peer("client-7", -1), peer("client-8", 90)])
    assert many.startswith("the certificates of 3 parties expire within 30 days, first that of client-7 on")


def test_it_is_said_at_the_start_and_once_a_day(monkeypatch):
    monkeypatch.setattr(upkeep, "_LOOK", 0.001)

    async def scenario(day):
        monkeypatch.setattr(upkeep, "_DAY", day)
        said = []
        made = Upkeep(_expiring(), said.append, _nothing, lambda: [peer("client-1", 3)])
        running = asyncio.create_task(made.run())
        made.warn_of_peers()
        made.warn_of_peers()
        for _ in range(200):
            await asyncio.sleep(0.001)
            if len(said) > 6:
                break
        running.cancel()
        return said

    once = quickly(scenario(86_400.0))
    assert len(once) == 2  # of itself, and of the peers
    often = quickly(scenario(0.0))
    assert len(often) > 6


def _expiring():
    authority = Authority.create()
    return certified(authority, "client-3", days=10)


async def _nothing() -> None: ...


def test_a_failure_is_said_once_and_does_not_end_it(monkeypatch):
    monkeypatch.setattr(upkeep, "_LOOK", 0.001)

    async def scenario():
        own, said, changed, left = certified(Authority.create(), "client-3"), [], asyncio.Event(), [1, 2, 3]

        def read(say):
            if left:
                left.pop()
                raise OSError("No space left on device")
            return True

        async def heard():
            changed.set()

        own.revocations.read = read
        running = asyncio.create_task(Upkeep(own, said.append, heard).run())
        await changed.wait()
        running.cancel()
        return said

    assert quickly(scenario()) == [
        "the certificates and the revocation list could not be looked after: No space left on device"
    ]


def test_a_party_that_runs_hears_that_its_own_certificate_was_revoked(monkeypatch):
    """Others refuse it from then on, without a word to a coordinator that no client connects to any more."""
    monkeypatch.setattr(upkeep, "_LOOK", 0.001)
    authority = Authority.create()
    own = certified(authority, "coordinator")
    found, empty = own.identify(own.certificate), authority.revoke(RevocationList(), [])
    newer = authority.revoke(empty, [Revoked(found.serial, found.fingerprint, NOW, "key-compromise")])

    async def scenario():
        said = []
        running = asyncio.create_task(Upkeep(own, said.append, _nothing).run())
        for made in (empty, newer, authority.revoke(newer, [])):
            own.revocations.take(made.data)
            await asyncio.sleep(0.05)
        running.cancel()
        return said

    said = quickly(scenario())
    assert [each.partition(" on ")[0] for each in said] == 2 * ["the certificate of coordinator was revoked"]
    assert "(key compromise) (revocation list 2 of" in said[0]


def test_a_list_that_changed_is_noticed_and_nothing_happens_without_certificates():
    async def scenario():
        changed = asyncio.Event()
        own = certified(Authority.create(), "client-3")

        async def heard():
            changed.set()

        own.revocations.read = lambda say: True
        running = asyncio.create_task(Upkeep(own, print, heard).run())
        await changed.wait()
        running.cancel()
        await Upkeep(None, print, heard).run()

    quickly(scenario())

"""What a party of a training on shares refuses to believe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tacit.channel import Recorder, run_parties
from tacit.errors import BudgetError, PeerError
from tacit.events import Noted, Nowhere
from tacit.kinds.vertical_logistic import shared_party
from tacit.kinds.vertical_logistic.party import party, predictor
from tacit.kinds.vertical_logistic.settings import Settings
from tacit.kinds.vertical_logistic.shared.messages import Revealed, Sizes
from tacit.lockstep.resumption import Held, agreed_session
from tacit.lockstep.run import Place
from tacit.oblivious import Hidden
from tests.kinds.vertical_logistic.shared_tables import of_tables
from tests.subprocesses import HANGS


@pytest.mark.parametrize("rows", [0, 1, 1 << 33])
def test_the_dealer_blames_the_active_for_a_number_of_rows_that_cannot_be(tmp_path, rows):
    settings = of_tables(tmp_path, 1)
    found = []

    def active(channels):
        agreed_session(channels, settings.active, settings.active, Held(b"", False))
        channels[settings.dealer].send(Sizes(rows, 1))
        with pytest.raises(PeerError):
            channels[settings.dealer].recv(Sizes, 100)

    def dealer(channels):
        with pytest.raises(PeerError) as error:
            party(settings, settings.dealer, Place(None, Nowhere()))(channels)
        found.append(str(error.value))
        channels[settings.active].close()

    def passive(channels):
        agreed_session(channels, "shop0", settings.active, Held(b"", False))

    run_parties({settings.active: active, settings.dealer: dealer, "shop0": passive}, patience=HANGS)
    assert f"bank tells of {rows} rows" in found[0]


@pytest.mark.parametrize(("rate", "told"), [(3000.0, True), (1000.0, False)])
def test_two_parties_are_told_of_parts_that_only_together_are_beyond_the_lookup(tmp_path, rate, told):
    """Each column is the label as -1 or 1: one step makes each part rate / 2, and a score the rate; 2032 wraps."""
    for name in ("bank", "shop"):
        lines = [f"p{row},{f'{row % 2},' * (name == 'bank')}{2 * (row % 2) - 1}" for row in range(100)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"id,{'y,' * (name == 'bank')}x", *lines]))
    settings = Settings.model_validate(
        {
            "helper": "none",
            "parties": {"bank": {"role": "active"}, "shop": {"role": "passive"}},
            "data": {name: {"path": str(tmp_path / f"{name}.csv")} for name in ("bank", "shop")},
            "train": {"epochs": 1, "batch": 100, "learning_rate": rate, "test": 0},
            "align": False,
        }
    )
    noted = []

    class Sink(Nowhere):
        def emit(self, event):
            if isinstance(event, Noted):
                noted.append(event.text)

    run_parties({me: party(settings, me, Place(None, Sink())) for me in settings.parties}, patience=HANGS)
    said = [text for text in noted if "its part of a score reaches" in text]
    assert len(said) == 2 * told
    assert all("up to 1016 of each party" in text for text in said)


@pytest.fixture
def asked(tmp_path):
    """Train between two parties; a function that predicts the same rows, each party by its own file.

    It returns what the active is told, or the error of the first party that raised one, and what the passive sent that
    tells of scores.
    """
    settings = of_tables(tmp_path, 1, align=False, dealer=False, rows=200)
    parts = run_parties({name: party(settings, name, Place(None, Nowhere())) for name in settings.parties})

    def ask(**files):
        sent = []

        def take_part(name):
            own = Settings.model_validate(settings.model_dump() | {"predict": files.get(name, {})})
            work = predictor(
                own, name, parts[name].model, tmp_path / f"{name}.csv", Place(None, Nowhere(), part=tmp_path)
            )

            def live(channels):
                recorded = {other: Recorder(channel) for other, channel in channels.items()}
                try:
                    return work(recorded)
                finally:
                    if name != settings.active:
                        sent.extend(
                            m for each in recorded.values() for m in each.sent if isinstance(m, Hidden | Revealed)
                        )

            return live

        try:
            told = run_parties({name: take_part(name) for name in settings.parties}, patience=HANGS)["bank"]
        except (PeerError, BudgetError) as error:
            told = error
        return told, sent

    return ask


def test_the_passive_of_two_answers_within_its_budget_also_after_a_restart(asked):
    files = {"bank": {"budget": 10**6}, "shop0": {"budget": 450}}
    for _ in range(2):  # each is a new process as far as the passive knows: it reads its folder
        told, sent = asked(**files)
        assert len(told.rows) == 200
        assert sent
    told, sent = asked(**files)
    assert isinstance(told, BudgetError)
    assert "450 rows with one model: 400 are answered" in str(told)
    assert not sent


@pytest.mark.parametrize(
    "wanted", [{"release": "exact"}, {"release": "points"}, {"release": "decision"}, {"threshold": 0.9}]
)
def test_the_active_of_two_is_told_no_more_than_the_passives_file_releases(asked, wanted):
    told, sent = asked(bank=wanted)
    assert isinstance(told, PeerError)
    assert not sent


@pytest.mark.parametrize("changes", [{"pdo": 2000.0}, {"points": 601.0}])
def test_the_scale_of_points_is_that_of_both_files(asked, changes):
    told, sent = asked(bank={"release": "points", **changes}, shop0={"release": "points"})
    assert "other terms" in str(told)
    assert not sent


def test_an_active_that_claims_to_have_asked_for_a_tenth_gets_no_exact_score(asked, monkeypatch):
    """It changes the terms that it computes with, and sends the thresholds of the file."""
    real = shared_party.releases_of

    def changed(settings, *given):
        made = real(settings, *given)
        return replace(made, release="exact") if settings.predict.budget == 1 else made

    monkeypatch.setattr(shared_party, "releases_of", changed)
    told, sent = asked(bank={"budget": 1})
    assert "other terms" in str(told)
    assert not sent

"""The pages made of runs: their numbers, what a shared one leaves out, and that text stays text."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

import tacit
from tacit import events
from tacit.dp.accounting import Ledger, reading, strength
from tacit.kinds.horizontal.costs import Costs
from tacit.kinds.horizontal.report.promises import promises
from tacit.kinds.horizontal.report.scores import loss, pairs
from tacit.kinds.horizontal.rounds_view import rounds_of
from tacit.kinds.horizontal.settings import Settings
from tacit.report.correlation import correlation, mean_relative_difference
from tacit.report.numbers import duration, numbered, short
from tacit.report.promises import explained, promise, promised
from tacit.runs.report import read_run, report_run, write_report
from tacit.store.reading import Account
from tests.report.sample_runs import DDP, LAPLACE, LOCAL, UPDATES, VECTORS, evaluated, finished, settings, whole, write

NASTY = "<script>alert(1)</script><img src=x onerror='a'>\"' onload=\"b &amp; \x00\x1b\u202e\ud800 {}%s"
SCORED = {"unsupervised": {"cluster_client_num": 5}}
VOID = {"meta"}


class Page(HTMLParser):
    """A page as a browser takes it apart. Fails where elements do not nest."""

    def __init__(self, path):
        super().__init__()
        self.source = Path(path).read_text(encoding="utf-8")
        self.open, self.elements, self.words, self.headings = [], [], [], []
        self.feed(self.source)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)
        if self.open and self.open[-1] in ("h2", "h3"):
            self.headings.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def cards(self):
        found = re.findall(r'<p class="label">(.*?)</p><p class="value[^"]*">(.*?)</p>', self.source)
        return dict(found)


def protected(tmp_path, **changed):
    made = settings(encrypt=DDP, **SCORED, **changed)
    return write(tmp_path, made, whole(made, training_loss=None), [UPDATES, VECTORS])


def unprotected(tmp_path, **changed):
    made = settings(**SCORED, **changed)
    return write(tmp_path, made, whole(made, epsilon=None, delta=None, evaluation_epsilon=None), [])


# --- one run


def test_the_cards_give_the_numbers_of_the_run(tmp_path):
    page = Page(report_run(protected(tmp_path)))
    assert page.cards() == {
        "Accuracy": "75.0%",
        "Loss": "1.75",
        "ε of updates": "2.5",
        "ε of inference vectors": "5.53×10⁷",
        "Rounds": "4 of 6",
        "Survivors": "7",
        "Time": "5.36 min",
    }
    assert "distributed differential privacy · inference results with Laplace noise · 10 clients · 650 params" in (
        page.text.replace("parameters", "params")
    )


def test_it_says_what_epsilon_holds_for_whom_and_what_it_allows(tmp_path):
    text = Page(report_run(protected(tmp_path))).text
    assert "ε of the updates: 2.5 at δ = 10⁻⁵ — a fair promise. It holds for each client, for leaving its" in text
    allowed = float(re.search(r"in the sums, an attacker is right at most ([0-9.]+)% of the time", text)[1])
    assert 50 < allowed < 100 * reading(2.5, 1e-5).accuracy  # the whole ledger bounds him, not one point of it
    assert "ε of the inference vectors: 5.526×10⁷ at δ = 0 — hides nothing." in text
    assert "noise of scale 2/ε = 8.69×10⁻⁶" in text
    assert "skellam" in text
    assert "variance 9.183×10⁶" in text


def test_what_happened_is_there(tmp_path):
    text = Page(report_run(protected(tmp_path))).text
    assert "why rounds 2 survivors of 5 needed 4" in text
    assert "why rounds only one lump 1" in text
    assert "5 its shares are torn" in text
    assert "fitting 41.1 41.1 67.2%" in text
    assert "wound down slowly" in text
    assert "tacit run config.yaml" in text
    assert "The coordinator also relays keys and sealed shares" in text
    assert "at most 1 of the 10 clients that work with it (pw_encrypt.colluders)" in text
    assert "sealed for other clients (AES-GCM)" in text
    assert "cluster_client_num: 5" in text


def test_figures_say_whether_epsilon_covers_them(tmp_path):
    source = Page(report_run(protected(tmp_path))).source
    chips = dict(re.findall(r'<h3>([^<]*)</h3><span class="chip \w+">([^<]*)</span>', source))
    assert chips == {
        "Accuracy": "covered by ε",
        "Loss": "covered by ε",
        "Size of the update": "covered by ε",
        "Score": "covered, but ε hides nothing",
        "Score against loss": "covered, but ε hides nothing",
        "Survivors": "not covered by ε",
        "Time": "not covered by ε",
        "Traffic": "not covered by ε",
    }
    source = Page(report_run(unprotected(tmp_path))).source
    assert 'class="chip covered"' not in source
    assert "<h3>Training loss</h3>" in source


def test_each_figure_is_a_file_too(tmp_path):
    path = protected(tmp_path)
    report_run(path)
    names = {each.stem for each in (path / "plots").iterdir()}
    assert names == {
        "metric-1-accuracy",
        "metric-2-loss",
        "update-norm",
        "score",
        "score-loss",
        "epsilon-updates",
        "epsilon-vectors",
        "survivors",
        "stages",
        "bytes",
    }
    for each in (path / "plots").iterdir():
        assert ElementTree.fromstring(each.read_bytes()).tag.endswith("svg")  # noqa: S314 - our own output


def test_the_page_needs_nothing_else(tmp_path):
    page = Page(report_run(protected(tmp_path)))
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"script", "link", "img", "iframe", "object"}
    for tag, attributes in page.elements:
        links = [attributes.get("href"), attributes.get("src")]
        assert all(link is None or link.startswith("#") for link in links), tag
    assert "http" not in page.source.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "url(" not in page.source
    anchors = {attributes["href"][1:] for tag, attributes in page.elements if tag == "a"}
    assert anchors == {attributes["id"] for tag, attributes in page.elements if tag == "h2"}


def test_the_same_run_gives_the_same_page(tmp_path):
    path = protected(tmp_path)
    first = report_run(path).read_bytes()
    assert report_run(path).read_bytes() == first


def test_noise_from_a_seed_is_said_loudly(tmp_path):
    made = settings(encrypt=LOCAL, simulation={"insecure_noise_seed": 3})
    path = write(tmp_path, made, whole(made), [{**UPDATES, "view": "local"}])
    page = Page(report_run(path))
    assert "ε = ∞: this run protects nothing" in page.text
    assert page.cards()["ε of updates"] == "∞"
    assert "2.5 at δ" not in page.text
    assert 'class="chip covered"' not in page.source
    shared = Page(write_report([path], share=True))
    assert "ε = ∞: this run protects nothing" in shared.text
    assert "75.0%" not in shared.text


def test_no_protection_is_said(tmp_path):
    page = Page(report_run(unprotected(tmp_path)))
    assert page.cards()["ε"] == "none"
    assert "Nothing that leaves a client has an ε" in page.text
    assert "the coordinator can reconstruct training samples" in page.text


def test_a_run_without_rounds_is_said_to_have_none(tmp_path):
    made = settings(encrypt=DDP, **SCORED)
    page = Page(report_run(write(tmp_path, made, whole(made)[:1])))
    assert "No round was finished" in page.text
    assert "running, or cut off" in page.text
    assert "Nothing was released with an ε yet." in page.text
    assert page.cards()["Rounds"] == "0 of 6"


def test_a_spent_budget_and_a_resumption_are_said(tmp_path):
    made = settings(encrypt=LOCAL, budget={"epsilon": 4, "delta": 1e-5})
    happened = [*whole(made)[:-1], events.RunResumed(5, False), events.BudgetReached(5, 4.125, 4.0, 1e-5)]
    text = Page(report_run(write(tmp_path, made, happened, []))).text
    assert (
        "Round 6 was not begun: it would have brought the ε of updates to 4.125, above the budget of 4 at δ = 10⁻⁵."
        in text
    )
    assert "The run was resumed once" in text


def test_one_ledger_for_updates_and_vectors(tmp_path):
    made = settings(encrypt={**LOCAL, **LAPLACE}, **SCORED)
    lines = [{"kind": "gaussian", "count": 4, "noise_multiplier": 10.0}, {"kind": "pure", "count": 4, "epsilon": 0.25}]
    both = {**VECTORS, "covers": ["updates", "inference vectors"], "lines": lines, "epsilon": 77.5, "delta": 1e-5}
    record = rounds_of(read_run(write(tmp_path, made, whole(made), [both])))
    updates, vectors, together = promises(record)
    # Four times noise of 10 sensitivities is one of 5.
    assert (updates.what, updates.delta) == ("updates", 1e-5)
    assert updates.epsilon == pytest.approx(Ledger.from_json(one_gaussian(5.0)).epsilon(1e-5), rel=1e-3)
    assert (vectors.what, vectors.epsilon, vectors.delta) == ("inference vectors", 1.0, 0.0)
    assert (together.what, together.epsilon, together.delta) == ("updates and inference vectors", 77.5, 1e-5)
    assert "ε of the updates and inference vectors" in Page(report_run(record.path)).headings


def one_gaussian(noise_multiplier):
    line = {"kind": "gaussian", "count": 1, "noise_multiplier": noise_multiplier}
    return {"version": 1, "unit": "client", "relation": "replace-one", "budget": None, "lines": [line]}


def test_before_the_first_ledger_the_last_round_tells(tmp_path):
    made = settings(encrypt={**LOCAL, **LAPLACE}, **SCORED)
    found = promises(rounds_of(read_run(write(tmp_path / "clean", made, whole(made), []))))
    assert [(each.what, each.epsilon, each.delta) for each in found] == [
        ("inference vectors", 9210400.0, 0.0),
        ("updates and inference vectors", 2.5, 1e-5),
    ]


def test_a_ledger_of_unknown_events_still_has_its_epsilon(tmp_path):
    made = settings(encrypt=LOCAL)
    account = {**UPDATES, "view": "local", "lines": [{"kind": "new", "count": 1}]}
    (found,) = promises(rounds_of(read_run(write(tmp_path, made, whole(made), [account]))))
    assert (found.epsilon, found.reading) == (2.5, reading(2.5, 1e-5))


def test_text_stays_text(tmp_path):
    made = settings(encrypt=DDP, **SCORED)
    changed = {"metrics": {NASTY: 0.5, "loss": 0.25}, "stages": {NASTY: 1.0}, "training_loss": 1.0}
    happened = [
        *whole(made, **changed)[:-1],
        events.Noted(NASTY),
        events.ClientRefused(4, 1, NASTY),
        events.RoundAborted(5, NASTY, 1.0),
        events.Evaluated(5, NASTY, None, NASTY, 7, 56, 10),
        events.RunFinished("failed", 5, 1.0, NASTY),
    ]
    line = {"kind": NASTY, "count": 1, NASTY: NASTY}
    account = {**UPDATES, "covers": [NASTY], "view": NASTY, "unit": NASTY, "lines": [line]}
    path = write(tmp_path, made, happened, [account])
    (path / "environment.json").write_text(json.dumps({NASTY: NASTY}))
    other = unprotected(tmp_path)
    for written in (
        report_run(path),
        write_report([path], share=True),
        write_report([path, other], tmp_path / "c.html"),
    ):
        page = Page(written)
        assert not {tag for tag, _ in page.elements} & {"script", "img"}
        assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e\ud800]", page.source)
    assert "<script>alert(1)</script>" in Page(report_run(path)).text  # as words
    for each in path.glob("plots/*.svg"):
        root = ElementTree.fromstring(each.read_bytes())  # noqa: S314 - our own output
        assert not [element for element in root.iter() if element.tag.endswith("script")]


def test_a_real_run(tmp_path):
    config = {"kind": "horizontal", "name": "real", "task": "digits", "rounds": 3, "clients": 10}
    outcome = tacit.run(config, runs=tmp_path)
    page = Page(report_run(outcome.directory))
    assert page.cards()["Accuracy"] == f"{100 * outcome.history[-1].metrics['accuracy']:.1f}%"
    assert page.cards()["Rounds"] == "3 of 3"
    assert page.cards()["Survivors"] == "10"
    shared = Page(write_report([outcome.directory], share=True))
    assert page.cards()["Accuracy"] not in shared.text
    assert "no figure of it is left" in shared.text


def test_a_real_run_with_everything(tmp_path):
    config = {
        "kind": "horizontal",
        "name": "real",
        "task": "digits_unsupervised",
        "rounds": 3,
        "clients": 12,
        "encrypt": {"encrypt_type": "DDP_ENCRYPT", "privacy_eval_type": "LAPLACE", "laplace_eval_eps": 230260},
        "unsupervised": {"cluster_client_num": 6},
        "simulation": {"dropout": 0.1},
    }
    outcome = tacit.run(config, runs=tmp_path)
    cards = Page(report_run(outcome.directory)).cards()
    ledgers = {tuple(each["covers"]): each for each in outcome.ledger["ledgers"]}
    assert float(cards["ε of updates"]) == pytest.approx(ledgers["updates",]["epsilon"], rel=5e-3)
    assert cards["ε of inference vectors"] == short(3 * 8 * 230260, 3)
    assert len(rounds_of(read_run(outcome.directory)).evaluations) == 3
    shared = Page(write_report([outcome.directory], share=True))
    assert {"ε of updates", "ε of inference vectors"} <= shared.cards().keys()
    assert "Survivors" not in shared.headings
    assert "Score" in shared.headings


# --- sharing


LEFT_OUT = [
    *("3.375", "3.125", "2.875", "2.375"),  # training losses
    *("its shares are torn", "4242", "2 survivors of 5 needed", "only one lump", "wound down slowly"),
    *("61.25", "17.75", "321.5", "5.36 min", "41.1", "20.06", "fitting", "unmasking"),
    *("31337", "31.3", "27182", "27.1"),
    *("secret-place", "secret.example", "20231114"),
]
HIDDEN = {"task_options": {"path": "/secret-place/records"}, "network": {"coordinator": "secret.example:8443"}}


def test_a_shared_page_shows_what_epsilon_covers_and_nothing_else(tmp_path):
    made = settings(encrypt=DDP, **SCORED, **HIDDEN)
    path = write(tmp_path, made, whole(made), [UPDATES, VECTORS])
    full = Page(report_run(path)).text
    written = write_report([path], share=True)
    assert written == path / "report-share.html"
    page = Page(written)
    plots = [each.read_text(encoding="utf-8") for each in (path / "report-share-plots").iterdir()]
    for value in LEFT_OUT:
        assert value not in page.source
        assert not any(value in plot for plot in plots)
    for value in ("3.375", "its shares are torn", "secret-place", "20231114", "fitting"):
        assert value in full  # it was there to be left out
    assert page.cards() == {
        "Accuracy": "75.0%",
        "Loss": "1.75",
        "ε of updates": "2.5",
        "ε of inference vectors": "5.53×10⁷",
        "Rounds": "6",
    }
    names = {each.stem for each in (path / "report-share-plots").iterdir()}
    assert names == {"metric-1-accuracy", "metric-2-loss", "update-norm", "score", "score-loss"}
    assert "Left out, because no ε covers it" in page.text
    assert "training loss; survivors; time; traffic; who was refused and why" in page.text
    assert "task_options, network" in page.text
    assert "Think before you share: an ε that hides nothing covers score." in page.text


def test_a_shared_page_of_an_unprotected_run_has_no_figure(tmp_path):
    path = unprotected(tmp_path)
    page = Page(write_report([path], share=True))
    assert "svg" not in {tag for tag, _ in page.elements}
    for value in [*LEFT_OUT, "75.0%", "1.75", "0.1875", "0.875"]:
        assert value not in page.text
    assert not (path / "report-share-plots").exists()


def test_a_score_of_clear_vectors_is_not_shared(tmp_path):
    made = settings(encrypt=LOCAL, **SCORED)
    page = Page(write_report([write(tmp_path, made, whole(made), [UPDATES])], share=True))
    assert "75.0%" in page.text
    assert "0.1875" not in page.source
    assert "Score" not in page.headings


def test_a_shared_comparison_leaves_out_the_same(tmp_path):
    first, second = protected(tmp_path, name="a", **HIDDEN), unprotected(tmp_path, name="b")
    page = Page(write_report([first, second], tmp_path / "shared.html", share=True))
    for value in LEFT_OUT:
        assert value not in page.source
    series = re.findall(r'class="legend"[^>]*>([^<]*)<', page.source)
    assert series == []  # one run is left: nothing to tell apart
    assert "75.0%" in page.text  # of a
    assert page.text.count("75.0%") == 1


def test_plots_of_an_earlier_page_do_not_stay_beside_a_shared_one(tmp_path):
    path = protected(tmp_path)
    output = tmp_path / "page.html"
    write_report([path], output)
    folder = tmp_path / "page-plots"
    (folder / "mine.svg").write_text("<svg/>")
    assert (folder / "survivors.svg").exists()
    write_report([path], output, share=True)
    assert not (folder / "survivors.svg").exists()
    assert (folder / "score.svg").exists()
    assert (folder / "mine.svg").exists()


# --- several runs


def test_the_protected_run_is_dashed_and_red(tmp_path):
    clear = unprotected(tmp_path, name="clear")
    made = settings(name="noisy", encrypt=LAPLACE, **SCORED)
    happened = [
        events.Evaluated(e.round, e.eval_type, e.score and e.score * 1.125, e.reason, 7, 56, 10)
        if isinstance(e, events.Evaluated)
        else e
        for e in whole(made)
    ]
    page = Page(write_report([clear, write(tmp_path, made, happened, [VECTORS])], tmp_path / "both.html"))
    root = ElementTree.fromstring((tmp_path / "both-plots" / "loss-score.svg").read_bytes())  # noqa: S314 - our own
    lines = [e.get("class") for e in root.iter() if (e.get("class") or "").startswith("line ")]
    assert lines.count("line blue") == 3  # legend, loss, score
    assert lines.count("line red dashed") == 3
    assert "The protected score of noisy is 12.5% away from that of clear, on average over 4 rounds." in page.text
    assert page.cards()["noisy against clear"] == "12.5%"
    # Losses 2.25, 2.125, 2, 2 of the models that were scored 0.1875, 0.25, 0.3125, 0.375.
    pearson = stats.pearsonr([2.25, 2.125, 2, 2], [0.1875, 0.25, 0.3125, 0.375]).statistic
    spearman = stats.spearmanr([2.25, 2.125, 2, 2], [0.1875, 0.25, 0.3125, 0.375]).statistic
    expected = f"Pearson −{abs(pearson):.3f}, Spearman −{abs(spearman):.3f} (n = 4 models)"
    assert page.text.count(expected) == 2
    assert "Apart from the protection the runs have the same settings." in page.text


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    first, second = unprotected(tmp_path), unprotected(tmp_path)
    page = Page(write_report([first, second], tmp_path / "both.html"))
    assert first.name in page.text
    assert second.name in page.text
    assert Page(write_report([first, first], tmp_path / "same.html")).text.count(f"{first.name} (2)") > 1


def test_runs_that_differ_in_more_are_said_to(tmp_path):
    first, second = unprotected(tmp_path, name="a"), unprotected(tmp_path, name="b", seed=7, train={"epochs": 3})
    assert "b also differs from a in train, seed." in Page(write_report([first, second], tmp_path / "c.html")).text


def test_runs_without_scores_or_rounds_can_be_compared(tmp_path):
    made = settings(name="a")
    plain = write(tmp_path, made, [e for e in whole(made) if not isinstance(e, events.Evaluated)], [])
    empty = write(tmp_path, settings(name="b"), [])
    page = Page(write_report([plain, empty], tmp_path / "c.html"))
    assert "No run has a score." in page.text
    assert "0 of 6" in page.text


def test_no_runs_are_a_mistake():
    with pytest.raises(ValueError, match="no run to report on"):
        write_report([])


# --- numbers and words


def test_a_score_belongs_to_the_model_with_which_its_round_began(tmp_path):
    record = rounds_of(read_run(unprotected(tmp_path)))
    held_out = loss(record)
    assert held_out.field == "metrics"
    assert pairs(record, held_out) == {1: (2.25, 0.1875), 2: (2.125, 0.25), 3: (2.0, 0.3125), 4: (2.0, 0.375)}
    made = settings(**SCORED)
    record = rounds_of(read_run(write(tmp_path, made, whole(made, metrics={}))))
    training = loss(record)
    assert training.field == "training_loss"
    assert pairs(record, training)[2] == (2.875, 0.25)
    assert 3 not in pairs(record, training)
    assert loss(record, covered=frozenset({"metrics"})) is None


whole_numbers = st.integers(-50, 50).map(float)


@given(st.lists(st.tuples(whole_numbers, whole_numbers), min_size=3, max_size=30))
def test_correlations_are_those_of_scipy(values):
    first, second = zip(*values, strict=True)
    assume(len(set(first)) > 1 and len(set(second)) > 1)
    found = correlation(values)
    assert found.pearson == pytest.approx(stats.pearsonr(first, second).statistic, abs=1e-9)
    assert found.spearman == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-9)
    assert found.pairs == len(values)


@pytest.mark.parametrize("values", [[], [(1, 2), (2, 3)], [(1, 2), (1, 3), (1, 4)], [(1, 2), (2, 3), (math.nan, 4)]])
def test_what_has_no_correlation_is_given_none(values):
    assert correlation(values) is None


def test_a_difference_is_relative_to_the_second_and_over_common_rounds():
    assert mean_relative_difference({1: 1.5, 2: 1.0, 3: 9.0, 5: 1.0}, {1: 1.0, 2: -2.0, 4: 1.0, 5: 0.0}) == (1.0, 2)
    assert mean_relative_difference({1: 1.0}, {2: 1.0}) is None


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [(1, "a strong promise"), (3, "a fair promise"), (10, "a weak promise"), (11, "hides nothing")],
)
def test_an_epsilon_in_a_word(epsilon, words):
    assert strength(epsilon) == words
    certain = "all but certain" in explained(promise("updates", epsilon, 0.0))
    assert certain == (epsilon > 10)


def test_a_ledger_reads_in_the_report_as_in_the_plan():
    settings = Settings(task="digits", rounds=4, clients=5, encrypt={"encrypt_type": "DP_ENCRYPT", "dp_eps": 8})
    (spent,) = Costs(settings, 650).spent(4, 0)
    made = spent.ledger.to_json()
    account = Account(
        ("updates",), "local", "client", "replace-one", spent.epsilon, spent.delta, tuple(made["lines"]), None
    )
    (said,) = promised(account)
    assert said.epsilon == pytest.approx(19.12, abs=0.01)  # hides nothing, and still bounds an attacker
    assert said.reading == spent.reading()
    assert 0.9 < said.reading.accuracy < 0.96


def test_an_epsilon_as_a_guess():
    assert "right at most 73.2% of the time" in explained(promise("updates", 1.0, 0.0))
    assert "finds at most 2.8% of the true cases" in explained(promise("updates", 1.0, 0.0))
    assert "whether a client's update is in the sums" in explained(promise("updates", 1.0, 0.0, central=True))
    assert "promises nothing" in explained(promise("updates", math.inf, 0.0))


def test_rounds_are_counted_from_one_and_put_together():
    assert numbered([0, 4, 5, 6, 9]) == "1, 5–7, 10"
    assert numbered([]) == ""


def test_times_are_short():
    assert [duration(seconds) for seconds in (0.25, 119, 321.5, 9000)] == ["0.25 s", "119 s", "5.36 min", "2.5 h"]


def test_many_rounds_stages_and_reasons_stay_readable(tmp_path):
    made = settings(rounds=700)
    stages = {f"stage {n}": float(n + 1) for n in range(9)}
    happened = [whole(made)[0]]
    for round in range(700):
        happened += [events.RoundStarted(round, 9), events.ClientRefused(round, 1, f"reason {round}" * 60)]
        happened.append(finished(round, stages=stages, metrics={"accuracy": float(np.sin(round))}))
    page = Page(report_run(write(tmp_path, made, happened, [])))
    assert "680 other reasons: see run.log" in page.text
    assert "other" in re.findall(r'class="legend"[^>]*>([^<]*)<', page.source)
    assert evaluated(0, None).reason not in page.text


def test_clients_that_broke_secure_aggregation_are_named(tmp_path):
    made = settings(encrypt={"encrypt_type": "PW_ENCRYPT"})
    happened = whole(made)
    happened[-1:-1] = [
        events.ClientBlamed(1, 5, "its shares do not open what it committed to", True),
        events.ClientBlamed(2, 6, NASTY, False),
        events.SharesDisputed(1, 3, [4, 7], 2),
        events.SharesDisputed(2, 3, [4], 1),
    ]
    page = Page(report_run(write(tmp_path, made, happened, [])))
    assert "Clients that broke secure aggregation" in page.text
    assert "excluded what it did 5 2 yes its shares do not open what it committed to 6 3 no" in page.text
    assert "rounds in which it complained 3 2 2 4 1 0 7 1 0" in page.text
    clean = Page(report_run(write(tmp_path / "clean", made, whole(made), [])))
    assert "broke secure aggregation" not in clean.text


def test_a_real_run_with_liars_names_them_and_goes_on_without_them(tmp_path):
    config = {
        "kind": "horizontal",
        "task": "digits",
        "rounds": 2,
        "clients": 12,
        "encrypt": {"encrypt_type": "PW_ENCRYPT", "largest_weight": 1000},
        "simulation": {"bad": {"commitment": 1, "share": 1}},
    }
    outcome = tacit.run(config, runs=tmp_path)
    assert [event.survivors for event in outcome.history] == [10]
    page = Page(report_run(outcome.directory))
    assert "0 1 yes its shares match the hashes" in page.text
    assert "1 1 yes the share of client" in page.text
    log = (outcome.directory / "run.log").read_text()
    assert "client 0 broke the protocol, and is left out of the rest of the run: its shares match the hashes" in log
    assert "client 1 broke the protocol, and is left out of the rest of the run: the share of client" in log
    resumed = tacit.run(resume=outcome.directory, overrides=["rounds=4"])
    assert [event.survivors for event in resumed.history[-2:]] == [10, 10]

"""What an audit draws: originals next to reconstructions, how far each attack gets, and curves of errors."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tacit.audit.finding import Finding, Images, Pictures, Score
from tacit.audit.result import advantage
from tacit.audit.steps import Proved
from tacit.report.chart import Chart, Panel, Series
from tacit.report.markup import Markup, element, join

_GAP = 1  # pixels between two images of a strip
_SHOWN_SIZE = 42  # pixels of a page that an image takes
_HIGH = 16.0  # pixels of the line on which an attack's scores are
_RATES = np.concatenate([[0.0], np.geomspace(1e-4, 0.05, 20), np.linspace(0.06, 1.0, 48)])


def strips(pictures: Pictures) -> Markup:
    """A row of originals, and below each what was made of it."""
    rows = (
        ("originals", pictures.originals),
        ("recovered without the protection", pictures.off),
        ("recovered with it", pictures.on),
    )
    found = []
    for label, images in rows:
        if images is not None:
            shown = element(
                "img", src=_strip(images), alt=f"{len(images)} images: {label}", width=len(images) * _SHOWN_SIZE
            )
            found += [element("span", label), Markup(shown.removesuffix("</img>"))]
    return element("div", *found, class_="strips")


def _strip(images: Images) -> str:
    """Images side by side as the address of a PNG: grey, with transparent gaps."""
    height = images.shape[1]
    blocks = []
    for image in images:
        grey = np.round(np.clip(np.nan_to_num(image), 0, 1) * 255).astype(np.uint8)
        blocks += [np.stack([grey, np.full_like(grey, 255)], axis=-1), np.zeros((height, _GAP, 2), dtype=np.uint8)]
    return "data:image/png;base64," + base64.b64encode(png(np.concatenate(blocks[:-1], axis=1))).decode()


def png(pixels: Images) -> bytes:
    """A PNG of grey and opacity: bytes [height, width, 2]."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + pixels[row].tobytes() for row in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 4, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")


def reach(found: Sequence[Finding]) -> Markup:
    """How far each attack gets, without and with the protection: from no information to everything."""
    words = "; ".join(f"{each.attack}: {_percent(each.off)} without, {_percent(each.on)} with" for each in found)
    key = (
        element("span", text, class_=f"key {colour}")
        for text, colour in (("without the protection", "amber"), ("with it", "blue"))
    )
    ends = element("p", element("span", "no information"), element("span", "everything"), class_="ends")
    return element(
        "div", element("p", *key), *map(_row, found), ends, class_="reach", role="img",
        aria_label=f"How far each attack gets, from no information to everything. {words}",
    )  # fmt: skip


def _row(finding: Finding) -> Markup:
    """The name of an attack, and its two scores on a line of any width: places are in percent."""
    ends = (element("line", class_="baseline", x1=_across(at), x2=_across(at), y2="100%") for at in (0.0, 1.0))
    line = element("line", class_="grid", x1=_across(0.0), x2=_across(1.0), y1=_HIGH / 2, y2=_HIGH / 2)
    scores = (
        _whisker(score, colour, _HIGH / 2 + y)
        for score, colour, y in ((finding.off, "amber", -3.0), (finding.on, "blue", 3.0))
        if score is not None
    )
    return join(
        element("p", finding.attack),
        element("svg", line, *ends, *scores, xmlns="http://www.w3.org/2000/svg", class_="chart", height=f"{_HIGH:g}"),
    )


def _whisker(score: Score, colour: str, y: float) -> Markup:
    low, high = sorted(_share(score, value) for value in (score.low, score.high))
    line = element("line", class_=f"whisker {colour}", x1=_across(low), x2=_across(high), y1=y, y2=y)
    dot = element("circle", class_=f"dot {colour}", cx=_across(_share(score, score.value)), cy=y, r=4.0)
    return element("g", element("title", f"{score}"), line, dot)


def _share(score: Score, value: float) -> float:
    return min(1.0, advantage(replace(score, value=value)))


def _across(share: float) -> str:
    return f"{1 + 98 * share:.2f}%"


def _percent(score: Score | None) -> str:
    return "not measured" if score is None else f"{_share(score, score.value):.0%}"


def promise_curve(proved: Proved, number: int) -> Chart:
    """What is proved of the whole run."""
    promise = proved.promise
    points = tuple(zip(_RATES.tolist(), proved.curve()(_RATES).tolist(), strict=True))
    return Chart(
        f"trade-off-{number}",
        f"{promise.what}: errors of an attacker",
        f"An attacker who tells two neighbouring inputs ({proved.relation}) apart by the messages of the whole run is "
        "on the line or above it.",
        "false alarms",
        (Panel("true cases missed", (Series("proved", points, "blue"), _chance()), from_zero=True),),
        whole_x=False,
    )


def audited_curve(finding: Finding, number: int) -> Chart | None:
    """The curve that is claimed of one release, and the errors of the attack that was tested against it."""
    test = finding.curve
    if test is None:
        return None
    claimed = tuple(zip(_RATES.tolist(), test.curve(_RATES).tolist(), strict=True))
    at, missed = test.false_positives, test.false_negatives
    series = (
        Series("claimed: no attack is below", claimed, "blue"),
        Series("tested: the errors are at most those of the corner", ((at, 1.0), (at, missed), (1.0, missed)), "amber"),
    )
    bound = f" {finding.audited}." if finding.audited is not None else ""
    return Chart(
        f"audited-{number}",
        finding.attack,
        f"{str(test)[0].upper()}{str(test)[1:]}. A corner below the blue line refutes the claim.{bound}",
        "false alarms",
        (Panel("true cases missed", (*series, _chance()), from_zero=True),),
        whole_x=False,
    )


def _chance() -> Series:
    return Series("no information", ((0.0, 1.0), (1.0, 0.0)), "grey", dashed=True)

"""Parts of an HTML page that needs nothing else: no script, no other file, no network.

Room: **page** -> every room whose values show themselves in a notebook or a report.

    page = Page("Answers of smokers.mln")
    page.add("Answers", table(["atom", "probability"], rows), histogram(probabilities))
    page.to_html()

Every text is escaped; parts are `Html`, so that a text cannot be taken for one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #566072; --line: #d9dee7; --paper: #ffffff; --fill: #f4f6f9;
  --mark: #2f5fb3; --faint: #c9d5ea; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ef; --soft: #a3adbd; --line: #333b49; --paper: #14181f;
  --fill: #1d232c; --mark: #8fb4f5; --faint: #35496b; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1rem; }
pre { background: var(--fill); padding: .75rem; overflow-x: auto; border-radius: 6px; font-size: .85rem; }
table { border-collapse: collapse; } th, td { text-align: left; padding: .15rem .75rem .15rem 0; }
td.number { text-align: right; font-variant-numeric: tabular-nums; } p.note { color: var(--soft); }
svg text { fill: var(--soft); font-size: 11px; } .mark { fill: var(--mark); } .faint { fill: var(--faint); }
.curve { fill: none; stroke: var(--mark); stroke-width: 2; } .axis { stroke: var(--line); }
.frame { fill: none; stroke: var(--line); } .arrow { fill: none; stroke: var(--faint); stroke-width: 1.5; }
.box { fill: var(--fill); stroke: var(--line); } svg text.code { font: 12px monospace; fill: var(--ink); }
.part { padding-left: 1.5rem; color: var(--soft); }
.fit { max-width: 100%; height: auto; }
.row { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; } .scroll { overflow-x: auto; }
"""
# inside a notebook: its own colours, apart from the marks of plots
NOTEBOOK_STYLE = """
.logicmp .mark { fill: #4c78c8; } .logicmp .faint { fill: #9993; } .logicmp .curve { fill: none; stroke: #4c78c8;
  stroke-width: 2; } .logicmp .axis, .logicmp .frame { fill: none; stroke: #9996; } .logicmp .arrow { fill: none;
  stroke: #9999; } .logicmp .box { fill: #9992; stroke: #9996; } .logicmp text { fill: currentColor; font-size: 11px; }
.logicmp text.code { font: 12px monospace; } .logicmp th, .logicmp td { text-align: left;
  padding: 2px 12px 2px 0; } .logicmp td.number { text-align: right; } .logicmp .scroll {
  overflow-x: auto; } .logicmp table { font-variant-numeric: tabular-nums; }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def plural(count: int, noun: str) -> str:
    """A number with its noun.

    >>> plural(1, "fact"), plural(2000, "fact")
    ('1 fact', '2,000 facts')
    """
    return f"{count:,} {noun}{'s' * (count != 1)}"


def probability(p: float) -> str:
    """Six digits, or as many as needed to differ from 0 and 1.

    >>> probability(0.47812345), probability(1 - 1e-9), probability(1.0)
    ('0.478123', '0.999999999', '1')
    """
    short = f"{p:.6g}"
    return short if float(short) not in (0, 1) or p in (0, 1) else repr(p)


@dataclass(frozen=True)
class Html:
    """Text that is HTML already."""

    text: str


@dataclass
class Page:
    """A title and sections, each with a heading and parts."""

    title: str
    sections: list[tuple[str, Sequence[Html]]] = field(default_factory=list)

    def add(self, heading: str, *parts: Html) -> None:
        """Add a section; a section without parts is left out."""
        if parts:
            self.sections.append((heading, parts))

    def to_html(self) -> str:
        """The whole page; its policy forbids scripts and other files."""
        body = "\n".join(f"<section><h2>{escape(heading)}</h2>\n{''.join(part.text for part in parts)}</section>"
                         for heading, parts in self.sections)
        return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
                f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
                '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
                f"<title>{escape(self.title)}</title>\n<style>{STYLE}</style></head>\n"
                f"<body><main><h1>{escape(self.title)}</h1>\n{body}</main></body></html>\n")


def paragraph(text: str, is_note: bool = False) -> Html:
    """A paragraph; a note is less prominent."""
    return Html(f"<p{' class=note' * is_note}>{escape(text)}</p>\n")


def heading(text: str) -> Html:
    """A heading inside a section."""
    return Html(f"<h3>{escape(text)}</h3>\n")


def code(text: str) -> Html:
    """Text as it was written."""
    return Html(f'<pre tabindex="0">{escape(text)}</pre>\n')


def indented(text: str) -> Html:
    """A text that belongs to the one above it, for a cell of a table."""
    return Html(f'<span class="part">{escape(text)}</span>')


def listed(texts: Sequence[str]) -> Html:
    """A list of texts."""
    return Html(f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>\n")


def table(header: Sequence[str], rows: Sequence[Sequence[str | float | Html]]) -> Html:
    """A table; numbers are aligned to the right.

    >>> table(["atom", "p"], [["P(A)", 0.5]]).text.count("<td")
    2
    """
    def cell(value: str | float | Html) -> str:
        if isinstance(value, Html):
            return f"<td>{value.text}</td>"
        if isinstance(value, str):
            return f"<td>{escape(value)}</td>"
        return f'<td class="number">{value:.4g}</td>'

    head = "".join(f'<th scope="col">{escape(name)}</th>' if name else "<td></td>" for name in header)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>\n" for row in rows)
    return _wide(f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>")


def _wide(text: str) -> Html:
    """Something that scrolls by itself where the page is narrow."""
    return Html(f'<div class="scroll" tabindex="0">{text}</div>\n')


def bar(share: float, width: int = 160) -> Html:
    """A bar for a number between 0 and 1."""
    full = min(max(share, 0.0), 1.0)
    return Html(f'<svg width="{width}" height="10" aria-hidden="true"><rect class="faint" width="{width}" height="10"/>'
                f'<rect class="mark" width="{full * width:.1f}" height="10"/></svg>')


def histogram(shares: Sequence[float], n_bins: int = 20) -> Html:
    """How many numbers between 0 and 1 are in each of some ranges."""
    counts = [0] * n_bins
    for share in shares:
        counts[min(n_bins - 1, int(share * n_bins))] += 1
    most, wide, high = max(1, *counts), 24, 100
    bars = "".join(f'<rect class="mark" x="{k * wide}" y="{high - high * n / most:.1f}" width="{wide - 2}" '
                   f'height="{high * n / most:.1f}"><title>{k / n_bins:g} to {(k + 1) / n_bins:g}: {n}</title></rect>'
                   for k, n in enumerate(counts))
    words = f"histogram of {len(shares):,} probabilities, at most {most:,} in one range"
    return _wide(f'<svg class="fit" role="img" aria-label="{words}" viewBox="0 0 {n_bins * wide} {high + 18}" '
                 f'width="{n_bins * wide}" height="{high + 18}">{bars}'
                 f'<text x="0" y="{high + 14}">0</text><text x="{n_bins * wide - 8}" y="{high + 14}">1</text></svg>')


def curves(lines: Mapping[str, Sequence[float]], what: str) -> Html:
    """Each line of numbers as a small curve over the iterations, with its first and last value."""
    rows: list[list[str | float | Html]] = []
    for name, values in lines.items():
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            continue
        low, high = min(finite), max(finite)
        span = (high - low) or 1.0
        points = " ".join(f"{4 + 232 * k / max(1, len(values) - 1):.1f},{36 - 32 * (value - low) / span:.1f}"
                          for k, value in enumerate(values) if math.isfinite(value))
        drawn = Html('<svg width="240" height="40" aria-hidden="true">'
                     f'<polyline class="curve" points="{points}"/></svg>')
        rows.append([name, values[0], values[-1], drawn])
    return table([what, "first", "last", "iterations"], rows)


def scatter(points: Mapping[str, Sequence[tuple[float, float]]], across: str) -> Html:
    """Pairs of probabilities, one small square for each name: equal ones are on the diagonal."""
    side = 160
    squares = []
    for name, pairs in points.items():
        dots = "".join(f'<circle class="mark" cx="{side * x:.1f}" cy="{side - side * y:.1f}" r="2"/>' for x, y in pairs)
        words = escape(f"{name} (upwards) and {across} (to the right): {plural(len(pairs), 'answer')}", quote=True)
        squares.append(f'<figure><svg role="img" aria-label="{words}" width="{side}" height="{side}" '
                       f'viewBox="-2 -2 {side + 4} {side + 4}"><rect width="{side}" height="{side}" class="frame"/>'
                       f'<line class="axis" x1="0" y1="{side}" x2="{side}" y2="0"/>{dots}</svg>'
                       f"<figcaption>{escape(name)}</figcaption></figure>")
    return Html(f'<div class="row">{"".join(squares)}</div>\n')


def graph(labels: Sequence[str], arrows: Sequence[tuple[int, int]], title: str) -> Html:
    """Boxes in rows with arrows from upper to lower ones; a box is below everything that points to it."""
    depth = [0] * len(labels)
    for start, end in sorted(arrows, key=lambda arrow: arrow[1]):
        depth[end] = max(depth[end], depth[start] + 1)
    labels = [" ".join(label.split()) for label in labels]
    wide, high, gap, most = 7.3, 26, 46, 900
    place: dict[int, tuple[float, float, float]] = {}
    x, y = 8.0, 8.0
    for d in range(max(depth, default=-1) + 1):
        for k in (k for k in range(len(labels)) if depth[k] == d):
            width = wide * len(labels[k]) + 14
            # a row that is too wide continues below
            if x > 8 and x + width > most:
                x, y = 8.0, y + high + 12
            place[k] = (x, y, width)
            x += width + 16
        x, y = 8.0, y + high + gap
    across = max((x + width for x, _, width in place.values()), default=0) + 8
    down = y - gap + 8
    parts = [f'<path class="arrow" d="M{place[a][0] + place[a][2] / 2:.0f} {place[a][1] + high:.0f}'
             f'C{place[a][0] + place[a][2] / 2:.0f} {place[a][1] + high + gap / 2:.0f} '
             f'{place[b][0] + place[b][2] / 2:.0f} {place[b][1] - gap / 2:.0f} '
             f'{place[b][0] + place[b][2] / 2:.0f} {place[b][1] - 2:.0f}" marker-end="url(#logicmp-tip)"/>'
             for a, b in arrows]
    parts += [f'<rect class="box" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{high}" rx="5"/>'
              f'<text class="code" x="{x + 7:.0f}" y="{y + 17:.0f}">{escape(labels[k])}</text>'
              for k, (x, y, width) in place.items()]
    return _wide(f'<svg role="img" aria-label="{escape(title, quote=True)}" width="{across:.0f}" height="{down:.0f}">'
                 '<defs><marker id="logicmp-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
                 'orient="auto"><path class="faint" d="M0 0L8 4L0 8z"/></marker></defs>'
                 f'{"".join(parts)}</svg>')


def fragment(*parts: Html) -> str:
    """Parts for a notebook, which has colours of its own."""
    return f'<div class="logicmp"><style>{NOTEBOOK_STYLE}</style>{"".join(part.text for part in parts)}</div>'

#!/usr/bin/env python3
"""Draws docs/performance.svg from the table "Today" of docs/performance.md.

Run it after the table has changed: python3 docs/plot.py
"""

from pathlib import Path

HERE = Path(__file__).parent
PANELS = [
    # (figure, size) of the table's rows, title, unit, factor, shorter is better
    (("latency", "8"), "8 bytes, half round trip", "µs", 1, True),
    (("latency", "64K"), "64 KiB, half round trip", "µs", 1, True),
    (("latency", "1M"), "1 MiB, half round trip", "µs", 1, True),
    (("mbw_mr", "8"), "messages of 8 bytes", "million/s", 1e-6, False),
    (("bw", "1M"), "bandwidth, 1 MiB", "GB/s", 1e-3, False),
    (("crowded-8", "8"), "allreduce, 8 ranks on 2 cores", "µs", 1, True),
]
LIBRARIES = ["Verbena", "MPICH", "Intel MPI", "Open MPI"]
WIDTH, PANEL_WIDTH, PANEL_HEIGHT, NAME, BAR, STEP = 860, 272, 150, 70, 14, 22

STYLE = """
  text { font: 12px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #24292f; }
  .title { font-weight: 600; font-size: 13px; }
  .note { fill: #57606a; font-size: 11px; }
  .page { fill: #ffffff; } .ours { fill: #0969da; } .peer { fill: #afb8c1; }
  text.first { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; }
    text { fill: #e6edf3; } .note { fill: #9198a1; }
    .ours { fill: #4493f8; } .peer { fill: #565e68; }
  }
"""


def number(text):
    scale = {"M": 1e6, "K": 1e3}.get(text[-1:], 1)
    return float(text.rstrip("MK")) * scale


def rows():
    table = {}
    for line in (HERE / "performance.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 11 and (cells[0], cells[1]) not in table:
            table[cells[0], cells[1]] = cells[4:8]
    return table


def panel(left, top, title, unit, values, shorter):
    better = "shorter is better" if shorter else "longer is better"
    yield f'<text class="title" x="{left}" y="{top}">{title}</text>'
    yield f'<text class="note" x="{left}" y="{top + 16}">{unit}, {better}</text>'
    room = PANEL_WIDTH - NAME - 60
    for place, (library, value) in enumerate(zip(LIBRARIES, values)):
        y = top + 26 + place * STEP
        width = max(2, room * value / max(values))
        kind, first = ("ours", ' class="first"') if place == 0 else ("peer", "")
        yield f'<text{first} x="{left}" y="{y + 11}">{library}</text>'
        yield f'<rect class="{kind}" x="{left + NAME}" y="{y}" width="{width:.1f}" height="{BAR}" rx="2"/>'
        yield f'<text{first} x="{left + NAME + width + 5:.1f}" y="{y + 11}">{value:.3g}</text>'


def main():
    table = rows()
    height = 2 * PANEL_HEIGHT + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>Verbena beside MPICH, Intel MPI and Open MPI</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
    ]
    for index, (key, title, unit, factor, shorter) in enumerate(PANELS):
        values = [number(text) * factor for text in table[key]]
        left, top = 10 + index % 3 * (PANEL_WIDTH + 14), 22 + index // 3 * PANEL_HEIGHT
        parts += panel(left, top, title, unit, values, shorter)
    (HERE / "performance.svg").write_text("\n".join(parts) + "\n</svg>\n")


main()

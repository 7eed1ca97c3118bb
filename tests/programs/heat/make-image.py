#!/usr/bin/env python3
"""Draws verbena.png, the plate that `heat` starts from.

Heaters (white): the name in round strokes, and the outlines of five flowers.
Warm at the start (grey): the stems, which cool down while the heat spreads.
Needs nothing but Python: `python3 make-image.py verbena.png`.
"""

import math
import struct
import sys
import zlib

WIDTH, HEIGHT = 384, 256

# Letters as strokes in a box 4 wide and 6 high, y downwards. An arc is
# (centre x, centre y, radius, first angle, last angle) in degrees.
LETTERS = {
    "V": [((0, 0), (2, 6)), ((2, 6), (4, 0))],
    "E": [((0, 0), (0, 6)), ((0, 0), (3.4, 0)), ((0, 3), (2.8, 3)), ((0, 6), (3.4, 6))],
    "R": [((0, 0), (0, 6)), ((0, 0), (2.2, 0)), (2.2, 1.6, 1.6, -90, 90), ((0, 3.2), (2.2, 3.2)), ((2, 3.2), (3.8, 6))],
    "B": [((0, 0), (0, 6)), ((0, 0), (2.2, 0)), (2.2, 1.45, 1.45, -90, 90), ((0, 2.9), (2.3, 2.9)),
          (2.3, 4.45, 1.55, -90, 90), ((0, 6), (2.3, 6))],
    "N": [((0, 6), (0, 0)), ((0, 0), (3.8, 6)), ((3.8, 6), (3.8, 0))],
    "A": [((0, 6), (2, 0)), ((2, 0), (4, 6)), ((0.75, 4), (3.25, 4))],
}


def segments(stroke):
    """A stroke as straight pieces."""
    if len(stroke) == 2:
        return [stroke]
    x, y, radius, first, last = stroke
    turn = [math.radians(first + (last - first) * i / 16) for i in range(17)]
    points = [(x + radius * math.cos(a), y + radius * math.sin(a)) for a in turn]
    return list(zip(points, points[1:]))


def distance(point, piece):
    (px, py), ((ax, ay), (bx, by)) = point, piece
    dx, dy = bx - ax, by - ay
    t = max(0.0, min(1.0, ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy)))
    return math.hypot(px - ax - t * dx, py - ay - t * dy)


def word(text, left, top, unit, pitch):
    """All pieces of a word, in pixels."""
    pieces = []
    for i, letter in enumerate(text):
        for stroke in LETTERS[letter]:
            for a, b in segments(stroke):
                move = lambda p: (left + i * pitch + p[0] * unit, top + p[1] * unit)
                pieces.append((move(a), move(b)))
    return pieces


def flower(x, y, size, turn):
    """The outlines of five notched petals, and the heart, as strokes."""
    outline = []
    for i in range(361):
        angle = math.radians(i)
        petal = abs(math.cos(2.5 * angle))
        edge = 0.3 + 0.7 * petal**0.55 - 0.16 * max(0.0, petal - 0.88) / 0.12
        outline.append((x + size * edge * math.cos(angle - turn), y + size * edge * math.sin(angle - turn)))
    heart = [(x + 0.08 * size * math.cos(i), y + 0.08 * size * math.sin(i)) for i in range(8)]
    return list(zip(outline, outline[1:])) + list(zip(heart, heart[1:]))


def stem(a, b, c):
    """A smooth curve from a to c that leans towards b, as strokes."""
    points = []
    for i in range(25):
        t = i / 24
        points.append(tuple((1 - t) ** 2 * p + 2 * t * (1 - t) * q + t * t * r for p, q, r in zip(a, b, c)))
    return list(zip(points, points[1:]))


def near(pieces, reach):
    """The pieces sorted by rows, so that a pixel looks at few of them."""
    rows = [[] for _ in range(HEIGHT)]
    for piece in pieces:
        (_, ay), (_, by) = piece
        first, last = int(min(ay, by) - reach - 1), int(max(ay, by) + reach + 2)
        for y in range(max(first, 0), min(last, HEIGHT)):
            rows[y].append(piece)
    return rows


def main(path):
    root = (192, 158)
    flowers = [(152, 74, 32, 0.3), (208, 50, 36, 1.1), (263, 80, 32, 0.7), (88, 96, 26, 0.1), (322, 104, 25, 0.9)]
    leans = [(176, 128), (204, 110), (220, 132), (120, 150), (288, 150)]
    strokes = [
        (near(word("VERBENA", 40, 178, 8.0, 45.5), 4), 2.8, 1.0),
        (near([piece for shape in flowers for piece in flower(*shape)], 3), 1.1, 1.0),
        (near([piece for (x, y, size, _), lean in zip(flowers, leans)
               for piece in stem(root, lean, (x, y + 0.55 * size))], 3), 1.2, 0.7),
    ]
    image = bytearray()
    for y in range(HEIGHT):
        image.append(0)
        for x in range(WIDTH):
            heat = 0.0
            for rows, width, warmth in strokes:
                if any(distance((x, y), piece) < width for piece in rows[y]):
                    heat = max(heat, warmth)
            image.append(round(255 * heat))
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 0, 0, 0, 0)
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n")
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(image), 9)), (b"IEND", b"")):
            out.write(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])

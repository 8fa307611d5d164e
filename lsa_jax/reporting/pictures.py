"""Figures small enough for pages that show many of them."""

import io
import re
from pathlib import Path

MOST_BYTES = 80_000
_COLOURS = 128
_SMALLER = 0.85
_IN_REPORT = re.compile(r"^!\[[^\]]*\]\(([^)]+)\.png\)$", re.MULTILINE)
_METADATA = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<!DOCTYPE[^>]*>", re.DOTALL)
_PATH = re.compile(r'(?<=[ \n][dxy]=")[^"]*')
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")


def names(folder: Path) -> list[str]:
    """Returns the names of a sweep's figures, without ending, in its report's order."""
    return _IN_REPORT.findall((folder / "report.md").read_text())


def shorter(svg: str) -> str:
    """Returns a drawing without metadata, line ends and digits below hundredths of a point.

    Only the lines' own coordinates are rounded: a scale of letters has digits that matter.
    """
    svg = _METADATA.sub("", svg)
    svg = _PATH.sub(lambda path: _LONG_NUMBER.sub(_rounded, " ".join(path[0].split())), svg)
    return re.sub(r"\s*\n\s*", "\n", svg)


def _rounded(number: re.Match) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _shrunk(path: Path) -> bytes:
    """Returns a PNG with fewer colours, and smaller as long as it takes more bytes than it may."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    while True:
        buffer = io.BytesIO()
        # First by how far colours are apart, so that those of few pixels stay: a scale's ends, thin
        # lines. Then moved to the means of their pixels, as large areas would have another tint.
        few = image.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=3)
        few.save(buffer, "png", optimize=True)
        if buffer.tell() <= MOST_BYTES:
            return buffer.getvalue()
        image = image.resize([max(1, int(side * _SMALLER)) for side in image.size])


def small(path: Path) -> tuple[str, bytes]:
    """Returns a figure's ending and bytes, at most `MOST_BYTES`: its SVG, or else a PNG.

    Args:
        path: the figure without ending; both files exist.
    """
    drawn = shorter(path.with_name(path.name + ".svg").read_text()).encode()
    if len(drawn) <= MOST_BYTES:
        return ".svg", drawn
    return ".png", _shrunk(path.with_name(path.name + ".png"))

"""Writes a report: tables and claims as Markdown and JSON, results as CSV, figures as images."""

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from lsa_jax.reporting import files, page
from lsa_jax.reporting.report import Report


def cell(value: object) -> str:
    """Returns a cell of a Markdown table; numbers to four significant digits."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def mean_and_spread(values: pd.Series, form: str = ".3f", spread_form: str | None = None) -> str:
    """Returns mean ± standard deviation over seeds, for a table; empty where no seed has any.

    Args:
        values: one a seed; missing ones are left out.
        form: of the mean.
        spread_form: of the deviation; None means as the mean.
    """
    if not values.count():
        return ""
    ends = f" ± {format(values.std(), spread_form or form)}" if values.count() > 1 else ""
    return format(values.mean(), form) + ends


def markdown_table(table: pd.DataFrame) -> str:
    """Returns the table in Markdown, columns aligned so that it also reads well on a terminal.

    Numbers are shown to four significant digits; missing ones are left empty.
    """
    rows = [list(map(str, table.columns))]
    rows += [[cell(value) for value in row] for row in table.itertuples(index=False)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def claims_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Returns decided claims as a table, without the columns that are empty in all rows."""
    columns, cells = page.claim_table(rows)
    return pd.DataFrame([[cell.text for cell in row] for row in cells], columns=columns)


def _write_figures(workdir: Path, report: Report) -> list[Path]:
    # Imported here: plotting takes seconds to import and nothing else needs it.
    import matplotlib.pyplot as plt

    paths = []
    # Text stays text in the SVG, and equal figures give equal files.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "lsa_jax"}):
        for name, draw in report.figures.items():
            figure = draw()
            for suffix, metadata in ((".png", {}), (".svg", {"Date": None})):
                buffer = io.BytesIO()
                figure.savefig(
                    buffer, format=suffix[1:], dpi=150, bbox_inches="tight", metadata=metadata
                )
                files.write_bytes(workdir / (name + suffix), buffer.getvalue())
                paths.append(workdir / (name + suffix))
            plt.close(figure)
    return paths


def write_report(workdir: Path, results: pd.DataFrame, report: Report) -> str:
    """Writes `results.csv`, other tables, the figures, and `report.json`, `.md` and `.html`.

    Returns:
        Text to print: the tables, the claims, failed runs and the paths of the files.
    """
    paths = [workdir / "results.csv"]
    files.write_text(paths[0], results.to_csv(index=False))
    for name, table in report.extra_tables.items():
        paths.append(workdir / f"{name}.csv")
        files.write_text(paths[-1], table.to_csv(index=False))
    paths += (figures := _write_figures(workdir, report))
    files.write_json(workdir / "report.json", [claim._asdict() for claim in report.claims])

    parts = [f"# {report.title}"]
    parts += [f"## {heading}\n\n{markdown_table(table)}" for heading, table in report.tables]
    if report.claims:
        parts.append(
            "## Claims\n\n" + markdown_table(claims_table(row._asdict() for row in report.claims))
        )
    failed = results[results["status"] == "failed"]
    if not failed.empty:
        lines = [f"- {row.id}: {row.message}" for row in failed.itertuples()]
        parts.append("## Failed runs\n\n" + "\n".join(lines))
    parts += report.notes
    text = "\n\n".join(parts) + "\n"
    pictures = [f"![{path.stem}]({path.name})" for path in figures if path.suffix == ".png"]
    files.write_text(workdir / "report.html", page.report_page(workdir, results, report))
    # Last, as a reproduction takes a new one to mean that the report is whole.
    files.write_text(workdir / "report.md", "\n\n".join([text, *pictures]) + "\n")
    paths += [workdir / f"report.{kind}" for kind in ("json", "md", "html")]
    return text + "\n" + "\n".join(f"wrote {path}" for path in paths)

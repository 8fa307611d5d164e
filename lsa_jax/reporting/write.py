"""Writes a report: Markdown, JSON, CSV, figures, and one page that needs no other file."""

import base64
import io
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import markupsafe
import pandas as pd

from lsa_jax.reporting import courses, files, machine
from lsa_jax.reporting.courses import Course
from lsa_jax.reporting.machine import duration
from lsa_jax.reporting.report import Report

_LARGEST_SVG = 400_000  # bytes; of larger ones the page takes the PNG

# Between two parts of a name, but not within a number such as -0.27, or within "m=100".
_SEAM = re.compile(r"(?<=\w)([/_,-])(?=[A-Za-z])")

# Of a primary claim, by whether it holds after Holm's correction.
_PRIMARY = {True: "yes, also corrected", False: "yes, not corrected", None: "yes"}


def cell(value: object) -> str:
    """Returns a cell of a Markdown table; numbers to four significant digits."""
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


def mean_and_spread(values: pd.Series, form: str = ".3f", spread_form: str | None = None) -> str:
    """Returns mean ± standard deviation over seeds, for a table; empty where no seed has any.

    `spread_form` is that of the deviation; None means as the mean.
    """
    if not values.count():
        return ""
    ends = f" ± {format(values.std(), spread_form or form)}" if values.count() > 1 else ""
    return format(values.mean(), form) + ends


def table_of_means(
    rows: pd.DataFrame, by: Sequence[str], columns: Mapping[str, str]
) -> pd.DataFrame:
    """Returns a row a group of runs: its settings, and mean ± deviation of columns over seeds.

    Runs of a group share the settings `by`. `columns` has headings by column; columns that `rows`
    lacks are left out.
    """
    shown = {name: heading for name, heading in columns.items() if name in rows}
    groups = rows.groupby(list(by), sort=False, dropna=False)[list(shown)]
    table = groups.agg(lambda values: mean_and_spread(values, ".4g", ".2g"))
    return table.rename(columns=shown).reset_index()


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
    columns, cells = claim_table(rows)
    return pd.DataFrame([[cell.text for cell in row] for row in cells], columns=columns)


def _write_figures(workdir: Path, report: Report) -> list[Path]:
    # Imported here: plotting takes seconds to import and nothing else needs it.
    import matplotlib.pyplot as plt

    paths = []
    # Text stays text in the SVG, and equal figures give equal files, whatever a user's matplotlibrc
    # has: LaTeX would take a label's _ and % for its own.
    own = {"svg.fonttype": "none", "svg.hashsalt": "lsa_jax"}
    with plt.style.context("default"), plt.rc_context(own):
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
    paths += _write_figures(workdir, report)
    files.write_json(workdir / "report.json", [claim._asdict() for claim in report.claims])

    files.write_text(workdir / "report.html", report_page(workdir, results, report))
    pictures = [f"![{name}]({name}.png)\n\n*{text}*" for name, text in report.captions.items()]
    # Last, as a reproduction takes a new one to mean that the report is whole.
    files.write_text(workdir / "report.md", _report_text(results, report, pictures))
    paths += [workdir / f"report.{kind}" for kind in ("json", "md", "html")]
    return _report_text(results, report) + "\n" + "\n".join(f"wrote {path}" for path in paths)


def _report_text(results: pd.DataFrame, report: Report, pictures: Sequence[str] = ()) -> str:
    """Returns a report in Markdown, in the order of its page."""
    claims = [claim._asdict() for claim in report.claims]
    parts = [f"# {report.title}"]
    if main := main_claims(claims):
        heading = "Primary claims" if main[0]["primary"] else "Main claims"
        parts.append("\n".join([f"## {heading}\n", *map(_claim_line, main)]))
    parts.append(counts_in_words(claims))
    parts += [f"## {heading}\n\n{markdown_table(table)}" for heading, table in report.tables]
    parts += pictures
    if claims:
        parts.append("## All claims\n\n" + markdown_table(claims_table(claims)))
    failed = results[results["status"] == "failed"]
    if not failed.empty:
        lines = [f"- {row.id}: {row.message}" for row in failed.itertuples()]
        parts.append("## Failed runs\n\n" + "\n".join(lines))
    return "\n\n".join([*parts, *report.notes]) + "\n"


def _claim_line(claim: Mapping[str, Any]) -> str:
    """Returns a claim as an item of a Markdown list: its mark, our number, the expected one."""
    words = in_words(claim)
    ours = f": {words['ours']}" if words["ours"] else ""
    interval = f" ({words['interval']})" if words["interval"] else ""
    expected = f"; expected: {words['paper']}" if words["paper"] else ""
    reason = f"; {words['condition']}" if words["words"] == "cannot be judged" else ""
    status = f"{words['mark']} {words['words']}".strip()
    return f"- **{status}**: {words['claim']}{ours}{interval}{expected}{reason}"


# --- the page ------------------------------------------------------------------------------------

_MAIN_CLAIMS = 6  # of a page without primary ones; reports give their main ones first
# By a claim's status on a page: its mark if the claim was tested, the status in words, its class.
_MARKS = {
    "shown": ("✓", "holds", "good"),
    "shown of one seed": ("✓", "holds for one seed", "note"),
    "not shown": ("✗", "does not hold", "bad"),
    "undecided": ("?", "open", "note"),
    "condition not met": ("–", "cannot be judged", "note"),
    "measured": ("", "measured", "note"),
    "not run": ("", "not run", ""),
}
_TESTED = tuple(status for status, (mark, _, _) in _MARKS.items() if mark)
_TONES = {status: tone for status, (_, _, tone) in _MARKS.items()} | {"ok": "good", "failed": "bad"}
# The same for a count of one and of more.
_COUNTED = {
    "not shown": ("does not", "do not"),
    "undecided": ("is open", "are open"),
    "shown of one seed": ("holds for one seed", "hold for one seed"),
    "condition not met": ("cannot be judged", "cannot be judged"),
    "measured": ("number without an expected value", "numbers without an expected value"),
    "not run": ("claim was not run", "claims were not run"),
}


class Cell(NamedTuple):
    """One cell of a page's table: its text, and its value for sorting."""

    text: str
    kind: str = "text"
    value: float | str = ""
    note: str = ""
    course: Course | None = None


def _broken(text: str) -> markupsafe.Markup:
    """Returns a text whose names may go on in the next line where a new word begins in them."""
    return markupsafe.Markup(_SEAM.sub(r"\1<wbr>", str(markupsafe.escape(text))))


def _plain(text: str) -> markupsafe.Markup:
    """Returns a text in which Markdown finds neither emphasis nor HTML."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return markupsafe.Markup(re.sub(r"([*_])", r"\\\1", escaped))


def tone(status: str) -> str:
    """Returns the class of a status: "good", "bad", "note" or none."""
    return _TONES.get(status, "")


def environment() -> jinja2.Environment:
    """Returns the environment of the templates in the folder `templates`."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"broken": _broken, "plain": _plain}
    made.globals |= {
        "tone": tone,
        "words": {status: words for status, (_, words, _) in _MARKS.items()},
        "width": courses.WIDTH,
        "height": courses.HEIGHT,
    }
    return made


def value_cell(value: Any) -> Cell:
    """Returns a cell of a number, sorted by all its digits, or of a text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Cell("" if value is None else str(value))
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return Cell(text, "number", value)


def _rows(table: pd.DataFrame) -> list[list[Cell]]:
    return [[value_cell(files.plain(v)) for v in row] for row in table.itertuples(index=False)]


def claim_cells(claim: Mapping[str, Any]) -> dict[str, Cell]:
    """Returns the cells of a claim, a row of a sweep's `report.json`, by column."""
    ours, paper = value_cell(claim["ours"]), value_cell(claim["paper"])
    if claim["spread"] is not None:
        ours = ours._replace(text=f"{ours.text} ± {claim['spread']:.2g}")
    low, high = (value_cell(claim.get(name)).text for name in ("low", "high"))
    interval = "" if "" in (low, high) or low == high else f"{low} to {high}"
    return {
        "status": Cell(claim["status"], "status"),
        "claim": Cell(claim["item"], "long"),
        "paper": Cell("") if paper.text == "-" else paper,
        "ours": ours,
        "interval": Cell(interval, "interval"),
        "condition": Cell(claim.get("condition", ""), "long"),
        "primary": Cell(_PRIMARY[claim.get("holm")] if claim.get("primary") else ""),
        "note": Cell(claim.get("note", ""), "long"),
    }


def counts_in_words(claims: Sequence[Mapping[str, Any]]) -> str:
    """Returns how many claims hold, as a sentence."""
    count = Counter(claim["status"] for claim in claims)
    tested = sum(count[status] for status in _TESTED)
    if not claims:
        return "It makes no claims."
    shown = count["shown"]
    parts = [f"{shown} of {tested} claims hold{'s' * (shown == 1)}"] if tested else []
    parts += [f"{count[s]} {words[count[s] > 1]}" for s, words in _COUNTED.items() if count[s]]
    return ", ".join(parts) + "."


def main_claims(claims: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Returns the primary claims, or else the first few that were tested."""
    primary = [claim for claim in claims if claim.get("primary")]
    return primary or [claim for claim in claims if claim["status"] in _TESTED][:_MAIN_CLAIMS]


def in_words(claim: Mapping[str, Any]) -> dict[str, str]:
    """Returns a claim's mark, its status in words, and its cells as text, for a list."""
    mark, words, tone = _MARKS[claim["status"]]
    cells = claim_cells(claim)
    return {"mark": mark, "words": words, "tone": tone} | {
        name: cells[name].text for name in ("claim", "paper", "ours", "interval", "condition")
    }


def claim_table(claims: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[list[Cell]]]:
    """Returns the columns and rows of claims, of a sweep's `report.json`, less empty columns."""
    rows = [claim_cells(claim) for claim in claims]
    used = [name for name in (rows[0] if rows else ()) if any(row[name].text for row in rows)]
    return used, [[row[name] for name in used] for row in rows]


def _runs(workdir: Path, results: pd.DataFrame) -> tuple[str | None, list[str], list[Any]]:
    """Returns the table of runs: the metric of their curves, its columns, its rows."""
    histories = {}
    for name in results["id"]:
        if (files.run_directory(workdir, name) / "metrics.jsonl").exists():
            histories[name] = files.read_all_metrics(workdir, name)
    metric, drawn = courses.draw(histories)
    others = [name for name in results if name not in ("id", "status", "message")]
    columns = ["run", *(["course"] if metric else []), "status", *others, "folder"]
    rows = []
    for number, result in enumerate(results.to_dict("records"), start=1):
        name, message = result["id"], result.get("message")
        course = drawn.get(name)
        end = course.points.rpartition(",")[2] if course else ""
        row = [Cell(str(number), "number", number)]
        if metric:
            row.append(Cell(name, "course", -float(end) if end else "", course=course))
        row.append(Cell(result["status"], "status", note=message if message == message else ""))
        values = (value_cell(files.plain(result[column])) for column in others)
        rows.append([*row, *values, Cell(f"runs/{name}", "id")])
    return metric, columns, rows


def command_line(argv: list[str]) -> str:
    """Returns a recorded command as it is typed."""
    if not argv:
        return ""
    return shlex.join(["python", "-m", f"launch.{Path(argv[0]).stem}", *argv[1:]])


def _machine(record: dict[str, Any]) -> list[list[Cell]]:
    """Returns a sweep's host, devices and versions, as rows of a table."""
    rows = []
    if host := record.get("host"):
        rows += [("machine", machine.in_words(host)), ("Python", host["python"])]
    rows += [("devices", ", ".join(record.get("devices", [])))]
    rows += list(record.get("versions", {}).items())
    return [[Cell(name), Cell(text)] for name, text in rows]


def _source(path: Path) -> str:
    """Returns a figure as an address that holds the figure itself; `path` is its SVG."""
    kind = "svg+xml"
    if path.stat().st_size > _LARGEST_SVG:
        path, kind = path.with_suffix(".png"), "png"
    return f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"


def _summary(results: pd.DataFrame) -> str:
    failed = int((results["status"] == "failed").sum())
    words = f"{len(results)} runs, {failed or 'none'} failed"
    if "seconds" in results:
        words += f", {duration(float(results['seconds'].sum()))} in all"
    return words + "."


def report_page(workdir: Path, results: pd.DataFrame, report: Report) -> str:
    """Returns a sweep's page; its figures and `config.json`, if any, are read from the folder."""
    path = workdir / "config.json"
    record = files.read_record(workdir) if path.exists() else {}
    config = pd.json_normalize(record.get("config", {})).to_dict("records")
    metric, columns, rows = _runs(workdir, results)
    claims = [files.plain(claim._asdict()) for claim in report.claims]
    return (
        environment()
        .get_template("report.html")
        .render(
            title=report.title,
            summary=_summary(results),
            counts=counts_in_words(claims),
            figures=[
                {"caption": caption, "source": _source(workdir / f"{name}.svg")}
                for name, caption in report.captions.items()
            ],
            main_claims=list(map(in_words, main_claims(claims))),
            has_primary=any(claim["primary"] for claim in claims),
            claims=claim_table(claims),
            tables=[(name, list(table), _rows(table)) for name, table in report.tables],
            notes=report.notes,
            metric=metric,
            run_columns=columns,
            runs=rows,
            command=command_line(record.get("command", [])),
            machine=_machine(record) if record else [],
            config=[
                [Cell(name), Cell(str(value))] for row in config for name, value in row.items()
            ],
        )
    )

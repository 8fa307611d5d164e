"""Extensions of the documentation's Markdown, marks of stale results, links to Colab."""

import re
import sys
from pathlib import Path

from markdown import Extension, Markdown

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the package that the pages are of, whatever else is installed

from lsa_jax.reporting import gallery  # noqa: E402
from lsa_jax.sweep import gallery_pages, publishing  # noqa: E402
from notebooks import prepare  # noqa: E402

_GALLERY = Path(__file__).with_name("gallery")
_NARROW = re.compile(
    r'<td.*?</td>|<code>[^<]*</code>|<div class="language-bash.*?</div>', re.DOTALL
)
_FLAG = re.compile(r"(?<![\w-])--[a-z]+")
_NUMBERED = re.compile(r"# (\w+) ([\d.]+)")  # a page's title: "Table 1 and figures 1, 2, ..."
_SEAM = re.compile(r"<[^>]*>|(?<=\w)[/_](?=\w)")  # a tag, or the end of a part of a path
_ADDRESS = re.compile(r'(src|href)="(?!\w+:|[/#])([^"]*)"')


class _AnglesAreText(Extension):
    """Lets <w, x> in a docstring be a product of vectors, and no HTML tag that is never closed."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.deregister("html")


def on_config(config):
    """Adds the extension to those of mkdocs.yml, and the project's address where it is set."""
    config.repo_url = prepare.ADDRESS or None
    config.markdown_extensions.append(_AnglesAreText())
    return config


def _notice(item):
    """Returns a notice on an item whose configuration or report has changed since."""
    changes = publishing.changes(str(ROOT / item.sweep.config), item.fingerprint)
    if not changes:
        return ""
    return f'<p class="gallery-stale">Stale, as changed since: {" and ".join(changes)}.</p>'


def _address(found, page):
    """Returns an attribute of HTML whose address is of a page as built, in a folder of its own."""
    place = re.sub(r"(?:index)?\.md(?=#|$)", "/", found[2])
    up = "" if page.file.src_uri.endswith("index.md") else "../"
    return f'{found[1]}="{up}{place}"'


def _opened(found):
    """Returns the name of a notebook, linked to Colab if the project's address is set."""
    link = prepare.colab(found[1], prepare.ADDRESS)
    return f"[{found[0]}]({link})" if link else found[0]


def on_page_markdown(markdown, page, config, files):
    """Marks stale results on a page of the gallery, and links its HTML to pages as built."""
    if page.file.src_uri == "notebooks.md":
        return re.sub(r"`(\w+)\.ipynb`", _opened, markdown)
    if page.file.src_uri.startswith("api/"):
        page.meta["search"] = {"boost": 0.5}  # pages that explain come first
    if not page.file.src_uri.startswith("gallery/"):
        return markdown
    page.meta["hide"] = ["toc"]  # which leaves tables and cards more room
    if title := _NUMBERED.match(markdown):  # "Table 1" finds the table, not pages that name it,
        page.meta["tags"] = [f"{title[1]} {title[2]}"]
        page.meta["search"] = {"boost": 8 ** (1 - len(title[2]))}  # nor table 10
    markdown = markdown.replace(
        '<div class="gallery-wide', '<div data-search-exclude="" class="gallery-wide'
    )
    for item in gallery.read(_GALLERY).values():
        mark = gallery_pages.MARK.format(item.name)
        if mark in markdown:
            markdown = markdown.replace(mark, _notice(item))
    return _ADDRESS.sub(lambda found: _address(found, page), markdown)


def _breakable(found):
    """Returns HTML whose paths break after a slash or an underscore, and no flag after `--`."""
    html = _SEAM.sub(lambda seam: seam[0] + "<wbr>" * (seam[0][0] != "<"), found[0])
    return _FLAG.sub(r'<span class="flag">\g<0></span>', html)


def on_post_page(output, page, config):
    """Lets paths in tables and commands break between their parts."""
    return _NARROW.sub(_breakable, output)

"""The flag --open, which shows a written page in the user's browser."""

import webbrowser
from pathlib import Path

from absl import flags

_OPEN = flags.DEFINE_bool("open", False, "Open the page that is written, in a browser.")


def open_page(path: Path) -> None:
    """Opens a page if --open is set; prints its path where there is no browser."""
    if _OPEN.value and not webbrowser.open(path.absolute().as_uri()):
        print(f"no browser was found; the page is {path.absolute()}")

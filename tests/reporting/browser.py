"""A headless browser's measurements of a page, at the width of a telephone and of a desk."""

import html
import json
import re
import shutil
import subprocess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# The page in a frame of some width; what it looks like goes into the outer document.
_FRAME = """<!doctype html><iframe id="f" style="width:{width}px;height:900px;border:0"
srcdoc="{page}"></iframe><pre id="measured"></pre><script>
onload = () => {{
  const d = document.getElementById("f").contentDocument;
  {act}
  const all = [...d.images];
  document.getElementById("measured").textContent = JSON.stringify({{
    width: d.documentElement.scrollWidth,
    images: all.length,
    broken: all.filter((i) => !i.complete || !i.naturalWidth).length,
    first: [...d.querySelectorAll("td.id")].map((cell) => cell.innerText),
  }});
}};
</script>"""


def measure(page, width, directory, act=""):
    """Returns a page's width in pixels, its images, and the ids of its runs in their order."""
    outer = directory / "outer.html"
    outer.write_text(_FRAME.format(width=width, page=html.escape(page), act=act))
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-quic", "--disable-background-networking", "--disable-component-update"]
    command += ["--disable-sync", "--virtual-time-budget=5000", "--window-size=1400,1000"]
    command += [f"--user-data-dir={directory / 'profile'}", "--dump-dom", outer.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = re.search(r'<pre id="measured">(.*?)</pre>', dom, re.DOTALL)
    return json.loads(html.unescape(found[1]))

"""A headless browser's measurements of a page of a site."""

import html
import json
import re
import shutil
import subprocess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

# The page in a frame of some width; measurements go into the outer document.
_FRAME = """<!doctype html><iframe id="f" style="width:{width}px;height:900px;border:0"
{source}></iframe><pre id="measured"></pre><script>
const look = async (d) => {{
  {act}
  {look}
  return measured;
}};
onload = async () => {{
  const seen = await look(document.getElementById("f").contentDocument).catch((e) => e.stack);
  document.getElementById("measured").textContent = JSON.stringify(seen);
}};
</script>"""

# Words of paths are looked at letter by letter: those of one word stand on one line.
_LOOK = """
  const all = [...d.querySelectorAll("article img")], broken = [], split = [], dead = [];
  for (const image of all) {
    image.loading = "eager";
    const loaded = new Promise((done) => { image.onload = image.onerror = done; });
    if (!image.complete) await loaded;
    if (!image.naturalWidth) broken.push(image.getAttribute("src"));
  }
  const height = d.documentElement.scrollHeight;
  for (const details of d.querySelectorAll("details")) details.open = true;
  const width = d.documentElement.clientWidth;
  const wide = [...d.querySelectorAll("table")]
    .map((t) => (t.closest(".gallery-wide") ?? t).getBoundingClientRect())  // which scrolls
    .filter((box) => box.left < 0 || box.right > width).map((box) => box.right);
  const texts = d.createTreeWalker(d.querySelector("article"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (!/\\w\\/\\w/.test(node.parentNode.textContent)) continue;
    for (const word of node.data.matchAll(/[A-Za-z0-9]+/g)) {
      const range = d.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) split.push(word[0]);
    }
  }
  const linked = [...d.querySelectorAll("article a[href]")].map((a) => a.href);
  for (const address of new Set(linked.filter((a) => a.startsWith(location.origin)))) {
    const answer = await fetch(address), anchor = new URL(address).hash.slice(1);
    const found = anchor ? (await answer.text()).includes(`id="${anchor}"`) : true;
    if (!answer.ok || !found) dead.push(address);
  }
  const shown = [...d.querySelectorAll(".gallery-card")].filter((c) => !c.hidden);
  const cards = shown.map((c) => ({...c.dataset}));
  const measured = {
    width: d.documentElement.scrollWidth, height, images: all.length, broken, wide, split, dead,
    cards,
  };
"""


def _run(address, directory):
    """Returns the measurements of the outer document at an address."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    command += ["--disable-quic", "--disable-background-networking", "--disable-component-update"]
    command += ["--disable-sync", "--virtual-time-budget=20000", "--window-size=1400,1000"]
    command += [f"--user-data-dir={directory / 'profile'}", "--dump-dom", address]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = re.search(r'<pre id="measured">(.*?)</pre>', dom, re.DOTALL)
    return json.loads(html.unescape(found[1]))


def look(site, address, place, width, directory, act=""):
    """Returns measurements of a page of a site.

    Args:
        site: the site's folder, into which the outer document is put.
        address: where the folder is served.
        place: of the page, below it.
        width: of the window.
        directory: for the browser's profile.
        act: a script that runs before.

    Returns:
        The page's `width` and, with its details closed, `height`; how many `images` it has and
        which are `broken`; the right edges of tables that are too `wide`; words of paths that are
        `split`; links that are `dead`; the data of the `cards` that are shown.
    """
    source = f'src="{address}/{place}"'
    outer = site / "outer.html"
    outer.write_text(_FRAME.format(width=width, source=source, act=act, look=_LOOK))
    return _run(f"{address}/outer.html", directory)

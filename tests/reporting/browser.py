"""A headless browser's measurements of the pages of a site."""

import contextlib
import functools
import http.server
import json
import queue
import shutil
import subprocess
import threading

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic"]
_FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]

# Shows each page in a frame, at each width, and sends the measurements to the server.
_OUTER = """<!doctype html><iframe id="frame" style="height:1000px;border:0"></iframe><script>
const [pages, widths] = GIVEN, answers = new Map(), seen = {};
const frame = document.getElementById("frame");
frame.style.width = `${widths.at(-1)}px`;
const text = (address) => answers.get(address) ?? answers.set(address,
  fetch(address).then((answer) => answer.ok ? answer.text() : "")).get(address);
const act = async (d) => { ACT };
LOOK
(async () => {
  for (const page of pages) {
    await new Promise((done) => { frame.onload = done; frame.src = page; });
    const d = frame.contentDocument;
    await act(d);
    seen[page] = await once(d);
    for (const width of widths) {
      frame.style.width = `${width}px`;
      seen[page][width] = atWidth(d);
    }
  }
})().catch((e) => { seen.error = e.stack; })
  .then(() => fetch("seen", {method: "POST", body: JSON.stringify(seen)}));
</script>"""

# Words of paths are looked at letter by letter: those of one word stand on one line.
_LOOK = """
const once = async (d) => {
  const images = [...d.querySelectorAll("article img")], broken = [], dead = [];
  for (const image of images) {
    image.loading = "eager";
    const loaded = new Promise((done) => { image.onload = image.onerror = done; });
    if (!image.complete) await loaded;
    if (!image.naturalWidth || !image.alt) broken.push(image.getAttribute("src"));
  }
  const linked = [...d.querySelectorAll("article a[href]")].map((a) => a.href);
  for (const address of new Set(linked.filter((a) => a.startsWith(location.origin)))) {
    const {hash} = new URL(address), answer = await text(address.replace(hash, ""));
    if (!answer || (hash && !answer.includes(`id="${hash.slice(1)}"`))) dead.push(address);
  }
  const headings = [...d.querySelectorAll("article :is(h1, h2, h3, h4)")].map((h) => h.textContent);
  const repeated = headings.filter((h, place) => headings.indexOf(h) !== place);
  const cards = [...d.querySelectorAll(".gallery-card")].filter((c) => !c.hidden);
  const found = [...d.querySelectorAll(".md-search-result__item > a")].map((a) => a.href);
  return {
    images: images.length, broken, dead, repeated, found, cards: cards.map((c) => ({...c.dataset})),
  };
};
const atWidth = (d) => {
  const folded = [...d.querySelectorAll("details:not([open])")], split = [];
  const height = d.documentElement.scrollHeight, {clientWidth} = d.documentElement;
  for (const details of folded) details.open = true;
  const wide = [...d.querySelectorAll("table, article img")]
    .map((t) => (t.closest(".gallery-wide, .md-typeset__scrollwrap") ?? t).getBoundingClientRect())
    .filter((box) => box.left < 0 || box.right > clientWidth + 1).map((box) => box.right);
  const clipped = [...d.querySelectorAll("article pre > code")]
    .filter((code) => code.scrollWidth > code.clientWidth + 1).map((code) => code.textContent);
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
  for (const details of folded) details.open = false;
  return {width: d.documentElement.scrollWidth, height, wide, clipped, split};
};"""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers["Content-Length"])
        self.server.seen.put(json.loads(self.rfile.read(size)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def serve(folder):
    """Serves a site's folder, as `look` needs it."""
    handler = functools.partial(_Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.folder, server.seen = folder, queue.Queue()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def look(server, pages, widths, profile, act=""):
    """Returns measurements of pages, all by one browser.

    Args:
        server: of the site, from `serve`.
        pages: their places in it.
        widths: of the window.
        profile: a folder for the browser's profile.
        act: a script that runs on each page before, on the document `d`.

    Returns:
        For each page how many `images` it has; those that are `broken` or without words; links that
        are `dead`; headings that are `repeated`; addresses that the search has `found`; the data of
        `cards` that are shown; and for each width (as text) its `width` and, with its details
        closed, `height`; right edges of tables and images that are too `wide`; code that is
        `clipped`; words of paths that are `split`.
    """
    outer = _OUTER.replace("ACT", act).replace("LOOK", _LOOK)
    given = json.dumps([pages, widths])
    (server.folder / "outer.html").write_text(outer.replace("GIVEN", given))
    address = f"http://127.0.0.1:{server.server_port}/outer.html"
    command = [CHROMIUM, *_FLAGS, "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [*command, "--window-size=1400,1100", address],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        seen = server.seen.get(timeout=60 + 10 * len(pages))
    finally:
        process.terminate()
        process.wait()
    assert "error" not in seen, seen["error"]
    return seen

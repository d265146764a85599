"""The built documentation: strict build, links, no external resources, navigation and search.

Without zensical these are skipped: `make docs` installs it into `.venv-docs`, and
`GEMINI_TOOLS_ZENSICAL` names another one. What needs a browser is skipped without Chromium.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shutil
import subprocess
import threading
import zlib
from collections import defaultdict
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

from tests.documentation import DOCS, ROOT
from tests.integration_tests.test_docs import public_names
from tests.integration_tests.test_trace_in_browser import BROWSER, FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterator

_CANDIDATES = (
    os.environ.get("GEMINI_TOOLS_ZENSICAL"),
    str(ROOT / ".venv-docs" / "bin" / "zensical"),
    shutil.which("zensical"),
)
ZENSICAL = next((path for path in _CANDIDATES if path and Path(path).exists()), "")
pytestmark = [
    pytest.mark.skipif(not ZENSICAL, reason="zensical is not installed (run `make docs`)"),
    pytest.mark.timeout(300),
]
HOST = "https://docs.example/"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built from a copy, so that `site/` stays as it is."""
    folder = tmp_path_factory.mktemp("documentation")
    shutil.copytree(DOCS, folder / "docs")
    for path in (*ROOT.glob("*.md"), ROOT / "zensical.toml"):
        shutil.copy(path, folder)
    (folder / "langchain_gemini_tools").symlink_to(ROOT / "langchain_gemini_tools")
    done = subprocess.run(
        [ZENSICAL, "build", "--strict", "--clean"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr
    return folder / "site"


class _Page(HTMLParser):
    """The ids of a page, its links, and the resources that a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" or found.get("rel") in {"next", "prev", "canonical"}:
            self.links += [found["href"]] if "href" in found else []
        else:
            self.resources += [found[name] for name in ("src", "href", "data") if name in found]


def _parse(site: Path) -> dict[str, _Page]:
    """Return every page by its address below the root."""
    return {
        path.relative_to(site).as_posix().removesuffix("index.html"): _Page(
            path.read_text(encoding="utf-8")
        )
        for path in site.rglob("*.html")
        if path.name != "404.html"  # its links begin at the root of the host
    }


def _is_ours(address: str) -> bool:
    return address.startswith(HOST)


# The files


def test_every_link_inside_the_site_leads_somewhere(site: Path) -> None:
    pages = _parse(site)
    broken: dict[str, set[str]] = defaultdict(set)
    for place, page in pages.items():
        for link in [*page.links, *page.resources]:
            address, fragment = urldefrag(urljoin(HOST + place, link))
            if not _is_ours(address):
                continue
            target = unquote(urlsplit(address).path.lstrip("/"))
            if target in pages:
                is_there = not fragment or unquote(fragment) in pages[target].ids
            else:
                is_there = (site / target).is_file()
            if not is_there:
                broken[place].add(link)
    assert broken == {}


def test_llms_txt_links_to_pages(site: Path) -> None:
    targets = re.findall(r"\]\((.+?)\)", (site / "llms.txt").read_text(encoding="utf-8"))
    assert len(targets) > 20
    assert [target for target in targets if not (site / target / "index.html").is_file()] == []


def test_a_browser_loads_nothing_from_elsewhere(site: Path) -> None:
    for place, page in _parse(site).items():
        addresses = [urljoin(HOST + place, resource) for resource in page.resources]
        assert [address for address in addresses if not _is_ours(address)] == [], place
    for path in site.rglob("*.css"):
        style = path.read_text(encoding="utf-8")
        assert re.findall(r"(?:url\(\s*['\"]?|@import\s+['\"])https?:", style) == [], path
    assert [*site.rglob("*.woff*")] == []


def test_every_public_name_is_in_the_inventory(site: Path) -> None:
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    listed = {line.split(" ")[0] for line in zlib.decompress(packed).decode().splitlines()}
    ends = {name.rpartition(".")[2] for name in listed}
    missing = [
        f"{module}.{name}"
        for module, names in public_names().items()
        for name in names
        if name not in ends and name not in {"events", "faults"}  # modules, whose names are listed
    ]
    assert missing == []


def test_the_fields_of_the_model_show_their_descriptions(site: Path) -> None:
    page = (site / "reference/chat-model/index.html").read_text(encoding="utf-8")
    assert 'id="thinking_budget"' in page
    assert "Tokens for thinking; 0 for none, -1 for no limit." in page


def test_the_search_index_has_every_page(site: Path) -> None:
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    found = {item["location"].partition("#")[0] for item in index["items"]}
    assert found == _parse(site).keys()


# In a browser

_PROBE = """<script>
addEventListener('load', () => setTimeout(async () => {
  const report = found => fetch('/report', {method: 'POST', body: JSON.stringify(found)});
  const until = async find => {
    for (let tries = 0; tries < 200; tries++) {
      const found = find();
      if (found) return found;
      await new Promise(resolve => setTimeout(resolve, 50));
    }
    report({failed: String(find), page: location.pathname});
  };
  const all = (root, selector) => [
    ...root.querySelectorAll(selector),
    ...[...root.querySelectorAll('*')].filter(e => e.shadowRoot)
      .flatMap(e => all(e.shadowRoot, selector)),
  ];
  const heading = document.querySelector('h1').firstChild.textContent.trim();
  const steps = JSON.parse(sessionStorage.getItem('steps') || '[]');
  sessionStorage.setItem('steps', JSON.stringify([...steps, [location.pathname, heading]]));
  if (location.search) {
    const loaded = performance.getEntriesByType('resource').map(each => new URL(each.name).origin);
    const origins = [...new Set(loaded)];
    return report({steps: [...steps, [location.pathname, heading]], hash: location.hash, origins});
  }
  if (location.pathname === '/') {
    return all(document, 'nav a').find(a => a.textContent.trim() === 'Tool choice').click();
  }
  document.querySelector('.md-search__button').click();
  const input = await until(() => all(document, 'input[role=combobox]')[0]);
  input.value = 'thinking_budget';
  input.dispatchEvent(new Event('input', {bubbles: true}));
  (await until(() => all(document, 'a').find(a => a.hash === '#thinking_budget'))).click();
}, 100));
</script>"""
"""Clicks through the site as a reader would, and reports where it came."""


class _Probing(SimpleHTTPRequestHandler):
    """Serves the site with the probe in its pages, and keeps its reports."""

    reports: queue.Queue[dict[str, Any]]

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if not path.endswith("/"):
            return super().do_GET()
        page = Path(self.directory, path.lstrip("/"), "index.html").read_text(encoding="utf-8")
        body = page.replace("</body>", f"{_PROBE}</body>").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def do_POST(self) -> None:
        self.reports.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _serve(handler: Any) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.skipif(not BROWSER, reason="Chromium is not installed (Debian: chromium)")
def test_a_reader_finds_a_page_by_navigation_and_an_argument_by_search(
    site: Path, tmp_path: Path
) -> None:
    class Site(_Probing):
        reports: queue.Queue[dict[str, Any]] = queue.Queue()

    with _serve(partial(Site, directory=str(site))) as address:
        options = [
            f"--user-data-dir={tmp_path}",
            "--remote-debugging-port=0",  # stays open until it is stopped
        ]
        browser = subprocess.Popen(
            [BROWSER, *FLAGS, *options, f"{address}/"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            report = Site.reports.get(timeout=120)
        finally:
            browser.terminate()
            browser.wait()
    assert report == {
        "steps": [
            ["/", "langchain-gemini-tools"],
            ["/how-to/tool-choice/", "Tool choice"],
            ["/reference/chat-model/", "ChatGemini"],
        ],
        "hash": "#thinking_budget",
        "origins": [address],
    }

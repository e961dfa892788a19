"""Build the documentation site into build/site: pages of docs/, READMEs, docstrings and executed notebooks.

    python docs/make_site.py

Pages keep the links that work in the repository; here they are turned into links of the site. A page that is not in
mkdocs.yml, a link, an image or an anchor that does not exist is an error.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
PAGES, SITE = ROOT / "build/docs", ROOT / "build/site"
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
# headings of api.md: rooms, in the order of the page
ROOMS = {
    "layer": "The layer", "execute": "The layer", "parse": "Theories and facts", "recipes": "Theories and facts",
    "facts": "Theories and facts", "inference": "Inference", "learning": "Learning",
    "constrain": "Losses, constrained layers, decoding", "estimator": "scikit-learn", "normalize": "Plans",
    "plan": "Plans", "errors": "Errors",
}


def find_sources() -> dict[Path, str]:
    """Every page: where it is in the repository, and its name in the site."""
    found = {path: path.name for path in sorted((ROOT / "docs").glob("*.md"))}
    found |= {ROOT / "CONTRIBUTING.md": "contributing.md", ROOT / "CHANGELOG.md": "changelog.md"}
    found |= {ROOT / "benchmarks/README.md": "benchmarks.md"}
    found |= {path: f"experiments/{path.parent.name}.md" for path in sorted((ROOT / "experiments").glob("*/README.md"))}
    return found


def move_links(page: str, source: Path, sources: dict[Path, str]) -> str:
    """Turn links between files of the repository into links between files of the site."""
    here = Path(sources[source]).parent

    def move(link: re.Match[str]) -> str:
        if "://" in link[1] or link[1].startswith("mailto:"):
            return link[0]
        target = Path(os.path.normpath(source.parent / link[1]))
        if target.is_dir():
            target = target / "README.md" if (target / "README.md").exists() else target
        name = sources.get(target) or target.relative_to(ROOT).as_posix().removeprefix("docs/")
        if target.is_file() and target not in sources:
            (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, PAGES / name)
        return os.path.relpath(name, here) + (link[2] or "")

    def drop(link: re.Match[str]) -> str:
        target = source.parent / link[2]
        # a folder has no page: its link becomes plain text
        return link[1] if target.is_dir() and not (target / "README.md").exists() else link[0]

    return LINK.sub(move, re.sub(r"\[([^\]]*)\]\(([^)\s#:]+)\)", drop, page))


def write_reference() -> str:
    """api.md: every public name by its docstring."""
    import logicmp
    from logicmp import recipes

    names: dict[str, list[str]] = {heading: [] for heading in ROOMS.values()}
    for name, home in sorted(logicmp._HOME.items()):
        names[ROOMS[home.partition(".")[0]]].append(name)
    parts = ["# API\n\nEvery public name, from its docstring. Import each from `logicmp`.\n"]
    for heading, members in names.items():
        if members:
            parts.append(f"\n## {heading}\n")
            parts += [f"\n::: logicmp.{logicmp._HOME[name]}.{name}\n" for name in members]
    parts.append("\n## Recipes\n\nImport the module: `from logicmp import recipes`.\n")
    parts += [f"\n::: {recipes.__name__}.{name}\n" for name, value in vars(recipes).items()
              if inspect.isfunction(value) and value.__module__ == recipes.__name__ and not name.startswith("_")]
    return "".join(parts)


def run_notebook(source: Path) -> None:
    """Execute a notebook, kept as a script in the percent format, and write it with its outputs as a page."""
    import jupytext
    from nbclient import NotebookClient
    from nbconvert import MarkdownExporter

    notebook = jupytext.read(source)
    NotebookClient(notebook, timeout=300, kernel_name="python3",
                   resources={"metadata": {"path": str(ROOT)}}).execute()
    page, resources = MarkdownExporter().from_notebook_node(notebook)
    folder = PAGES / "notebooks"
    folder.mkdir(exist_ok=True)
    for name, content in resources["outputs"].items():
        (folder / f"{source.stem}-{name}").write_bytes(content)
        page = page.replace(f"]({name})", f"]({source.stem}-{name})")
    (folder / f"{source.stem}.md").write_text(page, encoding="utf-8")


class Page(HTMLParser):
    """The links, images and anchors of a built page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.anchors.add(value)
            elif value and name in ("href", "src") and not urlsplit(value).scheme:
                self.links.append(value)


def find_broken_links(site: Path) -> Iterator[str]:
    """Every link, image or anchor of a built site that leads nowhere."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in sorted(pages.items()):
        for link in page.links:
            if path.name == "404.html" or link.startswith("/"):
                continue
            parts = urlsplit(link)
            target = path if not parts.path else Path(os.path.normpath(path.parent / unquote(parts.path)))
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{path.relative_to(site)}: {link}: there is no such file"
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(site)}: {link}: the page has no such anchor"


def main() -> None:
    shutil.rmtree(ROOT / "build/docs", ignore_errors=True)
    shutil.rmtree(SITE, ignore_errors=True)
    sources = find_sources()
    shutil.copytree(ROOT / "docs/images", PAGES / "images")
    shutil.copy(ROOT / "docs/site.css", PAGES)
    for source, name in sources.items():
        (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
        (PAGES / name).write_text(move_links(source.read_text(encoding="utf-8"), source, sources), encoding="utf-8")
    (PAGES / "api.md").write_text(write_reference(), encoding="utf-8")
    for source in sorted((ROOT / "docs/notebooks").glob("*.py")):
        print(f"notebook: {source.name}", file=sys.stderr)
        run_notebook(source)
    zensical = Path(sys.executable).with_name("zensical")
    subprocess.run([zensical, "build", "--clean", "--strict"], cwd=ROOT, check=True)
    broken = list(find_broken_links(SITE))
    if broken:
        raise SystemExit("\n".join(broken))
    print(f"built: {SITE.relative_to(ROOT)}/index.html, {len(list(SITE.rglob('*.html')))} pages")


if __name__ == "__main__":
    main()

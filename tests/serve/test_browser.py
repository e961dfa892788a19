"""The page in a real browser: chromium, driven by playwright, with one server and one browser for all tests."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from serving import Running, running

from logicmp.serve.examples import EXAMPLES
from logicmp.serve.nursery import Settings

# a machine that runs other tests, too, may take a while
expect.set_options(timeout=15_000)
AXE = Path(__file__).parent / "vendor/axe.min.js"
NAMES = [example.name for example in EXAMPLES]
# every iteration goes over 760 million groundings, 40 of them take much longer than the limit on any machine
SLOW = """t = {1, ..., 140}
P(t, t)
0.01 P(a, b) ^ P(b, c) ^ P(c, d) ^ P(d, a) ^ P(a, c) => P(b, d)
0.02 P(a, b) ^ P(b, c) ^ P(c, d) ^ P(d, a) ^ !P(a, c) => P(b, d)
"""


def find_chromium() -> str:
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, (
        "chromium", "chromium-browser", "google-chrome"))), None)
    assert found, "chromium is not installed: run make .venv/browser, or set CHROMIUM to the path of the program"
    return found


@pytest.fixture(scope="module")
def site() -> Iterator[Running]:
    with running(Settings(seconds=3.0, memory=600_000_000, queue=80)) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as tools:
        found = tools.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


class Tab:
    """A page that is open, and everything that went wrong in it."""

    def __init__(self, browser: Browser, site: Running, **options: Any):
        self.site = site
        self.context = browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **options})
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.url)
        self.context.add_init_script(path=AXE)
        self.page: Page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda message: self.wrong.append(message.text) if message.type == "error" else None)
        self.page.on("request", lambda request: self.wrong.append(request.url)
                     if not request.url.startswith((site.url, "blob:", "data:")) else None)
        self.page.goto(site.url)
        self.page.wait_for_selector("#shown[data-shown]", timeout=30_000)

    def shown(self) -> int:
        return int(self.page.get_attribute("#shown", "data-shown") or 0)

    def wait(self, before: int) -> None:
        """Wait for answers newer than the ones before."""
        expect(self.page.locator(f'#shown:not([data-shown="{before}"])')).to_be_attached(timeout=20_000)

    def open(self, name: str) -> None:
        self.page.select_option("#example", "")
        before = self.shown()
        self.page.select_option("#example", name)
        self.wait(before)

    def type_rules(self, text: str) -> None:
        self.page.locator("#rules .cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(text)

    def text(self, editor: str) -> str:
        return str(self.page.locator(f"#{editor} .cm-content").inner_text())


@pytest.fixture(scope="module")
def shared(browser: Browser, site: Running) -> Iterator[Tab]:
    tab = Tab(browser, site, color_scheme="light")
    yield tab
    tab.context.close()


@pytest.fixture
def tab(shared: Tab) -> Iterator[Tab]:
    shared.wrong.clear()
    yield shared
    assert not shared.wrong


# what each example shows first, and its view
FIRST = {"smokers": ("bars", "Smokes(Anna)"), "blocks": ("matrix", "C(Request,Request)"),
         "tagger": ("sequence", "label(Anna) = O"), "sudoku": ("grid", "Cell(1,1,1)"),
         "hierarchy": ("bars", "Has(Animal)"), "entities": ("matrix", "Same(C1,C1)"),
         "ranking": ("matrix", "Ahead(Elk,Elk)")}


@pytest.mark.parametrize("name", NAMES)
def test_every_example_opens_with_all_its_views(tab: Tab, name: str) -> None:
    tab.open(name)
    page = tab.page
    view, atom = FIRST[name]
    expect(page.locator('#views [aria-checked="true"]')).to_have_text(view)
    expect(page.locator("#drawing [data-atom]").first).to_have_attribute("data-atom", atom)
    expect(page.locator("#status")).to_contain_text("exact inference")
    expect(page.locator("#problem")).to_be_hidden()
    for button in page.locator("#views button").all():
        button.click()
        expect(page.locator('#views [aria-checked="true"]')).to_have_text(button.inner_text())
        assert page.locator("#drawing [data-atom]").count() >= 3
    # before the rules, and after an iteration of mean field
    page.locator("#moment").fill("0")
    expect(page.locator("#moment-text")).to_have_text("Before the rules: facts alone.")
    page.locator("#moment").fill("3")
    expect(page.locator("#moment-text")).to_have_text("Mean field after iteration 3 of 12.")


def test_an_error_is_below_its_line_while_one_types_and_goes_away(tab: Tab) -> None:
    tab.open("smokers")
    good = EXAMPLES[0].rules
    before = tab.shown()
    tab.type_rules(good.replace("1.5 Smokes(x)", "1.5 Smoke(x)"))
    error = tab.page.locator("#rules .cm-error")
    expect(error).to_contain_text("predicate 'Smoke' is used but not declared")
    expect(error).to_contain_text("6 | 1.5 Smoke(x) => Cancer(x)\n  |     ^^^^^\nhint: did you mean 'Smokes'?")
    # it stands between its line and the next one
    places = {name: tab.page.locator(f'#rules .cm-line:has-text("{text}")').bounding_box()
              for name, text in (("above", "1.5 Smoke(x)"), ("below", "2 Friends(x, y)"))}
    own = error.bounding_box()
    assert own and places["above"] and places["below"]
    assert places["above"]["y"] < own["y"] < places["below"]["y"]
    expect(tab.page.locator("#shown")).to_have_class("stale")
    assert tab.shown() == before
    tab.type_rules(good)
    tab.wait(before)
    expect(error).to_have_count(0)
    expect(tab.page.locator("#shown")).not_to_have_class("stale")
    # a warning beside its rule, with its text in the list
    tab.page.locator("#rules .cm-remark").first.click()
    expect(tab.page.locator("#warnings li").first).to_contain_text("a weighted implication also lowers its premise")


def test_what_an_example_is_about_goes_when_the_rules_are_others(tab: Tab) -> None:
    tab.open("smokers")
    about = tab.page.locator("#about")
    tab.type_rules(EXAMPLES[0].rules.replace("1.5 ", "").replace("=> Cancer(x)", "=> Cancer(x)."))
    expect(tab.page.locator("#example")).to_have_value("")
    expect(about).to_contain_text("Friends have similar habits")
    tab.type_rules("1 Smokes(x) => Cancer(x)")
    expect(about).to_be_hidden()
    # no error below the hint of an empty editor
    tab.type_rules(" ")
    expect(tab.page.locator("#status")).to_have_text("Type a rule, or choose an example.")
    expect(tab.page.locator(".cm-error")).to_have_count(0)


def test_errors_in_facts_and_query_are_in_their_editors(tab: Tab) -> None:
    tab.open("smokers")
    tab.page.locator("#query .cm-content").click()
    tab.page.keyboard.press("Control+A")
    tab.page.keyboard.insert_text("Smokes, Canser")
    expect(tab.page.locator("#query .cm-error")).to_contain_text("did you mean 'Cancer'?")
    tab.page.locator("#facts .cm-content").click()
    tab.page.keyboard.press("Control+A")
    tab.page.keyboard.insert_text("Smokes(Zoe)")
    expect(tab.page.locator("#facts .cm-error")).to_contain_text("'Zoe' is not a constant of type 'person'")


def test_a_click_on_an_atom_shows_which_rules_pushed_it(tab: Tab) -> None:
    tab.open("smokers")
    tab.page.locator('[data-atom="Smokes(Bob)"]').click()
    why = tab.page.locator("#why")
    expect(why).to_contain_text("Why Smokes(Bob)?")
    expect(why).to_contain_text("2 Friends(x, y) => (Smokes(x) <=> Smokes(y))")
    expect(why).to_contain_text("+2.00Friends(Anna, Bob) => (Smokes(Anna) <=> Smokes(Bob))")
    tab.page.locator('[data-atom="Smokes(Anna)"]').click()
    expect(why).to_contain_text("It is observed")
    # in a graph, too
    tab.page.get_by_role("radio", name="graph").click()
    tab.page.locator('g[data-atom="Smokes(Carl)"]').click()
    expect(why).to_contain_text("Why Smokes(Carl)?")
    why.get_by_role("button", name="line 7").click()
    expect(tab.page.locator("#rules .cm-content")).to_be_focused()
    why.get_by_role("button", name="Close").click()
    expect(why).to_be_hidden()


def test_a_slow_request_is_cut_off_and_the_next_one_answered(tab: Tab) -> None:
    tab.open("smokers")
    tab.page.select_option("#method", "layer")
    tab.page.locator("#iterations").fill("40")
    tab.page.locator("#query .cm-content").click()
    tab.page.keyboard.press("Control+A")
    tab.page.keyboard.insert_text("P(1, x)")
    tab.page.locator("#facts .cm-content").click()
    tab.page.keyboard.press("Control+A")
    tab.page.keyboard.press("Delete")
    tab.type_rules(SLOW)
    # by then the method has the answers of some iterations, or none
    expect(tab.page.locator(".results")).to_contain_text("time limit", timeout=20_000)
    # the console reports a rejected request
    tab.wrong.clear()
    tab.open("smokers")
    expect(tab.page.locator("#status")).to_contain_text("exact inference")


def test_fifty_requests_at_once_are_answered(tab: Tab) -> None:
    statuses = tab.page.evaluate("""async () => Promise.all(Array.from({length: 50}, async (_, n) => {
      const body = JSON.stringify({rules: `t = {A}\\nP(t)\\n${n} P(x)`})
      const found = await fetch("/api/check", {method: "POST", headers: {"Content-Type": "application/json"}, body})
      return [found.status, (await found.json()).weights[0].value]
    }))""")
    assert statuses == [[200, n] for n in range(50)]


@pytest.mark.parametrize("width", [360, 700])
def test_a_narrow_window_needs_no_sideways_scrolling(tab: Tab, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 740})
    try:
        for name in ("blocks", "tagger", "smokers"):
            tab.open(name)
            assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= width
        # the answers are below the model
        model, answers = (tab.page.locator(part).bounding_box() for part in (".model", ".results"))
        assert model and answers and answers["y"] >= model["y"] + model["height"] - 1
    finally:
        tab.page.set_viewport_size({"width": 1300, "height": 900})


def test_the_keyboard_alone_reaches_everything(tab: Tab) -> None:
    tab.open("smokers")
    page = tab.page
    page.locator(".skip").focus()
    reached = ["Skip to the answers"]
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("""() => { const e = document.activeElement
          return e.id || e.dataset.atom || e.getAttribute("aria-label") || e.textContent.slice(0, 30) }"""))
        if "Plan" in reached:
            break
    wanted = ["Skip to the answers", "example", "share", "code", "report", "theme", "Rules", "Facts", "Query",
              "method", "Smokes", "bars", "Smokes(Anna)", "moment", "Sliders", "weight-0", "weight-1", "iterations",
              "temperature", "Trace of mean field", "Plan"]
    assert [name for name in reached if name in wanted] == wanted
    # arrow keys: an atom, its explanation, an iteration, a weight
    page.locator('[data-atom="Smokes(Anna)"]').focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#why")).to_contain_text("Why Smokes(Bob)?")
    page.locator("#moment").focus()
    page.keyboard.press("Home")
    expect(page.locator("#moment-text")).to_have_text("Before the rules: facts alone.")
    page.keyboard.press("End")
    before = tab.shown()
    page.locator("#weight-0").focus()
    page.keyboard.press("ArrowRight")
    tab.wait(before)
    assert "1.6 Smokes(x) => Cancer(x)" in tab.text("rules")
    expect(page.locator("#weight-0")).to_be_focused()
    page.locator("#groups [role=tab]").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator('#groups [aria-selected="true"]')).to_have_text("Cancer")
    expect(page.locator('[data-atom="Cancer(Anna)"]')).to_be_visible()


def test_a_matrix_is_walked_by_rows_and_columns(tab: Tab) -> None:
    tab.open("blocks")
    tab.page.locator('[data-atom="C(Request,Request)"]').focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowLeft"):
        tab.page.keyboard.press(key)
    focused = tab.page.evaluate("() => document.activeElement.dataset.atom")
    assert focused == "C(Analysis,Request)"


def test_the_strip_can_be_dragged(tab: Tab) -> None:
    tab.open("blocks")
    frames = tab.page.locator("#strip canvas")
    assert frames.count() == 14
    first, third = (frames.nth(k).bounding_box() for k in (0, 2))
    assert first and third
    tab.page.mouse.move(first["x"] + 5, first["y"] + 5)
    tab.page.mouse.down()
    expect(tab.page.locator("#moment-text")).to_have_text("Before the rules: facts alone.")
    tab.page.mouse.move(third["x"] + 5, third["y"] + 5, steps=4)
    tab.page.mouse.up()
    expect(tab.page.locator("#moment-text")).to_have_text("Mean field after iteration 2 of 12.")


def test_a_slider_changes_text_answers_and_link(tab: Tab) -> None:
    for name in NAMES:
        tab.open(name)
        slider = tab.page.locator("#weights input, #iterations").first
        link, before = tab.page.url, tab.shown()
        slider.fill("2")
        tab.wait(before)
        expect(tab.page).not_to_have_url(link)


def test_an_example_chosen_right_after_a_slider_is_answered(tab: Tab) -> None:
    tab.open("smokers")
    tab.page.locator("#weight-0").fill("2")
    tab.page.wait_for_timeout(300)
    # the answer of the check comes after the moment at which the slider is read again
    tab.page.route("**/api/check", lambda route: (tab.page.wait_for_timeout(250), route.continue_()))
    tab.page.select_option("#example", "blocks")
    expect(tab.page.locator('[data-atom="C(Request,Request)"]').first).to_be_visible()
    tab.page.unroute("**/api/check")


def test_a_link_holds_the_model(tab: Tab, browser: Browser, site: Running) -> None:
    tab.open("smokers")
    before = tab.shown()
    tab.type_rules(EXAMPLES[0].rules.replace("1.5", "0.7") + "// 😀 ünïcode\n")
    tab.wait(before)
    tab.page.locator("#share").click()
    expect(tab.page.locator("#toast")).to_have_text("Link copied.")
    link = tab.page.evaluate("() => navigator.clipboard.readText()")
    assert re.fullmatch(rf"{re.escape(site.url)}/#1[\w-]+", link)
    other = tab.context.new_page()
    other.goto(link)
    expect(other.locator("#rules .cm-content")).to_contain_text("0.7 Smokes(x) => Cancer(x)")
    expect(other.locator("#rules .cm-content")).to_contain_text("// 😀 ünïcode")
    other.close()
    # a link that is damaged opens the first example
    broken = tab.context.new_page()
    broken.goto(f"{site.url}/#1abc")
    expect(broken.locator("#toast")).to_have_text("This link holds no model that can be read.")
    expect(broken.locator("#example")).to_have_value("smokers")
    broken.close()


def test_code_and_report(tab: Tab, tmp_path: Path) -> None:
    tab.open("smokers")
    tab.page.get_by_role("button", name="Code").click()
    expect(tab.page.locator("#python")).to_contain_text("found = infer(RULES, FACTS, query='Smokes, Cancer')")
    expect(tab.page.locator("#command")).to_contain_text("logicmp infer -i rules.mln -e facts.db -q 'Smokes, Cancer'")
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#programs")).to_be_hidden()
    with tab.page.expect_download() as waiting:
        tab.page.get_by_role("button", name="Report").click()
    path = tmp_path / "report.html"
    waiting.value.save_as(path)
    page = tab.context.new_page()
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.goto(path.as_uri())
    expect(page.locator("h1")).to_have_text("LogicMP report")
    expect(page.locator("table").first).to_contain_text("Smokes(Bob)")
    assert loaded == [path.as_uri()]
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.close()


def violations(page: Page) -> list[str]:
    found = page.evaluate("""async () => {
      const {violations} = await axe.run(document, {resultTypes: ["violations"]})
      const say = (node) => `${node.target.join(" ")} ${node.failureSummary}`
      return violations.map((one) => `${one.id}: ${one.nodes.map(say).join("; ")}`)
    }""")
    return list(found)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_barrier(browser: Browser, site: Running, theme: Any) -> None:
    tab = Tab(browser, site, color_scheme=theme)
    page = tab.page
    assert page.locator("html").get_attribute("data-theme") == theme
    for name, view in (("smokers", "bars"), ("blocks", "matrix"), ("tagger", "sequence"), ("sudoku", "grid"),
                       ("ranking", "graph")):
        tab.open(name)
        page.get_by_role("radio", name=view).click()
        if name == "ranking":
            page.locator("#drawing [data-atom]").first.press("Enter")
            expect(page.locator("#why")).to_be_visible()
            for summary in page.locator("summary:visible").all():
                summary.click()
        assert violations(page) == []
    tab.type_rules("1 P(x) =>")
    expect(page.locator("#rules .cm-error")).to_be_visible()
    # what is out of date is faint on purpose
    page.evaluate('() => document.getElementById("shown").classList.remove("stale")')
    page.get_by_role("button", name="Code").click()
    expect(page.locator("#programs")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.locator("#theme").click()
    assert page.locator("html").get_attribute("data-theme") == {"light": "dark", "dark": "light"}[theme]
    assert not tab.wrong
    tab.context.close()

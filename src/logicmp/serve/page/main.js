// The page: what is typed goes to the server, what comes back is drawn. All state is in `state` and in the editors.
import { makeEditor } from "./editor.js"
import { fromHash, toHash } from "./link.js"
import { draw, drawn, element, long, moveByKeys, thumbnail } from "./views.js"

const get = (id) => document.getElementById(id)
const state = { examples: [], checked: null, answers: null, group: 0, view: {}, moment: null, chosen: null, all: false, relations: [] }
const editors = {}

// the server

class ServerProblem extends Error { constructor(problem) { super(problem.message); this.problem = problem } }

async function ask(path, body, signal) {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal })
  if (response.ok) return response
  let problem
  try { problem = await response.json() } catch { problem = { kind: "internal", where: "model", message: `the server answered with status ${response.status}`, text: `the server answered with status ${response.status}` } }
  throw new ServerProblem(problem)
}

const model = () => ({ rules: editors.rules.text(), facts: editors.facts.text(), query: editors.query.text() })
const question = () => ({ ...model(), method: get("method").value, iterations: Number(get("iterations").value), temperature: temperature() })
const temperature = () => Number((10 ** Number(get("temperature").value)).toPrecision(2))

// While a slider moves, requests run one after the other, and only the newest waits. Typing cancels what runs.
const running = { infer: null, check: null, again: false }

async function infer({ cancels }) {
  if (running.infer) {
    if (cancels) running.infer.abort()
    else { running.again = true; return }
  }
  const own = running.infer = new AbortController()
  running.again = false
  // answers of the model before must not look like those of this one
  const slow = setTimeout(() => { say("computing …"); get("shown").classList.add("stale") }, 400)
  try {
    const answers = await (await ask("/api/infer", question(), own.signal)).json()
    if (running.infer !== own) return
    show(answers)
  } catch (error) {
    if (error.name === "AbortError" || running.infer !== own) return
    fail(error)
  } finally {
    clearTimeout(slow)
    if (running.infer === own) {
      running.infer = null
      if (running.again) infer({ cancels: false })
    }
  }
}

async function check() {
  running.check?.abort()
  const own = running.check = new AbortController()
  if (!editors.rules.text().trim()) {
    for (const editor of Object.values(editors)) editor.show([], [])
    showGeneral([])
    showWarnings([])
    get("shown").classList.add("stale")
    say("Type a rule, or choose an example.")
    return false
  }
  try {
    const sent = model()
    const checked = await (await ask("/api/check", sent, own.signal)).json()
    if (running.check !== own) return false
    state.checked = checked
    for (const weight of checked.weights) weight.text = sent.rules.slice(weight.start, weight.end)
    for (const where of ["rules", "facts", "query"])
      editors[where].show(checked.problems.filter((p) => p.where === where && p.start !== null), checked.warnings.filter((w) => w.where === where))
    showGeneral(checked.problems.filter((p) => p.start === null))
    showWarnings(checked.warnings)
    if (!checked.problems.length) makeSliders(checked.weights)
    get("shown").classList.toggle("stale", checked.problems.length > 0)
    if (checked.problems.length) say("The answers below are those of the last valid model.")
    return !checked.problems.length
  } catch (error) {
    if (error.name !== "AbortError") fail(error)
    return false
  }
}

// what an example is about fits its rules with any weights, or with full stops instead
const shape = () => editors.rules.text().replace(/-?\d+(\.\d+)?|\.\s*$|\s/gm, "")

let typing, remembering
function changed({ now = false } = {}) {
  clearTimeout(typing)
  // the check that follows a slider would cancel the one below, and answer nothing
  clearTimeout(remembering)
  get("about").hidden = shape() !== state.shape
  // answers of the text before must not be shown for this one
  running.infer?.abort()
  running.infer = null
  typing = setTimeout(async () => {
    remember()
    if (await check()) infer({ cancels: true })
  }, now ? 0 : 150)
}

function fail(error) {
  const problem = error.problem ?? { where: "model", text: "The server cannot be reached. Start it with: logicmp serve", start: null }
  get("shown").classList.add("stale")
  say("No answers.")
  if (problem.where !== "model" && problem.start !== null && problem.start !== undefined) { editors[problem.where].show([problem], []); showGeneral([]) } else showGeneral([problem])
}

function showGeneral(problems) {
  get("problem").hidden = !problems.length
  get("problem").textContent = problems.map((p) => p.text).join("\n\n")
}

function showWarnings(warnings) {
  const box = get("warnings")
  box.hidden = !warnings.length
  box.querySelector("summary").textContent = `${warnings.length} warning${warnings.length === 1 ? "" : "s"}`
  box.querySelector("ul").replaceChildren(...warnings.map(({ where, lines, message }) => element("li", {
    textContent: `${lines.length ? `${where}, line${lines.length > 1 ? "s" : ""} ${lines.join(", ")}` : where}: ${message}` })))
}

function say(...parts) { get("status").replaceChildren(...parts.map((part) => (typeof part === "string" ? element("span", { textContent: part }) : part))) }

let toastTimer
function toast(text) {
  get("toast").textContent = text
  get("toast").classList.add("on")
  clearTimeout(toastTimer)
  toastTimer = setTimeout(() => get("toast").classList.remove("on"), 2500)
}

// the address bar

let hash = ""
async function remember() {
  hash = await toHash({ ...model(), method: get("method").value, iterations: Number(get("iterations").value), temperature: Number(get("temperature").value) })
  history.replaceState(null, "", hash)
}

async function openLink() {
  try {
    const found = await fromHash(location.hash)
    if (found) open(found)
    return found !== null
  } catch {
    toast("This link holds no model that can be read.")
    return false
  }
}

function open(given) {
  for (const where of ["rules", "facts", "query"]) editors[where].set(given[where] ?? "")
  get("method").value = [...get("method").options].some((one) => one.value === given.method) ? given.method : "auto"
  get("iterations").value = Number.isFinite(given.iterations) ? given.iterations : 12
  get("temperature").value = Number.isFinite(given.temperature) ? given.temperature : 0
  showOutputs()
  Object.assign(state, { group: 0, view: {}, moment: null, chosen: null, all: false })
  get("why").hidden = true
  const example = state.examples.find((one) => ["rules", "facts", "query"].every((where) => one[where] === (given[where] ?? "")))
  get("example").value = example?.name ?? ""
  get("about").textContent = example?.about ?? ""
  state.shape = example ? shape() : null
  changed({ now: true })
}

// sliders

function makeSliders(weights) {
  const box = get("weights")
  const isSame = box.children.length === weights.length && weights.every((w, k) => box.children[k].dataset.rule === w.rule)
  if (!isSame) {
    box.replaceChildren(...weights.map((weight, k) => {
      const id = `weight-${k}`
      const range = element("input", { type: "range", id, min: Math.min(-5, Math.floor(weight.value)), max: Math.max(5, Math.ceil(weight.value)), step: 0.1 })
      range.addEventListener("input", () => setWeight(k, Number(range.value)))
      const line = element("div", { className: "slider" }, element("label", { for: id, textContent: weight.rule, title: weight.rule }), range, element("output", { for: id }))
      line.dataset.rule = weight.rule
      return line
    }))
  }
  weights.forEach((weight, k) => {
    const range = box.children[k].querySelector("input")
    if (document.activeElement !== range || Math.abs(Number(range.value) - weight.value) > 0.051) range.value = weight.value
    box.children[k].querySelector("output").textContent = Number(weight.value.toPrecision(4))
  })
}

// a slider changes the number in the text of the rules, so that link, code and answers agree
function setWeight(k, value) {
  const { weights } = state.checked
  const text = String(Number(value.toFixed(1)))
  const { start, end } = weights[k]
  // typed over since the text was checked: the next check makes new sliders
  if (editors.rules.text().slice(start, end) !== weights[k].text) return
  isSliding = true
  editors.rules.replace(start, end, text)
  isSliding = false
  const shift = text.length - (end - start)
  Object.assign(weights[k], { end: start + text.length, value, text })
  for (const other of weights) if (other !== weights[k] && other.start > start) { other.start += shift; other.end += shift }
  makeSliders(weights)
  slid()
}
let isSliding = false

function slid() {
  infer({ cancels: false })
  clearTimeout(remembering)
  remembering = setTimeout(() => { remember(); check() }, 400)
}

function showOutputs() {
  get("iterations").nextElementSibling.textContent = get("iterations").value
  get("temperature").nextElementSibling.textContent = String(temperature())
}

// answers

function show(answers) {
  showGeneral([])
  get("shown").classList.remove("stale")
  state.answers = answers
  state.relations = answers.relations
  state.group = Math.min(state.group, answers.groups.length - 1)
  const frames = answers.trace?.frames.length ?? 0
  if (state.moment !== null && state.moment >= frames) state.moment = null
  const seconds = answers.seconds < 0.0995 ? `${Math.max(1, Math.round(1000 * answers.seconds))} ms` : `${answers.seconds.toFixed(2)} s`
  const kind = answers.is_exact ? element("b", { className: "exact", textContent: "exact inference" })
    : answers.status === "optimal" ? element("b", { className: "exact", textContent: "the most probable world" })
      : element("b", { className: "approximate", textContent: `approximate (${answers.used}, ${{ converged: "converged", iterations: "all iterations used", time: "time limit reached" }[answers.status] ?? answers.status})` })
  const off = answers.difference ? `at most ${answers.difference.largest.toFixed(3)} from exact, for ${answers.difference.atom}`
    : answers.why_no_difference ? `not compared with exact inference: ${answers.why_no_difference}` : ""
  const z = answers.log_partition !== null ? `log Z ${answers.log_partition.toFixed(3)}` : answers.bound !== null ? `log Z at least ${answers.bound.toFixed(3)}` : ""
  say(kind, seconds, ...(z ? [z] : []), ...(off ? [off] : []))
  get("notes").querySelector("ul").replaceChildren(...answers.notes.map((text) => element("li", { textContent: text })))
  get("notes").hidden = !answers.notes.length
  get("plan").querySelector("pre").textContent = answers.plan
  showGroups()
  showTrace()
  redraw()
  if (state.chosen && !get("why").hidden) explain(state.chosen)
  // so that tests can wait for new answers
  get("shown").dataset.shown = Number(get("shown").dataset.shown ?? 0) + 1
}

const group = () => state.answers.groups[state.group]
const offset = (g) => state.answers.groups.slice(0, g).reduce((sum, one) => sum + one.answers.length, 0)
const viewOf = (one) => { const chosen = state.view[one.predicate ?? one.query]; return one.views.includes(chosen) ? chosen : one.views[0] }

function valuesAt(moment) {
  const final = group().answers.map((answer) => answer.probability)
  if (moment === null) return final
  const frame = state.answers.trace.frames[moment], from = offset(state.group)
  return final.map((p, k) => frame[from + k] ?? p)
}

function choices(box, role, names, chosen, pick) {
  const hadFocus = box.contains(document.activeElement)
  box.replaceChildren(...names.map(([value, text]) => {
    const isChosen = value === chosen
    const button = element("button", { type: "button", role, textContent: text, tabIndex: isChosen ? 0 : -1 })
    button.setAttribute(role === "tab" ? "aria-selected" : "aria-checked", isChosen)
    if (role === "tab") button.setAttribute("aria-controls", "drawing")
    button.addEventListener("click", () => pick(value))
    return button
  }))
  if (hadFocus) box.querySelector('[tabindex="0"]')?.focus()
  box.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
    if (!step) return
    event.preventDefault()
    pick(names[(names.findIndex(([value]) => value === chosen) + step + names.length) % names.length][0])
  }
}

function showGroups() {
  choices(get("groups"), "tab", state.answers.groups.map((one, k) => [k, one.query]), state.group, (k) => { state.group = k; state.all = false; showGroups(); redraw() })
  const one = group()
  choices(get("views"), "radio", one.views.map((view) => [view, view]), viewOf(one), (view) => { state.view[one.predicate ?? one.query] = view; showGroups(); redraw() })
  get("views").hidden = one.views.length < 2
}

function redraw() {
  draw(get("drawing"), group(), valuesAt(state.moment), viewOf(group()), state)
  showStrip()
}

function showStrip() {
  const trace = state.answers.trace
  get("strip").hidden = !trace || group().predicate === null
  if (get("strip").hidden) return
  const n = trace.frames.length
  const range = get("moment")
  range.max = n
  range.value = state.moment ?? n
  const number = state.moment === null ? null : trace.iterations[state.moment]
  const text = number === null ? `Answers by ${state.answers.used}. Drag to see mean field, iteration by iteration.`
    : number === 0 ? "Before the rules: facts alone." : `Mean field after iteration ${number} of ${trace.iterations.at(-1)}.`
  range.setAttribute("aria-valuetext", text)
  get("moment-text").textContent = text
  // not more pictures than can be seen
  const most = 13, shown = [...new Set(Array.from({ length: Math.min(most, n) }, (_, k) => Math.round((k * (n - 1)) / Math.max(1, Math.min(most, n) - 1)))), null]
  const box = get("strip").querySelector(".frames")
  while (box.children.length > shown.length) box.lastChild.remove()
  while (box.children.length < shown.length) box.append(element("canvas"))
  shown.forEach((moment, k) => {
    const canvas = box.children[k]
    thumbnail(canvas, group(), valuesAt(moment))
    canvas.dataset.moment = moment ?? n
    canvas.classList.toggle("now", (moment ?? n) === Number(range.value))
    canvas.title = moment === null ? `answers by ${state.answers.used}` : `iteration ${trace.iterations[moment]}`
  })
}

function setMoment(value) {
  const n = state.answers.trace.frames.length
  state.moment = value >= n ? null : value
  redraw()
}

// why

let explaining
async function explain(atom) {
  explaining?.abort()
  explaining = new AbortController()
  state.chosen = atom
  for (const one of get("drawing").querySelectorAll("[data-atom]")) one.classList.toggle("chosen", one.dataset.atom === atom)
  const box = get("why")
  box.hidden = false
  if (group().predicate === null) { box.replaceChildren(whyHead(atom), element("p", { textContent: "Rules push atoms. Select an atom of a query such as Smokes or Smokes(x)." })); return }
  try {
    const found = await (await ask("/api/explain", { ...question(), atom }, explaining.signal)).json()
    if (state.chosen === atom) showWhy(found)
  } catch (error) {
    if (error.name !== "AbortError") box.replaceChildren(whyHead(atom), element("p", { textContent: error.problem?.text ?? "The server cannot be reached." }))
  }
}

function whyHead(atom) {
  const close = element("button", { type: "button", className: "quiet", textContent: "Close" })
  close.addEventListener("click", () => {
    get("why").hidden = true
    get("drawing").querySelector(`[data-atom="${CSS.escape(atom)}"]`)?.focus()
    state.chosen = null
    redraw()
  })
  return element("h2", {}, element("span", { textContent: `Why ${atom}?` }), close)
}

const signed = (x) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(2)}`

function showWhy(found) {
  const box = get("why")
  if (found.observed) { box.replaceChildren(whyHead(found.atom), element("p", { textContent: "It is observed: a fact, or the closed world, decides it." })); return }
  const row = (amount, text, className, line) => {
    const rule = element("td", { className: "rule" }, text)
    if (line) {
      const link = element("button", { type: "button", className: "quiet", textContent: `line ${line}` })
      link.addEventListener("click", () => editors.rules.goTo(line))
      rule.append(" ", link)
    }
    return element("tr", { className }, element("td", { className: `amount ${amount < 0 ? "down" : "up"}`, textContent: signed(amount) }), rule)
  }
  const rows = [row(found.before, "the facts alone", "", null)]
  for (const push of found.pushes) {
    if (Math.abs(push.amount) < 1e-9 && !push.groundings.length) continue
    rows.push(row(push.amount, push.rule, "", push.line))
    for (const part of push.groundings) rows.push(row(part.amount, part.text, "part", null))
  }
  const hasValue = group().answers.some((answer) => answer.atom === found.atom && answer.value !== null)
  const sum = found.before + found.pushes.reduce((total, push) => total + push.amount, 0)
  box.replaceChildren(whyHead(found.atom), element("table", {}, element("tbody", {}, ...rows)),
    element("p", { className: "note", textContent: `Amounts add to the log-odds of mean field; an indented line is the part of one grounding. Sum ${signed(sum)}${hasValue ? ", compared with the other values." : `: probability ${long(1 / (1 + Math.exp(-sum)))} in mean field.`}` }))
}

// the trace

const LINES = ["#2f6fd0", "#c2591b", "#2f8a5b", "#8a4fb0", "#9a7b10", "#b03a5b", "#3a8f9e", "#6b7280"]

const shortNumber = (x) => Number(x.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 })

function showTrace() {
  const trace = state.answers.trace, box = get("trace").querySelector("div")
  get("trace").hidden = !trace
  if (!trace || !get("trace").open) return
  const wide = Math.min(560, box.clientWidth), high = 130
  const chart = (name, lines) => {
    const all = lines.flatMap(([values]) => values), low = Math.min(...all), top = Math.max(...all), span = top - low || 1
    const last = trace.iterations.at(-1) || 1
    const svg = drawn("svg", { viewBox: `0 0 ${wide} ${high + 24}`, width: wide, role: "img", "aria-label": `${name} over ${last} iterations, from ${lines[0]?.[0][0]?.toFixed(3)} to ${lines[0]?.[0].at(-1)?.toFixed(3)}` },
      drawn("line", { class: "axis", x1: 50, x2: wide, y1: high, y2: high }), drawn("text", { x: 0, y: 12 }, shortNumber(top)), drawn("text", { x: 0, y: high }, shortNumber(low)),
      drawn("text", { x: 50, y: high + 16 }, "0"), drawn("text", { x: wide - 80, y: high + 16 }, `${last} iterations`))
    for (const [values, colour] of lines)
      svg.append(drawn("polyline", { stroke: colour, points: values.map((v, k) => `${50 + (trace.iterations[k] / last) * (wide - 60)},${high - ((v - low) / span) * (high - 12) - 2}`).join(" ") }))
    return svg
  }
  const rules = trace.rules.map((rule, f) => [trace.violations.map((row) => row[f]), LINES[f % LINES.length], rule])
  box.replaceChildren(element("p", { className: "note", textContent: "Lower bound of log Z" }), chart("Lower bound of log Z", [[trace.bound, LINES[0]]]),
    element("p", { className: "note", textContent: "Expected violations of each rule" }), ...(rules.length ? [chart("Expected violations", rules)] : []),
    ...rules.map(([, colour, rule]) => { const mark = element("i"); mark.style.background = colour; return element("p", { className: "key" }, mark, rule) }))
}

// buttons

async function showCode() {
  try {
    const found = await (await ask("/api/code", question())).json()
    get("python").textContent = found.python
    get("command").textContent = found.command
    get("programs").showModal()
  } catch (error) { fail(error) }
}

async function download() {
  toast("Making the report …")
  try {
    const data = await (await ask("/api/report", question())).blob()
    const link = element("a", { href: URL.createObjectURL(data), download: "logicmp-report.html" })
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 1000)
    toast("Report downloaded.")
  } catch (error) { fail(error) }
}

async function copy(text, told) {
  try { await navigator.clipboard.writeText(text); toast(told) } catch { toast("The browser does not allow copying. Select the text instead.") }
}

function setTheme(name) {
  document.documentElement.dataset.theme = name
  if (state.answers) { redraw(); showTrace() }
}

function start() {
  const onChange = () => { if (!isSliding) { get("example").value = ""; changed() } }
  editors.rules = makeEditor(get("rules"), { label: "Rules", hint: "2 Smokes(x) => Cancer(x)", onChange })
  editors.facts = makeEditor(get("facts"), { label: "Facts", hint: "Smokes(Anna)", onChange })
  editors.query = makeEditor(get("query"), { label: "Query", hint: "every predicate that is not closed", isShort: true, onChange })
  const dark = matchMedia("(prefers-color-scheme: dark)")
  let kept = null
  try { kept = localStorage.getItem("theme") } catch { /* not allowed: follow the system */ }
  setTheme(kept ?? (dark.matches ? "dark" : "light"))
  dark.addEventListener("change", () => { if (!kept) setTheme(dark.matches ? "dark" : "light") })
  get("theme").addEventListener("click", () => {
    kept = document.documentElement.dataset.theme === "dark" ? "light" : "dark"
    try { localStorage.setItem("theme", kept) } catch { /* kept until the page is closed */ }
    setTheme(kept)
  })
  get("share").addEventListener("click", async () => { await remember(); copy(location.href, "Link copied.") })
  get("code").addEventListener("click", showCode)
  get("report").addEventListener("click", download)
  for (const button of document.querySelectorAll(".copy")) button.addEventListener("click", () => copy(get(button.dataset.of).textContent, "Copied."))
  get("method").addEventListener("change", () => { remember(); infer({ cancels: true }) })
  for (const id of ["iterations", "temperature"]) get(id).addEventListener("input", () => { showOutputs(); slid() })
  get("moment").addEventListener("input", () => setMoment(Number(get("moment").value)))
  get("strip").querySelector(".frames").addEventListener("pointermove", (event) => { if (event.buttons && event.target.dataset.moment) setMoment(Number(event.target.dataset.moment)) })
  get("strip").querySelector(".frames").addEventListener("pointerdown", (event) => { event.target.releasePointerCapture?.(event.pointerId); if (event.target.dataset.moment) setMoment(Number(event.target.dataset.moment)) })
  get("trace").addEventListener("toggle", showTrace)
  addEventListener("remark", () => { get("warnings").open = true })
  get("drawing").addEventListener("click", (event) => {
    if (event.target.closest("[data-more]")) { state.all = true; redraw(); return }
    const one = event.target.closest("[data-atom]")
    if (one) explain(one.dataset.atom)
  })
  get("drawing").addEventListener("keydown", (event) => {
    // SVG groups are no buttons of the browser
    const one = event.target.closest("g[data-atom]")
    if (one && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); explain(one.dataset.atom) }
  })
  moveByKeys(get("drawing"))
  get("example").addEventListener("change", () => {
    const example = state.examples.find((one) => one.name === get("example").value)
    if (example) open(example)
  })
  addEventListener("hashchange", () => { if (location.hash !== hash) openLink() })
}

start()
say("starting …")
try {
  state.examples = await (await fetch("/api/examples")).json()
  get("example").replaceChildren(element("option", { value: "", textContent: "your own" }), ...state.examples.map(({ name, title }) => element("option", { value: name, textContent: title })))
  if (!(await openLink())) open(state.examples[0])
} catch (error) { fail(error) }

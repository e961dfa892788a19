// Ways to draw the answers to one query: bars, matrix, sequence, grid and graph.
// Every drawing is keyboard-operable: one mark takes part in the tab order, arrow keys move to the others.
import { layout } from "./graph.js"

// bars at first, and on request
const FEW_BARS = 60, MOST_BARS = 2000
const svgName = "http://www.w3.org/2000/svg"

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name)
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("aria-") || key === "role" || key === "scope" || key === "for") made.setAttribute(key, value)
    else made[key] = value
  }
  made.append(...children)
  return made
}

export function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS(svgName, name)
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  made.append(...children)
  return made
}

export const short = (p) => (p === 0 || p === 1 ? String(p) : p > 0.995 ? ">.99" : p < 0.005 ? "·" : p.toFixed(2).replace(/^0/, ""))
export const long = (p) => (p === 0 || p === 1 ? String(p) : p > 0.9995 ? ">0.999" : p < 0.0005 ? "<0.001" : p.toFixed(3))

// the colour of a probability, and a colour for text on it
export function heat(p) {
  const style = getComputedStyle(document.documentElement)
  const [low, high] = ["--low", "--high"].map((name) => style.getPropertyValue(name).trim().split(/\s+/).map(Number))
  const mixed = low.map((x, k) => Math.round(x + (high[k] - x) * p))
  const [r, g, b] = mixed.map((x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4 })
  const light = 0.2126 * r + 0.7152 * g + 0.0722 * b
  return { background: `rgb(${mixed.join(" ")})`, color: 1.05 / (light + 0.05) >= 4.5 ? "#ffffff" : "#000000" }
}

const more = (answer) => (answer.observed ? ", a fact" : answer.before === null ? "" : `, before the rules ${long(answer.before)}`)

// its name for those who do not see it begins with the text that is seen
function mark(button, answer, p, state, seen = long(p)) {
  button.dataset.atom = answer.atom
  if (seen !== null) button.setAttribute("aria-label", `${answer.atom}: ${seen}${more(answer)}`)
  button.title = `${answer.atom}: ${long(p)}${more(answer)}`
  button.classList.toggle("observed", answer.observed)
  if (state.chosen === answer.atom) button.classList.add("chosen")
  return button
}

function bars(group, values, state) {
  const order = group.answers.map((answer, k) => [answer, values[k]]).sort((a, b) => b[1] - a[1])
  const shown = order.slice(0, state.all ? MOST_BARS : FEW_BARS)
  const list = element("ul", { className: "bars" })
  for (const [answer, p] of shown) {
    const fill = element("span", { className: "fill" })
    fill.style.width = `${100 * p}%`
    const track = element("span", { className: "track" }, fill)
    if (answer.before !== null && !answer.observed) {
      const tick = element("span", { className: "tick" })
      tick.style.left = `calc(${100 * answer.before}% - 1px)`
      track.append(tick)
    }
    const button = element("button", { type: "button" }, element("span", { className: "name", textContent: answer.atom }), track,
      element("span", { className: "number", textContent: long(p) }), element("span", { className: "unseen", textContent: more(answer) }))
    list.append(element("li", {}, mark(button, answer, p, state, null)))
  }
  const parts = [list]
  if (order.length > shown.length) {
    const n = order.length.toLocaleString("en")
    const rest = element("button", { type: "button", textContent: order.length > MOST_BARS ? `Show ${MOST_BARS.toLocaleString("en")} of ${n}` : `Show all ${n}` })
    rest.dataset.more = "1"
    parts.push(state.all ? element("p", { className: "note", textContent: `${(order.length - shown.length).toLocaleString("en")} more answers, less probable` }) : rest)
  }
  const hasTicks = shown.some(([answer]) => answer.before !== null && !answer.observed)
  parts.push(element("p", { className: "note", textContent: `Bar: probability.${hasTicks ? " Tick: probability before the rules." : ""}` }))
  return parts
}

const distinct = (items) => [...new Set(items)]

function heatTable(className, columns, corner) {
  const head = element("tr", {}, element("td", { textContent: corner }), ...columns.map((name) => element("th", { scope: "col" }, element("span", { textContent: name }))))
  return [element("table", { className: `heat ${className}${columns.some((name) => name.length > 5) && columns.length > 6 ? " many" : ""}` }, element("thead", {}, head)), element("tbody")]
}

function cell(answer, p, state, text = short(p)) {
  const button = element("button", { type: "button", textContent: text })
  const { background, color } = heat(p)
  Object.assign(button.style, { background, color })
  return mark(button, answer, p, state, text)
}

function matrix(group, values, state) {
  const rows = distinct(group.answers.map((a) => a.args[0])), columns = distinct(group.answers.map((a) => a.args[1]))
  const [table, body] = heatTable("", columns, "")
  const at = new Map(group.answers.map((answer, k) => [answer.args.join("\u0000"), k]))
  for (const row of rows) {
    const line = element("tr", {}, element("th", { scope: "row", textContent: row }))
    for (const column of columns) {
      const k = at.get(`${row}\u0000${column}`)
      line.append(element("td", {}, ...(k === undefined ? [] : [cell(group.answers[k], values[k], state)])))
    }
    body.append(line)
  }
  table.append(body)
  return [table, element("p", { className: "note", textContent: "Rows: first argument. Columns: second. A dot is a probability below 0.005." })]
}

// one categorical variable per position: a column each, the values below each other
function sequence(group, values, state) {
  const places = distinct(group.answers.map((a) => a.args[0])), labels = distinct(group.answers.map((a) => a.value))
  const [table, body] = heatTable("sequence", places, "")
  const at = new Map(group.answers.map((answer, k) => [`${answer.args[0]}\u0000${answer.value}`, k]))
  const best = new Map(places.map((place) => [place, labels.reduce((one, other) => (
    (values[at.get(`${place}\u0000${other}`)] ?? -1) > (values[at.get(`${place}\u0000${one}`)] ?? -1) ? other : one))]))
  for (const label of labels) {
    const line = element("tr", {}, element("th", { scope: "row", textContent: label }))
    for (const place of places) {
      const k = at.get(`${place}\u0000${label}`)
      const made = k === undefined ? null : cell(group.answers[k], values[k], state)
      if (made && best.get(place) === label) made.classList.add("best")
      line.append(element("td", {}, ...(made ? [made] : [])))
    }
    body.append(line)
  }
  table.append(body)
  return [table, element("p", { className: "note", textContent: "The frame marks the most probable value of each column." })]
}

// one categorical variable per cell: its best value, or all that are possible
function grid(group, values, state) {
  const rows = distinct(group.answers.map((a) => a.args[0])), columns = distinct(group.answers.map((a) => a.args[1]))
  const [table, body] = heatTable("grid", columns, "")
  const cells = new Map()
  group.answers.forEach((answer, k) => {
    const key = answer.args.join("\u0000")
    if (!cells.has(key)) cells.set(key, [])
    cells.get(key).push([answer, values[k]])
  })
  for (const row of rows) {
    const line = element("tr", {}, element("th", { scope: "row", textContent: row }))
    for (const column of columns) {
      const found = (cells.get(`${row}\u0000${column}`) ?? []).sort((a, b) => b[1] - a[1])
      if (!found.length) { line.append(element("td")); continue }
      const [answer, p] = found[0]
      const others = found.filter(([, q]) => q > 0.05).map(([other]) => other.value)
      const button = cell(answer, p, state, p > 0.5 ? answer.value : "")
      if (p < 0.995) {
        button.append(" ", element("small", { textContent: p > 0.5 ? short(p) : others.join(" ") }))
        mark(button, answer, p, state, button.textContent.trim())
      }
      line.append(element("td", {}, button))
    }
    body.append(line)
  }
  table.append(body)
  return [table]
}

function graph(group, values, state) {
  const isPair = group.types.length === 2
  const relation = isPair ? null : state.relations.find((found) => found.type === group.types[0])
  const names = distinct(group.answers.flatMap((a) => a.args))
  const pairs = isPair ? group.answers.map((a, k) => [...a.args, values[k], k]).filter(([a, b]) => a !== b)
    : (relation?.pairs ?? []).filter(([a, b]) => a !== b && names.includes(a) && names.includes(b)).map(([a, b]) => [a, b, 1, -1])
  const wide = 640, high = Math.min(520, 220 + 22 * names.length)
  // the same places for every frame, so that only colours change while one drags
  const places = layout(names, pairs.filter(([, , p, k]) => (k < 0 ? 1 : Math.max(p, group.answers[k].probability)) > 0.3), wide, high)
  const isMutual = isPair && group.answers.every((a, k) => { const other = state.twin.get(`${a.args[1]}\u0000${a.args[0]}`); return other === undefined || Math.abs(values[other] - values[k]) < 1e-9 })
  const svg = drawn("svg", { class: "graph", viewBox: `0 0 ${wide} ${high}`, width: wide, role: "group", "aria-label": `Graph of ${group.query}` })
  for (const [a, b, p, k] of pairs) {
    if (isMutual && k >= 0 && a > b) continue
    if (k >= 0 && p < 0.05) continue
    const [x1, y1] = places.get(a), [x2, y2] = places.get(b)
    const length = Math.hypot(x2 - x1, y2 - y1) || 1, ux = (x2 - x1) / length, uy = (y2 - y1) / length
    // the two directions beside each other
    const aside = k >= 0 && !isMutual ? 5 : 0
    const ends = { x1: x1 + 18 * ux - aside * uy, y1: y1 + 18 * uy + aside * ux, x2: x2 - 20 * ux - aside * uy, y2: y2 - 20 * uy + aside * ux }
    if (k < 0) { svg.append(drawn("line", { class: "relation", ...ends })); continue }
    const edge = drawn("g", { class: "edge mark", role: "button", tabindex: -1 },
      drawn("line", { ...ends, "stroke-width": 1 + 4 * p, "stroke-opacity": 0.15 + 0.85 * p }), drawn("line", { ...ends, class: "hit" }))
    if (!isMutual) {
      const tip = [ends.x2 + 6 * ux, ends.y2 + 6 * uy], side = [-uy * 5, ux * 5]
      edge.append(drawn("path", { class: "arrow", "fill-opacity": 0.15 + 0.85 * p, d: `M${tip} L${ends.x2 - 4 * ux + side[0]},${ends.y2 - 4 * uy + side[1]} L${ends.x2 - 4 * ux - side[0]},${ends.y2 - 4 * uy - side[1]}Z` }))
    }
    svg.append(mark(edge, group.answers[k], p, state))
  }
  names.forEach((name) => {
    const [x, y] = places.get(name)
    const k = isPair ? -1 : state.twin.get(name)
    const circle = drawn("circle", { cx: x, cy: y, r: 14 })
    circle.style.fill = k < 0 ? "var(--wash)" : heat(values[k]).background
    const node = drawn("g", { class: "node" }, circle)
    if (k >= 0) { node.setAttribute("role", "button"); node.setAttribute("tabindex", -1); node.classList.add("mark"); mark(node, group.answers[k], values[k], state) }
    svg.append(node, drawn("text", { x, y: y + 28, "aria-hidden": "true" }, name))
  })
  const note = isPair ? "The width of an edge is its probability." : relation ? `The colour of a node is its probability; edges are ${relation.predicate}.` : "The colour of a node is its probability."
  return [svg, element("p", { className: "note", textContent: note })]
}

const VIEWS = { bars, matrix, sequence, grid, graph }

export function draw(container, group, values, view, state) {
  const focused = container.contains(document.activeElement) ? document.activeElement.dataset.atom : null
  state.twin = new Map(group.answers.map((answer, k) => [answer.args.join("\u0000"), k]))
  container.replaceChildren(...VIEWS[view](group, values, state))
  const all = [...container.querySelectorAll("[data-atom]")]
  const first = all.find((one) => one.dataset.atom === (focused ?? state.chosen)) ?? all[0]
  for (const one of all) one.setAttribute("tabindex", one === first ? 0 : -1)
  if (focused && first) first.focus({ preventScroll: true })
}

// arrow keys move between the marks of a drawing: by rows in a table, else one by one
export function moveByKeys(container) {
  container.addEventListener("keydown", (event) => {
    const from = event.target.closest?.("[data-atom]")
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
    if (!from || (!step && event.key !== "Home" && event.key !== "End")) return
    const all = [...container.querySelectorAll("[data-atom]")]
    let to
    if (event.key === "Home" || event.key === "End") to = event.key === "Home" ? all[0] : all.at(-1)
    else if (from.closest("td") && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      const td = from.closest("td"), row = td.parentElement[step > 0 ? "nextElementSibling" : "previousElementSibling"]
      to = row?.children[[...td.parentElement.children].indexOf(td)]?.querySelector("[data-atom]")
    } else to = all[all.indexOf(from) + step]
    if (!to) return
    event.preventDefault()
    from.setAttribute("tabindex", -1)
    to.setAttribute("tabindex", 0)
    to.focus()
  })
}

// a small picture of a frame: a matrix pixel by pixel, else columns
export function thumbnail(canvas, group, values) {
  const context = canvas.getContext("2d")
  const paint = (p, x, y, w, h) => { context.fillStyle = heat(p).background; context.fillRect(x, y, w, h) }
  const hasValue = group.answers.length > 0 && group.answers[0].value !== null
  if (group.types.length === 2 || (group.types.length === 1 && hasValue)) {
    const isSequence = group.types.length === 1
    const across = group.answers.map((a) => a.args[isSequence ? 0 : 1]), down = group.answers.map((a) => (isSequence ? a.value : a.args[0]))
    const columns = new Map(distinct(across).map((name, k) => [name, k])), rows = new Map(distinct(down).map((name, k) => [name, k]))
    canvas.width = columns.size
    canvas.height = rows.size
    // of a cell with several values, the most probable one
    const best = new Float64Array(columns.size * rows.size)
    values.forEach((p, k) => { const at = rows.get(down[k]) * columns.size + columns.get(across[k]); best[at] = Math.max(best[at], p) })
    best.forEach((p, at) => paint(p, at % columns.size, Math.floor(at / columns.size), 1, 1))
    return
  }
  canvas.width = canvas.height = 48
  const n = Math.min(values.length, 24)
  for (let k = 0; k < n; k++) {
    const high = Math.max(1, Math.round(46 * values[k]))
    paint(0.35 + 0.65 * values[k], (48 * k) / n + 0.5, 48 - high, 48 / n - 1, high)
  }
}

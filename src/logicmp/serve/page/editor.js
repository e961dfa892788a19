// Editors for rules, facts and queries: colours, errors below their line, warnings beside it.
import {
  Decoration, EditorState, EditorView, HighlightStyle, StateEffect, StateField, StreamLanguage, WidgetType,
  bracketMatching, defaultKeymap, drawSelection, highlightActiveLine, history, historyKeymap, keymap, lineNumbers,
  placeholder, setDiagnostics, syntaxHighlighting, tags,
} from "./vendor/codemirror.js"

const language = StreamLanguage.define({
  startState: () => ({ inComment: false }),
  token(stream, state) {
    if (state.inComment) {
      if (stream.match(/.*?\*\//)) state.inComment = false
      else stream.skipToEnd()
      return "comment"
    }
    if (stream.match("//")) { stream.skipToEnd(); return "comment" }
    if (stream.match("/*")) { state.inComment = true; return "comment" }
    if (stream.match(/"(?:[^"\\]|\\.)*"?/)) return "string"
    if (stream.match(/(?:symmetric|in|not|exists?|forall|and|or|v)(?![\w'])/i)) return "keyword"
    if (stream.match(/[A-Za-z_][\w'-]*(?=\s*\()/)) return "function"
    if (stream.match(/[A-Z][\w'-]*/)) return "atom"
    if (stream.match(/[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?![\w])/i)) return "number"
    if (stream.match(/\??[a-z_][\w']*/)) return "variableName"
    if (stream.match(/<=>|=>|<->|->|!=|[!^=~|&¬∧∨⇒→⇔↔≠∈∉∃∀]/)) return "operator"
    stream.next()
    return null
  },
  tokenTable: { function: tags.function(tags.variableName) },
  languageData: { commentTokens: { line: "//" } },
})

const colours = HighlightStyle.define([
  { tag: tags.comment, color: "var(--code-note)", fontStyle: "italic" },
  { tag: tags.number, color: "var(--code-number)" },
  { tag: [tags.keyword, tags.operator], color: "var(--code-word)" },
  { tag: tags.function(tags.variableName), color: "var(--code-name)", fontWeight: "600" },
  { tag: tags.variableName, color: "var(--code-var)" },
  { tag: tags.string, color: "var(--code-number)" },
])

const look = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "transparent" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--soft)", border: "none" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent-soft) 40%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "none" },
  ".cm-placeholder": { color: "var(--soft)" },
})

class ErrorBlock extends WidgetType {
  constructor(text) { super(); this.text = text }
  eq(other) { return other.text === this.text }
  toDOM() {
    const block = document.createElement("div")
    block.className = "cm-error"
    block.textContent = this.text
    return block
  }
}

class Remark extends WidgetType {
  constructor(text) { super(); this.text = text }
  eq(other) { return other.text === this.text }
  toDOM() {
    const mark = document.createElement("span")
    mark.className = "cm-remark"
    mark.textContent = "warning"
    mark.title = this.text
    // the list below the editors has the text
    mark.addEventListener("mousedown", () => mark.dispatchEvent(new CustomEvent("remark", { bubbles: true })))
    return mark
  }
}

const setMarks = StateEffect.define()
const marks = StateField.define({
  create: () => Decoration.none,
  update(value, transaction) {
    for (const effect of transaction.effects) if (effect.is(setMarks)) return effect.value
    return value.map(transaction.changes)
  },
  provide: (field) => EditorView.decorations.from(field),
})

export function makeEditor(parent, { label, hint, isShort, onChange }) {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      extensions: [
        ...(isShort ? [] : [lineNumbers(), highlightActiveLine()]), history(), drawSelection(), bracketMatching(), language,
        syntaxHighlighting(colours), look, marks, placeholder(hint), EditorView.lineWrapping,
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0", spellcheck: "false", autocapitalize: "off" }),
        EditorView.updateListener.of((update) => { if (update.docChanged) onChange(update) }),
      ],
    }),
  })
  return {
    view,
    text: () => view.state.doc.toString(),
    set(text) {
      if (text !== view.state.doc.toString()) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } })
    },
    // replace some characters, as a slider does
    replace(from, to, insert) { view.dispatch({ changes: { from, to, insert } }) },
    goTo(line) {
      const { from } = view.state.doc.line(Math.min(line, view.state.doc.lines))
      view.dispatch({ selection: { anchor: from }, scrollIntoView: true })
      view.focus()
    },
    // errors of the library below their line, its warnings beside the rule
    show(problems, warnings) {
      const { doc } = view.state
      const found = [], diagnostics = []
      for (const { start, end, text, message } of problems) {
        const from = Math.min(start ?? 0, doc.length), to = Math.max(from, Math.min(end ?? from, doc.length))
        found.push(Decoration.widget({ widget: new ErrorBlock(text), block: true, side: 2 }).range(doc.lineAt(from).to))
        diagnostics.push({ from, to: Math.max(to, Math.min(from + 1, doc.length)), severity: "error", message })
      }
      const beside = new Map()
      for (const { lines, message } of warnings)
        for (const line of lines) if (line <= doc.lines) beside.set(line, [...(beside.get(line) ?? []), message])
      for (const [line, messages] of beside)
        found.push(Decoration.widget({ widget: new Remark(messages.join("; ")), side: 1 }).range(doc.line(line).to))
      view.dispatch({ effects: setMarks.of(Decoration.set(found, true)) })
      view.dispatch(setDiagnostics(view.state, diagnostics))
    },
  }
}

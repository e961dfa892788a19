// the parts of CodeMirror 6 that page/editor.js uses, as one file
export { EditorState, StateEffect, StateField, Compartment } from "@codemirror/state"
export { EditorView, Decoration, WidgetType, keymap, lineNumbers, drawSelection, highlightActiveLine, placeholder } from "@codemirror/view"
export { history, historyKeymap, defaultKeymap } from "@codemirror/commands"
export { StreamLanguage, HighlightStyle, syntaxHighlighting, bracketMatching } from "@codemirror/language"
export { setDiagnostics, lintGutter } from "@codemirror/lint"
export { tags } from "@lezer/highlight"

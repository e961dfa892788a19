// Make the vendored files: CodeMirror as one module for the page, axe-core for the tests, each with its licences.
import { build } from "esbuild"
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"

const here = dirname(fileURLToPath(import.meta.url))
const page = join(here, "../src/logicmp/serve/page/vendor")
const tests = join(here, "../tests/serve/vendor")
for (const folder of [page, tests]) mkdirSync(folder, { recursive: true })

const { metafile } = await build({
  entryPoints: [join(here, "codemirror.mjs")], outfile: join(page, "codemirror.js"), absWorkingDir: here,
  bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "none", metafile: true, charset: "utf8",
})
// every package that has code in the bundle, with its licence
const names = new Set()
for (const input of Object.keys(metafile.inputs)) {
  const found = input.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//)
  if (found) names.add(found[1])
}
const parts = [...names].sort().map((name) => {
  const folder = join(here, "node_modules", name)
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"))
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry))
  if (!file) throw new Error(`${name} has no licence file`)
  return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`
})
writeFileSync(join(page, "LICENSES.txt"), `codemirror.js is made of these packages by web/build.mjs.\n\n${parts.join(`\n${"-".repeat(80)}\n\n`)}`)
// Mozilla Public License 2.0, with its notice in the file
copyFileSync(join(here, "node_modules/axe-core/axe.min.js"), join(tests, "axe.min.js"))
copyFileSync(join(here, "node_modules/axe-core/LICENSE"), join(tests, "LICENSE-axe-core.txt"))

// the lock file has versions and checksums, but not from where this machine got the packages
const lock = join(here, "package-lock.json")
const data = JSON.parse(readFileSync(lock, "utf8"))
for (const entry of Object.values(data.packages)) delete entry.resolved
writeFileSync(lock, `${JSON.stringify(data, null, 2)}\n`)

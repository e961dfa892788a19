// The address bar holds the model: JSON, compressed, as letters that need no escape.
const streamed = async (data, stream) => new Uint8Array(await new Response(new Blob([data]).stream().pipeThrough(stream)).arrayBuffer())

export async function toHash(model) {
  const data = await streamed(new TextEncoder().encode(JSON.stringify(model)), new CompressionStream("deflate-raw"))
  let letters = ""
  for (const byte of data) letters += String.fromCharCode(byte)
  return `#1${btoa(letters).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "")}`
}

// null if the address has no model; throws if it has one that cannot be read
export async function fromHash(hash) {
  if (!hash.startsWith("#1") || hash.length < 3) return null
  const letters = atob(hash.slice(2).replace(/-/g, "+").replace(/_/g, "/"))
  const data = Uint8Array.from(letters, (letter) => letter.charCodeAt(0))
  const model = JSON.parse(new TextDecoder().decode(await streamed(data, new DecompressionStream("deflate-raw"))))
  if (typeof model.rules !== "string") throw new Error("no rules")
  // an editor that is given anything but text never returns
  for (const where of ["facts", "query"]) if (!["string", "undefined"].includes(typeof model[where])) throw new Error(where)
  return model
}

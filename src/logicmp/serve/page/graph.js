// Places for the nodes of a small graph: springs along edges, repulsion between all, from a circle, the same every time.
export function layout(names, pairs, wide, high) {
  const n = names.length, x = new Float64Array(n), y = new Float64Array(n)
  const index = new Map(names.map((name, k) => [name, k]))
  names.forEach((_, k) => { x[k] = Math.cos((2 * Math.PI * k) / n); y[k] = Math.sin((2 * Math.PI * k) / n) })
  const edges = pairs.map(([a, b]) => [index.get(a), index.get(b)])
  const ideal = 1.6 / Math.sqrt(Math.max(n, 1)), rounds = n > 120 ? 40 : 150
  for (let round = 0; round < rounds; round++) {
    const dx = new Float64Array(n), dy = new Float64Array(n)
    for (let a = 0; a < n; a++) {
      for (let b = a + 1; b < n; b++) {
        const u = x[a] - x[b], v = y[a] - y[b], d2 = u * u + v * v + 1e-4, force = (ideal * ideal) / d2
        dx[a] += u * force; dy[a] += v * force; dx[b] -= u * force; dy[b] -= v * force
      }
      // towards the middle, so that parts stay together
      dx[a] -= 0.5 * x[a]; dy[a] -= 0.5 * y[a]
    }
    for (const [a, b] of edges) {
      const u = x[a] - x[b], v = y[a] - y[b], force = Math.hypot(u, v) / ideal / 2
      dx[a] -= u * force; dy[a] -= v * force; dx[b] += u * force; dy[b] += v * force
    }
    const most = 0.12 * (1 - round / rounds) + 0.005
    for (let k = 0; k < n; k++) {
      const size = Math.hypot(dx[k], dy[k]) || 1
      x[k] += (dx[k] / size) * Math.min(size, most); y[k] += (dy[k] / size) * Math.min(size, most)
    }
  }
  const [left, right, top, bottom] = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)]
  const fit = (value, low, top_, from, to) => (top_ - low < 1e-9 ? (from + to) / 2 : from + ((value - low) / (top_ - low)) * (to - from))
  return new Map(names.map((name, k) => [name, [fit(x[k], left, right, 60, wide - 60), fit(y[k], top, bottom, 30, high - 46)]]))
}

/** Reads `/metrics`: samples by series, such as `farebox_requests_total{operation="…",status="200"}`. */
export type Samples = ReadonlyMap<string, number>

export async function scrape(port: number): Promise<Samples> {
  const answer = await fetch(`http://127.0.0.1:${port}/metrics`)
  if (!answer.ok) throw new Error(`/metrics answered ${answer.status}`)
  return readSamples(await answer.text())
}

/** Returns the names of all exported metrics, including those without a sample; a histogram has three. */
export async function scrapeNames(port: number): Promise<readonly string[]> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  return [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_sum`, `${name}_count`] : [name],
  )
}

function readSamples(text: string): Samples {
  const samples = new Map<string, number>()
  for (const line of text.split('\n')) {
    const [, series, value] = /^([a-zA-Z_:][^ {]*(?:\{.*\})?) (\S+)$/.exec(line) ?? []
    if (series !== undefined) samples.set(series, Number(value))
  }
  return samples
}

/** Returns the samples of one metric by their labels. */
export function samplesOf(samples: Samples, name: string): Readonly<Record<string, number>> {
  const own = [...samples].filter(([series]) => series === name || series.startsWith(`${name}{`))
  return Object.fromEntries(own.map(([series, value]) => [series.slice(name.length), value]))
}

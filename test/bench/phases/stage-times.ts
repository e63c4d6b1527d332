/** Sum and count of each stage's durations so far, from the processes' metrics. */
export type StageTimes = ReadonlyMap<string, { readonly seconds: number; readonly count: number }>

const LINE = /^farebox_stage_duration_seconds_(sum|count)\{([^}]*)\} (\S+)$/
const STAGE = /(?:^|,)stage="([^"]*)"/

/** Reads the stage times of all given processes together. Empty when they measure no stages. */
export async function readStageTimes(ports: readonly number[]): Promise<StageTimes> {
  const times = new Map<string, { seconds: number; count: number }>()
  for (const port of ports)
    for (const line of (await scrape(port)).split('\n')) {
      const [, kind, labels = '', value] = LINE.exec(line) ?? []
      const stage = STAGE.exec(labels)?.[1]
      if (stage === undefined) continue
      const time = times.get(stage) ?? { seconds: 0, count: 0 }
      if (kind === 'sum') time.seconds += Number(value)
      else time.count += Number(value)
      times.set(stage, time)
    }
  return times
}

/** Returns the mean milliseconds of each stage per call between two readings. */
export function stageMsBetween(before: StageTimes, after: StageTimes, calls: number): ReadonlyMap<string, number> {
  return new Map(
    [...after].map(([stage, { seconds }]) => [
      `stage ${stage}`,
      ((seconds - (before.get(stage)?.seconds ?? 0)) * 1000) / calls,
    ]),
  )
}

/** Returns a process's metrics; empty when it serves none. */
async function scrape(port: number): Promise<string> {
  try {
    return await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  } catch (error) {
    if (error instanceof TypeError) return ''
    throw error
  }
}

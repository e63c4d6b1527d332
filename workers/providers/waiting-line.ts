/** What a job wants: a call with one of its model's deployments that it has not called yet. */
export interface Turn<Place> {
  readonly publicModel: string
  /** When its job was accepted: jobs that were accepted earlier are served first, also those that were deferred. */
  readonly acceptedAt: Date
  readonly prefix?: string | undefined
  /** The places that it has had. */
  readonly tried: ReadonlySet<Place>
  /** Ends the wait. */
  readonly signal: AbortSignal
}

interface LineDependencies<Place, Taken> {
  /** Takes a place for a turn. Returns `wait` while only limits of ours keep it from one, `none` when waiting is no help. */
  readonly take: (turn: Turn<Place>) => Taken | 'wait' | 'none'
  /** Returns the time after which a place may be free though no call has ended; `null` when there is none. */
  readonly changesInMs: () => number | null
  readonly longestWaitMs: number
}

export interface WaitingLine<Place, Taken> {
  /** Takes a place, in the order of acceptance; `null` when waiting is no help, or was in vain. */
  enter(turn: Turn<Place>): Promise<Taken | null>
  /** Gives the places that are free to those that wait. */
  serve(): void
  /** Ends all waiting, now and in the future. */
  stop(): void
}

interface Waiter<Place, Taken> extends Turn<Place> {
  grant(taken: Taken | null): void
}

/**
 * Creates the line of the jobs of one process. A place is taken for a job in the step in which it becomes free: between
 * a wake-up and a reservation, others could take it.
 */
export function createWaitingLine<Place, Taken extends object>(
  dependencies: LineDependencies<Place, Taken>,
): WaitingLine<Place, Taken> {
  const { take, changesInMs, longestWaitMs } = dependencies
  let waiting: Waiter<Place, Taken>[] = []
  let timer: ReturnType<typeof setTimeout> | undefined
  const stopped = new AbortController()

  const serve = () => {
    // What keeps the first job of a model waiting keeps all those behind it waiting.
    const blocked = new Set<string>()
    waiting = waiting.filter((waiter) => {
      const { publicModel, tried } = waiter
      if (tried.size === 0 && blocked.has(publicModel)) return true
      const taken = take(waiter)
      if (taken === 'wait' && tried.size === 0) blocked.add(publicModel)
      if (taken !== 'wait') waiter.grant(taken === 'none' ? null : taken)
      return taken === 'wait'
    })
    clearTimeout(timer)
    const inMs = waiting.length === 0 ? null : changesInMs()
    timer = inMs === null ? undefined : setTimeout(serve, Math.ceil(inMs)).unref()
  }

  return {
    enter: async (turn) => {
      const { promise, resolve: grant } = Promise.withResolvers<Taken | null>()
      const waiter = { ...turn, grant }
      const place = waiting.findLastIndex(({ acceptedAt }) => acceptedAt <= turn.acceptedAt) + 1
      waiting.splice(place, 0, waiter)
      serve()
      if (!waiting.includes(waiter)) return await promise
      const leave = () => {
        waiting = waiting.filter((other) => other !== waiter)
        grant(null)
      }
      const limit = setTimeout(leave, longestWaitMs)
      const ended = AbortSignal.any([turn.signal, stopped.signal])
      ended.addEventListener('abort', leave, { once: true })
      if (ended.aborted) leave()
      try {
        return await promise
      } finally {
        clearTimeout(limit)
        ended.removeEventListener('abort', leave)
      }
    },
    serve,
    stop: () => stopped.abort(),
  }
}

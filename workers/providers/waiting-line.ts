/** What a job wants: a call with one of its model's deployments that it has not called yet. */
export interface Entrant<Slot> {
  readonly publicModel: string
  /** When its job was accepted: jobs that were accepted earlier are served first, also those that were deferred. */
  readonly acceptedAt: Date
  readonly prefix?: string | undefined
  /** The slots that it has had. */
  readonly tried: ReadonlySet<Slot>
  /** Ends the wait. */
  readonly signal: AbortSignal
}

interface LineDependencies<Slot, Taken> {
  /** Takes a slot for an entrant. Returns `wait` while only limits of ours keep it from one, `none` when waiting is no help. */
  readonly take: (entrant: Entrant<Slot>) => Taken | 'wait' | 'none'
  /** Returns the time after which a slot may be free though no call has ended; `null` when there is none. */
  readonly changesInMs: () => number | null
  readonly longestWaitMs: number
}

export interface WaitingLine<Slot, Taken> {
  /** Takes a slot, in the order of acceptance; `null` when waiting is no help, or was in vain. */
  enter(entrant: Entrant<Slot>): Promise<Taken | null>
  /** Gives the slots that are free to those that wait. */
  serve(): void
  /** Ends all waiting, now and in the future. */
  stop(): void
}

interface Waiter<Slot, Taken> extends Entrant<Slot> {
  grant(taken: Taken | null): void
}

/**
 * Creates the line of the jobs of one process. A slot is taken for a job in the step in which it becomes free: between
 * a wake-up and a reservation, others could take it.
 */
export function createWaitingLine<Slot, Taken extends object>(
  dependencies: LineDependencies<Slot, Taken>,
): WaitingLine<Slot, Taken> {
  const { take, changesInMs, longestWaitMs } = dependencies
  let waiting: Waiter<Slot, Taken>[] = []
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
    enter: async (entrant) => {
      const { promise, resolve: grant } = Promise.withResolvers<Taken | null>()
      const waiter = { ...entrant, grant }
      const slot = waiting.findLastIndex(({ acceptedAt }) => acceptedAt <= entrant.acceptedAt) + 1
      waiting.splice(slot, 0, waiter)
      serve()
      if (!waiting.includes(waiter)) return await promise
      const leave = () => {
        waiting = waiting.filter((other) => other !== waiter)
        grant(null)
      }
      const limit = setTimeout(leave, longestWaitMs)
      const ended = AbortSignal.any([entrant.signal, stopped.signal])
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

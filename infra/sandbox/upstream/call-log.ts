import { appendFileSync } from 'node:fs'

/**
 * One call to a vendor route. `started` marks the moment from which a real vendor would bill: the request was read,
 * accepted and worked on. Times are ISO 8601.
 */
export interface UpstreamCall {
  readonly call: number
  readonly method: string
  readonly route: string
  readonly arrivedAt: string
  state: 'arrived' | 'started' | 'answered' | 'aborted'
  /** Whether work was started, regardless of the outcome. */
  started: boolean
  /** Lower-case hex SHA-256 of the uploaded audio; null for a call without a readable upload. */
  audioSha256: string | null
  audioBytes: number | null
  /** The request's other fields as received, without the key. */
  fields: Readonly<Record<string, string>>
  status: number | null
  endedAt: string | null
}

export type CallLog = ReturnType<typeof createCallLog>

/**
 * Records calls in memory and, with `path`, as JSON lines: one line on arrival and one for every later change of state.
 * Lines are written synchronously before the caller sees the effect, so the file is complete even after a SIGKILL.
 */
export function createCallLog({ path, now }: { path: string | undefined; now: () => Date }) {
  const calls: UpstreamCall[] = []
  const open = new Set<UpstreamCall>()
  let lastCall = 0
  const write = (call: UpstreamCall) => {
    if (path !== undefined) appendFileSync(path, `${JSON.stringify({ time: now().toISOString(), ...call })}\n`)
  }
  const end = (call: UpstreamCall, state: 'answered' | 'aborted', status: number | null) => {
    if (call.endedAt !== null) return
    Object.assign(call, { state, status, endedAt: now().toISOString() })
    open.delete(call)
    write(call)
  }
  return {
    calls: calls as readonly UpstreamCall[],
    arrived(route: string) {
      lastCall += 1
      const call: UpstreamCall = {
        call: lastCall,
        method: 'POST',
        route,
        arrivedAt: now().toISOString(),
        state: 'arrived',
        started: false,
        audioSha256: null,
        audioBytes: null,
        fields: {},
        status: null,
        endedAt: null,
      }
      calls.push(call)
      open.add(call)
      write(call)
      return call
    },
    started(call: UpstreamCall) {
      if (call.endedAt === null) call.state = 'started'
      call.started = true
      write(call)
    },
    answered: (call: UpstreamCall, status: number) => end(call, 'answered', status),
    aborted: (call: UpstreamCall) => end(call, 'aborted', call.status),
    /** Logs every open call as aborted; the server does this when it stops. */
    abortOpen: () => {
      for (const call of open) end(call, 'aborted', call.status)
    },
    /** Deletes the calls in memory; the file keeps them. */
    clear: () => {
      calls.length = 0
    },
  }
}

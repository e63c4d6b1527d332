import { vi } from 'vitest'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import type { Upstream } from '../../infra/sandbox/upstream/server.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import type { ProviderFetch, ProviderResponse } from '../../workers/providers/provider-fetch.ts'
import { until } from '../support/until.ts'

/**
 * Creates an HTTP sender like the service's. Where `rule` withholds the answer permanently, the time limit expires once the
 * exchange has come as far as it can, and not by the clock: a limit short enough to wait for is too short for a slow machine.
 */
export function createExpiringHttp(
  upstream: Pick<Upstream, 'calls'>,
  rule: FaultRuleInput,
  fetch: ProviderFetch = globalThis.fetch,
): SendHttp {
  const expiringOnce = (isReached: (arrived: Arrived) => boolean) => expiring(fetch, isReached)
  if (rule.fault === 'slowBody') return expiringOnce(({ head }) => head !== undefined)
  if (rule.fault === 'midStream')
    return expiringOnce(({ head, events }) => head !== undefined && events === rule.afterEvents)
  const isWithheld = rule.fault === 'hang' || rule.delayMs !== undefined
  return isWithheld ? expiringOnce(() => upstream.calls[0]?.state === 'started') : createHttp({ fetch })
}

interface Arrived {
  readonly head: ProviderResponse | undefined
  /** The events of a stream that were taken. */
  readonly events: number
}

function expiring(fetch: ProviderFetch, isReached: (arrived: Arrived) => boolean): SendHttp {
  return async (request, { onEvent, ...limits }) => {
    let head: ProviderResponse | undefined
    let events = 0
    const counted = (data: string) => {
      events += 1
      return onEvent?.(data) ?? 'unusable'
    }
    const send = createHttp({
      fetch: async (...call) => {
        head = await fetch(...call)
        return head
      },
    })
    const limit = Promise.withResolvers<() => void>()
    // The first timer is the limit: it is set before anything is sent.
    const timers = vi.spyOn(globalThis, 'setTimeout').mockImplementationOnce((expire) => {
      limit.resolve(expire)
      return setTimeout(() => undefined, 0)
    })
    const outcome = send(request, { ...limits, onEvent: counted })
    timers.mockRestore()
    await until(() => isReached({ head, events }))
    const expire = await limit.promise
    expire()
    return await outcome
  }
}

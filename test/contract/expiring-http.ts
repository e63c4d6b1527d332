import { vi } from 'vitest'
import type { FaultRuleInput } from '../../infra/sandbox/upstream/faults.ts'
import type { Upstream } from '../../infra/sandbox/upstream/server.ts'
import { createHttp, type SendHttp } from '../../workers/providers/http.ts'
import { until } from '../support/until.ts'

/**
 * Creates an HTTP sender like the service's. Where `rule` withholds the answer permanently, the time limit expires once the
 * exchange has come as far as it can, and not by the clock: a limit short enough to wait for is too short for a slow machine.
 */
export function createExpiringHttp(upstream: Pick<Upstream, 'calls'>, rule: FaultRuleInput): SendHttp {
  if (rule.fault === 'slowBody') return expiringOnce((head) => head !== undefined)
  const isWithheld = rule.fault === 'hang' || rule.delayMs !== undefined
  return isWithheld ? expiringOnce(() => upstream.calls[0]?.state === 'started') : createHttp({ fetch })
}

function expiringOnce(isReached: (head: Response | undefined) => boolean): SendHttp {
  return async (request, limits) => {
    let head: Response | undefined
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
    const outcome = send(request, limits)
    timers.mockRestore()
    await until(() => isReached(head))
    const expire = await limit.promise
    expire()
    return await outcome
  }
}

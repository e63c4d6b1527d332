import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import { AppError } from '#shared/errors/app-error.ts'
import { clientGroup } from '../request/client-address.ts'
import type { Allowances } from './allowances.ts'

const MAXIMUM_NETWORKS = 10_000
const REMEMBERED_MS = 10 * 60_000

type Caller = Pick<FastifyRequest, 'ip'>

/** Limits requests whose payment is known only once their body is read. */
export interface UnreadLimiter {
  /**
   * Takes one request from the network's allowance of unpaid requests. Once that is used up, a network from which a known
   * payer paid recently has as many again as paid requests: a signed call must not be refused because of the unpaid ones
   * before it. Throws `rate_limited`.
   */
  takeAllowance(request: Caller): void
  /**
   * Returns what was taken from the unpaid requests for this request: its body was read, and decides which allowance it
   * draws on.
   */
  giveBack(request: Caller): void
  /** Remembers that a known payer pays from this network. */
  rememberPayer(caller: Caller): void
}

interface UnreadLimits {
  readonly requestsPerMinute: number
  readonly paidRequestsPerMinute: number
}

export function createUnreadLimiter(
  allowances: Allowances,
  { requestsPerMinute, paidRequestsPerMinute }: UnreadLimits,
): UnreadLimiter {
  const payingNetworks = new LRUCache<string, true>({ max: MAXIMUM_NETWORKS, ttl: REMEMBERED_MS })
  const countedAsUnpaid = new WeakSet<Caller>()
  return {
    takeAllowance: (request) => {
      const { ip } = request
      const unpaid = allowances.take('unpaid', ip, requestsPerMinute)
      if (unpaid.retryAfterSeconds === null) return void countedAsUnpaid.add(request)
      const { retryAfterSeconds } = payingNetworks.has(clientGroup(ip))
        ? allowances.take('unread', ip, paidRequestsPerMinute)
        : unpaid
      if (retryAfterSeconds !== null) throw new AppError('rate_limited', { retryAfterSeconds })
    },
    giveBack: (request) => {
      if (countedAsUnpaid.delete(request)) allowances.giveBack('unpaid', request.ip, requestsPerMinute)
    },
    rememberPayer: ({ ip }) => void payingNetworks.set(clientGroup(ip), true),
  }
}

import { setTimeout as delay } from 'node:timers/promises'
import { FacilitatorTimeoutError } from '@x402/core/http'
import { isConnectionFailure } from '#shared/runtime/connection-failure.ts'
import { createHttpClient, type RemoteFacilitatorOptions, statusOf } from './http-client.ts'

const SUPPORTED_TIMEOUT_MS = 5000
const RETRY_MS = 1000
/** Statuses below 500 of a server that cannot answer at the moment. */
const BUSY_STATUSES: ReadonlySet<number | undefined> = new Set([408, 425, 429])
const ADDRESS = /^0x[0-9a-f]{40}$/

/**
 * Reads the addresses that may settle for a remote facilitator from its `/supported`, in lower case and sorted. Its
 * `extra` names a random one at each call, so all of its signers are included: every API process must choose from the
 * same list and recognize the one that another process chose.
 *
 * Throws an error that names FACILITATOR_URL: {@link FacilitatorAway} while it does not answer, another one when it does not
 * support `upto` on `network`.
 */
export async function readSupportedFacilitators(
  options: RemoteFacilitatorOptions,
  network: string,
): Promise<readonly `0x${string}`[]> {
  const { kinds, signers } = await readSupported(options)
  const kind = kinds.find(
    (offered) => offered.x402Version === 2 && offered.scheme === 'upto' && offered.network === network,
  )
  if (!kind) throw new Error(`the facilitator of FACILITATOR_URL does not support scheme "upto" on ${network}`)
  const candidates = [kind.extra?.['facilitatorAddress'], ...(signers[network] ?? []), ...(signers['eip155:*'] ?? [])]
  const addresses = candidates.flatMap((address) => (typeof address === 'string' ? [address.toLowerCase()] : []))
  const facilitators = [...new Set(addresses)].filter((address) => ADDRESS.test(address)).sort()
  if (facilitators.length === 0)
    throw new Error(`the facilitator of FACILITATOR_URL names no facilitatorAddress for scheme "upto" on ${network}`)
  return facilitators as `0x${string}`[]
}

/** Reads them as soon as the facilitator answers; `onWait` receives each failure to reach it. */
export async function untilSupported(
  options: RemoteFacilitatorOptions,
  network: string,
  onWait: (error: FacilitatorAway) => void,
): Promise<readonly `0x${string}`[]> {
  for (;;) {
    try {
      return await readSupportedFacilitators(options, network)
    } catch (error) {
      if (!(error instanceof FacilitatorAway)) throw error
      onWait(error)
      await delay(RETRY_MS)
    }
  }
}

/** A facilitator that cannot be reached, or that says that it cannot answer at the moment. */
export class FacilitatorAway extends Error {}

async function readSupported(options: RemoteFacilitatorOptions) {
  try {
    return await createHttpClient(options, SUPPORTED_TIMEOUT_MS).getSupported()
  } catch (cause) {
    const Failure = isAway(cause) ? FacilitatorAway : Error
    throw new Failure('the facilitator of FACILITATOR_URL does not answer GET /supported', { cause })
  }
}

function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const status = statusOf(error)
  if (status !== undefined) return status >= 500 || BUSY_STATUSES.has(status)
  const { cause } = error as { cause?: { code?: unknown } }
  // Of undici, such as a socket that the other side closed; certificates have other codes.
  const isLost = isConnectionFailure(cause) || String(cause?.code).startsWith('UND_ERR_')
  return error instanceof FacilitatorTimeoutError || isLost
}

import type { PaymentRequired, PaymentRequirements } from '@x402/core/types'
import { readUsdc } from '../budget/usdc.ts'
import { type FareboxError, uncharged } from '../wire/farebox-error.ts'
import { parseObject } from '../wire/json.ts'

/** What a 402 asks to be signed. Addresses are in lower case. */
export interface Challenge {
  readonly scheme: string
  readonly network: string
  readonly asset: string
  readonly payTo: string
  readonly facilitator: string | null
  readonly maximum: bigint
  /** What the call costs at least for the gas of its settlement; 0 where the minimum does not follow the gas. */
  readonly gasMinimum: bigint
  readonly maxTimeoutSeconds: number
  readonly resourceUrl: string | null
  /** Milliseconds; `null` if the service names no time. */
  readonly expiresAt: number | null
  readonly chosen: PaymentRequirements
  readonly required: PaymentRequired
}

/** Decodes the `PAYMENT-REQUIRED` header, which is authoritative over the body. Throws when it is not of x402 v2. */
export function readChallenge(header: string | null): Challenge {
  const required = parseHeader(header)
  const { accepts, resource, x402Version } = required
  const [chosen] = Array.isArray(accepts)
    ? accepts.filter((each?: Partial<PaymentRequirements> | null) => each?.scheme === 'upto')
    : []
  if (x402Version !== 2 || chosen === undefined)
    throw unreadable('it offers no payment of scheme "upto" in x402 version 2')
  const { scheme, network, asset, payTo, amount, maxTimeoutSeconds, extra } = chosen
  if ([network, asset, payTo].some((value) => typeof value !== 'string')) throw unreadable('its terms are incomplete')
  if (typeof amount !== 'string' || !/^(0|[1-9]\d{0,30})$/.test(amount)) throw unreadable('its amount is not a number')
  if (!Number.isInteger(maxTimeoutSeconds) || maxTimeoutSeconds <= 0) throw unreadable('its timeout is not a number')
  const facilitator = extra?.['facilitatorAddress']
  const expiresAt = Date.parse(String(extra?.['expiresAt']))
  return {
    scheme,
    network,
    asset: asset.toLowerCase(),
    payTo: payTo.toLowerCase(),
    facilitator: typeof facilitator === 'string' ? facilitator.toLowerCase() : null,
    maximum: BigInt(amount),
    gasMinimum: readUsdc(extra?.['gasMinimumCharge']) ?? 0n,
    maxTimeoutSeconds,
    resourceUrl: typeof resource?.url === 'string' ? resource.url : null,
    expiresAt: Number.isNaN(expiresAt) ? null : expiresAt,
    chosen,
    required,
  }
}

function parseHeader(header: string | null): PaymentRequired {
  if (header === null) throw unreadable('the header PAYMENT-REQUIRED is missing')
  const value = parseObject(Buffer.from(header, 'base64').toString('utf8'))
  if (value !== undefined) return value as PaymentRequired
  throw unreadable('the header PAYMENT-REQUIRED is not JSON in Base64')
}

function unreadable(reason: string): FareboxError {
  return uncharged(
    'challenge_unreadable',
    `The server’s payment request cannot be used: ${reason}.`,
    'Check the URL of the service; nothing was signed.',
  )
}

import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { BalanceReader } from '#shared/payment/balance-reader.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'

export const walletAddressSchema = z.string().regex(/^0x[0-9a-fA-F]{40}$/)

const querySchema = z.object({ address: walletAddressSchema })

export const walletBalanceSchema = z.strictObject({
  object: z.literal('wallet_balance'),
  network: z.literal('eip155:8453'),
  asset: z.string(),
  currency: z.literal('USDC'),
  wallet: z.string(),
  balance_usdc_atomic: z.string().regex(/^\d+$/),
  balance_usdc: z.string().regex(/^\d+(\.\d{1,6})?$/),
})

interface BalanceDependencies {
  readonly terms: Pick<PaymentTerms, 'network' | 'asset'>
  readonly balances: BalanceReader
  /** Each lookup is a call to a node that somebody pays for. */
  readonly limitRate: RateLimiter
}

/** `GET /v1/balance?address=`: one wallet's USDC. Throws the 400 of a wrong address and the 503 of a lookup without answer. */
export function addBalanceRoutes(app: FastifyInstance, { terms, balances, limitRate }: BalanceDependencies): void {
  app.get('/v1/balance', {
    onRequest: async (request, reply) => limitRate(request, reply, 'openai'),
    handler: async (request, reply) => {
      const address = readAddress(request.query)
      const balance = await balances.readBalance(address)
      const answer: z.infer<typeof walletBalanceSchema> = {
        object: 'wallet_balance',
        network: terms.network as 'eip155:8453',
        asset: terms.asset,
        currency: 'USDC',
        wallet: address,
        balance_usdc_atomic: balance.toString(),
        balance_usdc: dollarsFromAtomic(balance),
      }
      return reply.header('cache-control', 'no-store').send(answer)
    },
  })
}

function readAddress(query: unknown): `0x${string}` {
  const parsed = querySchema.safeParse(query)
  if (parsed.success) return parsed.data.address as `0x${string}`
  const missing = typeof query === 'object' && query !== null && !('address' in query)
  const message = missing
    ? 'address is required: the wallet to look up, 0x and 40 hexadecimal digits.'
    : 'address must be given once, as 0x and 40 hexadecimal digits.'
  throw new AppError(missing ? 'missing_field' : 'invalid_field', { param: 'address', message })
}

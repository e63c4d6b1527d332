import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { BalanceReader } from '#shared/adapters/chain/reading/balance-reader.ts'
import { AppError } from '#shared/errors/app-error.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { RateLimiter } from '../plugins/rate-limits.ts'
import { walletAddressSchema, type walletBalanceSchema } from '../schemas/allowances.ts'

const querySchema = z.object({ address: walletAddressSchema })

interface BalanceDependencies {
  readonly terms: Pick<PaymentTerms, 'network' | 'asset'>
  readonly balances: BalanceReader
  /** Each lookup calls the chain node, which costs the operator money. */
  readonly limitRate: RateLimiter
}

/**
 * Adds `GET /v1/balance?address=`: one wallet's USDC balance. Answers 400 for a wrong address and 503 when the chain
 * cannot be read.
 */
export function addBalanceRoutes(app: FastifyInstance, { terms, balances, limitRate }: BalanceDependencies): void {
  app.get('/v1/balance', {
    onRequest: async (request, reply) => limitRate(request, reply, 'openai'),
    handler: async (request, reply) => {
      const address = readAddress(request.query)
      const balance = await balances.readBalance(address)
      const body: z.infer<typeof walletBalanceSchema> = {
        object: 'wallet_balance',
        network: terms.network as 'eip155:8453',
        asset: terms.asset,
        currency: 'USDC',
        wallet: address,
        balance_usdc_atomic: balance.toString(),
        balance_usdc: dollarsFromAtomic(balance),
      }
      return reply.header('cache-control', 'no-store').send(body)
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

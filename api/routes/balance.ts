import type { FastifyInstance } from 'fastify'
import type { z } from 'zod'
import type { BalanceReader } from '#shared/chain/reading/balance-reader.ts'
import { dollarsFromAtomic } from '#shared/money/atomic-amount.ts'
import type { PaymentTerms } from '#shared/payment/payment-terms.ts'
import type { RateLimiter } from '../limits/rate-limits.ts'
import { readWallet } from '../request/query-wallet.ts'
import type { walletBalanceSchema } from '../schemas/allowances.ts'

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
      const address = readWallet(request.query, 'address')
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

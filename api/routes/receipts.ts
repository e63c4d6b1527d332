import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { AppError } from '#shared/errors/app-error.ts'
import type { AcceptanceStore } from '#shared/ledger/acceptance/acceptance-store.ts'
import { opensReceipt, RECEIPT_TYPE, type ReceiptSecret } from '#shared/payment/receipt.ts'
import type { StatementSigner } from '#shared/payment/statement-signer.ts'
import type { RateLimiter } from '../limits/rate-limits.ts'

const parametersSchema = z.object({ id: z.uuid().toLowerCase() })

interface Dependencies {
  readonly store: Pick<AcceptanceStore, 'findReceipt'>
  readonly receiptSecrets: readonly ReceiptSecret[]
  readonly signer: StatementSigner
  readonly limitRate: RateLimiter
}

/**
 * Adds `GET /v1/receipts/{id}`, which requires the receipt's token: returns the stored receipt with the current state
 * of its settlement, signed. An unknown id and a wrong token get the same 404.
 */
export function addReceiptRoutes(
  app: FastifyInstance,
  { store, receiptSecrets, signer, limitRate }: Dependencies,
): void {
  app.get('/v1/receipts/:id', async (request, reply) => {
    limitRate(request, reply, 'openai')
    const token = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? '')?.[1]
    if (token === undefined) {
      reply.header('www-authenticate', 'Bearer')
      throw new AppError('receipt_token_required')
    }
    const unknown = new AppError('not_found', { message: 'There is no receipt with this id and token.' })
    const parameters = parametersSchema.safeParse(request.params)
    if (!parameters.success || !opensReceipt(token, parameters.data.id, receiptSecrets)) throw unknown
    const receipt = await store.findReceipt(parameters.data.id)
    if (!receipt) throw unknown
    return reply
      .header('cache-control', 'private, no-store')
      .send({ ...receipt, signature: signer.signDetached(receipt, RECEIPT_TYPE) })
  })
}

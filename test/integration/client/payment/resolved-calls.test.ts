import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CHAT, openClient } from '../bad-input/support/open-client.ts'
import {
  CHAT_RESULT,
  challenge,
  json,
  MAXIMUM,
  type ScriptedServer,
  serviceError,
  startScriptedServer,
} from '../bad-input/support/scripted-server.ts'

let server: ScriptedServer
beforeAll(async () => {
  server = await startScriptedServer()
})
afterAll(() => server.stop())

describe('a call that an operator ended after a review', () => {
  it('is not paid again, and its error names the transaction of the refund', async () => {
    const client = await openClient(server, { budget: { session: '1' } })
    const refund = `0x${'cd'.repeat(32)}`
    const message = `The payment of this call was refunded in transaction ${refund}.`
    const from = server.received.length
    server.script(challenge(), serviceError('payment_refunded', { message }))
    const error = await client.chat.create(CHAT, { requestId: 'refunded' }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'payment_refunded', money: 'none', message: expect.stringContaining(refund) })
    expect(server.received.slice(from).map(({ payment }) => payment !== undefined)).toEqual([false, true])
    expect(client.budgetLeft().session).toBe(1_000_000n)
  })

  it('is returned without a receipt when it was re-served, and the budget keeps what was signed', async () => {
    const client = await openClient(server, { budget: { session: '1' }, verify: 'at_once' })
    server.script(challenge(), json(CHAT_RESULT, 200, { 'x-resolution': 're_served' }))
    const answer = await client.chat.create(CHAT, { requestId: 're-served' })
    expect(answer.result).toEqual(CHAT_RESULT)
    expect(answer.payment).toMatchObject({
      receiptId: null,
      transaction: null,
      verified: 'not_checked',
      problems: ['the operator returned this result without a charge, so it has no receipt'],
    })
    expect(client.budgetLeft().session).toBe(1_000_000n - MAXIMUM)
  })
})

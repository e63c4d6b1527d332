import { generatePrivateKey } from 'viem/accounts'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Farebox, formatUsdc, walletFromPrivateKey } from '../../../../client/farebox.ts'
import { PaidAnswers } from '../../../../client/mcp/call/paid-answers.ts'
import { payTool } from '../../../../client/mcp/call/pay-tool.ts'
import { DEFAULT_LIMITS } from '../../../../client/mcp/limits/limits-file.ts'
import type { Confirmation, Exchange, McpSession } from '../../../../client/mcp/tool.ts'
import { jsonCallIdentity } from '../../../../client/payment/prepare-call.ts'
import { CHAT, openClient } from '../../../support/client/open-client.ts'
import {
  challenge,
  charged,
  MAXIMUM,
  type ScriptedServer,
  startScriptedServer,
} from '../../../support/client/scripted-server.ts'

describe('a tool call that was paid for, repeated in another session', () => {
  let server: ScriptedServer
  let farebox: Farebox
  beforeEach(async () => {
    server = await startScriptedServer()
    farebox = await openClient(server, { wallet: walletFromPrivateKey(generatePrivateKey()) })
  })
  afterEach(async () => {
    await farebox.close()
    await server.stop()
  })
  /** Makes the call in a session of its own, while it is quoted at a price. */
  async function callAt(price: bigint, confirmAbove = DEFAULT_LIMITS.confirmAbove) {
    const asked: Confirmation[] = []
    const limits = { current: () => ({ ...DEFAULT_LIMITS, confirmAbove }) }
    const session = { farebox: async () => farebox, limits, nonce: 'n', answers: new PaidAnswers() }
    const exchange = {
      signal: new AbortController().signal,
      progress: () => undefined,
      ask: async (question: Confirmation) => void asked.push(question),
    }
    server.always((received, reply) =>
      (received.payment === undefined ? challenge({ amount: price }) : charged())(received, reply),
    )
    const answer = await payTool(session as unknown as McpSession, exchange as unknown as Exchange, {
      tool: 'chat',
      requestId: 'r',
      identity: {},
      summary: 'ask a text model',
      prepare: async () => ({
        identity: jsonCallIdentity(farebox.baseUrl, 'createChatCompletion', CHAT),
        quote: async () => formatUsdc(price),
        pay: (options) => farebox.chat.create(CHAT, options),
      }),
    })
    return { answer, asked: asked.map(({ maximum }) => maximum) }
  }

  it.each([MAXIMUM, MAXIMUM - 1n])('is repeated without a question at a price of %d', async (price) => {
    await callAt(MAXIMUM)
    const { answer, asked } = await callAt(price, '0.000001')
    expect([answer.payment.replayed, asked]).toEqual([true, []])
  })

  it('is repeated at a higher price, which is agreed to like that of any call', async () => {
    await callAt(MAXIMUM)
    expect((await callAt(MAXIMUM + 1n)).answer.payment).toMatchObject({ replayed: true, problems: [] })
    const { answer, asked } = await callAt(MAXIMUM + 1n, '0.000001')
    expect([answer.payment.replayed, asked]).toEqual([true, [MAXIMUM + 1n]])
  })
})

import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import type { FareboxError } from '../../../../client/farebox.ts'
import { CHAT, openClient } from './support/open-client.ts'
import {
  CHAT_RESULT,
  challenge,
  charged,
  cut,
  foreign,
  MAXIMUM,
  type ScriptedServer,
  type Step,
  startScriptedServer,
} from './support/scripted-server.ts'

const PAGE = '<html><head><title>Bad gateway</title></head><body>nginx</body></html>'
const LIMIT = 1_000_000n
const RESULT = JSON.stringify(CHAT_RESULT)

let server: ScriptedServer
beforeAll(async () => {
  server = await startScriptedServer()
})
afterEach(() => server.always(foreign(500, 'unscripted')))
afterAll(() => server.stop())

async function callWith(patienceMs: number, ...steps: Step[]) {
  const client = await openClient(server, { budget: { session: '1' } })
  const from = server.received.length
  server.script(...steps)
  const outcome = await client.chat.create(CHAT, { patienceMs }).catch((error: unknown) => error)
  const requests = server.received.slice(from)
  return {
    outcome,
    error: outcome as FareboxError,
    left: client.budgetLeft().session,
    signed: requests.flatMap(({ payment }) => payment ?? []),
    requests,
  }
}

/** What something between client and service may answer in place of it, and the code of the error. */
const FOREIGN: readonly (readonly [name: string, answer: Step, code: string])[] = [
  ['an HTML 502', foreign(502, PAGE), 'http_502'],
  ['an HTML 504', foreign(504, PAGE), 'http_504'],
  ['an HTML 403', foreign(403, PAGE), 'http_403'],
  ['an HTML 413', foreign(413, PAGE), 'http_413'],
  ['a 402 without a challenge', foreign(402, PAGE), 'http_402'],
  ['a 503 with half of a JSON object', foreign(503, '{"type":"error","error":{"code":"over'), 'http_503'],
  ['a redirect', foreign(302, '', { location: 'https://elsewhere.example/v1/chat/completions' }), 'http_302'],
  ['a permanent redirect', foreign(308, '', { location: 'https://elsewhere.example/' }), 'http_308'],
  ['a login page with status 200', foreign(200, PAGE), 'not_the_service'],
  ['an empty 200', foreign(200, ''), 'not_the_service'],
  ['a 204', foreign(204, ''), 'not_the_service'],
  ['an error page of 40 MB', foreign(500, Buffer.alloc(40_000_000, '<')), 'http_500'],
]

describe('answers of what is between client and service', () => {
  it.each(FOREIGN)(
    '%s before a payment: nothing is signed, and the advice names the cause',
    async (_, answer, code) => {
      const { error, signed, left } = await callWith(0, answer)
      expect(error).toMatchObject({ code, money: 'none' })
      expect(error.message).toMatch(/Nothing was charged\..*not from the service/)
      expect([signed, left]).toEqual([[], LIMIT])
    },
  )

  it.each(FOREIGN)('%s after a payment: the payment stays reserved', async (_, answer, code) => {
    const { error, signed, left } = await callWith(0, challenge(), answer)
    expect(error).toMatchObject({ code, money: 'unknown' })
    expect(error.message).toMatch(/not known yet.*not from the service.*same key.*at most once/)
    expect([signed.length, left]).toEqual([1, LIMIT - MAXIMUM])
  })

  it.each([
    ['502', foreign(502, PAGE)],
    ['504', foreign(504, PAGE)],
    ['a lost connection', cut],
    ['a login page', foreign(200, PAGE)],
    ['half a result', charged({ result: RESULT.slice(0, 20) })],
  ])('after %s the same payment is sent again', async (_, answer) => {
    const { outcome, signed, left } = await callWith(30_000, challenge(), answer, charged())
    expect(outcome).toMatchObject({ result: CHAT_RESULT, payment: { charged: '0.005034' } })
    expect([signed.length, new Set(signed).size, left]).toEqual([2, 1, LIMIT - MAXIMUM])
  })

  it('half of a result that was charged says that the call is paid for, and what to do', async () => {
    const { error, left } = await callWith(0, challenge(), charged({ result: RESULT.slice(0, 20) }))
    expect(error).toMatchObject({ code: 'answer_damaged', money: 'settled' })
    expect(error.message).toMatch(/is paid for.*same key/)
    expect(left).toBe(LIMIT - MAXIMUM)
  })

  it('a redirect never receives a payment', async () => {
    const seen: string[] = []
    const elsewhere = await listen((response) => {
      seen.push('request')
      response.end(RESULT)
    })
    const to = `http://127.0.0.1:${(elsewhere.address() as AddressInfo).port}/v1/chat/completions`
    for (const status of [301, 302, 303, 307, 308])
      await callWith(0, challenge(), foreign(status, '', { location: to }))
    expect(seen).toEqual([])
    elsewhere.close()
  })

  it('an answer that never ends is given up, and its payment stays reserved', async () => {
    const chunk = Buffer.alloc(1024 * 1024, ' ')
    let sent = 0
    const endless: Step = (_received, reply) => {
      reply.hijack()
      reply.raw.writeHead(200, { 'content-type': 'application/json' })
      const write = () => {
        while (!reply.raw.destroyed && reply.raw.write(chunk)) sent += chunk.length
      }
      reply.raw.on('drain', write)
      reply.raw.on('error', () => undefined)
      write()
    }
    const { error, signed, left } = await callWith(60_000, challenge(), endless)
    expect(error).toMatchObject({ code: 'answer_too_large', money: 'unknown' })
    expect([signed.length, left]).toEqual([1, LIMIT - MAXIMUM])
    expect(sent).toBeLessThan(300 * 1024 * 1024)
  })
})

async function listen(answer: (response: ServerResponse) => void): Promise<Server> {
  const elsewhere = createServer((_request, response) => answer(response))
  elsewhere.listen(0, '127.0.0.1')
  await once(elsewhere, 'listening')
  return elsewhere
}

import { describe, expect, it } from 'vitest'
import { createPayingFetch } from '../../../../client/payment/paying-fetch.ts'
import {
  broken,
  challenged,
  charged,
  composePayments,
  failed,
  ORIGIN,
  type Step,
  URL_OF_CALL,
} from './scripted-service.ts'

function compose(script: readonly Step[], limits = {}) {
  const composed = composePayments(script, limits)
  return { ...composed, fetch: createPayingFetch(composed.context, ORIGIN) }
}
const init = { method: 'POST', body: '{"a":1}', headers: { 'content-type': 'application/json' } }

describe('the paying fetch', () => {
  it('a request without a key is paid for under a key of its own', async () => {
    const { fetch, seen } = compose([challenged(), charged('1'), challenged(), charged('1', 'receipt-2')])
    expect((await fetch(URL_OF_CALL, init)).status).toBe(200)
    expect((await fetch(URL_OF_CALL, init)).status).toBe(200)
    expect(seen[0]?.key).toBe(seen[1]?.key)
    expect(seen[2]?.key).not.toBe(seen[1]?.key)
  })

  it('an SDK’s retry after a failure, a lost connection or an abort keeps the key', async () => {
    const abort = new AbortController()
    const { fetch, seen } = compose([
      challenged(),
      failed(503, 'request_in_progress', 'authorized', 'same_request'),
      broken,
      () => {
        abort.abort()
        return new Error('aborted')
      },
      charged('1'),
    ])
    expect((await fetch(URL_OF_CALL, init)).status).toBe(503)
    await expect(fetch(URL_OF_CALL, init)).rejects.toBeInstanceOf(TypeError)
    await expect(fetch(URL_OF_CALL, { ...init, signal: abort.signal })).rejects.toMatchObject({ name: 'AbortError' })
    expect((await fetch(URL_OF_CALL, init)).status).toBe(200)
    expect(new Set(seen.map(({ key }) => key)).size).toBe(1)
    expect(new Set(seen.slice(1).map(({ payment }) => payment)).size).toBe(1)
  })

  it('a key of the user is kept', async () => {
    const { fetch, seen } = compose([challenged(), charged('1')])
    await fetch(URL_OF_CALL, { ...init, headers: { ...init.headers, 'x-idempotency-key': 'mine' } })
    expect(seen.map(({ key }) => key)).toEqual(['mine', 'mine'])
  })

  it('a refusal by the budget is an answer that SDKs do not retry', async () => {
    const { fetch } = compose([challenged()], { call: '0.001' })
    const answer = await fetch(URL_OF_CALL, init)
    expect(answer.status).toBe(402)
    expect(answer.headers.get('x-should-retry')).toBe('false')
    expect(await answer.json()).toMatchObject({ error: { code: 'budget_exceeded', payment: 'none' } })
  })

  it('requests that are not paid for pass without key and payment', async () => {
    const { fetch, seen } = compose([() => Response.json({}), () => Response.json({})])
    await fetch(`${ORIGIN}/v1/models`)
    await fetch('http://localhost:1/v1/chat/completions', init)
    expect(seen.map(({ key, payment }) => [key, payment])).toEqual([
      [null, null],
      [null, null],
    ])
  })
})

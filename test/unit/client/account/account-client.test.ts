import { generatePrivateKey } from 'viem/accounts'
import { describe, expect, it } from 'vitest'
import { AccountClient } from '../../../../client/account/account-client.ts'
import { createMemoryJournal } from '../../../../client/journal/memory-journal.ts'
import { openPins } from '../../../../client/payment/pins.ts'
import { listReceipts } from '../../../../client/receipts/list-receipts.ts'
import { walletFromPrivateKey } from '../../../../client/wallet/wallet-from-private-key.ts'
import { receiptOf } from '../receipts/receipts.ts'

const ORIGIN = 'http://localhost:4020'

function challenge(path: string, changes: object = {}): string {
  const info = {
    domain: 'localhost:4020',
    uri: `${ORIGIN}${path}`,
    statement: 'Sign in.',
    version: '1',
    nonce: '0123456789abcdef',
    issuedAt: new Date().toISOString(),
    expirationTime: new Date(Date.now() + 300_000).toISOString(),
    resources: [`${ORIGIN}${path}`],
    ...changes,
  }
  const extension = { info, supportedChains: [{ chainId: 'eip155:8453', type: 'eip191' }], schema: {} }
  const required = { x402Version: 2, resource: {}, accepts: [], extensions: { 'sign-in-with-x': extension } }
  return Buffer.from(JSON.stringify(required)).toString('base64')
}

const refused = (code: string, headers: Record<string, string> = {}) =>
  Response.json(
    { type: 'error', error: { code, message: 'No.', payment: 'none', retry: 'never' } },
    { status: 402, headers },
  )

interface Seen {
  readonly proof: string | null
  readonly session: string | null
  readonly query: string
}

/** An account whose service answers by `answer`. */
function openAccount(answer: (seen: Seen, index: number) => Response) {
  const seen: Seen[] = []
  const wallet = walletFromPrivateKey(generatePrivateKey())
  const account = new AccountClient({
    wallet,
    baseUrl: ORIGIN,
    pins: openPins(createMemoryJournal(), { network: 'eip155:8453' }),
    now: Date.now,
    fetch: async (input, init) => {
      const { headers, url } = new Request(input, init)
      const request = {
        proof: headers.get('sign-in-with-x'),
        session: headers.get('authorization'),
        query: new URL(url).search,
      }
      seen.push(request)
      return answer(request, seen.length)
    },
  })
  return { account, seen, wallet }
}

const PATH = '/v1/account/receipts'
const page = (ids: readonly string[], next: string | null) =>
  Response.json(
    {
      data: ids.map((id) => ({ receipt: receiptOf({ id, signature: 's' }), receipt_token: 't', idempotency_key: id })),
      has_more: next !== null,
      next_cursor: next,
    },
    { headers: { 'x-account-session': 'session' } },
  )

describe('the account', () => {
  it('signs in once and reads every page with the session', async () => {
    const { account, seen, wallet } = openAccount(({ proof, session, query }) => {
      if (proof === null && session === null)
        return refused('sign_in_required', { 'payment-required': challenge(PATH) })
      return query.includes('cursor=c2') ? page(['c'], null) : page(['a', 'b'], 'c2')
    })
    const journal = createMemoryJournal()
    const ids: (string | null)[] = []
    for await (const { receiptId } of listReceipts(
      { account, journal, payer: wallet.address.toLowerCase(), baseUrl: ORIGIN },
      { source: 'service' },
    ))
      ids.push(receiptId)
    expect(ids).toEqual(['a', 'b', 'c'])
    expect(seen.map(({ proof, session }) => [proof !== null, session])).toEqual([
      [false, null],
      [true, null],
      [false, 'Bearer session'],
    ])
  })

  it('signs in again when the session has expired, and when a sign-in was used up by a lost answer', async () => {
    const { account, seen } = openAccount((_request, index) => {
      if (index === 1 || index === 3) return refused('sign_in_required', { 'payment-required': challenge(PATH) })
      return index === 2 ? refused('sign_in_already_used') : page([], null)
    })
    await account.read(PATH, {})
    expect(seen.map(({ proof }) => proof !== null)).toEqual([false, true, false, true])
  })

  it('a service that accepts no sign-in is asked three times at most', async () => {
    const { account, seen } = openAccount(() => refused('sign_in_required', { 'payment-required': challenge(PATH) }))
    await expect(account.read(PATH, {})).rejects.toMatchObject({ code: 'sign_in_failed', money: 'none' })
    expect(seen).toHaveLength(3)
  })

  it.each<[string, object]>([
    ['another domain', { domain: 'b.example' }],
    ['another origin', { uri: `https://b.example${PATH}` }],
    ['another route', { uri: `${ORIGIN}/v1/account/spend` }],
  ])('a challenge for %s is not signed', async (_name, changes) => {
    const { account, seen } = openAccount(() =>
      refused('sign_in_required', { 'payment-required': challenge(PATH, changes) }),
    )
    await expect(account.read(PATH, {})).rejects.toMatchObject({ code: 'sign_in_refused', money: 'none' })
    expect(seen).toHaveLength(1)
  })
})

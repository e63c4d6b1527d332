import { createSIWxClientExtension, wrapFetchWithSIWx } from '@x402/extensions/sign-in-with-x'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPool } from '#shared/ledger/pool.ts'
import { expectErrorBody } from '../../support/http/expect-refusal.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { signInChallengeOf, signInHeader } from '../../support/payer/sign-in.ts'
import { ACCOUNT_PATHS, type AccountApp, composeAccountApp } from './account-app.ts'
import { limitTo, PUBLIC_BASE_URL } from './compose-app.ts'

const PATH = '/v1/account/debts'
const MINUTE_MS = 60_000
/** The same key in every run, so that its address has letters of both cases. */
const wallet = privateKeyToAccount(`0x${'11'.repeat(32)}`)
const other = privateKeyToAccount(generatePrivateKey())

let ledger: TestLedger
let api: AccountApp
/** A second process over the same database. */
let secondApi: AccountApp
beforeAll(async () => {
  ledger = await createTestLedger(4)
  ;[api, secondApi] = await Promise.all([composeAccountApp(ledger.pool), composeAccountApp(ledger.pool)])
})
afterAll(() => ledger.close())

const freshChallenge = async (path = PATH, app = api) => signInChallengeOf(await app.get(path))

/** Sends a sign-in header and expects its refusal. */
async function expectRefused(header: string, expected: { status: number; code: string; param: string | null }) {
  const answer = await api.get(PATH, { 'sign-in-with-x': header })
  expect(answer.headers.get('x-account-session')).toBeNull()
  expect(answer.headers.get('x-should-retry')).toBe('false')
  expect(answer.headers.get('www-authenticate')).toBe(expected.status === 401 ? 'Bearer' : null)
  return (await expectErrorBody(answer, expected)).error
}

const refusedFor = (param: string) => ({ status: 401, code: 'sign_in_refused', param })

describe('a request without a sign-in', () => {
  it.each(ACCOUNT_PATHS)(
    'GET %s without a sign-in gets a 402 that accepts no payment and has a challenge',
    async (path) => {
      const answer = await api.get(path)
      const challenge = signInChallengeOf(answer)
      const uri = `${PUBLIC_BASE_URL}${path}`
      expect(challenge).toMatchObject({ domain: 'farebox.example', uri, chainId: 'eip155:8453', type: 'eip191' })
      expect(challenge.nonce).toMatch(/^[0-9a-f]{32}$/)
      expect(Date.parse(challenge.expirationTime ?? '') - Date.parse(challenge.issuedAt)).toBe(5 * MINUTE_MS)
      expect(answer.headers.get('payment-required')?.length).toBeLessThan(4096)
      const { error } = await expectErrorBody(answer, { status: 402, code: 'sign_in_required', param: null })
      expect(error).toMatchObject({ type: 'authentication_error', payment: 'none', retry: 'never' })
      expect(error.message).toContain('free')
    },
  )

  it('a challenge is different each time and leaves nothing in the database', async () => {
    const before = await ledger.fingerprint()
    const nonces = await Promise.all(Array.from({ length: 50 }, async () => (await freshChallenge()).nonce))
    expect(new Set(nonces).size).toBe(50)
    expect(await ledger.fingerprint()).toBe(before)
  })

  it('a mistake in the query is a 400 before the wallet signs', async () => {
    await expectErrorBody(await api.get(`${PATH}?page=2`), { status: 400, code: 'unknown_field', param: 'page' })
  })

  it('requests of one client are limited before a header is read', async () => {
    const limited = await composeAccountApp(ledger.pool, { limitRate: limitTo(1) })
    const answers = [await limited.get(PATH), await limited.get(PATH, { 'sign-in-with-x': 'junk' })]
    expect(answers.map(({ status }) => status)).toEqual([402, 429])
  })
})

describe('a sign-in', () => {
  it.each(ACCOUNT_PATHS)(
    'GET %s answers a signed challenge, in no cache, with a session for the next request',
    async (path) => {
      const answer = await api.getSignedIn(path, wallet)
      expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'private, no-store'])
      expect(await answer.json()).toMatchObject({ payer: wallet.address.toLowerCase() })
      const session = { authorization: `Bearer ${answer.headers.get('x-account-session')}` }
      for (const next of ACCOUNT_PATHS) {
        const following = await api.get(next, session)
        expect([following.status, following.headers.get('x-account-session')]).toEqual([200, null])
        expect(await following.json()).toMatchObject({ payer: wallet.address.toLowerCase() })
      }
    },
  )

  it('the extension’s client signs in by itself, and again when its session has expired', async () => {
    const statuses: number[] = []
    const client = new x402Client().registerExtension(createSIWxClientExtension({ signers: [wallet] }))
    const call = wrapFetchWithPayment(async (input, init) => {
      const request = new Request(input, init)
      const answer = await api.get(new URL(request.url).pathname, Object.fromEntries(request.headers))
      statuses.push(answer.status)
      return answer
    }, client)
    const first = await call(`${PUBLIC_BASE_URL}${PATH}`)
    const headers = { authorization: `Bearer ${first.headers.get('x-account-session')}` }
    expect((await call(`${PUBLIC_BASE_URL}${PATH}`, { headers })).status).toBe(200)
    expect(statuses.splice(0)).toEqual([402, 200, 200])
    const stale = await call(`${PUBLIC_BASE_URL}${PATH}`, { headers: { authorization: 'Bearer stale' } })
    expect([stale.status, ...statuses]).toEqual([200, 402, 200])
  })

  it('wrapFetchWithSIWx of the extension does not sign where no payment is accepted, and returns the 402', async () => {
    const call = wrapFetchWithSIWx(async () => api.get(PATH), wallet)
    const answer = await call(`${PUBLIC_BASE_URL}${PATH}`)
    await expectErrorBody(answer, { status: 402, code: 'sign_in_required', param: null })
  })

  it('a client that can only pay finds nothing to pay for', async () => {
    const call = wrapFetchWithPayment(async () => api.get(PATH), new x402Client())
    await expect(call(`${PUBLIC_BASE_URL}${PATH}`)).rejects.toThrow('Failed to create payment payload')
  })

  it('a sign-in is refused the second time, also by another process and for a session', async () => {
    const header = await signInHeader(await freshChallenge(), wallet)
    expect((await api.get(PATH, { 'sign-in-with-x': header })).status).toBe(200)
    const expected = { status: 401, code: 'sign_in_already_used', param: null }
    await expectRefused(header, expected)
    await expectErrorBody(await secondApi.get(PATH, { 'sign-in-with-x': header }), expected)
  })

  it('one of many concurrent uses of a sign-in succeeds, whichever process they reach', async () => {
    const header = await signInHeader(await freshChallenge(), wallet)
    const answers = await Promise.all(
      [api, secondApi, api, secondApi, api, secondApi].map((app) => app.get(PATH, { 'sign-in-with-x': header })),
    )
    const statuses = answers.map(({ status }) => status)
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 401, 401, 401, 401, 401])
  })

  it('a sign-in is valid at another process than the one that issued its challenge', async () => {
    const header = await signInHeader(await freshChallenge(PATH, secondApi), wallet)
    expect((await api.get(PATH, { 'sign-in-with-x': header })).status).toBe(200)
  })

  it.each([
    ['checksummed', wallet.address],
    ['lower case', wallet.address.toLowerCase()],
    ['upper case', `0x${wallet.address.slice(2).toUpperCase()}`],
  ])('an address in %s names the same account', async (_, address) => {
    const header = await signInHeader(await freshChallenge(), wallet, { after: { address } })
    const answer = await api.get(PATH, { 'sign-in-with-x': header })
    expect(await answer.json()).toMatchObject({ payer: wallet.address.toLowerCase() })
  })

  it('a signature whose last byte is 0 or 1, as of some hardware wallets, is accepted', async () => {
    const challenge = await freshChallenge()
    const { signature } = JSON.parse(Buffer.from(await signInHeader(challenge, wallet), 'base64').toString())
    const last = signature.endsWith('1b') ? '00' : '01'
    const header = await signInHeader(challenge, wallet, { after: { signature: `${signature.slice(0, -2)}${last}` } })
    expect((await api.get(PATH, { 'sign-in-with-x': header })).status).toBe(200)
  })
})

describe('a sign-in that does not prove the wallet', () => {
  it('a signature of another wallet is refused and does not use up the challenge', async () => {
    const challenge = await freshChallenge()
    const foreign = await signInHeader(challenge, other, { after: { address: wallet.address } })
    await expectRefused(foreign, refusedFor('signature'))
    const own = await signInHeader(challenge, wallet)
    expect((await api.get(PATH, { 'sign-in-with-x': own })).status).toBe(200)
  })

  it.each<[string, string, Parameters<typeof signInHeader>[2]]>([
    ['another chain', 'chainId', { before: { chainId: 'eip155:1' } }],
    ['a chain of another kind', 'chainId', { after: { chainId: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp' } }],
    ['another signature type', 'type', { after: { type: 'ed25519' } }],
    ['another statement', 'statement', { before: { statement: 'Transfer everything.' } }],
    ['no statement', 'statement', { before: { statement: undefined } }],
    ['a later expiry', 'expirationTime', { before: { expirationTime: '2099-01-01T00:00:00.000Z' } }],
    ['no expiry', 'expirationTime', { before: { expirationTime: undefined } }],
    ['a beginning in the future', 'notBefore', { before: { notBefore: '2099-01-01T00:00:00.000Z' } }],
    ['a request id', 'requestId', { before: { requestId: 'abc' } }],
    ['other resources', 'resources', { before: { resources: ['https://elsewhere.example/'] } }],
    ['a nonce of their own', 'nonce', { before: { nonce: '0'.repeat(32) } }],
    ['a nonce of another length', 'nonce', { before: { nonce: 'abcdefgh' } }],
    ['another time of issue', 'nonce', { before: { issuedAt: new Date(0).toISOString() } }],
    ['an address that is not its checksum', 'address', { after: { address: swapCase(wallet.address) } }],
    ['another address', 'signature', { after: { address: other.address } }],
    ['the signature of a contract wallet', 'signature', { after: { signature: `0x${'ab'.repeat(200)}` } }],
    ['a compact signature', 'signature', { after: { signature: `0x${'ab'.repeat(64)}` } }],
    ['a signature of zeros', 'signature', { after: { signature: `0x${'00'.repeat(65)}` } }],
  ])('a sign-in with %s is refused, naming %s', async (_, param, changes) => {
    await expectRefused(await signInHeader(await freshChallenge(), wallet, changes), refusedFor(param))
  })

  it('a challenge of another service is refused, naming the domain', async () => {
    const elsewhere = await composeAccountApp(ledger.pool, { signIn: { publicBaseUrl: 'https://elsewhere.example' } })
    const challenge = await freshChallenge(PATH, elsewhere)
    const error = await expectRefused(await signInHeader(challenge, wallet), refusedFor('nonce'))
    expect(error.message).toContain('domain must be farebox.example')
    const disguised = await signInHeader(challenge, wallet, { after: { domain: 'farebox.example' } })
    expect((await expectRefused(disguised, refusedFor('nonce'))).message).toContain(
      `uri must be ${PUBLIC_BASE_URL}${PATH}`,
    )
  })

  it('a challenge of another route is refused', async () => {
    const challenge = await freshChallenge('/v1/account/open')
    await expectRefused(await signInHeader(challenge, wallet), refusedFor('nonce'))
    const moved = await signInHeader({ ...challenge, uri: `${PUBLIC_BASE_URL}${PATH}` }, wallet)
    await expectRefused(moved, refusedFor('nonce'))
  })

  it('a challenge expires after five minutes, and not before', async () => {
    const issuedAgo = async (ms: number) => {
      const earlier = await composeAccountApp(ledger.pool, { signIn: clockOf(-ms) })
      return signInHeader(await freshChallenge(PATH, earlier), wallet)
    }
    await expectRefused(await issuedAgo(5 * MINUTE_MS), { status: 401, code: 'sign_in_expired', param: null })
    const header = await issuedAgo(4 * MINUTE_MS)
    expect((await api.get(PATH, { 'sign-in-with-x': header })).status).toBe(200)
  })

  it('a challenge of a process whose clock is ahead is accepted up to half a minute', async () => {
    const now = Date.now()
    const processAhead = async (ms: number) => {
      const ahead = await composeAccountApp(ledger.pool, { signIn: { now: () => new Date(now + ms) } })
      return signInHeader(await freshChallenge(PATH, ahead), wallet)
    }
    const here = await composeAccountApp(ledger.pool, { signIn: { now: () => new Date(now) } })
    const answers = [await processAhead(30_000), await processAhead(30_001)].map((header) =>
      here.get(PATH, { 'sign-in-with-x': header }),
    )
    const [accepted, refused] = await Promise.all(answers)
    expect(accepted?.status).toBe(200)
    await expectErrorBody(refused as Response, refusedFor('issuedAt'))
  })
})

describe('a malformed SIGN-IN-WITH-X', () => {
  it.each([
    ['that is empty', ''],
    ['that is not Base64', '{"address":"0x"}'],
    ['that is not JSON', Buffer.from('no JSON').toString('base64')],
    ['without padding', encoded({ a: 1 }).replace(/=+$/, '')],
    ['that is a list', encoded([])],
    ['that is null', encoded(null)],
    ['without fields', encoded({})],
    ['with a repeated field', Buffer.from('{"address":"a","address":"b"}').toString('base64')],
    ['with __proto__', Buffer.from('{"__proto__":{"address":"a"}}').toString('base64')],
    ['that is huge', 'A'.repeat(8000)],
    ['that is nested deeply', Buffer.from('['.repeat(1000)).toString('base64')],
  ])('SIGN-IN-WITH-X %s is a 400', async (_, header) => {
    await expectRefused(header, { status: 400, code: 'invalid_sign_in_header', param: 'sign-in-with-x' })
  })

  it.each([
    ['address', 'junk'],
    ['address', `${wallet.address}'; DROP TABLE jobs`],
    ['signature', 'junk'],
    ['signature', '0xabc'],
    ['statement', 'x'.repeat(1025)],
    ['resources', 'https://farebox.example/'],
    ['nonce', 7],
  ])('SIGN-IN-WITH-X with a wrong %s is a 400 that names the field', async (field, value) => {
    const header = await signInHeader(await freshChallenge(), wallet, { after: { [field]: value } })
    const expected = { status: 400, code: 'invalid_sign_in_header', param: 'sign-in-with-x' }
    expect((await expectRefused(header, expected)).message).toContain(`${field}: `)
  })
})

describe('a session', () => {
  it('a session ends after ten minutes, and not before', async () => {
    const young = await sessionOf({ signIn: clockOf(-9 * MINUTE_MS) })
    expect((await api.get(PATH, { authorization: young })).status).toBe(200)
    const old = await api.get(PATH, { authorization: await sessionOf({ signIn: clockOf(-10 * MINUTE_MS) }) })
    expect(signInChallengeOf(old).nonce).toHaveLength(32)
    const { error } = await expectErrorBody(old, { status: 402, code: 'sign_in_required', param: null })
    expect(error.message).toMatch(/^The session has expired/)
  })

  it.each<[string, Parameters<typeof composeAccountApp>[1]]>([
    ['another secret', { signIn: { challengeSecrets: ['another secret of challenges, 32 characters'] } }],
    ['another origin', { signIn: { publicBaseUrl: 'https://elsewhere.example' } }],
  ])('a session of a service with %s is not one', async (_, changes) => {
    expect((await api.get(PATH, { authorization: await sessionOf(changes) })).status).toBe(402)
  })

  it('a session that was changed is not one', async () => {
    const [address = '', expiry = '', tag = ''] = (await sessionOf({})).replace('Bearer ', '').split('.')
    const changed = [
      `${other.address.toLowerCase()}.${expiry}.${tag}`,
      `${address}.${Number(expiry) + 1}.${tag}`,
      `${address}.${expiry}.${tag.slice(1)}`,
      `${address}.${expiry}.${tag}.${tag}`,
      `${address}.${expiry}`,
      '',
    ]
    for (const token of changed) {
      const answer = await api.get(PATH, { authorization: `Bearer ${token}` })
      expect([token, answer.status]).toEqual([token, 402])
    }
  })
})

it('an account whose ledger does not answer is a 503 that says that nothing was charged', async () => {
  const closed = createPool({
    connectionString: 'postgres://nobody@127.0.0.1:1/none',
    maximumConnections: 1,
    applicationName: 'closed',
    onError: () => undefined,
  })
  const app = await composeAccountApp(closed)
  const header = await signInHeader(await freshChallenge(PATH, app), wallet)
  const answer = await app.get(PATH, { 'sign-in-with-x': header })
  const { error } = await expectErrorBody(answer, { status: 503, code: 'account_unavailable', param: null })
  expect(error).toMatchObject({ payment: 'none', retry: 'same_request' })
  expect(answer.headers.get('retry-after')).toBe('2')
  await closed.end()
})

function encoded(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64')
}

/** Returns the session that a process with another clock or other settings started. */
async function sessionOf(changes: Parameters<typeof composeAccountApp>[1]): Promise<string> {
  const started = await composeAccountApp(ledger.pool, changes)
  return (await started.signIn(wallet)).authorization
}

/** A clock that differs from this one. */
function clockOf(aheadMs: number) {
  return { now: () => new Date(Date.now() + aheadMs) }
}

function swapCase(address: string): string {
  const swapped = address
    .slice(2)
    .replaceAll(/[a-z]/gi, (letter) => (letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase()))
  return `0x${swapped}`
}

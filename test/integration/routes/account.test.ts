import type { FastifyInstance } from 'fastify'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount, privateKeyToAddress } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createBalanceReader } from '#shared/chain/reading/balance-reader.ts'
import type { JobState } from '#shared/jobs/job.ts'
import { atomicAmount } from '#shared/money/atomic-amount.ts'
import { opensReceipt, receiptToken, signedReceiptSchema } from '#shared/payment/receipt.ts'
import { addBalanceRoutes } from '../../../api/routes/balance.ts'
import { addReceiptRoutes } from '../../../api/routes/receipts.ts'
import {
  accountDebtsSchema,
  accountOpenSchema,
  accountReceiptsSchema,
  accountSpendSchema,
} from '../../../api/schemas/account.ts'
import { walletBalanceSchema } from '../../../api/schemas/allowances.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { expectErrorBody } from '../../support/http/expect-refusal.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob } from '../../support/ledger/new-test-job.ts'
import { testAuthorization } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { ACCOUNT_PATHS, type AccountApp, composeAccountApp, RECEIPT_SECRETS } from './account-app.ts'
import { composeApp, limitRate, limitTo, signer, terms } from './compose-app.ts'

type Hex = `0x${string}`
/** A wallet with a session, and calls in the ledger. */
interface Owner {
  readonly account: PrivateKeyAccount
  /** In lower case, as the ledger has it. */
  readonly payer: Hex
  /** Sends a request within the session. */
  get(path: string, headers?: Record<string, string>): Promise<Response>
}
/** Reads every page of a list, and calls `between` after each. */
async function readPages(owner: Owner, path: string, between: () => Promise<unknown> = async () => undefined) {
  const keys: string[] = []
  const sizes: number[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const answer = await owner.get(`${path}${cursor && `&cursor=${cursor}`}`)
    const page = (await answer.json()) as {
      data: { idempotency_key: string }[]
      has_more: boolean
      next_cursor: string | null
    }
    expect([answer.status, page.has_more]).toEqual([200, page.next_cursor !== null])
    keys.push(...page.data.map(({ idempotency_key: key }) => key))
    sizes.push(page.data.length)
    cursor = page.next_cursor
    await between()
  }
  return { keys, sizes }
}
async function receiptsOf(owner: Owner, query = '') {
  return accountReceiptsSchema.parse(await (await owner.get(`/v1/account/receipts${query}`)).json())
}
/** Reads RFC 4180. */
function parseCsv(text: string): string[][] {
  const cells = [...text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)]
  expect(cells.map(([cell]) => cell).join('')).toBe(text)
  const rows: string[][] = [[]]
  for (const [, quoted, plain, end] of cells) {
    rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain ?? '')
    if (end === '\r\n') rows.push([])
  }
  return rows.slice(0, -1)
}

describe('a wallet’s own account', () => {
  let ledger: TestLedger
  let api: AccountApp
  beforeAll(async () => {
    ledger = await createTestLedger(4)
    api = await composeAccountApp(ledger.pool)
  })

  afterAll(() => ledger.close())

  async function newOwner(): Promise<Owner> {
    const account = privateKeyToAccount(generatePrivateKey())
    const session = await api.signIn(account)
    return {
      account,
      payer: account.address.toLowerCase() as Hex,
      get: (path, headers) => api.get(path, { ...headers, ...session }),
    }
  }
  /**
   * Creates a call of a wallet in a state, completed at `at`. Returns its key. A debt is not owed yet: the ledger accepts no
   * call of a wallet that owes one.
   */
  async function addCall(
    { payer }: Pick<Owner, 'payer'>,
    state: JobState = 'completed',
    changes: { at?: string; acceptedAt?: string; model?: string; operation?: string; charge?: bigint } = {},
  ): Promise<string> {
    const request = newTestJob({ authorization: testAuthorization({ payer }) })
    const job = await jobInState(ledger, state, request)
    await ledger.sql(
      `UPDATE jobs SET finished_at = coalesce($2, finished_at), public_model = coalesce($3, public_model),
       operation = coalesce($4, operation), charge_amount = coalesce($5, charge_amount),
       accepted_at = coalesce($6, accepted_at), quoted_maximum = greatest(quoted_maximum, $5), is_owed = false
     WHERE id = $1`,
      [job.id, changes.at, changes.model, changes.operation, changes.charge?.toString(), changes.acceptedAt],
    )
    return request.idempotencyKey
  }
  /** Makes calls owed. */
  async function owe(keys: readonly string[]): Promise<void> {
    await ledger.sql('UPDATE jobs SET is_owed = true WHERE idempotency_key = ANY($1)', [keys])
  }
  describe('GET /v1/account/receipts', () => {
    it('GET /v1/account/receipts lists a wallet’s own receipts as GET /v1/receipts/{id} returns them', async () => {
      const [owner, other] = [await newOwner(), await newOwner()]
      const key = await addCall(owner)
      await addCall(other)
      await addCall(owner, 'failed')
      const { data, ...list } = await receiptsOf(owner)
      expect(list).toEqual({ object: 'list', payer: owner.payer, has_more: false, next_cursor: null })
      expect(data.map(({ idempotency_key: listed }) => listed)).toEqual([key])
      const [entry] = data
      const app = await composeApp((composed) =>
        addReceiptRoutes(composed, { store: ledger.acceptance, receiptSecrets: RECEIPT_SECRETS, signer, limitRate }),
      )
      const read = async (token = '') => {
        const headers = { authorization: `Bearer ${token}` }
        const answer = await app.inject({ url: `/v1/receipts/${entry?.receipt.id}`, headers })
        return signedReceiptSchema.parse(answer.json())
      }
      expect(await read(entry?.receipt_token)).toEqual(entry?.receipt)
      expect(entry?.receipt.payer).toBe(owner.payer)
      // The token that came with the answer, which the wallet lost.
      const [, old] = RECEIPT_SECRETS
      if (!old || !entry) throw new Error('no receipt')
      expect(await read(receiptToken(entry.receipt.id, old))).toEqual(entry.receipt)
      expect(opensReceipt(entry.receipt_token, entry.receipt.id, RECEIPT_SECRETS.slice(0, 1))).toBe(true)
    })

    it('GET /v1/account/receipts shows the current state of a settlement', async () => {
      const owner = await newOwner()
      await addCall(owner)
      await addCall(owner)
      await ledger.sql(
        `UPDATE settlements SET state = 'lost', failure_reason = 'test' WHERE payer = $1 AND job_id = (
         SELECT id FROM jobs WHERE payer = $1 ORDER BY finished_at LIMIT 1)`,
        [owner.payer],
      )
      const { data } = await receiptsOf(owner)
      expect(data.map(({ receipt }) => receipt.settlement.state)).toEqual(['confirmed', 'lost'])
    })

    it('pages of receipts neither repeat nor skip an entry while receipts are issued', async () => {
      const owner = await newOwner()
      const keys: string[] = []
      // Three receipts of the same microsecond at each time.
      for (const minute of [1, 2, 3])
        for (let repeated = 0; repeated < 3; repeated++)
          keys.push(await addCall(owner, 'completed', { at: `2026-03-01T12:0${minute}:00.000001Z` }))
      const issue = () => addCall(owner)
      const { keys: read, sizes } = await readPages(owner, '/v1/account/receipts?limit=2', issue)
      expect(sizes).toEqual([2, 2, 2, 2, 1])
      expect(read.toSorted()).toEqual(keys.toSorted())
      expect(read.map((key) => Math.floor(keys.indexOf(key) / 3))).toEqual([2, 2, 2, 1, 1, 1, 0, 0, 0])
    })

    it('dates limit a list of receipts to whole UTC days, both included', async () => {
      const owner = await newOwner()
      const at = [
        '2026-02-28T23:59:59.999999Z',
        '2026-03-01T00:00:00Z',
        '2026-03-02T23:59:59.999999Z',
        '2026-03-03T00:00:00Z',
      ]
      const keys: string[] = []
      for (const time of at) keys.push(await addCall(owner, 'completed', { at: time }))
      const listed = async (query: string) => {
        const { keys: read } = await readPages(owner, `/v1/account/receipts?limit=1${query}`)
        return read.map((key) => keys.indexOf(key))
      }
      expect(await listed('&from=2026-03-01&to=2026-03-02')).toEqual([2, 1])
      expect(await listed('&from=2026-03-02')).toEqual([3, 2])
      expect(await listed('&to=2026-03-01')).toEqual([1, 0])
    })

    it('a cursor of another wallet shows nothing of it', async () => {
      const [owner, other] = [await newOwner(), await newOwner()]
      for (const wallet of [owner, other, other, other]) await addCall(wallet)
      const { next_cursor: cursor } = await receiptsOf(other, '?limit=1')
      const { data } = await receiptsOf(owner, `?cursor=${cursor}`)
      for (const { receipt } of data) expect(receipt.payer).toBe(owner.payer)
      expect((await receiptsOf(owner)).data).toHaveLength(1)
    })
  })

  describe('the query of an account route', () => {
    const INJECTED = "' OR 1=1; DROP TABLE jobs; --"

    it.each<[string, string, string]>([
      ['/v1/account/receipts', 'limit', '0'],
      ['/v1/account/receipts', 'limit', '101'],
      ['/v1/account/receipts', 'limit', '1e1'],
      ['/v1/account/receipts', 'limit', '-1'],
      ['/v1/account/receipts', 'limit', INJECTED],
      ['/v1/account/receipts', 'cursor', ''],
      ['/v1/account/receipts', 'cursor', INJECTED],
      ['/v1/account/receipts', 'cursor', 'A'.repeat(31)],
      ['/v1/account/receipts', 'cursor', '_'.repeat(32)],
      ['/v1/account/receipts', 'cursor', `${'A'.repeat(32)}!`],
      ['/v1/account/receipts', 'cursor', 'A'.repeat(60)],
      ['/v1/account/receipts', 'from', INJECTED],
      ['/v1/account/receipts', 'from', '2026-02-30'],
      ['/v1/account/receipts', 'to', '0000-01-01'],
      ['/v1/account/receipts', 'to', '2026-03-01T00:00:00Z'],
      ['/v1/account/debts', 'cursor', INJECTED],
      ['/v1/account/open', 'cursor', INJECTED],
      ['/v1/account/spend', 'from', INJECTED],
      ['/v1/account/spend', 'to', '-infinity'],
      ['/v1/account/spend', 'format', 'xlsx'],
    ])('GET %s refuses %s=%s', async (path, name, value) => {
      const answer = await api.get(`${path}?${name}=${encodeURIComponent(value)}`)
      await expectErrorBody(answer, { status: 400, code: 'invalid_field', param: name, says: [name] })
    })

    it.each(ACCOUNT_PATHS)('GET %s refuses an unknown and a repeated parameter', async (path) => {
      const unknown = { status: 400, code: 'unknown_field', param: 'payer' }
      await expectErrorBody(await api.get(`${path}?payer=0x1`), unknown)
      const name = path.endsWith('spend') ? 'from' : 'limit'
      const repeated = await api.get(`${path}?${name}=1&${name}=2`)
      await expectErrorBody(repeated, { status: 400, code: 'invalid_field', param: name })
    })

    it.each([
      ['?from=2026-03-02&to=2026-03-01', 'must not be after to'],
      ['?from=2025-01-01&to=2026-01-02', 'at most 366 days'],
    ])('GET /v1/account/spend%s is refused: %s', async (query, says) => {
      const answer = await api.get(`/v1/account/spend${query}`)
      await expectErrorBody(answer, { status: 400, code: 'invalid_field', param: 'from', says: [says] })
    })

    it('GET /v1/account/receipts refuses from after to', async () => {
      const answer = await api.get('/v1/account/receipts?from=2026-03-02&to=2026-03-01')
      await expectErrorBody(answer, { status: 400, code: 'invalid_field', param: 'from' })
    })
  })

  describe('GET /v1/account/spend', () => {
    const QUERY = '?from=2026-03-01&to=2026-03-02'
    const TEXT = { model: 'textmodel-3.5-flash', operation: 'createMessage' }
    const SPEECH = { model: 'speechvendor/scribe-v2', operation: 'createTranscription' }
    const [FIRST, SECOND] = ['2026-03-01', '2026-03-02']
    let owner: Owner
    beforeAll(async () => {
      owner = await newOwner()
      await addCall(await newOwner(), 'completed', { at: '2026-03-01T12:00:00Z' })
      await addCall(owner, 'completed', { at: '2026-03-01T00:00:00Z', charge: 1n })
      await addCall(owner, 'completed', { at: '2026-03-01T23:59:59.999999Z', charge: 2_000_000n })
      await addCall(owner, 'completed', { at: '2026-03-01T12:00:00Z', charge: 30n, ...TEXT })
      await addCall(owner, 'completed', { at: '2026-03-02T00:00:00Z', charge: 400n, ...TEXT, model: '=1+"1",\n' })
      await addCall(owner, 'completed', { at: '2026-03-03T00:00:00Z', charge: 5000n })
      await addCall(owner, 'settlement_failed', { at: '2026-03-01T12:00:00Z', charge: 4000n })
    })

    it('GET /v1/account/spend adds up a wallet’s charges by UTC day, model and operation', async () => {
      const spend = accountSpendSchema.parse(await (await owner.get(`/v1/account/spend${QUERY}`)).json())
      expect(spend).toEqual({
        object: 'account_spend',
        payer: owner.payer,
        currency: 'USDC',
        from: '2026-03-01',
        to: '2026-03-02',
        calls: 4,
        total_atomic: '2000431',
        total_usdc: '2.000431',
        data: [
          { date: FIRST, ...SPEECH, calls: 2, charge_atomic: '2000001', charge_usdc: '2.000001' },
          { date: FIRST, ...TEXT, calls: 1, charge_atomic: '30', charge_usdc: '0.00003' },
          { date: SECOND, ...TEXT, model: '=1+"1",\n', calls: 1, charge_atomic: '400', charge_usdc: '0.0004' },
        ],
      })
    })

    it('GET /v1/account/spend covers the last thirty days until today by default', async () => {
      const today = new Date().toISOString().slice(0, 10)
      const recent = await newOwner()
      await addCall(recent)
      await addCall(recent, 'completed', { at: new Date(Date.now() - 31 * 24 * 3600 * 1000).toISOString() })
      const spend = accountSpendSchema.parse(await (await recent.get('/v1/account/spend')).json())
      expect((Date.parse(spend.to) - Date.parse(spend.from)) / (24 * 3600 * 1000)).toBe(29)
      expect([spend.calls, spend.to >= today]).toEqual([1, true])
    })

    it.each<[string, string, Record<string, string>]>([
      ['format=csv', `${QUERY}&format=csv`, {}],
      ['format=csv, whatever it accepts', `${QUERY}&format=csv`, { accept: 'application/json' }],
      ['an Accept header that prefers CSV', QUERY, { accept: 'application/json;q=0.5, text/csv' }],
    ])('GET /v1/account/spend is CSV without formulas for %s', async (_, query, headers) => {
      const answer = await owner.get(`/v1/account/spend${query}`, headers)
      expect(answer.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
      expect(answer.headers.get('content-disposition')).toBe(
        'attachment; filename="farebox-spend-2026-03-01-2026-03-02.csv"',
      )
      expect(parseCsv(await answer.text())).toEqual([
        ['date', 'model', 'operation', 'calls', 'charge_usdc', 'charge_atomic'],
        ['2026-03-01', 'speechvendor/scribe-v2', 'createTranscription', '2', '2.000001', '2000001'],
        ['2026-03-01', TEXT.model, TEXT.operation, '1', '0.00003', '30'],
        ['2026-03-02', `'=1+"1",\n`, TEXT.operation, '1', '0.0004', '400'],
      ])
    })

    it.each<[string, string, Record<string, string>]>([
      ['format=json', `${QUERY}&format=json`, { accept: 'text/csv' }],
      ['no preference', QUERY, { accept: '*/*' }],
    ])('GET /v1/account/spend is JSON for %s', async (_, query, headers) => {
      const answer = await owner.get(`/v1/account/spend${query}`, headers)
      expect(answer.headers.get('content-type')).toMatch(/^application\/json/)
    })

    it('a sum that takes too long is a 503 that asks for fewer days and holds no connection', async () => {
      const impatient = await composeAccountApp(ledger.pool, { spendTimeoutMs: 20 })
      const session = await impatient.signIn(owner.account)
      const blocker = await ledger.pool.connect()
      await blocker.query('BEGIN')
      try {
        await blocker.query('LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE')
        const answer = await impatient.get(`/v1/account/spend${QUERY}`, session)
        const says = ['2026-03-01 to 2026-03-02', 'Nothing was charged', 'fewer days']
        await expectErrorBody(answer, { status: 503, code: 'account_unavailable', param: 'from', says })
      } finally {
        await blocker.query('ROLLBACK')
        blocker.release()
      }
      await expect.poll(() => ledger.pool.totalCount - ledger.pool.idleCount).toBe(0)
      expect((await owner.get(`/v1/account/spend${QUERY}`)).status).toBe(200)
    })
  })

  describe('unpaid calls', () => {
    it('GET /v1/account/debts lists completed calls that are owed, with the key to pay for them', async () => {
      const [owner, other] = [await newOwner(), await newOwner()]
      const keys = [
        await addCall(owner, 'settlement_failed'),
        await addCall(owner, 'settlement_failed', { charge: 1n }),
      ]
      const foreign = await addCall(other, 'settlement_failed')
      await addCall(owner)
      await addCall(owner, 'settlement_failed')
      await owe([...keys, foreign])
      const { data, ...list } = accountDebtsSchema.parse(await (await owner.get('/v1/account/debts')).json())
      expect(list).toMatchObject({ payer: owner.payer, calls: 2, total_atomic: '5035', total_usdc: '0.005035' })
      expect(data.map(({ idempotency_key: key, charge_atomic: charge }) => [key, charge])).toEqual([
        [keys[0], '5034'],
        [keys[1], '1'],
      ])
    })

    it('GET /v1/account/open lists calls that have not ended, with the most that each may charge', async () => {
      const [owner, other] = [await newOwner(), await newOwner()]
      const states = ['accepted', 'generating', 'generated', 'settling', 'review'] as const
      const keys = new Map<string, string>()
      for (const state of states) keys.set(await addCall(owner, state), state)
      for (const state of ['completed', 'failed', 'settlement_failed'] as const) await addCall(owner, state)
      await addCall(other, 'accepted')
      const { data, ...list } = accountOpenSchema.parse(await (await owner.get('/v1/account/open')).json())
      expect(list).toMatchObject({ payer: owner.payer, calls: 5, total_atomic: '25170', total_usdc: '0.02517' })
      expect(data.map(({ idempotency_key: key, state }) => [keys.get(key), state])).toEqual(
        states.map((state) => [state, state]),
      )
      expect(data.every(({ at_most_atomic: most }) => most === '5034')).toBe(true)
    })

    it.each<[string, JobState]>([
      ['/v1/account/debts', 'settlement_failed'],
      ['/v1/account/open', 'accepted'],
    ])('pages of %s have every call once, and the totals of all', async (path, state) => {
      const owner = await newOwner()
      const keys: string[] = []
      for (let index = 0; index < 5; index++)
        keys.push(await addCall(owner, state, { acceptedAt: `2026-03-01T12:00:0${Math.floor(index / 3)}Z` }))
      if (state === 'settlement_failed') await owe(keys)
      const { keys: read, sizes } = await readPages(owner, `${path}?limit=2`)
      expect([sizes, read.toSorted()]).toEqual([[2, 2, 1], keys.toSorted()])
      // The entries of a page may be gone by the time that it is read; the totals are still those of all calls.
      const behind = Buffer.alloc(24)
      behind.writeBigUInt64BE(BigInt(Date.now() + 60_000) * 1000n, 16)
      const empty = await owner.get(`${path}?cursor=${behind.toString('base64url')}`)
      expect(await empty.json()).toMatchObject({ calls: 5, data: [], has_more: false })
    })

    it.each(['/v1/account/debts', '/v1/account/open'])('GET %s of a wallet without calls is empty', async (path) => {
      const answer = await (await newOwner()).get(path)
      expect(await answer.json()).toMatchObject({
        calls: 0,
        total_atomic: '0',
        total_usdc: '0',
        data: [],
        has_more: false,
      })
    })
  })

  it('no account route shows a request, a result or what belongs to another wallet', async () => {
    const [owner, other] = [await newOwner(), await newOwner()]
    const [own, foreign]: [string[], string[]] = [[], []]
    for (const state of ['accepted', 'settling', 'settlement_failed', 'completed'] as const) {
      own.push(await addCall(owner, state))
      foreign.push(await addCall(other, state))
    }
    await owe([...own, ...foreign].filter((_, index) => index % 4 === 2))
    const bodies = await Promise.all(ACCOUNT_PATHS.map(async (path) => (await owner.get(path)).text()))
    const shown = bodies.join('\n')
    // In every result of a test job, and in every request.
    for (const key of own) expect(shown).toContain(key)
    for (const secret of ['canary', 'duration_ms', other.payer, ...foreign]) expect(shown).not.toContain(secret)
  })
})

describe('the balance of a wallet', () => {
  let devnet: TestDevnet
  let proxy: RpcProxy
  let app: FastifyInstance
  beforeAll(async () => {
    devnet = await startTestDevnet()
    proxy = await startRpcProxy(devnet.rpcUrl)
    const balances = createBalanceReader(createChainClient(proxy.url, PATIENCE_MS))
    app = await composeApp((composed) => addBalanceRoutes(composed, { terms, balances, limitRate }))
  })

  afterEach(() => proxy.setFault(null))

  afterAll(async () => {
    await app.close()
    await proxy.stop()
    await devnet.stop()
  })

  const lookUp = (query: string) => app.inject(`/v1/balance${query}`)
  describe('GET /v1/balance', () => {
    it('GET /v1/balance returns a wallet’s USDC with every specified field and no other [spec R9]', async () => {
      const { address } = await createPayer(devnet.rpcUrl, { usdcAtomic: 5_034_000n })
      const answer = await lookUp(`?address=${address}`)
      expect(answer.statusCode).toBe(200)
      expect(answer.headers['cache-control']).toBe('no-store')
      expect(walletBalanceSchema.parse(answer.json())).toEqual({
        object: 'wallet_balance',
        network: 'eip155:8453',
        asset: terms.asset,
        currency: 'USDC',
        wallet: address,
        balance_usdc_atomic: '5034000',
        balance_usdc: '5.034',
      })
    })

    it('GET /v1/balance returns zero for a wallet that is unknown on chain', async () => {
      const answer = await lookUp(`?address=${privateKeyToAddress(generatePrivateKey())}`)
      expect(answer.json()).toMatchObject({ balance_usdc_atomic: '0', balance_usdc: '0' })
    })

    it.each([
      ['lower', (address: string) => address.toLowerCase()],
      ['upper', (address: string) => `0x${address.slice(2).toUpperCase()}`],
      [
        'mixed, without a checksum',
        (address: string) => `0x${address.slice(2, -1).toLowerCase()}${address.slice(-1)}A`.slice(0, 42),
      ],
    ])('GET /v1/balance accepts %s case and returns the address as it was sent', async (_, spell) => {
      const { address } = await createPayer(devnet.rpcUrl, { usdcAtomic: 7n })
      const wallet = spell(address)
      const answer = await lookUp(`?address=${wallet}`)
      expect({ status: answer.statusCode, wallet: answer.json().wallet }).toEqual({ status: 200, wallet })
    })

    it('GET /v1/balance makes a single call to the chain [spec E82]', async () => {
      const before = proxy.calls.length
      await lookUp(`?address=${terms.payTo}`)
      expect(proxy.calls.slice(before)).toEqual(['eth_call'])
    })

    it('HEAD /v1/balance is answered without a body', async () => {
      const answer = await app.inject({ method: 'HEAD', url: `/v1/balance?address=${terms.payTo}` })
      expect({ status: answer.statusCode, body: answer.body }).toEqual({ status: 200, body: '' })
    })
  })

  describe('a wrong address [spec E81]', () => {
    const valid = terms.payTo
    it.each([
      ['', 'missing_field'],
      ['?wallet=1', 'missing_field'],
      ['?address=', 'invalid_field'],
      ['?address=0x', 'invalid_field'],
      [`?address=${valid.slice(0, -1)}`, 'invalid_field'],
      [`?address=${valid}0`, 'invalid_field'],
      [`?address=${valid}%0A`, 'invalid_field'],
      [`?address=%20${valid}`, 'invalid_field'],
      [`?address=${valid.replace('0x', '0X')}`, 'invalid_field'],
      [`?address=${valid.slice(2)}`, 'invalid_field'],
      [`?address=${valid.replace('11', 'zz')}`, 'invalid_field'],
      [`?address=${valid}&address=${valid}`, 'invalid_field'],
      ['?address=vitalik.eth', 'invalid_field'],
    ])('GET /v1/balance%s is a 400 without a call to the chain', async (query, code) => {
      const before = proxy.calls.length
      const answer = await lookUp(query)
      expect(answer.statusCode).toBe(400)
      expect(answer.json()).toMatchObject({
        type: 'error',
        error: { type: 'invalid_request_error', param: 'address', code, payment: 'none', retry: 'never' },
      })
      expect(proxy.calls.length).toBe(before)
    })
  })

  describe('a failed balance lookup [spec F6]', () => {
    const faults: RpcFault[] = [
      { kind: 'reset' },
      { kind: 'invalid_json' },
      { kind: 'html' },
      { kind: 'status', status: 502 },
      { kind: 'error', code: -32_603, message: 'secret internal url' },
    ]
    it.each(faults)(
      'GET /v1/balance answers an RPC fault of kind $kind with a 503 that allows a retry and leaks nothing [spec E83]',
      async (fault) => {
        proxy.setFault(fault)
        const answer = await lookUp(`?address=${terms.payTo}`)
        expect(answer.statusCode).toBe(503)
        expect(answer.headers['retry-after']).toBe('2')
        expect(answer.json()).toMatchObject({
          type: 'error',
          error: { code: 'payment_network_unavailable', payment: 'none', retry: 'same_request' },
        })
        expect(answer.body).not.toMatch(/secret|127\.0\.0\.1/)
      },
    )
  })

  it('GET /v1/balance answers 429 with Retry-After to an address that asks too often [spec O33]', async () => {
    const limited = await composeApp((composed) =>
      addBalanceRoutes(composed, {
        terms,
        balances: { readBalance: async () => atomicAmount(0n) },
        limitRate: limitTo(1),
      }),
    )
    const ask = () => limited.inject(`/v1/balance?address=${terms.payTo}`)
    const [first, second] = [await ask(), await ask()]
    expect([first.statusCode, second.statusCode]).toEqual([200, 429])
    expect([first.headers['retry-after'], second.headers['retry-after']]).toEqual([undefined, '60'])
    expect(second.json()).toMatchObject({ error: { code: 'rate_limited', payment: 'none', retry: 'same_request' } })
  })
})

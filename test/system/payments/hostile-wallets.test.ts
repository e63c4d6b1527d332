import pLimit from 'p-limit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { clientOfNetwork } from '../../resilience/purse/client-address.ts'
import { delegateTo, placeDelegate } from '../../support/chain/delegating-payer.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { payChat, type SignedChat, signChat, upstreamCallsByKey } from '../../support/payer/chat-call.ts'
import type { PayerOfAnyKind } from '../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'
import { createMetaMaskAccount } from '../../support/wallets/delegated-wallet.ts'
import { HOSTILE_WALLETS, type HostileWallet } from '../../support/wallets/hostile-wallets.ts'
import type { SafeVersion } from '../../support/wallets/published-code.ts'
import { createSafe, freshKeyOwners, type SafeWallet } from '../../support/wallets/safe-wallet.ts'

const VERSIONS: readonly SafeVersion[] = ['1.3.0', '1.4.1', '1.5.0']
const PLACES = Object.entries(HOSTILE_WALLETS).flatMap(([place, create]) =>
  (place.includes('Safe') ? VERSIONS : [null]).map((version) => ({
    place: version === null ? place : `${place} ${version}`,
    create: (rpcUrl: string): Promise<HostileWallet> =>
      create(rpcUrl, { approved: true, ...(version !== null && { version }) }),
  })),
)
/** Of a vendor's work. */
const WORK_MS = 3000
const JUNK_REQUESTS = 300
const JUNK_AT_ONCE = 10
/** The simulation, and what tells a wrong signature from a lack of means. */
const CALLS_OF_JUNK = 3
/** Of each network, for verifications of strangers. */
const VERIFICATIONS_PER_MINUTE = 100

let sandbox: TestSandbox
let rpc: RpcProxy
beforeAll(async () => {
  sandbox = await startTestSandbox({
    connections: async (real) => {
      rpc = await startRpcProxy(real.rpcUrl)
      return { ...real, rpcUrl: rpc.url }
    },
    apiEnvironment: { NEW_PAYER_VERIFICATIONS_PER_MINUTE: String(VERIFICATIONS_PER_MINUTE) },
  })
})
afterAll(async () => {
  await sandbox.stop()
  await rpc.stop()
})

const sign = (payer: PayerOfAnyKind) => signChat(sandbox.info.baseUrl, payer)
const pay = (chat: SignedChat) => payChat(sandbox.info.baseUrl, chat)
const callsOfVendor = async ({ idempotencyKey }: SignedChat) =>
  (await upstreamCallsByKey(sandbox.info)).get(idempotencyKey) ?? 0
async function refusalOf(payer: PayerOfAnyKind) {
  const chat = await sign(payer)
  const { status, code, body } = await pay(chat)
  return { status, code, body, vendor: await callsOfVendor(chat) }
}

describe('a payer whose signatures are judged by unknown code', () => {
  it.each(PLACES)(
    'is refused before a vendor is called, with the contract that decides: $place',
    async ({ create }) => {
      const wallet = await create(sandbox.info.rpcUrl)
      const { body, ...refusal } = await refusalOf(wallet)
      expect(refusal).toEqual({ status: 402, code: 'payer_has_code', vendor: 0 })
      expect(body.toLowerCase()).toContain(wallet.judge)
    },
  )

  it.each(PLACES.filter(({ place }) => !place.includes('singleton')))(
    'is refused in every way to answer, and the next payer is served: $place',
    async ({ create }) => {
      const wallet = await create(sandbox.info.rpcUrl)
      const head = BigInt(await callRpc<string>(sandbox.info.rpcUrl, 'eth_blockNumber', []))
      for (const [mode, parameter] of [
        ['needs_gas', 100_000n],
        ['reverts_with_bytes', 100_000n],
        ['burns_gas', 0n],
        ['accepts_until_block', head + 4n],
      ] as const) {
        await wallet.setMode(mode, parameter)
        const { status, code, vendor } = await refusalOf(wallet)
        expect({ mode, status, vendor }).toEqual({ mode, status: 402, vendor: 0 })
        expect(['payer_has_code', 'payment_signature_invalid', 'payment_rejected']).toContain(code)
      }
      const honest = await sign(await createSafe(sandbox.info.rpcUrl, { approved: true }))
      expect(await pay(honest)).toMatchObject({ status: 200 })
    },
  )

  it('is refused as owner of another wallet, although it is a known wallet itself', async () => {
    const inner = await createSafe(sandbox.info.rpcUrl)
    const outer = await createSafe(sandbox.info.rpcUrl, { approved: true, owners: [inner.asOwner()] })
    const { body, ...refusal } = await refusalOf(outer)
    expect(refusal).toEqual({ status: 402, code: 'payer_has_code', vendor: 0 })
    expect(body.toLowerCase()).toContain(inner.address)
  })

  it('is refused with the gas of its check when eight owners must sign', async () => {
    const wallet = await createSafe(sandbox.info.rpcUrl, { approved: true, owners: freshKeyOwners(8) })
    const { body, ...refusal } = await refusalOf(wallet)
    expect(refusal).toEqual({ status: 402, code: 'payer_has_code', vendor: 0 })
    expect(body).toMatch(/uses \d+ gas/)
  })

  it('is refused with how many may sign when its check needs more gas than a settlement has', async () => {
    const wallet = await createSafe(sandbox.info.rpcUrl, { approved: true, owners: freshKeyOwners(30) })
    const { body, ...refusal } = await refusalOf(wallet)
    expect(refusal).toMatchObject({ status: 402, vendor: 0 })
    expect(body).toContain('at most five of them')
  })
})

/** What an owner may do to a payment that was verified. */
const CHANGES: readonly { readonly change: string; readonly begin: () => Promise<ChangingWallet> }[] = [
  {
    change: 'gives its place to another owner',
    begin: async () => ofSafe((safe) => safe.replaceFirstOwner()),
  },
  {
    change: 'delegates to hostile code',
    begin: async () => {
      const wallet = await createMetaMaskAccount(sandbox.info.rpcUrl, { approved: true })
      return { wallet, change: async () => delegateTo(wallet, await refusingCode()) }
    },
  },
  {
    change: 'moves the money away',
    begin: async () => ofSafe((safe) => safe.spendAll()),
  },
]
interface ChangingWallet {
  readonly wallet: PayerOfAnyKind
  readonly change: () => Promise<void>
}
async function ofSafe(change: (safe: SafeWallet) => Promise<void>): Promise<ChangingWallet> {
  const wallet = await createSafe(sandbox.info.rpcUrl, { approved: true })
  return { wallet, change: () => change(wallet) }
}
/** An account has its own storage: code that judges by it accepts everything there. */
async function refusingCode() {
  const delegate = await placeDelegate(sandbox.info.rpcUrl)
  await callRpc(sandbox.info.rpcUrl, 'anvil_setCode', [delegate, '0xfe'])
  return delegate
}
const stateOf = async ({ address }: PayerOfAnyKind) => {
  const [job] = await sandbox.sql<{ state: string }>('SELECT state FROM jobs WHERE payer = $1', [address])
  return job?.state
}

describe('a known wallet whose owner changes it after its payment was verified', () => {
  it.each(CHANGES)('costs no vendor’s work when it $change before that begins', async ({ begin }) => {
    const { wallet, change } = await begin()
    const chat = await sign(wallet)
    const worker = sandbox.pidOf('worker')
    process.kill(worker, 'SIGSTOP')
    const answered = pay(chat)
    try {
      await until(async () => (await stateOf(wallet)) === 'accepted')
      await change()
    } finally {
      process.kill(worker, 'SIGCONT')
    }
    expect(await answered).toMatchObject({ status: 402, charged: 0n })
    expect(await callsOfVendor(chat)).toBe(0)
  })

  it.each(CHANGES)('gets no result when it $change meanwhile, and costs one call of a newcomer', async ({ begin }) => {
    const { wallet, change } = await begin()
    const chat = await sign(wallet)
    await sandbox.setFaults([{ fault: 'none', times: 'always', containing: chat.idempotencyKey, delayMs: WORK_MS }])
    const answered = pay(chat)
    await until(async () => (await callsOfVendor(chat)) === 1)
    await change()
    const answer = await answered
    await sandbox.setFaults([])
    expect(answer).toMatchObject({ status: 402, charged: 0n })
    expect(await callsOfVendor(chat)).toBe(1)
    const charges = await sandbox.sql("SELECT 1 FROM settlements WHERE payer = $1 AND state = 'confirmed'", [
      wallet.address,
    ])
    expect(charges).toEqual([])
    const [counted] = await sandbox.sql<{ lost: string }>(
      `SELECT coalesce(sum(amount), 0)::text AS lost FROM (
         SELECT charge_amount AS amount FROM jobs WHERE payer = $1 AND is_owed
         UNION ALL SELECT amount FROM uncharged_work WHERE payer = $1) AS losses`,
      [wallet.address],
    )
    expect(BigInt(counted?.lost ?? 0)).toBeGreaterThan(0n)
    expect(BigInt(counted?.lost ?? 0)).toBeLessThanOrEqual(chat.maximum)
  })
})

/** Sends a signed chat from an address of a network of its own. */
async function sendFrom(network: number, { idempotencyKey, headers }: SignedChat) {
  const messages = [{ role: 'user', content: `say ${idempotencyKey}` }]
  return await clientOfNetwork(network).request(`${sandbox.info.baseUrl}/v1/chat/completions`, {
    headers: { 'content-type': 'application/json', 'x-idempotency-key': idempotencyKey, ...headers },
    body: JSON.stringify({ model: 'textmodel-2.5-flash', messages, max_tokens: 1800 }),
  })
}

describe('strangers who sign in the name of a known wallet', () => {
  it('cannot keep it from paying by 300 requests, which ask little of the node and soon nothing', async () => {
    const wallet = await createSafe(sandbox.info.rpcUrl, { approved: true, owners: freshKeyOwners(2) })
    expect(await pay(await sign(wallet))).toMatchObject({ status: 200 })
    // They know the wallet's address and have valid challenges; their signatures have the right length.
    const stranger = await createSafe(sandbox.info.rpcUrl, { usdcAtomic: 0n, owners: freshKeyOwners(2) })
    const forger = { ...wallet, account: { ...stranger.account, address: wallet.address } }
    const junk: SignedChat[] = []
    while (junk.length < JUNK_REQUESTS) junk.push(await sign(forger))
    const own: SignedChat[] = []
    while (own.length < 10) own.push(await sign(wallet))
    const before = rpc.calls.length
    const limit = pLimit(JUNK_AT_ONCE)
    const sending = junk.map((chat) => limit(async () => (await sendFrom(1, chat))?.status ?? 0))
    const paid = []
    for (const chat of own) paid.push((await pay(chat)).status)
    const refused = Object.groupBy(await Promise.all(sending), (status) => status)
    expect(paid).toEqual(own.map(() => 200))
    expect(Object.keys(refused)).toEqual(['402', '429'])
    const asked = Object.groupBy(rpc.calls.slice(before), (method) => method)
    const calls = Object.entries(asked).map(([method, all = []]) => [method, all.length] as const)
    console.table({
      'answers 402': refused[402]?.length,
      'answers 429': refused[429]?.length,
      ...Object.fromEntries(calls),
    })
    const checked = refused[402]?.length ?? 0
    // The wallet's own payments are checked by the API, and by the worker before the vendor is called.
    expect(asked['eth_createAccessList']?.length).toBeLessThanOrEqual(checked + 2 * own.length)
    expect(asked['eth_call']?.length).toBeLessThanOrEqual(CALLS_OF_JUNK * checked + 8 * own.length)
  })
})

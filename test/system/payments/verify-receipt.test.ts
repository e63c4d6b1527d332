import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { RECEIPT_TYPE } from '#shared/payment/receipt.ts'
import { createStatementSigner, type StatementSigner } from '#shared/payment/statement-signer.ts'
import { formatUsdc } from '../../../client/budget/usdc.ts'
import { runScripted } from '../../support/client/scripted-io.ts'
import { type PaidCall, payForCall } from '../../support/payer/paid-call.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

let sandbox: SharedSandbox
let serviceSigner: StatementSigner
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  const secrets: unknown = JSON.parse(await readFile(join(sandbox.directory, 'secrets.json'), 'utf8'))
  const { receiptSigningSeed: seed } = z.looseObject({ receiptSigningSeed: z.string() }).parse(secrets)
  serviceSigner = createStatementSigner(sandbox.info.baseUrl, [{ id: 'k1', seed }])
})
afterAll(() => sandbox.stop())

const reportSchema = z.object({
  outcome: z.string(),
  checks: z.array(z.object({ name: z.string(), outcome: z.string(), detail: z.string() })),
})

/** Calls `farebox verify` in this process, without a wallet. */
const run = (...options: readonly string[]) =>
  runScripted(['verify', '--home', join(sandbox.directory, 'verifier'), ...options])

/** Returns the names of the checks by outcome. */
async function verify(...options: readonly string[]) {
  const { code, out, err } = await run('--json', ...options)
  const { checks } = reportSchema.parse(JSON.parse(out || err))
  const named = (outcome: string) => checks.filter((check) => check.outcome === outcome).map(({ name }) => name)
  const detailOf = (wanted: string) => checks.find(({ name }) => name === wanted)?.detail ?? ''
  return { exitCode: code, passed: named('passed'), failed: named('failed'), skipped: named('skipped'), detailOf }
}

const ALL_CHECKS = ['signature', 'payment', 'maximum', 'calculation', 'charge', 'result', 'transfer']

const tokensOf = (model: string) => ({
  model,
  messages: [{ role: 'user', content: 'Describe a tram stop at night. '.repeat(40) }],
  max_tokens: 2000,
})
const REQUESTS: Record<string, () => Record<string, unknown>> = {
  '/v1/chat/completions': () => tokensOf('textmodel-2.5-pro'),
  '/v1/messages': () => tokensOf('textmodel-3.6-flash'),
  '/v1/images/generations': () => ({ model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram' }),
  '/v1/audio/speech': () => ({ model: 'speechvendor/flash-v2.5', input: 'Mind the step between stop and tram.' }),
  '/v1/audio/transcriptions': () => ({
    model: 'speechvendor/scribe-v2',
    audio_base64: sandbox.sample.toString('base64'),
  }),
}

const pay = (path: string) => payForCall(sandbox, path, REQUESTS[path]?.() ?? {})
const idOf = ({ answer }: PaidCall) => answer.headers.get('x-receipt-id') ?? ''
const tokenOf = ({ answer }: PaidCall) => answer.headers.get('x-receipt-token') ?? ''
const fetchOptions = (call: PaidCall) => [idOf(call), '--token', tokenOf(call), '--url', sandbox.info.baseUrl]

async function save(name: string, content: string | Uint8Array): Promise<string> {
  const path = join(sandbox.directory, name)
  await writeFile(path, content)
  return path
}

type Fields = Record<string, unknown>

async function receiptOf(call: PaidCall): Promise<Fields> {
  const headers = { authorization: `Bearer ${tokenOf(call)}` }
  return (await (await fetch(`${sandbox.info.baseUrl}/v1/receipts/${idOf(call)}`, { headers })).json()) as Fields
}

describe.each(Object.keys(REQUESTS))('%s', (path) => {
  it('issues a receipt that passes every check', async () => {
    const call = await pay(path)
    const result = await save('result.body', call.bytes)
    const verdict = await verify(...fetchOptions(call), '--rpc-url', sandbox.info.rpcUrl, '--result', result)
    expect(verdict).toMatchObject({ exitCode: 0, passed: ALL_CHECKS, failed: [], skipped: [] })
    expect(verdict.detailOf('transfer')).toContain(`${formatUsdc(call.chargedAtomic)} USDC`)
  })
})

/** Verifies a receipt that its payer has saved to a file. */
async function verifyFile(receipt: unknown) {
  const path = await save('receipt.json', JSON.stringify(receipt))
  return verify(path, '--url', sandbox.info.baseUrl, '--rpc-url', sandbox.info.rpcUrl)
}

/** Signs the receipt's fields as the service does. */
function signAgain(receipt: Fields, signer = serviceSigner): Fields {
  const { signature: _, ...fields } = receipt
  return { ...fields, signature: signer.signDetached(fields as never, RECEIPT_TYPE) }
}

describe('a changed receipt', () => {
  let call: PaidCall
  let genuine: Fields
  beforeAll(async () => {
    call = await pay('/v1/chat/completions')
    genuine = await receiptOf(call)
  })

  it('an unchanged saved receipt passes', async () => {
    expect(await verifyFile(genuine)).toMatchObject({ exitCode: 0, failed: [], skipped: ['result'] })
    expect(signAgain(genuine)).toEqual(genuine)
  })

  const other = `0x${'ab'.repeat(32)}`
  const cases: [string, (receipt: Fields) => Fields, string[]][] = [
    ['the charge', (receipt) => ({ ...receipt, charge_atomic: '1' }), ['calculation', 'charge', 'transfer']],
    ['the charge in dollars', (receipt) => ({ ...receipt, charge_usdc: '0.5' }), ['charge']],
    ['a usage number', (receipt) => changedUsage(receipt), ['calculation', 'charge']],
    ['a unit price', (receipt) => changedPrice(receipt), ['calculation', 'charge']],
    [
      'the authorized maximum',
      (receipt) => ({ ...receipt, authorized_maximum_atomic: '1' }),
      ['maximum', 'calculation', 'charge'],
    ],
    ['a line of the calculation', (receipt) => changedLine(receipt), ['calculation']],
    ['the transaction', (receipt) => changedSettlement(receipt, { transaction: other }), ['transfer']],
    ['the settlement’s state', (receipt) => changedSettlement(receipt, { state: 'lost' }), ['transfer']],
    ['the payer', (receipt) => ({ ...receipt, payer: receipt['pay_to'] }), ['transfer']],
    ['the asset', (receipt) => ({ ...receipt, asset: receipt['payer'] }), ['payment', 'transfer']],
    ['the block', (receipt) => changedSettlement(receipt, { block_number: '1' }), ['transfer']],
  ]
  it.each(cases)('fails the checks of %s, and the signature', async (_, change, failing) => {
    const verdict = await verifyFile(change(genuine))
    expect({ exitCode: verdict.exitCode, failed: verdict.failed }).toEqual({
      exitCode: 1,
      failed: ['signature', ...failing],
    })
  })

  it.each(cases)(
    'fails the checks of %s even when the service itself has signed the change',
    async (_, change, failing) => {
      const verdict = await verifyFile(signAgain(change(genuine)))
      expect({ exitCode: verdict.exitCode, failed: verdict.failed }).toEqual({ exitCode: 1, failed: failing })
    },
  )

  it('passes a receipt whose transaction was replaced by a reorganization, and reports it', async () => {
    const moved = await verifyFile(signAgain({ ...genuine, transaction: other, block_number: '1' }))
    expect(moved).toMatchObject({ exitCode: 0, failed: [], skipped: ['result'] })
    expect(moved.detailOf('transfer')).toContain(`in place of ${other}`)
  })

  it.each([
    ['transaction', { transaction: other }],
    ['block', { block_number: '1' }],
  ])('fails the transfer for another %s in a receipt saved without its settlement', async (_, change) => {
    const { settlement: __, ...earlier } = genuine
    expect((await verifyFile(signAgain({ ...earlier, ...change }))).failed).toEqual(['transfer'])
  })

  it('fails only the signature when the signature is changed', async () => {
    const [head = '', , signature = ''] = String(genuine['signature']).split('.')
    const flipped = `${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`
    for (const forged of [`${head}..${flipped}`, 'nonsense'])
      expect(await verifyFile({ ...genuine, signature: forged })).toMatchObject({ exitCode: 1, failed: ['signature'] })
  })

  it('fails the signature of a receipt signed with another key', async () => {
    const otherSigner = createStatementSigner(sandbox.info.baseUrl, [{ id: 'k1', seed: '33'.repeat(32) }])
    expect((await verifyFile(signAgain(genuine, otherSigner))).failed).toEqual(['signature'])
  })

  it('fails the signature of an x402 receipt, although the same key signs both', async () => {
    const [head = '', , signature = ''] = serviceSigner.sign(genuine as never).split('.')
    expect((await verifyFile({ ...genuine, signature: `${head}..${signature}` })).failed).toEqual(['signature'])
  })

  it('fails the result when the saved answer was changed', async () => {
    const path = await save('other.body', Buffer.concat([call.bytes, Buffer.from(' ')]))
    expect((await verify(...fetchOptions(call), '--result', path)).failed).toEqual(['result'])
  })

  it('recomputes the charge of an earlier receipt version without a calculation', async () => {
    const { calculation, ...earlier } = genuine
    const [input, output] = (calculation as { lines: Fields[] }).lines
    const quantities = { maximum_input_tokens: input?.['at_most'], maximum_output_tokens: output?.['at_most'] }
    const unit_prices = { ...(genuine['unit_prices'] as Fields), ...quantities }
    expect(await verifyFile(signAgain({ ...earlier, unit_prices }))).toMatchObject({
      exitCode: 0,
      failed: [],
      skipped: ['calculation', 'result'],
    })
  })
})

function changedUsage(receipt: Fields): Fields {
  const usage = receipt['usage'] as Record<string, number>
  return { ...receipt, usage: { ...usage, output_tokens: (usage['output_tokens'] ?? 0) + 100 } }
}

function changedPrice(receipt: Fields): Fields {
  return { ...receipt, unit_prices: { ...(receipt['unit_prices'] as Fields), output_per_million_tokens_usd: '9.00' } }
}

function changedSettlement(receipt: Fields, change: Fields): Fields {
  return { ...receipt, settlement: { ...(receipt['settlement'] as Fields), ...change } }
}

function changedLine(receipt: Fields): Fields {
  const calculation = receipt['calculation'] as { lines: Fields[] }
  const [first, ...others] = calculation.lines
  return { ...receipt, calculation: { ...calculation, lines: [{ ...first, product_usd: '1' }, ...others] } }
}

describe('the command', () => {
  let call: PaidCall
  beforeAll(async () => {
    call = await pay('/v1/images/generations')
  })

  it('prints a line for each check, including those it skipped', async () => {
    const { code, out } = await run(...fetchOptions(call))
    expect(code).toBe(0)
    expect(out).toMatch(/^ *ok +signature +by did:web:127\.0\.0\.1%3A\d+#k1/m)
    expect(out).toMatch(/^ *ok +charge +0\.035 USDC/m)
    expect(out).toMatch(/^ *skipped +transfer +no RPC URL/m)
    expect(out).toMatch(/ is valid$/m)
  })

  it('reads the keys from the origin that a saved receipt names, and says so', async () => {
    const path = await save('named.json', JSON.stringify(await receiptOf(call)))
    const { code, out, err } = await run(path)
    expect([code, out]).toEqual([0, expect.stringContaining(' is valid')])
    expect(err).toContain(`Keys are read from ${sandbox.info.baseUrl}, which the receipt itself names`)
    const other = createStatementSigner('http://127.0.0.1:9', [{ id: 'k1', seed: '33'.repeat(32) }])
    const elsewhere = await save('elsewhere.json', JSON.stringify(signAgain(await receiptOf(call), other)))
    expect(await run(path, elsewhere)).toMatchObject({ code: 2, err: expect.stringContaining('several services') })
  })

  it('accepts a given key when the service is unreachable', async () => {
    const path = await save('offline.json', JSON.stringify(await receiptOf(call)))
    const [key] = serviceSigner.publicKeys
    const keySet = await save('keys.json', JSON.stringify({ keys: [{ ...key?.jwk, kid: key?.kid }] }))
    const bare = await save('key.json', JSON.stringify(key?.jwk))
    const offline = [path, '--url', 'http://127.0.0.1:9']
    for (const given of [key?.jwk.x ?? '', keySet, bare])
      expect(await verify(...offline, `--key=${given}`)).toMatchObject({ exitCode: 0, failed: [] })
    const other = createStatementSigner(sandbox.info.baseUrl, [{ id: 'k1', seed: '33'.repeat(32) }])
    expect((await verify(...offline, `--key=${other.publicKeys[0]?.jwk.x}`)).failed).toEqual(['signature'])
  })

  it.each<[string, number, () => readonly string[] | Promise<readonly string[]>, RegExp]>([
    [
      'an unknown id',
      1,
      () => [crypto.randomUUID(), ...fetchOptions(call).slice(1)],
      /no receipt|receipt_not_found|not found/i,
    ],
    ['a wrong token', 1, () => [idOf(call), '--token', 'wrong', '--url', sandbox.info.baseUrl], /token|not found/i],
    ['no token', 1, () => [idOf(call), '--url', sandbox.info.baseUrl], /Pass its token/],
    ['no service', 2, () => [idOf(call), '--token', tokenOf(call)], /No service is named/],
    ['nothing', 2, () => [], /missing required argument/],
    ['an unknown option', 2, () => [idOf(call), '--receipt', 'x'], /--receipt/],
    ['a missing file', 1, () => ['/nowhere.json', '--url', sandbox.info.baseUrl], /nowhere\.json cannot be read/],
    [
      'JSON that is not a receipt',
      1,
      async () => [await save('no-receipt.json', '{"object":"list"}'), '--url', sandbox.info.baseUrl],
      /is not a receipt/,
    ],
    ['an invalid key', 2, () => [...fetchOptions(call), '--key', 'none'], /signing key none is neither/],
    [
      'a result that cannot be read',
      2,
      () => [...fetchOptions(call), '--result', '/nowhere'],
      /--result \/nowhere cannot be read/,
    ],
  ])('says what to do, given %s', async (_, exitCode, options, says) => {
    const { code, err } = await run(...(await options()))
    expect(err).toMatch(says)
    expect(err).not.toMatch(/\n\s+at /)
    expect(code).toBe(exitCode)
  })

  it('exits with 1 and names the node when it is unreachable, serves another chain or is not a node', async () => {
    const node = await startNode('0x1')
    try {
      const down = await verify(...fetchOptions(call), '--rpc-url', 'http://127.0.0.1:9/v2/key-of-the-node')
      expect([down.exitCode, down.failed]).toEqual([1, ['transfer']])
      expect(down.detailOf('transfer')).toContain('The node 127.0.0.1:9 does not answer')
      expect(down.detailOf('transfer')).not.toContain('key-of-the-node')
      const other = await verify(...fetchOptions(call), '--rpc-url', node.url)
      expect([other.exitCode, other.detailOf('transfer')]).toEqual([
        1,
        expect.stringContaining('serves eip155:1, but payments are on eip155:8453'),
      ])
      const notANode = await verify(...fetchOptions(call), '--rpc-url', `${sandbox.info.baseUrl}/healthz`)
      expect([notANode.exitCode, notANode.failed]).toEqual([1, ['transfer']])
    } finally {
      node.close()
    }
  })
})

/** Starts a node that reports this chain id. */
async function startNode(chainId: string): Promise<{ url: string; close(): void }> {
  const server = createServer((_, response) => response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result: chainId })))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() }
}

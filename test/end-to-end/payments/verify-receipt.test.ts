import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { RECEIPT_TYPE } from '#shared/payment/receipt.ts'
import { createStatementSigner, type StatementSigner } from '#shared/payment/statement-signer.ts'
import { main } from '../../../infra/commands/verify-receipt/main.ts'
import { type PaidCall, payForCall } from '../../support/payer/paid-call.ts'
import { callCommand } from '../../support/processes/call-command.ts'
import { runCommand } from '../../support/processes/run-program.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const COMMAND = 'infra/commands/verify-receipt/main.ts'

let sandbox: SharedSandbox
let serviceSigner: StatementSigner
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  const secrets: unknown = JSON.parse(await readFile(join(sandbox.directory, 'secrets.json'), 'utf8'))
  const { receiptSigningSeed: seed } = z.looseObject({ receiptSigningSeed: z.string() }).parse(secrets)
  serviceSigner = createStatementSigner(sandbox.info.baseUrl, [{ id: 'k1', seed }])
})
afterAll(() => sandbox.stop())

/** Runs the command as an operator does. */
const run = (...options: readonly string[]) => runCommand(COMMAND, options)
/** Calls the command in this process, which is faster. */
const runHere = (...options: readonly string[]) => callCommand(() => main(options))

const reportSchema = z.object({
  outcome: z.string(),
  checks: z.array(z.object({ check: z.string(), outcome: z.string(), detail: z.string() })),
})

/** Returns the names of the checks by outcome. */
async function verify(...options: readonly string[]) {
  const { exitCode, output } = await runHere('--json', ...options)
  const { checks } = reportSchema.parse(JSON.parse(output))
  const named = (outcome: string) => checks.filter((check) => check.outcome === outcome).map(({ check }) => check)
  const detailOf = (name: string) => checks.find(({ check }) => check === name)?.detail ?? ''
  return { exitCode, passed: named('passed'), failed: named('failed'), skipped: named('skipped'), detailOf }
}

const ALL_CHECKS = [
  'signature',
  'calculation',
  'charge',
  'maximum',
  'prices',
  'transaction',
  'transfer',
  'block',
  'result',
]

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
const fetchOptions = (call: PaidCall) => ['--url', sandbox.info.baseUrl, '--id', idOf(call), '--token', tokenOf(call)]

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
    const verdict = await verify(...fetchOptions(call), '--rpc', sandbox.info.rpcUrl, '--result', result)
    expect(verdict).toMatchObject({ exitCode: 0, passed: ALL_CHECKS, failed: [], skipped: [] })
    expect(verdict.detailOf('transfer')).toContain(call.chargedAtomic.toString())
  })
})

/** Verifies a receipt that its payer has saved to a file. */
async function verifyFile(receipt: unknown) {
  const path = await save('receipt.json', JSON.stringify(receipt))
  return verify('--file', path, '--url', sandbox.info.baseUrl, '--rpc', sandbox.info.rpcUrl)
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
    ['a unit price', (receipt) => changedPrice(receipt), ['calculation', 'charge', 'prices']],
    [
      'the authorized maximum',
      (receipt) => ({ ...receipt, authorized_maximum_atomic: '1' }),
      ['calculation', 'charge', 'maximum'],
    ],
    ['a line of the calculation', (receipt) => changedLine(receipt), ['calculation']],
    ['the transaction', (receipt) => changedSettlement(receipt, { transaction: other }), ['transaction']],
    ['the settlement’s state', (receipt) => changedSettlement(receipt, { state: 'lost' }), ['transaction']],
    ['the payer', (receipt) => ({ ...receipt, payer: receipt['pay_to'] }), ['transfer']],
    ['the asset', (receipt) => ({ ...receipt, asset: receipt['payer'] }), ['transfer']],
    ['the block', (receipt) => changedSettlement(receipt, { block_number: '1' }), ['block']],
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
    expect(moved.detailOf('transaction')).toContain(`in place of ${other}`)
  })

  it.each([
    ['transaction', { transaction: other }],
    ['block', { block_number: '1' }],
  ])('fails the check of the %s for a receipt saved without its settlement', async (check, change) => {
    const { settlement: _, ...earlier } = genuine
    expect((await verifyFile(signAgain({ ...earlier, ...change }))).failed).toEqual([check])
  })

  it('fails only the signature when the signature is changed', async () => {
    const [head = '', , signature = ''] = String(genuine['signature']).split('.')
    const flipped = `${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`
    for (const forged of [`${head}..${flipped}`, 'nonsense', undefined])
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
    const { exitCode, output } = await run(...fetchOptions(call))
    expect(exitCode).toBe(0)
    expect(output).toMatch(/^✓ signature +by did:web:127\.0\.0\.1%3A\d+#k1/m)
    expect(output).toMatch(/^✓ charge +0\.035 USDC/m)
    expect(output).toMatch(/^– transfer .*--rpc/m)
    expect(output).toMatch(/The receipt is valid\.$/m)
  })

  it('accepts a pinned key when the service is unreachable', async () => {
    const path = await save('offline.json', JSON.stringify(await receiptOf(call)))
    const [key] = serviceSigner.publicKeys
    const keySet = await save('keys.json', JSON.stringify({ keys: [{ ...key?.jwk, kid: key?.kid }] }))
    // A key may begin with a dash, as one in 64 does, so it is part of the option's word.
    for (const given of [key?.jwk.x ?? '', keySet])
      expect(await verify('--file', path, `--key=${given}`)).toMatchObject({ exitCode: 0, failed: [] })
    const other = createStatementSigner(sandbox.info.baseUrl, [{ id: 'k1', seed: '33'.repeat(32) }])
    expect((await verify('--file', path, `--key=${other.publicKeys[0]?.jwk.x}`)).failed).toEqual(['signature'])
  })

  it.each<[string, () => readonly string[] | Promise<readonly string[]>, RegExp]>([
    [
      'an unknown id',
      () => [...fetchOptions(call).slice(0, 2), '--id', crypto.randomUUID(), '--token', tokenOf(call)],
      /no receipt with this id and token.*X-Receipt-ID/,
    ],
    [
      'a wrong token',
      () => [...fetchOptions(call).slice(0, 4), '--token', 'wrong'],
      /no receipt with this id and token.*X-Receipt-Token/,
    ],
    ['no token', () => fetchOptions(call).slice(0, 4), /--url with --id and --token/],
    ['nothing', () => [], /Usage: npm run verify-receipt/],
    ['an unknown option', () => ['--receipt', 'x'], /--receipt/],
    ['an invalid address', () => ['--url', 'farebox.example', '--id', 'x', '--token', 'y'], /--url must be a URL/],
    [
      'a service that is down',
      () => ['--url', 'http://127.0.0.1:9', '--id', 'x', '--token', 'y'],
      /cannot be reached.*Check --url/,
    ],
    ['a missing file', () => ['--file', '/nowhere.json'], /nowhere\.json cannot be read/],
    ['a file that is not JSON', async () => ['--file', await save('not.json', 'not JSON')], /is not JSON/],
    [
      'JSON that is not a receipt',
      async () => ['--file', await save('no-receipt.json', '{"object":"list"}')],
      /is not a receipt/,
    ],
    ['an invalid key', () => [...fetchOptions(call), '--key', 'none'], /--key none is neither/],
    [
      'a result that cannot be read',
      () => [...fetchOptions(call), '--result', '/nowhere'],
      /--result \/nowhere cannot be read/,
    ],
  ])('exits with 2 and says what to do, given %s', async (_, options, says) => {
    const { exitCode, errors } = await runHere(...(await options()))
    expect(errors).toMatch(says)
    expect(errors).not.toMatch(/\n\s+at /)
    expect(exitCode).toBe(2)
  })

  it('exits with 1 and names the node when it is unreachable, serves another chain or is not a node', async () => {
    const node = await startNode('0x1')
    try {
      const down = await verify(...fetchOptions(call), '--rpc', 'http://127.0.0.1:9/v2/key-of-the-node')
      expect([down.exitCode, down.failed, down.detailOf('network')]).toEqual([
        1,
        ['network'],
        expect.stringMatching(/^127\.0\.0\.1:9 cannot be reached.*Check --rpc/),
      ])
      const other = await verify(...fetchOptions(call), '--rpc', node.url)
      expect([other.exitCode, other.detailOf('network')]).toEqual([
        1,
        expect.stringContaining('serves eip155:1, but the payment is on eip155:8453'),
      ])
      const notANode = await verify(...fetchOptions(call), '--rpc', `${sandbox.info.baseUrl}/healthz`)
      expect([notANode.exitCode, notANode.failed]).toEqual([1, ['network']])
    } finally {
      node.close()
    }
  })

  it('prints its help', async () => {
    const { exitCode, output } = await run('--help')
    expect([exitCode, output]).toEqual([0, expect.stringContaining('--rpc <node>')])
  })
})

/** Starts a node that reports this chain id. */
async function startNode(chainId: string): Promise<{ url: string; close(): void }> {
  const server = createServer((_, response) => response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, result: chainId })))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() }
}

import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { encodePaymentRequiredHeader } from '@x402/core/http'
import type { PaymentRequired } from '@x402/core/types'
import { keccak256 } from 'viem'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { UPTO_PROXY_ADDRESS, USDC_ADDRESS } from '#shared/chain/network/contracts.ts'
import { PUBLISHED_CONTRACTS } from '../../../infra/commands/preflight/check-chain.ts'
import { main } from '../../../infra/commands/preflight/main.ts'
import { makePaidCalls } from '../../../infra/commands/preflight/make-paid-calls.ts'
import { createSandboxAccount } from '../../../infra/sandbox/chain/fund-devnet.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import { UPSTREAM_KEY } from '../../../infra/sandbox/deployments.ts'
import { readOrCreateSecrets } from '../../../infra/sandbox/state-directory.ts'
import { startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { callCommand } from '../../support/processes/call-command.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const OTHER_KEY = createSandboxAccount()
let sandbox: SharedSandbox
let environment: Record<string, string>
let standInCode: readonly string[]
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  const { info, directory } = sandbox
  const secrets = await readOrCreateSecrets(directory, 1)
  environment = {
    DATABASE_URL: info.databaseUrl,
    OBJECT_STORE_DIRECTORY: join(directory, 'uploads'),
    DEPLOYMENTS_FILE: join(directory, 'deployments.json'),
    PUBLIC_BASE_URL: info.baseUrl,
    RPC_URL: info.rpcUrl,
    CONTACT_EMAIL: 'operator@farebox.example',
    PAY_TO: info.payTo,
    FACILITATOR_ADDRESSES: secrets.accounts.settlement.address,
    SETTLEMENT_PRIVATE_KEYS: secrets.accounts.settlement.privateKey,
    SETTLEMENT_CONTRACT: info.settlementContract ?? '',
    CHALLENGE_SECRET: secrets.challengeSecret,
    RECEIPT_SECRETS: `k1:${secrets.receiptSecret}`,
    RECEIPT_SECRET_ID: 'k1',
    RECEIPT_SIGNING_KEY: `k1:${secrets.receiptSigningSeed}`,
    [UPSTREAM_KEY]: secrets.upstreamApiKey,
    PREFLIGHT_PAYER_PRIVATE_KEY: info.payer.privateKey,
  }
  // The local chain has a stand-in for the proxy, and Permit2 as another chain stores it.
  standInCode = await Promise.all(
    PUBLISHED_CONTRACTS.map(async ({ address }) => {
      const code = await callRpc<`0x${string}`>(info.rpcUrl, 'eth_getCode', [address, 'latest'])
      return `--expect-code=${address}=${keccak256(code)}`
    }),
  )
})
/** The devnet mines only with transactions, and the preflight takes a block of a minute ago for a node that is behind. */
beforeEach(() => callRpc(sandbox.info.rpcUrl, 'evm_mine', []))
afterAll(() => sandbox.stop())
const writeSettings = (file: string, settings: object) =>
  writeFile(
    file,
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}`)
      .join('\n'),
  )
const reportSchema = z.object({
  outcome: z.string(),
  checks: z.array(z.object({ check: z.string(), outcome: z.string(), detail: z.string() })),
})
async function preflight(options: readonly string[], changes: Record<string, string | undefined> = {}) {
  const run = await callCommand(() => main(['--json', ...options], { ...environment, ...changes }))
  const { checks } = reportSchema.parse(JSON.parse(run.output))
  const failures = checks.filter(({ outcome }) => outcome === 'failed')
  return { exitCode: run.exitCode, checks, failures: failures.map(({ check, detail }) => `${check}: ${detail}`) }
}

describe('npm run preflight', () => {
  it('passes for a complete deployment, and pays for one call of each endpoint with a receipt that verifies', async () => {
    const { exitCode, failures, checks } = await preflight([...standInCode, '--paid-calls'])
    expect(failures).toEqual([])
    expect(exitCode).toBe(0)
    for (const check of ['unpaid call', 'large body'])
      expect(checks).toContainEqual(expect.objectContaining({ check, outcome: 'passed' }))
    const paid = checks.filter(({ check }) => check.startsWith('/v1/')).map(({ check }) => check)
    expect([...new Set(paid)]).toHaveLength(5)
    expect(paid).toHaveLength(10)
    expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toHaveLength(5)
  })

  it('has no probe held without the secret of the service', async () => {
    const { failures } = await preflight([...standInCode, '--held-call', '--only=api'], {
      CHALLENGE_SECRET: 'another secret of 32 characters..',
    })
    expect(failures).toEqual([expect.stringMatching(/^held call: was held for 0 s: .* another CHALLENGE_SECRET/)])
  })

  it('signs nothing beyond --spend-at-most', async () => {
    const before = await sandbox.chain.transfersTo(sandbox.info.payTo)
    const { failures } = await preflight([...standInCode, '--paid-calls', '--spend-at-most', '0.000001'])
    expect(failures).toHaveLength(5)
    expect(failures[0]).toContain('nothing was signed')
    expect(await sandbox.chain.transfersTo(sandbox.info.payTo)).toEqual(before)
  })

  it('signs nothing for a service that offers a higher price as well', async () => {
    const offer = { scheme: 'upto', network: 'eip155:8453', payTo: sandbox.info.payTo, maxTimeoutSeconds: 60 }
    const accepts = ['1', '900000000'].map((amount) => ({ ...offer, asset: offer.payTo, amount, extra: {} }))
    const required = { x402Version: 2, resource: { url: 'http://127.0.0.1' }, accepts } as PaymentRequired
    const payments: unknown[] = []
    const service = createServer(({ url, headers }, response) => {
      if (headers['payment-signature'] !== undefined) payments.push(headers['payment-signature'])
      const models = [{ id: 'model', models: [], supported_endpoints: ['/v1/chat/completions'] }]
      if (url === '/v1/models') response.end(JSON.stringify({ data: models }))
      else response.writeHead(402, { 'payment-required': encodePaymentRequiredHeader(required) }).end()
    })
    await new Promise<void>((resolve) => service.listen(0, '127.0.0.1', resolve))
    const baseUrl = `http://127.0.0.1:${(service.address() as AddressInfo).port}`
    const [chat] = await makePaidCalls({ baseUrl, rpcUrl: sandbox.info.rpcUrl, spendAtMostUsd: '1' }, environment)
    service.closeAllConnections()
    await new Promise((resolve) => service.close(resolve))
    expect(chat).toMatchObject({ outcome: 'failed', detail: expect.stringContaining('nothing was signed') })
    expect(payments).toEqual([])
  })

  it('never prints the key in the URL of a node, and refuses a password in --alert-url', async () => {
    const secret = 'secret-of-the-operator'
    const { failures, checks } = await preflight(standInCode, {
      RPC_URL: `http://user:${secret}@127.0.0.1:1/${secret}`,
    })
    expect(failures).toContainEqual(expect.stringMatching(/^node: 127\.0\.0\.1:1 does not answer: .*ECONNREFUSED/))
    expect(JSON.stringify(checks)).not.toContain(secret)
    const alert = await callCommand(() => main([`--alert-url=http://user:${secret}@127.0.0.1:1`], environment))
    expect(alert.exitCode).toBe(2)
    expect(alert.output + alert.errors).not.toContain(secret)
  })

  it('names recipients that cannot pay out, and says of other contracts what to be sure of', async () => {
    const { failures } = await preflight(standInCode, { PAY_TO: USDC_ADDRESS })
    expect(failures).toContainEqual('recipient: PAY_TO is USDC, which never pays out what it receives')
    const contract = sandbox.info.payer.address
    await callRpc(sandbox.info.rpcUrl, 'anvil_setCode', [contract, '0x00'])
    const { checks } = await preflight(standInCode, { PAY_TO: contract })
    await callRpc(sandbox.info.rpcUrl, 'anvil_setCode', [contract, '0x'])
    expect(checks).toContainEqual(
      expect.objectContaining({
        check: 'recipient',
        outcome: 'skipped',
        detail: expect.stringContaining('contract') as string,
      }),
    )
  })

  it('names the models that the shipped example sells below the list prices of its vendors', async () => {
    const file = join(sandbox.directory, 'example.json')
    const example = await readFile('infra/deployments.example.json', 'utf8')
    await writeFile(file, example.replaceAll('replace-with-', 'voice-'))
    const { failures } = await preflight(standInCode, { DEPLOYMENTS_FILE: file })
    const prices = failures.find((failure) => failure.startsWith('prices: '))
    for (const model of ['speechvendor/scribe-v2', 'textmodel-3.6-flash'])
      expect(prices).toContain(`${model} is sold below cost`)
  })

  it('names a price of the native token at which the network refuses every call, and lists of payers that are none', async () => {
    const list = join(sandbox.directory, 'blocked.txt')
    await writeFile(list, '')
    const oracle = `0x${'5e'.repeat(20)}`
    const { failures } = await preflight(standInCode, {
      NATIVE_TOKEN_USD: '6700',
      PAYER_SCREENING_FILE: list,
      PAYER_SCREENING_ORACLE: oracle,
    })
    expect(failures).toEqual([
      `payer screening: PAYER_SCREENING_FILE: ${list} names no address`,
      expect.stringMatching(/^payer screening: PAYER_SCREENING_ORACLE: there is no contract at 0x5e/i),
      expect.stringMatching(
        /^network fees: every call is refused at .* NATIVE_TOKEN_USD=6700; .* MAXIMUM_FEE_PER_GAS_WEI$/,
      ),
    ])
    await writeFile(list, `${oracle}\n`)
    const { checks } = await preflight(standInCode, { NATIVE_TOKEN_USD: '6500', PAYER_SCREENING_FILE: list })
    expect(checks).toEqual(
      expect.arrayContaining([
        { check: 'payer screening', outcome: 'passed', detail: `${list} refuses 1 address` },
        expect.objectContaining({ check: 'network fees', outcome: 'passed' }),
      ]),
    )
  })

  it('names a database without room for the processes, and what is not protected', async () => {
    const { failures, checks } = await preflight(standInCode, { DATABASE_CONNECTIONS: '5000' })
    expect(failures).toContainEqual(
      expect.stringMatching(/^database connections: max_connections leaves \d+; .* takes 10004/),
    )
    const { checks: behindProxy } = await preflight(standInCode, { PUBLIC_BASE_URL: 'https://127.0.0.1:1' })
    expect([...checks, ...behindProxy]).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          check: 'database TLS',
          outcome: 'passed',
          detail: 'a server of this machine or network',
        }),
        expect.objectContaining({ check: 'WAL archiving', outcome: 'skipped' }),
        expect.objectContaining({ check: 'proxies', outcome: 'skipped' }),
      ]),
    )
  })

  it('compares what API and workers must have alike, where each has settings of its own', async () => {
    const file = join(sandbox.directory, 'worker.env')
    // Without them here: the environment takes precedence over both files.
    const { DATABASE_URL, RECEIPT_SECRET_ID, SETTLEMENT_CONTRACT, ...rest } = environment
    const settings = { DATABASE_URL, RECEIPT_SECRET_ID, SETTLEMENT_CONTRACT }
    const own = join(sandbox.directory, 'api.env')
    await writeSettings(own, settings)
    const differing = { SETTLEMENT_CONTRACT: 'none', PROVIDER_TIMEOUT_SECONDS: 200, QUEUE_PREFIX: '{other}' }
    await writeSettings(file, { ...settings, ...differing, LOG_LEVEL: 'debug', DATABASE_CONNECTIONS: 7 })
    const run = async () => {
      const { output } = await callCommand(() =>
        main(['--json', ...standInCode, '--env-file', own, '--worker-env-file', file], rest),
      )
      return reportSchema.parse(JSON.parse(output)).checks.find(({ check }) => check === 'agreement')
    }
    const different = await run()
    expect(different?.outcome).toBe('failed')
    expect(different?.detail.match(/\w+ must be the same/g)?.toSorted()).toEqual(
      Object.keys(differing)
        .map((name) => `${name} must be the same`)
        .toSorted(),
    )
    await writeSettings(file, { ...settings, LOG_LEVEL: 'debug', DATABASE_CONNECTIONS: 7 })
    expect(await run()).toMatchObject({ outcome: 'passed' })
  })

  it('has a worker read what the API stores, where they name the store differently', async () => {
    const { OBJECT_STORE_DIRECTORY: uploads = '', ...rest } = environment
    const [own, file] = [join(sandbox.directory, 'store.env'), join(sandbox.directory, 'worker-store.env')]
    const other = join(sandbox.directory, 'other-uploads')
    await mkdir(other)
    await writeSettings(own, { OBJECT_STORE_DIRECTORY: uploads })
    const run = async (directory: string) => {
      await writeSettings(file, { OBJECT_STORE_DIRECTORY: directory })
      const options = ['--json', ...standInCode, '--env-file', own, '--worker-env-file', file]
      const { output } = await callCommand(() => main(options, rest))
      return reportSchema.parse(JSON.parse(output)).checks.filter(({ check }) => check === 'common store')
    }
    const probes = async () => (await readdir(join(uploads, 'staged'))).filter((name) => name.startsWith('probe'))
    expect(await run(uploads)).toEqual([])
    expect(await run(`${uploads}/.`)).toMatchObject([{ outcome: 'passed' }])
    expect(await run(other)).toMatchObject([
      { outcome: 'failed', detail: expect.stringMatching(/^OBJECT_STORE_DIRECTORY: a worker does not find/) },
    ])
    expect(await probes()).toEqual([])
  })

  it('names contracts whose code is not the published one', async () => {
    const { exitCode, failures } = await preflight([])
    expect(exitCode).toBe(1)
    expect(failures.map((failure) => failure.split(' at ')[0])).toEqual([
      'contract: Permit2',
      'contract: the x402 upto proxy',
    ])
  })

  it('names the deployments whose model was retired, or whose account does not have a voice', async () => {
    const file = join(sandbox.directory, 'retired.json')
    const simulated = await readFile(join(sandbox.directory, 'deployments.json'), 'utf8')
    await writeFile(
      file,
      simulated.replace('claude-simulated', 'claude-sonnet-4-5').replace('eleven-darian', 'unknown-1'),
    )
    const { failures } = await preflight([...standInCode, '--only=worker'], { DEPLOYMENTS_FILE: file })
    expect(failures).toEqual([
      'model: anthropic: the model was retired on 2026-11-30; publish its replacement as upstream_model',
      'model: elevenlabs-speech: the account does not have the voices unknown-1',
    ])
  })

  it('names a proxy that nobody has deployed first of all, and says what to do', async () => {
    const proxy = await startRpcProxy(sandbox.info.rpcUrl)
    proxy.chooseFault(({ method, params: [address] }) =>
      method === 'eth_getCode' && address === UPTO_PROXY_ADDRESS ? { kind: 'forge', answer: { result: '0x' } } : null,
    )
    const { failures } = await preflight(standInCode, {
      RPC_URL: proxy.url,
      DATABASE_URL: 'postgres://127.0.0.1:1/none',
    })
    await proxy.stop()
    expect(failures[0]).toMatch(/^contract: the x402 upto proxy has no code at 0x4020.* CREATE2 factory/)
    expect(failures[1]).toMatch(/^database: /)
  })

  it.each([
    ['a setting that is missing', { PAY_TO: undefined }, 'API settings: invalid configuration'],
    ['a database that does not answer', { DATABASE_URL: 'postgres://127.0.0.1:1/none' }, 'database: DATABASE_URL'],
    ['a node that does not answer', { RPC_URL: 'http://127.0.0.1:1' }, 'node: 127.0.0.1:1 does not answer'],
    ['a vendor key that is missing', { [UPSTREAM_KEY]: undefined }, 'deployments: DEPLOYMENTS_FILE: '],
    ['a vendor key that is wrong', { [UPSTREAM_KEY]: 'wrong' }, 'model: '],
    [
      'an object store that is missing',
      { OBJECT_STORE_DIRECTORY: '/etc/hostname/none' },
      'object store: OBJECT_STORE_DIRECTORY: ENOTDIR',
    ],
    ['a receipt secret of another id', { RECEIPT_SECRET_ID: 'k2' }, 'agreement: RECEIPT_SECRET_ID'],
    ['a facilitator without its key', { FACILITATOR_ADDRESSES: `0x${'ab'.repeat(20)}` }, 'settlement keys: '],
    [
      'a settlement contract without code',
      { SETTLEMENT_CONTRACT: `0x${'ab'.repeat(20)}` },
      `settlement contract: SETTLEMENT_CONTRACT has 0x${'ab'.repeat(20)}, which has no code`,
    ],
    [
      'a settlement contract with other code',
      { SETTLEMENT_CONTRACT: USDC_ADDRESS },
      `settlement contract: SETTLEMENT_CONTRACT has ${USDC_ADDRESS}, whose code hash is`,
    ],
    [
      'an accepted facilitator that is nobody’s',
      { ACCEPTED_FACILITATOR_ADDRESSES: OTHER_KEY.address },
      'settlement contract: ACCEPTED_FACILITATOR_ADDRESSES has',
    ],
    [
      'a settlement key that the contract does not list',
      { FACILITATOR_ADDRESSES: OTHER_KEY.address, SETTLEMENT_PRIVATE_KEYS: OTHER_KEY.privateKey },
      'settlement contract: 0x',
    ],
    [
      'a settlement key without gas',
      {
        FACILITATOR_ADDRESSES: OTHER_KEY.address,
        SETTLEMENT_PRIVATE_KEYS: OTHER_KEY.privateKey,
        SETTLEMENT_CONTRACT: 'none',
      },
      'gas: 0x',
    ],
    [
      'a public address that does not answer',
      { PUBLIC_BASE_URL: 'http://127.0.0.1:1' },
      'readiness: http://127.0.0.1:1',
    ],
  ])('names %s', async (_, changes, expected) => {
    const { exitCode, failures } = await preflight(standInCode, changes)
    expect(exitCode).toBe(1)
    expect(failures.some((failure) => failure.startsWith(expected))).toBe(true)
  })

  it('sends a test alert that ends by itself', async () => {
    const received: unknown[] = []
    const manager = createServer((request, response) => {
      let body = ''
      request.on('data', (chunk: Buffer) => (body += chunk.toString()))
      request.on('end', () => {
        received.push([request.method, request.url, JSON.parse(body)])
        response.end()
      })
    })
    await new Promise<void>((resolve) => manager.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(manager.address() as AddressInfo).port}`
    const { failures } = await preflight([...standInCode, '--alert-url', url])
    await new Promise((resolve) => manager.close(resolve))
    expect(failures).toEqual([])
    expect(received).toMatchObject([
      ['POST', '/api/v2/alerts', [{ labels: { alertname: 'FareboxPreflight' }, endsAt: expect.any(String) }]],
    ])
  })

  it('explains wrong arguments with exit code 2, and itself with --help', async () => {
    expect((await callCommand(() => main(['--only', 'settler'], {}))).exitCode).toBe(2)
    expect((await callCommand(() => main(['--env-file', '/none'], {}))).exitCode).toBe(2)
    const help = await callCommand(() => main(['--help'], {}))
    expect([help.exitCode, help.output.split('\n', 1)[0]]).toEqual([0, expect.stringContaining('npm run preflight')])
  })
})

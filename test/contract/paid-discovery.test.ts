import { execFile } from 'node:child_process'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { checkEndpointSchema, discoverOriginSchema, validatePaymentRequiredDetailed } from '@agentcash/discovery'
import { decodePaymentRequiredHeader } from '@x402/core/http'
import { type DiscoveryExtension, validateDiscoveryExtension } from '@x402/extensions'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { operations } from '#shared/operations/registry.ts'
import { type ObservedSandbox, useObservedSandbox } from '../support/processes/observed-sandbox.ts'
import { havePrograms } from '../support/processes/optional-program.ts'
import { type SharedSandbox, useSharedSandbox } from '../support/processes/test-sandbox.ts'

const CHECKER = fileURLToPath(new URL('../../node_modules/@agentcash/discovery/bin/discovery.js', import.meta.url))
const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** The request that a 402's `bazaar` extension describes. */
interface DescribedCall {
  readonly method: string
  readonly bodyType: string
  readonly headers: Record<string, string>
  readonly body: unknown
}
/** Returns the call that a probe's 402 describes, as an agent reads it. */
async function describedCall(url: string): Promise<DescribedCall> {
  const probe = await fetch(url, { method: 'POST' })
  const { extensions = {} } = decodePaymentRequiredHeader(probe.headers.get('payment-required') ?? '')
  const bazaar = extensions['bazaar'] as DiscoveryExtension
  expect(validateDiscoveryExtension(bazaar)).toEqual({ valid: true })
  return bazaar.info.input as unknown as DescribedCall
}
const pathsOf = (urls: readonly string[]) => urls.map((url) => new URL(url).pathname).toSorted()
const PAID_PATHS = operations.map(({ path }) => path)
/** The blocks of a program's text, with the entities of HTML decoded. */
function codeIn(html: string): string[] {
  const entities: Record<string, string> = { '&quot;': '"', '&lt;': '<', '&gt;': '>', '&amp;': '&' }
  return [...html.matchAll(/<pre [^>]*><code>([^]*?)<\/code><\/pre>/g)].map(([, code = '']) =>
    code.replaceAll(/&\w+;/g, (entity) => entities[entity] ?? entity),
  )
}
interface Described {
  readonly info: { readonly description: string }
}

describe('the discovery of AgentCash', () => {
  let sandbox: SharedSandbox
  beforeAll(async () => {
    sandbox = await useSharedSandbox()
  })

  afterAll(() => sandbox.stop())

  /** Runs the checker and returns its output; throws when it fails. */
  async function check(...options: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(process.execPath, [CHECKER, sandbox.info.baseUrl, '-v', ...options])
    return stdout
  }
  it('the listing services’ checker finds every paid endpoint of a running origin without warnings', async () => {
    const report = JSON.parse(await check('--json')) as {
      ok: boolean
      warnings: unknown[]
      resources: { authHint?: string }[]
    }
    expect({ ok: report.ok, warnings: report.warnings }).toEqual({ ok: true, warnings: [] })
    expect(report.resources.filter(({ authHint }) => authHint === 'paid')).toHaveLength(operations.length)
  })

  it('the listing services’ checker prints the endpoints without warnings', async () => {
    const output = await check()
    for (const { path } of operations) expect(output).toContain(path)
    expect(output).not.toMatch(/^\s*(?:warn|error|✗|⚠|!)/imu)
  })

  it('the listing services’ checker causes no provider call and no job', async () => {
    expect(await sandbox.upstreamCalls()).toEqual([])
    expect(await sandbox.added('jobs')).toBe(0)
  })
})

describe('calls made from what was discovered', () => {
  let sandbox: ObservedSandbox
  beforeAll(async () => {
    sandbox = await useObservedSandbox()
  })

  afterAll(() => sandbox.stop())

  /** Builds the request from its description alone, and pays for it with the official client. */
  async function pay(url: string): Promise<Response> {
    const { method, bodyType, headers, body } = await describedCall(url)
    expect(bodyType).toBe('json')
    return sandbox.payingFetch(url, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
  }
  describe('an agent that knows only the origin', () => {
    it('finds every paid endpoint in the interface description, the list of resources, and by probing', async () => {
      const { baseUrl } = sandbox.info
      const found = await discoverOriginSchema({ target: baseUrl })
      if (!found.found) throw new Error('The origin has no interface description.')
      const paid = found.endpoints.filter(({ authMode }) => authMode === 'paid').map(({ path }) => path)
      const listed = (await (await fetch(`${baseUrl}/.well-known/x402`)).json()) as { resources: string[] }
      expect(paid.toSorted()).toEqual(PAID_PATHS.toSorted())
      expect(pathsOf(listed.resources)).toEqual(PAID_PATHS.toSorted())
      const probed = await Promise.all(listed.resources.map((url) => checkEndpointSchema({ url, probe: true })))
      for (const result of probed) {
        if (!result.found) throw new Error(`${result.path} was not found.`)
        expect(result.advisories).toMatchObject([{ method: 'POST', authMode: 'paid', inputSchema: expect.any(Object) }])
        const [{ paymentRequiredBody } = {}] = result.advisories
        expect(validatePaymentRequiredDetailed(paymentRequiredBody)).toMatchObject({ valid: true, issues: [] })
      }
    })

    it.each(PAID_PATHS)('pays for the call that the 402 of %s describes, as it stands', async (path) => {
      const first = sandbox.answers.length
      const answer = await pay(`${sandbox.info.baseUrl}${path}`)
      expect([answer.status, answer.ok ? '' : await answer.text()]).toEqual([200, ''])
      const [, paid] = sandbox.answers.slice(first)
      const operation = operations.find((known) => known.path === path)
      expect(operation?.resultSchema.safeParse(JSON.parse(paid?.body.toString() ?? '')).error).toBeUndefined()
    })

    it('a payment that repeats the 402’s extensions, with a permit, fits 4 KB', () => {
      const sent = sandbox.answers.flatMap(({ payment }) => payment ?? [])
      expect(sent).toHaveLength(PAID_PATHS.length)
      for (const payment of sent) expect(`payment-signature: ${payment}\r\n`.length).toBeLessThanOrEqual(4096)
    })
  })

  describe.skipIf(!havePrograms('curl', 'uuidgen'))('a person who reads the front page', () => {
    it('gets a price and a challenge from the commands of the front page, as they stand', async () => {
      const page = await (await fetch(`${sandbox.info.baseUrl}/`)).text()
      const outputs = await Promise.all(codeIn(page).map((command) => run('sh', ['-c', command])))
      const [quote, challenge] = outputs.map(({ stdout }) => stdout)
      expect(outputs).toHaveLength(2)
      expect(JSON.parse(quote ?? '')).toMatchObject({ object: 'quote', price: { currency: 'USDC', type: 'maximum' } })
      expect(challenge).toMatch(/^HTTP\/1\.1 402 [^]*\r\npayment-required: [\w+/=]+\r\n/i)
    })
  })

  describe('a person who reads the introduction of /docs', () => {
    let directory: string
    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'farebox-first-call-'))
      // What `npm install` of the packages that the introduction names would create.
      await symlink(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
    })
    afterAll(() => rm(directory, { recursive: true }))

    it('makes the first paid call with its program, as it stands', async () => {
      const { info } = (await (await fetch(`${sandbox.info.baseUrl}/openapi.json`)).json()) as Described
      const [, program] = /```ts\n([^]*?)\n```/.exec(info.description) ?? []
      const [, name] = /node (\S+\.mts)/.exec(info.description) ?? []
      if (!program || !name) throw new Error('The introduction has no program.')
      await writeFile(join(directory, name), program)
      const { privateKey } = sandbox.info.payer
      const environment = { PATH: process.env['PATH'], PRIVATE_KEY: privateKey, RPC_URL: sandbox.info.rpcUrl }
      const { stdout } = await run(process.execPath, [name], { cwd: directory, env: environment })
      const [answer = '', receipt = ''] = stdout.trim().split('\n')
      expect(JSON.parse(answer)).toMatchObject({ object: 'chat.completion', choices: [{ message: {} }] })
      expect(JSON.parse(receipt)).toMatchObject({
        object: 'receipt',
        operation: 'createChatCompletion',
        charge_usdc: '0.002',
      })
    })

    it('imports only packages that the introduction installs', async () => {
      const { info } = (await (await fetch(`${sandbox.info.baseUrl}/openapi.json`)).json()) as Described
      const [, installed = ''] = /npm install ([^`]+)`/.exec(info.description) ?? []
      const imported = [...info.description.matchAll(/from '(@[^/']+\/[^/']+|[^/'@]+)/g)].map(([, name]) => name)
      expect(new Set(imported)).toEqual(new Set(installed.split(' ')))
    })
  })
})

import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const CALL_ONCE = fileURLToPath(new URL('../../support/payer/call-once.fixture.py', import.meta.url))
/** Debian's own, for which its packages are. */
const PYTHON = '/usr/bin/python3'
const CHAT = '/v1/chat/completions'
const body = { model: 'textmodel-2.5-flash', messages: [{ role: 'user', content: 'Good evening.' }], max_tokens: 40 }

/** Debian's interpreter with the three packages; `.ci/run` installs them. */
const hasPython = existsSync(PYTHON) && ['requests', 'httpx', 'aiohttp'].every(isInstalled)
function isInstalled(name: string): boolean {
  return existsSync(`/usr/lib/python3/dist-packages/${name}`)
}
if (!hasPython && process.env['CI'] === 'true')
  throw new Error('apt-get install python3-requests python3-httpx python3-aiohttp')

describe.skipIf(!hasPython)('the HTTP clients of Python', () => {
  /** Longer than the five seconds after which httpx gives up by itself. */
  const VENDOR_MS = 6500
  let sandbox: TestSandbox
  let payer: Payer
  let folder: string
  beforeAll(async () => {
    sandbox = await startTestSandbox()
    payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: 10_000_000n, approved: true })
    folder = await mkdtemp(join(tmpdir(), 'farebox-python-'))
    const page = await readFile(join(ROOT, 'CALLING.md'), 'utf8')
    const [, signer = '', program = ''] = /### Python[^]*?```ts\n([^]*?)```[^]*?```python\n([^]*?)```/.exec(page) ?? []
    await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
    await writeFile(join(folder, 'sign.mts'), signer)
    await writeFile(join(folder, 'call.py'), program)
    await sandbox.setFaults([{ fault: 'none', delayMs: VENDOR_MS, times: 'always' }])
  })
  afterAll(async () => {
    await sandbox.stop()
    await rm(folder, { recursive: true, force: true })
  })

  interface Answer {
    readonly status: number
    readonly challenge: string | null
    readonly text: string
  }
  const environment = () => ({
    // `npx` runs this file under the Node that a caller has.
    PATH: `${join(process.execPath, '..')}:${process.env['PATH'] ?? ''}`,
    BASE_URL: sandbox.info.baseUrl,
    PRIVATE_KEY: payer.privateKey,
    RPC_URL: sandbox.info.rpcUrl,
  })
  async function run(command: string, args: readonly string[], input = ''): Promise<string> {
    const child = spawn(command, args, { cwd: folder, env: environment(), stdio: ['pipe', 'pipe', 'inherit'] })
    child.stdin.end(input)
    let output = ''
    for await (const piece of child.stdout) output += String(piece)
    return output
  }
  async function callOnce(client: string, timeout: string, headers: object): Promise<Answer> {
    const input = JSON.stringify({ headers, body })
    return JSON.parse(
      await run(PYTHON, [CALL_ONCE, client, `${sandbox.info.baseUrl}${CHAT}`, timeout], input),
    ) as Answer
  }

  it('the program of CALLING.md pays with requests and the signer beside it, as they stand', async () => {
    const [price, content] = (await run(PYTHON, ['call.py'])).trim().split('\n')
    expect(price).toMatch(/^costs at most 0\.\d+ USDC$/)
    expect(content).toContain('Good evening')
  })

  /** Calls with the client's own time limit, and again with a longer one, the same key and the same signature. */
  async function callTwice(client: string) {
    const key = randomUUID()
    const unpaid = await callOnce(client, '300', { 'x-idempotency-key': key })
    const signature = (await run('node', ['sign.mts'], unpaid.challenge ?? '')).trim()
    const headers = { 'x-idempotency-key': key, 'PAYMENT-SIGNATURE': signature }
    const first = await callOnce(client, 'default', headers)
    const again = await callOnce(client, '300', headers)
    const charges = await sandbox.sql(
      'SELECT 1 FROM settlements JOIN jobs ON jobs.id = job_id WHERE idempotency_key = $1',
      [key],
    )
    const isSame = first.text === again.text
    return { client, statuses: [unpaid.status, first.status, again.status], isSame, charges: charges.length }
  }

  it('httpx alone gives up by itself, and each is charged once for its key', async () => {
    const clients = ['requests', 'httpx', 'aiohttp', 'urllib']
    expect(await Promise.all(clients.map(callTwice))).toEqual(
      clients.map((client) =>
        client === 'httpx'
          ? { client, statuses: [402, 0, 200], isSame: false, charges: 1 }
          : { client, statuses: [402, 200, 200], isSame: true, charges: 1 },
      ),
    )
  })
})

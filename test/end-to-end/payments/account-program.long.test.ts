import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

let sandbox: SharedSandbox
let folder: string
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  folder = await mkdtemp(join(tmpdir(), 'farebox-account-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
  await sandbox.stop()
})

it('the program of CALLING.md lists a wallet’s receipts with tokens that open them, as it stands', async () => {
  const page = await readFile(`${ROOT}CALLING.md`, 'utf8')
  const [, program = ''] = /## Your account[^]*?```ts\n([^]*?)```/.exec(page) ?? []
  await symlink(`${ROOT}node_modules`, join(folder, 'node_modules'))
  await writeFile(join(folder, 'receipts.mts'), program)
  const { baseUrl, payer } = sandbox.info
  const ids: string[] = []
  for (const content of ['one', 'two']) {
    const paid = await sandbox.payer.fetch(`${baseUrl}/v1/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-idempotency-key': crypto.randomUUID() },
      body: JSON.stringify({ model: 'textmodel-3.5-flash', messages: [{ role: 'user', content }], max_tokens: 16 }),
    })
    ids.unshift(paid.headers.get('x-receipt-id') ?? '')
  }
  const env = { ...process.env, BASE_URL: baseUrl, PRIVATE_KEY: payer.privateKey }
  const { stdout } = await promisify(execFile)(process.execPath, ['receipts.mts'], { cwd: folder, env })
  const lines = stdout.trim().split('\n')
  expect(lines.map((line) => line.split(' ')[0])).toEqual(ids)
  for (const line of lines) {
    const [id, charge, token] = line.split(' ')
    const headers = { authorization: `Bearer ${token}` }
    const receipt = await fetch(`${baseUrl}/v1/receipts/${id}`, { headers })
    expect(await receipt.json()).toMatchObject({ id, charge_usdc: charge })
  }
})

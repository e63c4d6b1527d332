import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createPayer } from '../../../support/payer/payer.ts'
import { buildClient, copyClient, ROOT } from '../../../support/processes/client-package.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

const OPENAI = fileURLToPath(new URL('../../node_modules/openai', import.meta.url))
let home: string
let sandbox: SharedSandbox
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  home = await mkdtemp(join(tmpdir(), 'farebox-agent-'))
  await buildClient(await copyClient(join(home, 'program')))
})
afterAll(async () => {
  await rm(home, { recursive: true, force: true })
  await sandbox.stop()
})

test('an agent with an SDK, the program of the client’s README: it answers and lists what it paid', async () => {
  const page = await readFile(join(ROOT, 'client/README.md'), 'utf8')
  const section = page.slice(page.indexOf('\n### An agent with an SDK\n'))
  const [, program = ''] = /```ts\n([^]*?)```/.exec(section) ?? []
  await mkdir(join(home, 'node_modules'))
  await symlink(join(home, 'program/client'), join(home, 'node_modules/farebox'))
  await symlink(OPENAI, join(home, 'node_modules/openai'))
  await writeFile(join(home, 'agent.mts'), program)
  const { baseUrl, rpcUrl } = sandbox.info
  const { privateKey } = await createPayer(rpcUrl, { usdcAtomic: 1_000_000n })
  const settings = { FAREBOX_URL: baseUrl, FAREBOX_RPC_URL: rpcUrl, FAREBOX_PRIVATE_KEY: privateKey }
  const env = { PATH: process.env['PATH'], HOME: home, ...settings }
  const { stdout } = await promisify(execFile)(process.execPath, ['agent.mts'], { cwd: home, env })
  expect(stdout).toMatch(/Good evening[^]*\n\S+Z textmodel-3\.5-flash 2000n\n$/)
})

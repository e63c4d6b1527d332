import { randomUUID } from 'node:crypto'
import { rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { payForCall } from '../../support/payer/paid-call.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'

const CHAT = { model: 'textmodel-2.5-pro', max_tokens: 100, messages: [{ role: 'user', content: 'Hello.' }] }
const IMAGE = { model: 'textmodel-3.1-flash-lite-image', prompt: 'A tram at night' }
const SPEECH = { model: 'speechvendor/flash-v2.5', input: 'Next stop: the end of the line.' }

let sandbox: TestSandbox
beforeAll(async () => {
  sandbox = await startTestSandbox()
})
afterAll(() => sandbox.stop())

async function readiness(): Promise<unknown> {
  const answer = await fetch(`${sandbox.info.baseUrl}/readyz`)
  return { status: answer.status, body: await answer.json() }
}

it.each([
  ['a file', (folder: string) => writeFile(folder, '')],
  ['a link to a disk that is not mounted', (folder: string) => symlink('/dev/null/disk', folder)],
])('serves text, and refuses media unpaid, where the folder of objects is %s', async (_, put) => {
  const folder = join(sandbox.directory, 'uploads')
  const restore = async () => {
    await rm(folder, { force: true })
    await rename(`${folder}.away`, folder)
  }
  await rename(folder, `${folder}.away`)
  await put(folder)
  onTestFinished(() => restore().catch(() => undefined))
  for (const part of ['api', 'worker'] as const) {
    process.kill(sandbox.pidOf(part), 'SIGKILL')
    await sandbox.restart(part)
  }
  await payForCall(sandbox, '/v1/chat/completions', CHAT)
  await payForCall(sandbox, '/v1/messages', CHAT)
  expect(await readiness()).toMatchObject({
    status: 200,
    body: { status: 'degraded', checks: { object_store: 'down' } },
  })
  const audio = { model: 'speechvendor/scribe-v2', audio_base64: sandbox.sample.toString('base64') }
  for (const [path, body] of [
    ['/v1/audio/transcriptions', audio],
    ['/v1/audio/speech', SPEECH],
    ['/v1/images/generations', IMAGE],
  ] as const) {
    const idempotencyKey = randomUUID()
    const headers = await sandbox.payer.sign(await sandbox.post(path, body, { idempotencyKey }))
    const refused = await sandbox.post(path, body, { idempotencyKey, headers })
    expect({ status: refused.status, body: await refused.json() }).toMatchObject({
      status: 503,
      body: { error: { code: 'storage_unavailable', payment: 'none' } },
    })
  }
  await restore()
  await payForCall(sandbox, '/v1/audio/transcriptions', audio)
  await payForCall(sandbox, '/v1/audio/speech', SPEECH)
  await expect.poll(readiness).toMatchObject({ body: { checks: { object_store: 'ok' } } })
})

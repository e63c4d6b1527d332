import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { isRunning } from '../support/is-running.ts'
import { startTestSandbox, type TestSandbox } from '../support/test-sandbox.ts'

let sandbox: TestSandbox
beforeAll(async () => {
  sandbox = await startTestSandbox({ workerEnvironment: { LEASE_SECONDS: '2', SWEEP_SECONDS: '0.2' } })
})
afterAll(() => sandbox.stop())

async function payFor(idempotencyKey: string) {
  return sandbox.payer.sign(await sandbox.transcribe({ idempotencyKey }))
}

const transfers = () => sandbox.chain.transfersTo(sandbox.info.payTo as `0x${string}`)

async function untilUpstreamIsAsked(callsBefore: number) {
  await vi.waitUntil(async () => (await sandbox.upstreamCalls()).length > callsBefore, { timeout: 20_000 })
}

test('a worker killed during the provider call leaves an uncharged failure that a fresh payment repeats', async () => {
  const idempotencyKey = randomUUID()
  const headers = await payFor(idempotencyKey)
  const [callsBefore, transfersBefore] = [(await sandbox.upstreamCalls()).length, (await transfers()).length]
  await sandbox.setFaults([{ fault: 'none', delayMs: 5000 }])
  const held = sandbox.transcribe({ idempotencyKey, headers })
  await untilUpstreamIsAsked(callsBefore)
  process.kill(sandbox.pidOf('worker'), 'SIGKILL')
  await sandbox.restart('worker')

  const failure = await held
  expect(failure.status).toBe(503)
  expect(await failure.json()).toMatchObject({
    error: { code: 'provider_outcome_unknown', payment: 'none', retry: 'new_payment' },
  })
  // The same signature gets the same answer and no second call: the first one may have been billed upstream.
  expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(503)
  expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
  expect(await transfers()).toHaveLength(transfersBefore)

  const repeated = await sandbox.transcribe({ idempotencyKey, headers: await payFor(idempotencyKey) })
  expect(repeated.status).toBe(200)
  expect(await transfers()).toHaveLength(transfersBefore + 1)
})

test('an API killed while it holds the caller loses nothing: the retry gets the result, charged once', async () => {
  const idempotencyKey = randomUUID()
  const headers = await payFor(idempotencyKey)
  const [callsBefore, transfersBefore] = [(await sandbox.upstreamCalls()).length, (await transfers()).length]
  await sandbox.setFaults([{ fault: 'none', delayMs: 1000 }])
  const held = sandbox.transcribe({ idempotencyKey, headers })
  await untilUpstreamIsAsked(callsBefore)
  process.kill(sandbox.pidOf('api'), 'SIGKILL')
  await expect(held).rejects.toThrow('fetch failed')
  await sandbox.restart('api')

  const retry = await sandbox.transcribe({ idempotencyKey, headers })
  expect(retry.status).toBe(200)
  const replay = await sandbox.transcribe({ idempotencyKey, headers })
  expect(await replay.text()).toBe(await retry.text())
  expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
  expect(await transfers()).toHaveLength(transfersBefore + 1)
})

test('a worker killed at any moment of a paid call never charges twice and never loses a charged result', async () => {
  for (const delayMs of [0, 40, 80, 120, 200, 300]) {
    const idempotencyKey = randomUUID()
    const headers = await payFor(idempotencyKey)
    const transfersBefore = (await transfers()).length
    const held = sandbox.transcribe({ idempotencyKey, headers })
    await new Promise((resolve) => setTimeout(resolve, delayMs))
    process.kill(sandbox.pidOf('worker'), 'SIGKILL')
    await sandbox.restart('worker')
    const answer = await held
    const charged = (await transfers()).length - transfersBefore
    expect({ status: answer.status, charged }).toEqual(
      answer.status === 200 ? { status: 200, charged: 1 } : { status: 503, charged: 0 },
    )
    const retry = await sandbox.transcribe({ idempotencyKey, headers })
    expect(retry.status).toBe(answer.status)
    expect((await transfers()).length - transfersBefore).toBe(charged)
  }
})

test('a caller who hangs up after paying gets the stored result on retry', async () => {
  const idempotencyKey = randomUUID()
  const headers = await payFor(idempotencyKey)
  const callsBefore = (await sandbox.upstreamCalls()).length
  await sandbox.setFaults([{ fault: 'none', delayMs: 500 }])
  const hangUp = new AbortController()
  const held = sandbox.transcribe({ idempotencyKey, headers, signal: hangUp.signal })
  await untilUpstreamIsAsked(callsBefore)
  hangUp.abort()
  await expect(held).rejects.toThrow('aborted')
  expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(200)
  expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
})

test('a stopping API lets held callers go with a 503 that lets them attach', async () => {
  const idempotencyKey = randomUUID()
  const headers = await payFor(idempotencyKey)
  const callsBefore = (await sandbox.upstreamCalls()).length
  await sandbox.setFaults([{ fault: 'none', delayMs: 6000 }])
  const held = sandbox.transcribe({ idempotencyKey, headers })
  await untilUpstreamIsAsked(callsBefore)
  process.kill(sandbox.pidOf('api'), 'SIGTERM')
  const letGo = await held
  expect(letGo.status).toBe(503)
  expect(letGo.headers.get('retry-after')).toBe('5')
  expect(await letGo.json()).toMatchObject({ error: { code: 'request_in_progress', payment: 'authorized' } })
  await vi.waitUntil(() => !isRunning(sandbox.pidOf('api')), { timeout: 10_000 })
  await sandbox.restart('api')
  expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(200)
})

import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type AnswerGate, startAnswerGate } from '../../support/http/answer-gate.ts'
import { isRunning } from '../../support/processes/is-running.ts'
import { startTestSandbox, type TestSandbox } from '../../support/processes/test-sandbox.ts'
import { until } from '../../support/until.ts'

/** Long enough that a live worker always renews in time; {@link expireLeases} ends the lease of a dead one. */
const LEASE_SECONDS = 60

let sandbox: TestSandbox
/** Holds back the vendors' answers to the worker. */
let vendors: AnswerGate
beforeAll(async () => {
  sandbox = await startTestSandbox({
    connections: async (real) => {
      vendors = await startAnswerGate(real.upstreamUrl)
      return { ...real, upstreamUrl: vendors.url }
    },
    apiEnvironment: { DRAIN_SECONDS: '1' },
    workerEnvironment: { LEASE_SECONDS: String(LEASE_SECONDS), SWEEP_SECONDS: '0.2' },
  })
})
afterEach(() => vendors.release())
afterAll(async () => {
  await sandbox.stop()
  await vendors.stop()
})

async function signTranscription(idempotencyKey: string) {
  return sandbox.payer.sign(await sandbox.transcribe({ idempotencyKey }))
}

const transfers = () => sandbox.chain.transfersTo(sandbox.info.payTo)

async function untilUpstreamIsCalled(callsBefore: number) {
  await until(async () => (await sandbox.upstreamCalls()).length > callsBefore)
}

/** Backdates the dead worker's jobs, as if their leases and the grace period had expired. */
async function expireLeases() {
  await sandbox.sql(
    `UPDATE jobs SET orphaned_at = now(), lease_expires_at = lease_expires_at - make_interval(secs => $1),
       enqueued_at = enqueued_at - make_interval(secs => $1)
     WHERE state IN ('accepted', 'generating', 'generated', 'settling')`,
    [LEASE_SECONDS],
  )
}

async function killWorker() {
  process.kill(sandbox.pidOf('worker'), 'SIGKILL')
  await until(() => !isRunning(sandbox.pidOf('worker')))
  await expireLeases()
  await sandbox.restart('worker')
}

test('answers an uncharged 503 when the worker is killed during the provider call, and serves a fresh payment [spec O10]', async () => {
  const idempotencyKey = randomUUID()
  const headers = await signTranscription(idempotencyKey)
  const [callsBefore, transfersBefore] = [(await sandbox.upstreamCalls()).length, (await transfers()).length]
  await sandbox.setFaults([{ fault: 'hang' }])
  const held = sandbox.transcribe({ idempotencyKey, headers })
  await untilUpstreamIsCalled(callsBefore)
  await killWorker()

  const failure = await held
  expect(failure.status).toBe(503)
  expect(await failure.json()).toMatchObject({
    error: { code: 'provider_outcome_unknown', payment: 'none', retry: 'new_payment' },
  })
  // The same signature gets the same answer without a second call: the first may have been billed by the vendor.
  expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(503)
  expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
  expect(await transfers()).toHaveLength(transfersBefore)

  const repeated = await sandbox.transcribe({ idempotencyKey, headers: await signTranscription(idempotencyKey) })
  expect(repeated.status).toBe(200)
  expect(await transfers()).toHaveLength(transfersBefore + 1)
})

test('returns the result on retry, charged once, when the API is killed while the caller waits [spec O11]', async () => {
  const idempotencyKey = randomUUID()
  const headers = await signTranscription(idempotencyKey)
  const [callsBefore, transfersBefore] = [(await sandbox.upstreamCalls()).length, (await transfers()).length]
  vendors.hold()
  const held = sandbox.transcribe({ idempotencyKey, headers })
  await untilUpstreamIsCalled(callsBefore)
  process.kill(sandbox.pidOf('api'), 'SIGKILL')
  await expect(held).rejects.toThrow('fetch failed')
  vendors.release()
  await sandbox.restart('api')

  const retry = await sandbox.transcribe({ idempotencyKey, headers })
  expect(retry.status).toBe(200)
  const replay = await sandbox.transcribe({ idempotencyKey, headers })
  expect(await replay.text()).toBe(await retry.text())
  expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
  expect(await transfers()).toHaveLength(transfersBefore + 1)
})

const MOMENTS = ['before', 'accepted', 'generating', 'generated', 'settling', 'completed'] as const

/** Waits until the job has reached this state. */
async function untilJobIs(moment: (typeof MOMENTS)[number], idempotencyKey: string) {
  const reached = MOMENTS.slice(MOMENTS.indexOf(moment))
  if (moment === 'before') return
  await until(async () => {
    const [job] = await sandbox.sql<{ state: string }>('SELECT state FROM jobs WHERE idempotency_key = $1', [
      idempotencyKey,
    ])
    return reached.some((state) => state === job?.state)
  })
}

test('never charges twice and never loses a charged result, whenever the worker is killed during a paid call [spec L6b]', async () => {
  // The kill matrix in test/resilience covers every point in between.
  for (const moment of ['before', 'generating', 'settling', 'completed'] as const) {
    const idempotencyKey = randomUUID()
    const headers = await signTranscription(idempotencyKey)
    const transfersBefore = (await transfers()).length
    const held = sandbox.transcribe({ idempotencyKey, headers })
    await untilJobIs(moment, idempotencyKey)
    await killWorker()
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

test('returns the stored result on retry to a caller that disconnected after paying', async () => {
  const idempotencyKey = randomUUID()
  const headers = await signTranscription(idempotencyKey)
  const callsBefore = (await sandbox.upstreamCalls()).length
  vendors.hold()
  const hangUp = new AbortController()
  const held = sandbox.transcribe({ idempotencyKey, headers, signal: hangUp.signal })
  await untilUpstreamIsCalled(callsBefore)
  hangUp.abort()
  await expect(held).rejects.toThrow('aborted')
  vendors.release()
  expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(200)
  expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
})

test('answers waiting callers with a 503 that allows the same request again when the API shuts down', async () => {
  const idempotencyKey = randomUUID()
  const headers = await signTranscription(idempotencyKey)
  const callsBefore = (await sandbox.upstreamCalls()).length
  vendors.hold()
  const held = sandbox.transcribe({ idempotencyKey, headers })
  await untilUpstreamIsCalled(callsBefore)
  process.kill(sandbox.pidOf('api'), 'SIGTERM')
  const answer = await held
  expect(answer.status).toBe(503)
  expect(answer.headers.get('retry-after')).toBe('5')
  expect(await answer.json()).toMatchObject({ error: { code: 'request_in_progress', payment: 'authorized' } })
  vendors.release()
  await sandbox.restart('api')
  expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(200)
})

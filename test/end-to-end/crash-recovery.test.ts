import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type AnswerGate, startAnswerGate } from '../support/http/answer-gate.ts'
import { isRunning } from '../support/processes/is-running.ts'
import { startTestSandbox, type TestSandbox } from '../support/processes/test-sandbox.ts'
import { until } from '../support/until.ts'

/** Longer than a living worker can be kept from renewing it; of a dead one's {@link expireLeases} makes an end. */
const LEASE_SECONDS = 60

let sandbox: TestSandbox
/** Between the worker and the vendors. */
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

async function payFor(idempotencyKey: string) {
  return sandbox.payer.sign(await sandbox.transcribe({ idempotencyKey }))
}

const transfers = () => sandbox.chain.transfersTo(sandbox.info.payTo as `0x${string}`)

async function untilUpstreamIsAsked(callsBefore: number) {
  await until(async () => (await sandbox.upstreamCalls()).length > callsBefore)
}

/** Makes the ledger see so much time gone by since the worker was killed that its leases and their grace are over. */
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

test('a worker killed during the provider call leaves an uncharged failure that a fresh payment repeats', async () => {
  const idempotencyKey = randomUUID()
  const headers = await payFor(idempotencyKey)
  const [callsBefore, transfersBefore] = [(await sandbox.upstreamCalls()).length, (await transfers()).length]
  await sandbox.setFaults([{ fault: 'hang' }])
  const held = sandbox.transcribe({ idempotencyKey, headers })
  await untilUpstreamIsAsked(callsBefore)
  await killWorker()

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
  vendors.hold()
  const held = sandbox.transcribe({ idempotencyKey, headers })
  await untilUpstreamIsAsked(callsBefore)
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

/** Waits until a job is in this state, or past it already. */
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

test('a worker killed at any moment of a paid call never charges twice and never loses a charged result', async () => {
  // The kill matrix has every point between these.
  for (const moment of ['before', 'generating', 'settling', 'completed'] as const) {
    const idempotencyKey = randomUUID()
    const headers = await payFor(idempotencyKey)
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

test('a caller who hangs up after paying gets the stored result on retry', async () => {
  const idempotencyKey = randomUUID()
  const headers = await payFor(idempotencyKey)
  const callsBefore = (await sandbox.upstreamCalls()).length
  vendors.hold()
  const hangUp = new AbortController()
  const held = sandbox.transcribe({ idempotencyKey, headers, signal: hangUp.signal })
  await untilUpstreamIsAsked(callsBefore)
  hangUp.abort()
  await expect(held).rejects.toThrow('aborted')
  vendors.release()
  expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(200)
  expect(await sandbox.upstreamCalls()).toHaveLength(callsBefore + 1)
})

test('a stopping API lets held callers go with a 503 that lets them attach', async () => {
  const idempotencyKey = randomUUID()
  const headers = await payFor(idempotencyKey)
  const callsBefore = (await sandbox.upstreamCalls()).length
  vendors.hold()
  const held = sandbox.transcribe({ idempotencyKey, headers })
  await untilUpstreamIsAsked(callsBefore)
  process.kill(sandbox.pidOf('api'), 'SIGTERM')
  const letGo = await held
  expect(letGo.status).toBe(503)
  expect(letGo.headers.get('retry-after')).toBe('5')
  expect(await letGo.json()).toMatchObject({ error: { code: 'request_in_progress', payment: 'authorized' } })
  vendors.release()
  await sandbox.restart('api')
  expect((await sandbox.transcribe({ idempotencyKey, headers })).status).toBe(200)
})

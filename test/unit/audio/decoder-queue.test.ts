import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createDecoderQueue } from '../../../api/request/audio/decoder-queue.ts'

const HOUR_MS = 3_600_000

/** Creates decodes that end when the test finishes them, and records the order in which they start. */
function queueWith({ concurrency = 2, maximumWaiting = 32 } = {}) {
  let nowMs = 0
  const queue = createDecoderQueue({ concurrency, maximumWaiting }, () => nowMs)
  const started: string[] = []
  const ends = new Map<string, () => void>()
  return {
    started,
    load: queue.load,
    retryAfterSeconds: queue.retryAfterSeconds,
    wait: (ms: number) => {
      nowMs += ms
    },
    decode: (name: string, durationMs: number, client: string, hasPriority = false) =>
      queue.run({ client: [client], hasPriority }, durationMs, () => {
        started.push(name)
        return new Promise<void>((resolve) => ends.set(name, resolve))
      }),
    finish: async (name: string) => {
      ends.get(name)?.()
      await nextTurn()
    },
  }
}

test('a short upload does not wait for the long ones of another client', async () => {
  const { decode, started } = queueWith()
  for (let index = 0; index < 12; index += 1) void decode(`hour ${index}`, HOUR_MS, '192.0.2.1')
  void decode('clip', 653, '192.0.2.2')
  await nextTurn()
  expect(started).toEqual(['hour 0', 'clip'])
})

test('the shortest upload is decoded next', async () => {
  const { decode, started, finish } = queueWith({ concurrency: 1 })
  void decode('first', 1000, '192.0.2.1')
  for (const [name, durationMs] of [
    ['long', HOUR_MS],
    ['medium', 60_000],
    ['short', 2000],
  ] as const)
    void decode(name, durationMs, '192.0.2.1')
  for (const name of ['first', 'short', 'medium', 'long']) await finish(name)
  expect(started).toEqual(['first', 'short', 'medium', 'long'])
})

test('clients take turns with uploads of the same length', async () => {
  const { decode, started, finish } = queueWith({ concurrency: 2 })
  for (const name of ['a1', 'a2', 'a3', 'a4']) void decode(name, 60_000, '192.0.2.1')
  for (const name of ['b1', 'b2']) void decode(name, 60_000, '192.0.2.2')
  for (const name of ['a1', 'a2', 'b1']) await finish(name)
  expect(started).toEqual(['a1', 'a2', 'b1', 'a3', 'b2'])
})

test('new uploads overtake an hour of audio for at most 36 seconds', async () => {
  const { decode, started, finish, wait } = queueWith({ concurrency: 1 })
  void decode('first', 1000, '192.0.2.1')
  void decode('hour', HOUR_MS, '192.0.2.1')
  wait(30_000)
  void decode('early', 1000, '192.0.2.2')
  await finish('first')
  wait(7000)
  void decode('late', 1000, '192.0.2.2')
  await finish('early')
  await finish('hour')
  expect(started).toEqual(['first', 'early', 'hour', 'late'])
})

test('one client takes at most three quarters of the waiting places that are open to it', async () => {
  const { decode, load, retryAfterSeconds } = queueWith({ maximumWaiting: 32 })
  const refusals: unknown[] = []
  for (let index = 0; index < 40; index += 1)
    decode(`hour ${index}`, HOUR_MS, '192.0.2.1').catch((error: unknown) => refusals.push(error))
  await nextTurn()
  expect(load()).toEqual({ busy: 1, waiting: 18, places: 2 })
  expect(refusals).toHaveLength(21)
  expect(refusals[0]).toMatchObject({ code: 'overloaded', retryAfterSeconds: 19 })
  void decode('other hour', HOUR_MS, '192.0.2.2')
  expect(load().waiting).toBe(19)
  // A decoder is left for short uploads, so admission refuses nobody before the upload.
  expect(retryAfterSeconds({ client: ['192.0.2.1'], hasPriority: false })).toBeNull()
})

test('the last quarter of the waiting places is kept for payers who have paid before', async () => {
  const { decode, retryAfterSeconds } = queueWith({ concurrency: 1, maximumWaiting: 4 })
  for (const client of ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'])
    void decode(client, 1000, client).catch(() => undefined)
  const newcomer = { client: ['192.0.2.9'] }
  expect(retryAfterSeconds({ ...newcomer, hasPriority: false })).toBeGreaterThanOrEqual(1)
  expect(retryAfterSeconds({ ...newcomer, hasPriority: true })).toBeNull()
})

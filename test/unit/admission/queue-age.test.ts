import { expect, it } from 'vitest'
import { createQueueAgeReader } from '../../../api/admission/queue-age.ts'

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }

function readerOver(readQueueAges: () => Promise<ReadonlyMap<string, number>>) {
  const clock = { ms: 0 }
  return { clock, queueAge: createQueueAgeReader({ readQueueAges }, silent, () => clock.ms) }
}

it('reads queue ages from the ledger at most once a second, however many requests need them', async () => {
  let readings = 0
  const { clock, queueAge } = readerOver(async () => new Map([['createSpeech', ++readings]]))
  expect(await Promise.all([1, 2, 3].map(() => queueAge('createSpeech')))).toEqual([1, 1, 1])
  clock.ms = 999
  expect(await queueAge('createSpeech')).toBe(1)
  clock.ms = 1000
  expect(await queueAge('createSpeech')).toBe(2)
  expect(readings).toBe(2)
})

it('reports a queue age of 0 for an operation without waiting jobs', async () => {
  const { queueAge } = readerOver(async () => new Map([['createSpeech', 5000]]))
  expect(await queueAge('createMessage')).toBe(0)
})

it('reports a queue age of 0 while the ledger cannot be read, and the real one afterwards', async () => {
  let isDown = true
  const { clock, queueAge } = readerOver(async () => {
    if (isDown) throw new Error('down')
    return new Map([['createSpeech', 5000]])
  })
  expect(await queueAge('createSpeech')).toBe(0)
  isDown = false
  clock.ms = 1000
  expect(await queueAge('createSpeech')).toBe(5000)
})

import { expect, it } from 'vitest'
import { createAccountPlaces } from '../../../api/account/account-places.ts'

/** Queries that end when the test says so. */
function createQueries() {
  const running: (() => void)[] = []
  const query = () => new Promise<string>((resolve) => running.push(() => resolve('answer')))
  return { running, query }
}

/** Lets promises continue that wait for nothing but each other. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

it('two accounts are read at the same time, the next ones in turn', async () => {
  const places = createAccountPlaces()
  const { running, query } = createQueries()
  const answers = ['a', 'b', 'c'].map((wallet) => places(wallet, query))
  await settle()
  expect(running).toHaveLength(2)
  running[0]?.()
  await settle()
  expect(running).toHaveLength(3)
  for (const end of running) end()
  expect(await Promise.all(answers)).toEqual(['answer', 'answer', 'answer'])
})

it('a wallet that reads its account in eight requests is refused a ninth, until one of them ends', async () => {
  const places = createAccountPlaces()
  const { running, query } = createQueries()
  const answers = Array.from({ length: 8 }, () => places('a', query))
  await expect(places('a', query)).rejects.toMatchObject({ code: 'rate_limited', retryAfterSeconds: 1 })
  const other = places('b', query)
  await settle()
  running[0]?.()
  await answers[0]
  const next = places('a', query)
  for (let ended = 1; ended < 10; ended++) {
    await settle()
    running[ended]?.()
  }
  expect(await Promise.all([...answers, other, next])).toHaveLength(10)
})

const failingQuery = () => Promise.reject(new Error('the database is down'))

it('a query that fails frees its place and its share', async () => {
  const places = createAccountPlaces()
  for (let failed = 0; failed < 20; failed++) await expect(places('a', failingQuery)).rejects.toThrow('is down')
  expect(await places('a', async () => 'answer')).toBe('answer')
})

it('requests beyond those that may wait are refused as overload', async () => {
  const places = createAccountPlaces()
  const { query } = createQueries()
  for (let wallet = 0; wallet < 66; wallet++) void places(`wallet ${wallet}`, query)
  await settle()
  await expect(places('another wallet', query)).rejects.toMatchObject({ code: 'overloaded' })
})

import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { main } from '../../../infra/commands/resolve.ts'
import { inDebt, inReview } from '../../support/ledger/open-item.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger(2)
})
afterAll(() => ledger.close())
afterEach(() => {
  vi.restoreAllMocks()
})

async function run(...commandLine: readonly string[]) {
  const output: string[] = []
  const errors: string[] = []
  vi.spyOn(console, 'log').mockImplementation((text: string) => output.push(text))
  vi.spyOn(console, 'error').mockImplementation((text: string) => errors.push(text))
  const exitCode = await main(commandLine, { DATABASE_URL: ledger.url })
  return { exitCode, output: output.join('\n'), errors: errors.join('\n') }
}

const UNKNOWN = 'review:00000000-0000-4000-8000-000000000000'

describe('npm run resolve', () => {
  it.each([
    [['forgive'], /ITEM must be an id of the list/],
    [['review:1', 'refunded'], /ITEM must be an id of the list/],
    [['list', 'more'], /one argument too many/],
    [['--kind', 'thing'], /--kind must be one of review, settlement, unknown_settlement, debt/],
    [['--payer', '0x12'], /--payer must be 0x and 40/],
    [['--reason', 'x'], /--reason does not belong to list/],
    [['show'], /ITEM must be/],
    [[UNKNOWN, 'gone', '--reason', 'x'], /OUTCOME must be one of paid_outside, refunded/],
    [[UNKNOWN, 'written_off'], /--reason is missing/],
    [[UNKNOWN, 'refunded', '--reason', 'x'], /--transaction is missing/],
    [[UNKNOWN, 'written_off', '--reason', 'x', '--as', 'Anna!'], /--as must have/],
    [[UNKNOWN, 'refunded', '--reason', 'x', '--transaction', '0x1'], /RPC_URL is not set/],
    [['--colour'], /Unknown option/],
  ])('%j: says what is wrong, and exits with 2', async (commandLine, message) => {
    const { exitCode, errors } = await run(...commandLine)
    expect({ exitCode, errors }).toEqual({ exitCode: 2, errors: expect.stringMatching(message) })
    expect(errors).toContain('Usage: npm run resolve')
  })

  it('lists what is open, with the outcomes that each may have, and ends it', async () => {
    const [review, debt] = [await inReview(ledger), await inDebt(ledger)]
    const listed = await run()
    expect(listed).toMatchObject({ exitCode: 0, errors: '' })
    expect(listed.output).toMatch(new RegExp(`${review.id}[^]*may be +refunded, paid_outside, written_off, re_served`))
    expect(listed.output).toMatch(
      new RegExp(`${debt.id}[^]*0\\.005034 USDC[^]*may be +paid_outside, forgiven, written_off`),
    )
    expect((await run('list', '--kind', 'debt', '--json')).output).not.toContain(review.id)

    const ended = await run(debt.id, 'forgiven', '--reason', 'first time', '--as', 'anna', '--json')
    expect(ended).toMatchObject({ exitCode: 0, errors: '' })
    expect(JSON.parse(ended.output)).toMatchObject({ outcome: 'forgiven', operator: 'anna', reason: 'first time' })
    expect((await run('show', debt.id)).output).toMatch(/ended +anna ended this item at .*: forgiven \(first time\)/)
    expect((await run('--json')).output).not.toContain(debt.id)
  })

  it('exits with 1 for a resolution that is refused and for an item that does not exist', async () => {
    const { id } = await inReview(ledger)
    const refused = await run(id, 'forgiven', '--reason', 'x')
    expect(refused).toMatchObject({
      exitCode: 1,
      errors: expect.stringContaining('cannot be forgiven; it may be refunded'),
    })
    expect(await run(UNKNOWN, 'written_off', '--reason', 'x')).toMatchObject({
      exitCode: 1,
      errors: 'There is no such item.',
    })
    expect(await run('show', UNKNOWN)).toMatchObject({ exitCode: 1, errors: 'There is no such item.' })
  })
})

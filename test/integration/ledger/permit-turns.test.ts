import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AppError } from '#shared/errors/app-error.ts'
import type { LeasedJob } from '#shared/jobs/job.ts'
import { acceptInTurn, createPermitTurns } from '../../../api/paid-request/accept/permit-turns.ts'
import { jobInState } from '../../support/ledger/job-in-state.ts'
import { newTestJob, TEST_PRICE } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'
import { until } from '../../support/until.ts'

const NEVER_SECONDS = 600
/** A turn that nobody ends ends by itself soon. */
const SHORT_SECONDS = 0.2
const POLL_MS = 10
const silent = { info: () => undefined, warn: () => undefined, error: () => undefined }
const forever = () => new AbortController().signal
const down = () => Promise.reject(new Error('down'))
const used = () => Promise.reject(new AppError('permit_already_used'))
const signed = (payer: `0x${string}`, idempotencyKey: string, released: string[]) => ({
  idempotencyKey,
  authorization: { payer, gasSponsoring: testPermit(payer, 0n), authorizedMaximum: TEST_PRICE },
  releaseContent: () => void released.push(idempotencyKey),
  startWaitingForTurn: forever,
})

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

/** How often a call of any process has learned who holds the turn. */
let holdersRead = 0

/** The turns of one API process; each call of this is another process. */
function processTurns(turnSeconds = NEVER_SECONDS) {
  const outcomes = {
    wait: async (jobId: string, signal: AbortSignal) => {
      for (;;) {
        const [row] = await ledger.sql('SELECT finished_at FROM jobs WHERE id = $1', [jobId])
        if (row?.['finished_at'] !== null || signal.aborted)
          return { state: 'failed', failureCode: 'internal_error' } as const
        await delay(POLL_MS)
      }
    },
  }
  const findPermitTurn = async (payer: string) => {
    const holder = await ledger.acceptance.findPermitTurn(payer)
    holdersRead += 1
    return holder
  }
  return createPermitTurns({ store: { ...ledger.acceptance, findPermitTurn }, outcomes, logger: silent }, turnSeconds)
}

/** A payer with calls that wait for its turns, and the order in which they get them. */
function newPayer() {
  const payer = randomAddress()
  const answers: string[] = []
  const call = (idempotencyKey: string) => ({ payer, idempotencyKey: `${payer}-${idempotencyKey}` })
  return {
    payer,
    answers,
    call,
    openJob: () => jobInState(ledger, 'generating', newTestJob({ authorization: testAuthorization({ payer }) })),
    wait: (turns: ReturnType<typeof processTurns>, name: string, signal = forever()) =>
      void turns.wait(call(name), signal).then((hasTurn) => answers.push(`${name} ${hasTurn}`)),
  }
}

const finish = (job: LeasedJob) =>
  ledger.execution.failJob(job, { code: 'provider_unavailable', reason: 'test', attempt: 'failed_definite' })
const isAnswered = (answers: readonly string[], ...expected: readonly string[]) =>
  expect.poll(() => answers).toEqual(expected)

describe('the turns of calls that pay with permits', () => {
  it('go to one waiting call of all processes when the open work of its payer is finished, and then to the other', async () => {
    const { answers, call, openJob, wait } = newPayer()
    const [first, second] = [processTurns(), processTurns()]
    const open = await openJob()
    wait(first, 'a')
    wait(second, 'b')
    await delay(5 * POLL_MS)
    expect(answers).toEqual([])
    await finish(open)
    await expect.poll(() => answers).toHaveLength(1)
    const [winner = ''] = answers.map((answer) => answer.split(' ')[0])
    // It returns to the other process, where its payment is accepted.
    const other = winner === 'a' ? second : first
    expect(await other.mayTry(call(winner))).toBe(true)
    const accepted = await openJob()
    await other.end(call(winner))
    expect(answers).toHaveLength(1)
    await finish(accepted)
    await expect.poll(() => answers.toSorted()).toEqual(['a true', 'b true'])
  })

  it('end by themselves when their calls do not return', async () => {
    const { answers, call, openJob, wait } = newPayer()
    const turns = processTurns(SHORT_SECONDS)
    const open = await openJob()
    for (const name of ['a', 'b', 'c']) wait(turns, name)
    await finish(open)
    await expect.poll(() => answers.toSorted()).toEqual(['a true', 'b true', 'c true'])
    await expect.poll(() => turns.mayTry(call('d'))).toBe(true)
  })

  it('pass unused to one call that came with a permit meanwhile, at any process', async () => {
    const { call } = newPayer()
    const [one, other] = [processTurns(), processTurns()]
    expect(await ledger.acceptance.takePermitTurn(call('a'), NEVER_SECONDS)).toBe(true)
    const before = holdersRead
    const tries = [one.mayTry(call('b')).then(() => 'b'), other.mayTry(call('c')).then(() => 'c')]
    await until(() => holdersRead === before + 2)
    expect(await one.mayTry(call('a'))).toBe(true)
    await one.end(call('a'))
    const winner = await Promise.race(tries)
    expect(await ledger.acceptance.findPermitTurn(call('a').payer)).toBe(call(winner).idempotencyKey)
    await (winner === 'b' ? one : other).end(call(winner))
    await Promise.all(tries)
  })

  it('make permits useless that were signed while another call used its turn', async () => {
    const { call, openJob } = newPayer()
    const turns = processTurns()
    await ledger.acceptance.takePermitTurn(call('a'), NEVER_SECONDS)
    const before = holdersRead
    const late = turns.mayTry(call('b'))
    await until(() => holdersRead === before + 1)
    expect(await turns.mayTry(call('a'))).toBe(true)
    await openJob()
    await turns.end(call('a'))
    expect(await late).toBe(false)
  })

  it('cost calls of payers without a turn nothing, and belong to one payer', async () => {
    const { call } = newPayer()
    const turns = processTurns()
    await ledger.acceptance.takePermitTurn(call('a'), NEVER_SECONDS)
    const other = newPayer()
    expect(await turns.mayTry(other.call('a'))).toBe(true)
    await turns.end(other.call('a'))
    expect(await ledger.acceptance.findPermitTurn(call('a').payer)).toBe(call('a').idempotencyKey)
  })

  it('are not given to a caller who must be answered', async () => {
    const { answers, openJob, wait } = newPayer()
    const leaving = new AbortController()
    const open = await openJob()
    wait(processTurns(), 'a', leaving.signal)
    leaving.abort()
    await isAnswered(answers, 'a false')
    await finish(open)
  })

  it('are not given while the ledger cannot be read', async () => {
    const store = { findOpenJob: down, findPermitTurn: down, takePermitTurn: down, endPermitTurn: down }
    const turns = createPermitTurns({ store, outcomes: { wait: down }, logger: silent })
    expect(await turns.wait(newPayer().call('a'), forever())).toBe(false)
  })

  it('are forgotten some time after their end, so that no row is left of calls that never return', async () => {
    const [gone, next] = [newPayer(), newPayer()]
    await ledger.acceptance.takePermitTurn(gone.call('a'), NEVER_SECONDS)
    await ledger.sql("UPDATE permit_turns SET ends_at = now() - interval '2 minutes' WHERE payer = $1", [gone.payer])
    await ledger.acceptance.takePermitTurn(next.call('a'), NEVER_SECONDS)
    expect(await ledger.sql('SELECT 1 FROM permit_turns WHERE payer = $1', [gone.payer])).toEqual([])
  })
})

describe('the acceptance of a payment with a permit', () => {
  it('holds a call whose permit is in use without its content, and then asks for another payment', async () => {
    const { payer, openJob } = newPayer()
    const [released, answers]: string[][] = [[], []]
    const open = await openJob()
    const call = signed(payer, `${payer}-a`, released ?? [])
    const refused = acceptInTurn({ permitTurns: processTurns() }, call, used)
    refused.catch(() => answers?.push('answered'))
    await expect.poll(() => released).toHaveLength(1)
    expect(answers).toEqual([])
    await finish(open)
    await expect(refused).rejects.toMatchObject({ code: 'permit_already_used', retryAfterSeconds: 0.5 })
  })

  it('asks the ledger nothing about turns for a payment without a permit', async () => {
    const store = { findOpenJob: down, findPermitTurn: down, takePermitTurn: down, endPermitTurn: down }
    const permitTurns = createPermitTurns({ store, outcomes: { wait: down }, logger: silent })
    const { payer } = newPayer()
    const call = {
      ...signed(payer, 'a', []),
      authorization: { payer: payer, gasSponsoring: null, authorizedMaximum: TEST_PRICE },
    }
    const job = { jobId: 'a', isNew: true }
    expect(await acceptInTurn({ permitTurns }, call, async () => job)).toEqual(job)
  })

  it('neither takes turns nor waits for a lasting permit, which calls share', async () => {
    const store = { findOpenJob: down, findPermitTurn: down, takePermitTurn: down, endPermitTurn: down }
    const permitTurns = createPermitTurns({ store, outcomes: { wait: down }, logger: silent })
    const { payer } = newPayer()
    const call = signed(payer, 'a', [])
    const gasSponsoring = { ...testPermit(payer, 0n), amount: 2n * TEST_PRICE }
    const sharing = { ...call, authorization: { ...call.authorization, gasSponsoring } }
    const job = { jobId: 'a', isNew: true }
    expect(await acceptInTurn({ permitTurns }, sharing, async () => job)).toEqual(job)
    const refused = acceptInTurn({ permitTurns }, sharing, used)
    await expect(refused).rejects.toMatchObject({ code: 'permit_already_used', retryAfterSeconds: 2 })
  })
})

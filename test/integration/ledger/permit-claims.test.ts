import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bindTestKey, jobInState } from '../../support/ledger/job-in-state.ts'
import { AMPLE_FUNDS, newTestJob } from '../../support/ledger/new-test-job.ts'
import { randomAddress, testAuthorization, testPermit } from '../../support/ledger/test-authorization.ts'
import { createTestLedger, type TestLedger } from '../../support/ledger/test-ledger.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await createTestLedger()
})
afterAll(() => ledger.close())

const jobByPermit = (payer: `0x${string}`) =>
  newTestJob({
    authorization: testAuthorization({ payer, gasSponsoring: testPermit(payer, 0n) }),
    exposure: { ...AMPLE_FUNDS, needsPermit: true },
  })

describe('the claim of a permit nonce', () => {
  it('releases a permit nonce when its payment is settled, as the permit may not have been used', async () => {
    const payer = randomAddress()
    await jobInState(ledger, 'completed', jobByPermit(payer))
    const next = jobByPermit(payer)
    await bindTestKey(ledger, next)
    expect(await ledger.admission.acceptJob(next)).toMatchObject({ outcome: 'accepted' })
  })

  it('keeps a permit nonce claimed while its payment is settling', async () => {
    const payer = randomAddress()
    await jobInState(ledger, 'settling', jobByPermit(payer))
    const next = jobByPermit(payer)
    await bindTestKey(ledger, next)
    expect(await ledger.admission.acceptJob(next)).toEqual({ outcome: 'permit_already_used' })
  })
})

describe('the open job that another payment by permit waits for', () => {
  it('is the oldest one of the payer that a worker has not finished', async () => {
    const payer = randomAddress()
    expect(await ledger.admission.findOpenJob(payer)).toBeNull()
    const job = () => newTestJob({ authorization: testAuthorization({ payer }), exposure: AMPLE_FUNDS })
    for (const state of ['failed', 'completed', 'review'] as const) await jobInState(ledger, state, job())
    expect(await ledger.admission.findOpenJob(payer)).toBeNull()
    const open = await jobInState(ledger, 'settling', job())
    expect(await ledger.admission.findOpenJob(payer)).toBe(open.id)
    expect(await ledger.admission.findOpenJob(randomAddress())).toBeNull()
  })
})

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  AMPLE_FUNDS,
  bindTestKey,
  createTestLedger,
  jobInState,
  newTestJob,
  randomAddress,
  type TestLedger,
  testAuthorization,
  testPermit,
} from '../../support/ledger/test-ledger.ts'

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
  it('ends when its payment is settled: a payer whose allowance sufficed in the end still has the nonce to use', async () => {
    const payer = randomAddress()
    await jobInState(ledger, 'completed', jobByPermit(payer))
    const next = jobByPermit(payer)
    await bindTestKey(ledger, next)
    expect(await ledger.admission.acceptJob(next)).toMatchObject({ outcome: 'accepted' })
  })

  it('lasts while its payment is settling', async () => {
    const payer = randomAddress()
    await jobInState(ledger, 'settling', jobByPermit(payer))
    const next = jobByPermit(payer)
    await bindTestKey(ledger, next)
    expect(await ledger.admission.acceptJob(next)).toEqual({ outcome: 'permit_already_used' })
  })
})

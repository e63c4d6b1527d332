import { expect, it } from 'vitest'
import type { ClaimedPermit } from '#shared/jobs/allowance-store.ts'
import { type AllowanceDependencies, createAllowanceRunner } from '../../../workers/allowances/run-allowances.ts'

it('a permit that is claimed while the process stops is handed back, not signed', async () => {
  const claimed = Promise.withResolvers<readonly ClaimedPermit[]>()
  const calls: string[] = []
  const runner = createAllowanceRunner({
    allowanceStore: {
      claimAllowances: () => claimed.promise,
      releaseAllowance: async ({ allowanceId }: ClaimedPermit, delayMs: number) => {
        calls.push(`released ${allowanceId} for ${delayMs} ms`)
        return 'written'
      },
    },
    allowances: {
      readAllowance: async () => {
        calls.push('read')
        return { outcome: 'unreachable', cause: null }
      },
    },
    leaseMs: 1000,
    logger: { info: () => undefined, warn: () => undefined, error: () => undefined },
  } as unknown as AllowanceDependencies)
  runner.wake()
  const stopped = runner.stop().then(() => calls.push('stopped'))
  claimed.resolve([{ allowanceId: 'one', permit: {}, signed: null, ageMs: 0 } as ClaimedPermit])
  await stopped
  await runner.settled()
  expect(calls).toEqual(['released one for 0 ms', 'stopped'])
})

import type { PublicClient } from 'viem'
import type { AllowanceReader } from '#shared/payment/allowance-reader.ts'
import type { FeeEstimator } from '../settlement/fee-estimator.ts'
import { recoverSigner } from '../signing/secp256k1.ts'
import { readCode } from '../verification/payer-code.ts'
import { facilitatorOf } from './facilitator-of.ts'
import { expectedGasFor, permitDigest, reservedGasFor, simulatePermit } from './permit-call.ts'
import { readOwner } from './read-owner.ts'

/** Creates the reader of allowances. It has no key: a simulation needs only the facilitator's address. */
export function createAllowanceReader(client: PublicClient, estimateFees: FeeEstimator): AllowanceReader {
  return {
    readAllowance: async (owner) => {
      try {
        const [reading, code] = await Promise.all([readOwner(client, owner), readCode(client, owner)])
        return { outcome: 'read', ...reading, hasCode: code !== '0x' }
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
    simulatePermit: async (permit, facilitators) => {
      try {
        const fees = await estimateFees()
        const simulated = await simulatePermit(client, permit, facilitatorOf(permit.owner, facilitators), fees)
        if (simulated.outcome !== 'valid') return simulated
        return { outcome: 'valid', expectedGasWei: expectedGasFor(fees), reservedGasWei: reservedGasFor(fees) }
      } catch (cause) {
        return { outcome: 'unreachable', cause }
      }
    },
    digestOf: permitDigest,
    isSignedByOwner: (permit) => recoverSigner(permitDigest(permit), permit.signature) === permit.owner.toLowerCase(),
  }
}

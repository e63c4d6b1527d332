import type { PublicClient } from 'viem'
import type { AllowancePermit } from '../../payment/allowance-permit.ts'
import type { FeeEstimator } from '../settlement/fee-estimator.ts'
import { recoverSigner } from '../signing/secp256k1.ts'
import { readCode } from '../verification/payer-code.ts'
import { facilitatorOf } from './facilitator-of.ts'
import { expectedGasFor, permitDigest, reservedGasFor, simulatePermit } from './permit-call.ts'
import { type AllowanceReading, readOwner } from './read-owner.ts'

type ReadAllowance =
  | ({ readonly outcome: 'read' } & AllowanceReading)
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

export type PermitSimulation =
  /**
   * `expectedGasWei`: what its transaction costs at the fees of the moment, with a margin. `reservedGasWei`: the most that
   * it may cost, with room for higher fees while it is pending.
   */
  | { readonly outcome: 'valid'; readonly expectedGasWei: bigint; readonly reservedGasWei: bigint }
  /** `reason`: the contract's own words, for logs. */
  | { readonly outcome: 'refused'; readonly reason: string }
  | { readonly outcome: 'unreachable'; readonly cause: unknown }

/** Reads allowances and tries permits, without any key, so the API can use it. */
export interface AllowanceReader {
  /** Reads at one block: two concurrent RPC calls, of which the first reads everything but the account's code. */
  readAllowance(owner: `0x${string}`): Promise<ReadAllowance>
  /**
   * Simulates the permit with the gas limit and the fees of its transaction, as the call of the settlement key that
   * would send it.
   */
  simulatePermit(permit: AllowancePermit, facilitators: readonly `0x${string}`[]): Promise<PermitSimulation>
  /** Returns the EIP-712 hash that the owner signs; it identifies a permit. Computed locally. */
  digestOf(permit: Omit<AllowancePermit, 'signature'>): `0x${string}`
  /** Returns whether the owner's key signed the permit for its nonce. Computed locally. */
  isSignedByOwner(permit: AllowancePermit): boolean
}

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

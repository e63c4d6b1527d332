import type { AllowanceRequestStore, AllowanceWorkStore } from '#shared/jobs/allowance-store.ts'
import type { Pool } from '../pool.ts'
import { claimAllowances, readSignedPermit, releaseAllowance, renewAllowance } from './claim-allowances.ts'
import { findUnfinalAllowanceBlocks, markAllowancesFinal, reopenAllowances } from './finality.ts'
import { confirmAllowance, failAllowance, requestAgain } from './finish-allowance.ts'
import { findLatestSponsored, findSponsoredPermit, readAllowanceOutcomes } from './read-allowances.ts'
import { recordPermit } from './record-permit.ts'
import { requestAllowance } from './request-allowance.ts'
import { findSponsoringRefusal } from './sponsoring-limits.ts'
import { hasPaid } from './sponsoring-shares.ts'

/** Creates the API's store of sponsored permits over one pool. */
export function createAllowanceRequestStore(pool: Pool, network: string): AllowanceRequestStore {
  return {
    requestAllowance: (permit, limits) => requestAllowance(pool, network, permit, limits),
    findSponsoringRefusal: (owner, limits) => findSponsoringRefusal(pool, { owner, digest: null }, limits),
    hasPaid: (owner) => hasPaid(pool, owner),
    findSponsoredPermit: (digest) => findSponsoredPermit(pool, digest),
    findLatestSponsored: (owner) => findLatestSponsored(pool, owner),
    readAllowanceOutcomes: (allowanceIds) => readAllowanceOutcomes(pool, allowanceIds),
  }
}

/** Creates the workers' store of sponsored permits over one pool. */
export function createAllowanceWorkStore(pool: Pool): AllowanceWorkStore {
  return {
    claimAllowances: (leaseMs, limit) => claimAllowances(pool, leaseMs, limit),
    renewAllowance: (claim, leaseMs) => renewAllowance(pool, claim, leaseMs),
    releaseAllowance: (claim, delayMs) => releaseAllowance(pool, claim, delayMs),
    recordPermit: (claim, signing) => recordPermit(pool, claim, signing),
    readSignedPermit: (allowanceId) => readSignedPermit(pool, allowanceId),
    confirmAllowance: (claim, at) => confirmAllowance(pool, claim, at),
    failAllowance: (claim, failure, mined) => failAllowance(pool, claim, failure, mined),
    requestAgain: (claim) => requestAgain(pool, claim),
    findUnfinalAllowanceBlocks: (finalizedNumber) => findUnfinalAllowanceBlocks(pool, finalizedNumber),
    markAllowancesFinal: (blockHashes) => markAllowancesFinal(pool, blockHashes),
    reopenAllowances: (blockHashes) => reopenAllowances(pool, blockHashes),
  }
}

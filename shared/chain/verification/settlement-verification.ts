import { LRUCache } from 'lru-cache'
import type { Hex, PublicClient } from 'viem'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { Verification } from '#shared/payment/facilitator.ts'
import { isAbandoned } from '../network/rpc-failure.ts'
import { judgeWallet } from './judge-wallet.ts'
import {
  type AccountCode,
  NOT_DEPLOYED,
  type PayerCodeCheck,
  type PayerCodePolicy,
  readAccountCode,
  type SignedQuestion,
} from './payer-code.ts'
import { type Simulation, simulateSettlement } from './settlement-call.ts'
import { createSharedSimulation } from './shared-simulation.ts'
import {
  type PaymentSimulation,
  type SimulatedPayment,
  type SimulatedTransaction,
  simulateMany,
} from './simulate-many.ts'
import { judgeSimulation, type ReadFees, verifySettlement } from './verify-settlement.ts'

/** Payers whose accounts had code when they were last simulated; the least recently seen are dropped first. */
const MAXIMUM_PAYERS_WITH_CODE = 10_000

export interface VerificationOptions {
  /** Applies the operator's policy for payers whose accounts have code; without it, only the simulation decides. */
  readonly policy?: PayerCodePolicy
  /** What the payer signed, as the policy judges it. */
  readonly signed?: SignedQuestion
  /** Whether it was verified before: then a simulation among others finds out whose code is asked, not the signature. */
  readonly isAccepted?: boolean
  /** The settlement key that will send the transaction: code of a payer could recognize a simulation by its absence. */
  readonly sender?: Hex
}

/** Verifies payments by simulating their settlement. One instance a process, so that concurrent payments share calls. */
export interface SettlementVerification {
  /**
   * Checks whether `amount` could be settled now. A payment that names the settlement contract shares one RPC call with
   * those that arrive at the same time; for any other it takes one, with a permit two and with a policy one more. A
   * payer with code takes two, and one more for code that is new here. A refusal takes one to five more. Never rejects.
   */
  verify(authorization: Authorization, amount: AtomicAmount, options?: VerificationOptions): Promise<Verification>
}

export interface SettlementVerificationOptions {
  /** The settlement contract, through which payments that name it are simulated together. */
  readonly contract?: Hex | null | undefined
  /** A settlement key that the contract lists, where one is known: see `VerificationOptions.sender`. */
  readonly sender?: Hex | null | undefined
  /** The fees of our own settlements; `null` for those of a remote facilitator. */
  readonly readFees: ReadFees | null
}

/** Creates the verification of payments that name `contract`, together, and of all others, each by itself. */
export function createSettlementVerification(
  client: PublicClient,
  { contract = null, sender = null, readFees }: SettlementVerificationOptions,
): SettlementVerification {
  const together = contract === null ? null : verifyTogether(client, { contract, sender, readFees })
  return {
    verify: async (authorization, amount, options = {}) => {
      if (together && authorization.facilitator === contract) return await together({ authorization, amount }, options)
      const [verification, code] = await Promise.all([
        verifySettlement(client, authorization, amount, readFees),
        checkCode(options),
      ])
      return judgeWallet(verification, code, options.signed)
    },
  }
}

type VerifyContractPayment = (payment: SimulatedPayment, options: VerificationOptions) => Promise<Verification>

/** A simulation, with the payer's code at that moment. */
interface Simulated {
  readonly simulation: Simulation
  readonly code: AccountCode
}

/**
 * Creates the verification of payments that name the contract. Only contracts that everybody uses decide about a payer
 * without code, so those are simulated together. A payer with code is simulated alone, by the key and at the fees
 * of the transaction, which the code can see. A shared call that fails counts for nobody: each of its payments is
 * simulated by itself, without the contract's help.
 */
function verifyTogether(
  client: PublicClient,
  {
    contract,
    sender = null,
    readFees,
  }: SettlementVerificationOptions & {
    readonly contract: Hex
  },
): VerifyContractPayment {
  const anybody: SimulatedTransaction = { from: sender ?? contract, fees: null }
  const simulateShared = createSharedSimulation((payments) => simulateMany(client, contract, payments, anybody))
  const payersWithCode = new LRUCache<Hex, true>({ max: MAXIMUM_PAYERS_WITH_CODE })
  const remember = ({ payer }: Authorization, { size }: AccountCode) => {
    if (size > 0n) payersWithCode.set(payer, true)
    else payersWithCode.delete(payer)
  }

  const simulateAmongOthers = async (payment: SimulatedPayment): Promise<Simulated> => {
    const shared = await simulateShared(payment)
    const simulated = shared ? read(shared) : await simulateWithoutContract(client, payment)
    remember(payment.authorization, simulated.code)
    return simulated
  }
  const simulateAlone = async (payment: SimulatedPayment, terms: SimulatedTransaction): Promise<Simulated> => {
    const [only] = await simulateMany(client, contract, [payment], terms)
    if (!only) throw new Error('the settlement contract simulated nothing')
    const simulated = read(only)
    remember(payment.authorization, simulated.code)
    return simulated
  }
  /** Of a payer whose simulation did not end: with code it may be theirs. */
  const explain = async ({ authorization }: SimulatedPayment, cause: unknown) => {
    const code = isAbandoned(cause) ? await readAccountCode(client, authorization.payer).catch(() => null) : null
    if (code) remember(authorization, code)
    return { simulation: unreachable(cause), code }
  }
  /** Without a key, which pays the fees of the transaction, the node would refuse a simulation with fees. */
  const readTerms = async (key: Hex | null): Promise<SimulatedTransaction> =>
    key === null ? anybody : { from: key, fees: readFees && (await readFees()) }

  const verifyWithCode = async (payment: SimulatedPayment, options: VerificationOptions): Promise<Verification> => {
    const terms = await readTerms(options.sender ?? sender).catch((cause: unknown) => unreachable(cause))
    // The payer's code is not the reason.
    if ('outcome' in terms) return terms
    const simulate = () => simulateAlone(payment, terms).catch(failedToSimulate)
    const first = simulate()
    const checked = checkCode(
      options,
      first.then(({ code }) => code),
    )
    const { simulation, code } = await first
    if (isMadeUp(code, options)) return NOT_DEPLOYED
    const again = async () => (await simulate()).simulation
    return judgeWallet(await judge(client, payment, simulation, again), await checked, options.signed)
  }
  const simulateAgain = async (payment: SimulatedPayment): Promise<Simulation> => {
    const { simulation, code } = await simulateAlone(payment, anybody).catch(failedToSimulate)
    // Meanwhile the account has code, which no policy has judged.
    return code === null || code.size === 0n ? simulation : REVERTS
  }
  return async (payment, options) => {
    const { payer } = payment.authorization
    const isUnproven = options.isAccepted !== true && options.signed?.signedBy === 'ask_chain'
    if (isUnproven || payersWithCode.has(payer)) return await verifyWithCode(payment, options)
    const { simulation, code } = await simulateAmongOthers(payment).catch((cause: unknown) => explain(payment, cause))
    const hasCode = code !== null && code.size > 0n
    const own = hasCode ? ((await options.policy?.judge(payer, code)) ?? ALLOWED) : ALLOWED
    if (hasCode && own.outcome === 'allowed' && simulation.outcome !== 'unreachable')
      return await verifyWithCode(payment, options)
    const verification = await judge(client, payment, simulation, () => simulateAgain(payment))
    // Without code a simulation succeeds by the key's signature alone.
    if (verification.outcome === 'refused' && isMadeUp(code, options)) return NOT_DEPLOYED
    return judgeWallet(verification, own, options.signed)
  }
}

/** Whoever made the signature up: there is nothing else to find out. */
function isMadeUp(code: AccountCode | null, { signed }: VerificationOptions): boolean {
  return code?.size === 0n && signed?.signedBy === 'ask_chain'
}

function checkCode(
  { policy, signed }: VerificationOptions,
  seen?: Promise<AccountCode | null>,
): Promise<PayerCodeCheck> {
  return policy && signed ? policy.check(signed, seen) : Promise.resolve(ALLOWED)
}

function judge(
  client: PublicClient,
  { authorization, amount }: SimulatedPayment,
  first: Simulation,
  again: () => Promise<Simulation>,
): Promise<Verification> {
  return judgeSimulation(client, authorization, amount, { first, again })
}

const REVERTS: Simulation = { outcome: 'reverts' }
const ALLOWED: PayerCodeCheck = { outcome: 'allowed' }

function unreachable(cause: unknown): { outcome: 'unreachable'; cause: unknown } {
  return { outcome: 'unreachable', cause }
}

function failedToSimulate(cause: unknown): { simulation: Simulation; code: null } {
  return { simulation: unreachable(cause), code: null }
}

/** Prefers to succeed without the permit: submitting it would replace a lasting approval with this payment's maximum. */
function read({ succeeds, succeedsWithPermit, code }: PaymentSimulation): Simulated {
  const simulation: Simulation =
    succeeds || succeedsWithPermit ? { outcome: 'succeeds', needsPermit: !succeeds } : { outcome: 'reverts' }
  return { simulation, code }
}

/** Simulates as the contract's own call of the proxy. Rejects when the payer's code cannot be read. */
async function simulateWithoutContract(
  client: PublicClient,
  { authorization, amount }: SimulatedPayment,
): Promise<Simulated> {
  const [simulation, code] = await Promise.all([
    simulateSettlement(client, authorization, amount, null),
    readAccountCode(client, authorization.payer),
  ])
  return { simulation, code }
}

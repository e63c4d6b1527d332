import { LRUCache } from 'lru-cache'
import { type Hex, keccak256, type PublicClient } from 'viem'
import type { SignedBy } from '#shared/payment/facilitator.ts'
import { KNOWN_CODE, KNOWN_PROXIES, nameOfCode } from '#shared/payment/known-wallets.ts'
import { type SignatureQuestion, type SignatureTrace, traceSignature } from './signature-trace.ts'

type Refused = {
  outcome: 'refused'
  /** `payer_not_deployed`: there is no code that could take a signature that no key made. */
  code: 'payer_has_code' | 'payer_not_deployed'
  detail?: string
  /** Whether it is refused only because the payment's simulation succeeds. */
  isContradiction?: true
}

/**
 * Whether the account of a payer may pay. Permit2 lets an account with code validate signatures itself, with a result that
 * may change at any time, so such a payment proves nothing unless all code that decides is known.
 */
export type PayerCodeCheck =
  | { outcome: 'allowed' }
  | Refused
  | { outcome: 'unreachable'; cause: unknown; detail?: string }

/** The code of an account, as far as a policy needs it. */
export interface AccountCode {
  /** In bytes; 0 for an account without code. */
  readonly size: bigint
  /** The first 23 bytes, which are a whole delegation (EIP-7702), filled up with zeros. */
  readonly prefix: Hex
}

/** A payment as its payer signed it. */
export interface SignedQuestion extends SignatureQuestion {
  readonly signedBy: SignedBy
}

/** Applies the operator's policy for accounts with code. */
export interface PayerCodePolicy {
  /** Whether any account with code may pay. */
  readonly allowsCode: boolean
  /** Judges an account's own code, which was read already: at most one RPC call for a contract that is new here. */
  judge(payer: Hex, code: AccountCode): Promise<PayerCodeCheck>
  /**
   * Judges all that runs when the account checks the signature: one RPC call, at the latest block, and one more for code
   * that was not `seen`. The answer may be different in the next block only if the account's owner changes it.
   */
  check(signed: SignedQuestion, seen?: Promise<AccountCode | null>): Promise<PayerCodeCheck>
}

/** The code of an account that delegates to a contract (EIP-7702): this prefix and the address of the contract. */
const DELEGATION = /^0xef0100([0-9a-f]{40})$/i
const DELEGATION_BYTES = 23

/** What a transaction costs that does nothing. Of a trace's gas it is not the check's. */
const GAS_OF_TRANSACTION = 21_000n
/**
 * The gas that a signature check may use, its calldata included, which every settlement pays for: 60,000 more than that of
 * a key. Five owners of a Safe use 54,000 to 59,000.
 */
const MAXIMUM_CHECK_GAS = 64_000n

/** Contracts whose code has been read. It never changes. */
const MAXIMUM_CONTRACTS = 10_000
/** Above all precompiles: RIP-7212 has 0x100. */
const PRECOMPILES_END = 0x200n

const PROXY_HASHES: ReadonlySet<string> = new Set(KNOWN_PROXIES.map(({ codeHash }) => codeHash))

/**
 * Creates the policy that accounts without code may pay, and those whose signatures are checked only by known code: that of
 * known wallets, and of the contracts of `added` (in lower case). With `null`, the default, no account with code may pay.
 */
export function createPayerCodePolicy(client: PublicClient, added: readonly Hex[] | null = null): PayerCodePolicy {
  const known: ReadonlySet<Hex> = new Set(added === null ? [] : [...KNOWN_CODE.map(({ address }) => address), ...added])
  const contracts = new LRUCache<Hex, AccountCode & { readonly hash: Hex }>({ max: MAXIMUM_CONTRACTS })
  const read = async (payer: Hex): Promise<AccountCode> => {
    const code = await readCode(client, payer)
    const account = accountCodeOf(code)
    if (account.size > 0n && delegateOf(account) === null) contracts.set(payer, { ...account, hash: keccak256(code) })
    return account
  }
  const hashOf = async (payer: Hex, { size, prefix }: AccountCode): Promise<Hex | null> => {
    const isRead = (contract = contracts.get(payer)) => contract?.size === size && contract.prefix === prefix
    if (!isRead()) await read(payer)
    return isRead() ? (contracts.get(payer)?.hash ?? null) : null
  }
  const judgeOwn = async (payer: Hex, code: AccountCode): Promise<PayerCodeCheck> => {
    if (code.size === 0n) return ALLOWED
    const delegate = delegateOf(code)
    if (delegate !== null) return known.has(delegate) ? ALLOWED : refusedDelegate(delegate)
    const isKnown = added !== null && PROXY_HASHES.has((await hashOf(payer, code)) ?? '')
    return isKnown ? ALLOWED : refusedContract(payer)
  }
  /** Rejects when the chain cannot be read. */
  const check = async (signed: SignedQuestion, seen?: Promise<AccountCode | null>): Promise<PayerCodeCheck> => {
    const { payer, signedBy } = signed
    const trace = () => settled(traceSignature(client, signed))
    // Nearly all accounts that sign with a key have no code, and cost no trace.
    const early = signedBy === 'key' && seen === undefined ? null : trace()
    const code = (await seen) ?? contracts.get(payer) ?? (await read(payer))
    if (code.size === 0n) return signedBy === 'key' ? ALLOWED : NOT_DEPLOYED
    const own = await judgeOwn(payer, code)
    return own.outcome === 'allowed' ? judgeTrace(await (early ?? trace()), known) : own
  }
  return {
    allowsCode: added !== null,
    judge: (payer, code) => orUnreachable(judgeOwn(payer, code)),
    check: (signed, seen) => orUnreachable(check(signed, seen)),
  }
}

const ALLOWED: PayerCodeCheck = { outcome: 'allowed' }

/** Of an account that has neither signed nor any code that could have. */
export const NOT_DEPLOYED: Refused = { outcome: 'refused', code: 'payer_not_deployed' }

function orUnreachable(judged: Promise<PayerCodeCheck>): Promise<PayerCodeCheck> {
  return judged.catch((cause: unknown) => ({ outcome: 'unreachable', cause }))
}

type Traced = { trace: SignatureTrace } | { cause: unknown }

/** A trace that fails is judged when its answer is needed. */
function settled(trace: Promise<SignatureTrace>): Promise<Traced> {
  return trace.then(
    (value) => ({ trace: value }),
    (cause: unknown) => ({ cause }),
  )
}

/** Judges what ran although the payment's simulation succeeds. */
function judgeTrace(traced: Traced, known: ReadonlySet<Hex>): PayerCodeCheck {
  if ('cause' in traced) return { outcome: 'unreachable', cause: traced.cause, detail: CANNOT_TRACE }
  const { accounts, gasUsed, reverted } = traced.trace
  const unknown = accounts.find((account) => BigInt(account) >= PRECOMPILES_END && !known.has(account))
  if (unknown !== undefined) return refused(`Its signature check asks ${nameOfCode(unknown)}, ${NOT_KNOWN}`)
  if (reverted)
    return { ...refused('Its signature check does not always give the same answer.'), isContradiction: true }
  const checkGas = gasUsed - GAS_OF_TRANSACTION
  if (checkGas > MAXIMUM_CHECK_GAS)
    return refused(
      `Its signature check uses ${checkGas} gas, and at most ${MAXIMUM_CHECK_GAS} are paid for. Use fewer signers.`,
    )
  return ALLOWED
}

const NOT_KNOWN = 'which is not known to this service'
const CANNOT_TRACE =
  'It cannot be checked now which code decides about the signature of this contract wallet, so the payment was neither used nor charged: no money moved. Repeat the same request with the same payment later, or pay from an account without code.'

function refusedDelegate(delegate: Hex): Refused {
  return refused(
    `It runs the code of ${nameOfCode(delegate)} (EIP-7702), ${NOT_KNOWN}. Pay from an account without code, or one that delegates to a known wallet.`,
  )
}

function refusedContract(payer: Hex): Refused {
  return refused(
    `It runs code of its own (${payer}), ${NOT_KNOWN}. Pay from an account without code, or a known wallet.`,
  )
}

function refused(reason: string): Refused {
  return { outcome: 'refused', code: 'payer_has_code', detail: `The payer’s account may not pay. ${reason}` }
}

/** Returns the contract that an account delegates to, in lower case, or `null`. */
export function delegateOf({ size, prefix }: AccountCode): Hex | null {
  const digits = size === BigInt(DELEGATION_BYTES) ? DELEGATION.exec(prefix)?.[1] : undefined
  return digits === undefined ? null : `0x${digits.toLowerCase()}`
}

function accountCodeOf(code: Hex): AccountCode {
  const prefix = code
    .slice(0, 2 + DELEGATION_BYTES * 2)
    .toLowerCase()
    .padEnd(2 + DELEGATION_BYTES * 2, '0')
  return { size: BigInt((code.length - 2) / 2), prefix: prefix as Hex }
}

/** Reads the code of an account at the latest block. Throws for an answer that is not code. */
export async function readAccountCode(client: PublicClient, address: Hex): Promise<AccountCode> {
  return accountCodeOf(await readCode(client, address))
}

/** Reads an account's code at the latest block. Throws for an answer that is not code. */
export async function readCode(client: PublicClient, address: Hex): Promise<Hex> {
  const code: unknown = await client.request({ method: 'eth_getCode', params: [address, 'latest'] })
  if (typeof code !== 'string' || !/^0x[0-9a-f]*$/i.test(code)) throw new Error('the RPC returned no code')
  return code as Hex
}

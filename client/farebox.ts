import pLimit from 'p-limit'
import { type Approval, type ApproveOptions, approve } from './allowance/approve.ts'
import { createCover } from './allowance/cover.ts'
import { type AllowanceState, allowanceState, askAllowance } from './allowance/read-allowance.ts'
import { type Balance, readBalance } from './allowance/read-balance.ts'
import { Budget, type BudgetLeft } from './budget/budget.ts'
import type { BudgetLimits } from './budget/limits.ts'
import type { FareboxContext } from './context.ts'
import type { DoctorCheck, DoctorOptions } from './doctor/doctor-check.ts'
import { examineAll } from './doctor/doctor.ts'
import { homeDirectory } from './journal/home-directory.ts'
import { createMemoryJournal } from './journal/journal.ts'
import { openTidyJournal } from './journal/open-journal.ts'
import { askQuote, type QuoteRequest } from './payment/ask-quote.ts'
import type { Terms } from './payment/check-challenge.ts'
import { type KnownCall, knownCall, nameCall } from './payment/known-call.ts'
import type { JsonOperation, Requests, Results, TranscriptionRequest } from './payment/operations.ts'
import type { PaidCall, Payment, PaymentContext } from './payment/paid-call.ts'
import { payCall } from './payment/pay-call.ts'
import { createPayingFetch } from './payment/paying-fetch.ts'
import { openPins } from './payment/pins.ts'
import { type CallOptions, prepareJsonCall, prepareTranscription } from './payment/prepare-call.ts'
import { createPaymentSigner } from './payment/sign-payment.ts'
import type { ReceiptContext } from './receipts/check-receipt.ts'
import { listReceipts } from './receipts/list-receipts.ts'
import { PaymentVerifier, type VerificationTime } from './receipts/payment-verifier.ts'
import type { ReceiptVerification, VerifyOptions } from './receipts/receipt-check.ts'
import { type ReceiptRecord, ReceiptStore, type ReceiptsQuery } from './receipts/receipt-store.ts'
import { SigningKeys } from './receipts/signing-keys.ts'
import { addUpSpend, type Spend, type SpendQuery } from './receipts/spend.ts'
import { verifyReceipt } from './receipts/verify-receipt.ts'
import { type KeySecret, readKeySecret } from './wallet/key-secret.ts'
import { type ChainNode, openNode } from './wallet/node-client.ts'
import { walletFromAccount } from './wallet/wallet-from-private-key.ts'
import type { SigningAccount, Wallet } from './wallet/wallet.ts'
import { requireSafeUrl } from './wire/safe-url.ts'
import type { Quote, Receipt } from './wire/schemas.ts'

export { ApprovalRefused } from './allowance/approval-refused.ts'
export type { Approval, ApproveOptions } from './allowance/approve.ts'
export type { AllowanceState } from './allowance/read-allowance.ts'
export type { Balance } from './allowance/read-balance.ts'
export type { BudgetLeft } from './budget/budget.ts'
export { BudgetExceeded, type LimitName } from './budget/budget-exceeded.ts'
export type { BudgetAmounts, BudgetLimits, RefusedLimit } from './budget/limits.ts'
export { formatUsdc, parseUsdc } from './budget/usdc.ts'
export type { DoctorCheck, DoctorOptions } from './doctor/doctor-check.ts'
export type { QuoteRequest } from './payment/ask-quote.ts'
export { deriveCallKey } from './payment/call-key.ts'
export { ChallengeRefused, type Difference, type Terms } from './payment/check-challenge.ts'
export type { KnownCall } from './payment/known-call.ts'
export type { AudioClaim, TranscriptionRequest } from './payment/operations.ts'
export type { Payment } from './payment/paid-call.ts'
export type { CallOptions } from './payment/prepare-call.ts'
export type { VerificationTime } from './receipts/payment-verifier.ts'
export type { ReceiptCheck, ReceiptVerification, VerifyOptions } from './receipts/receipt-check.ts'
export type { ReceiptRecord, ReceiptsQuery } from './receipts/receipt-store.ts'
export type { Spend, SpendQuery, SpendRow } from './receipts/spend.ts'
export type { KeySecret } from './wallet/key-secret.ts'
export type { SigningAccount, Wallet } from './wallet/wallet.ts'
export { walletFromEnvironment, walletFromKeyFile } from './wallet/wallet-from-environment.ts'
export { walletFromAccount, walletFromPrivateKey } from './wallet/wallet-from-private-key.ts'
export { FareboxError, type MoneyState } from './wire/farebox-error.ts'
export type * as Wire from './wire/schemas.ts'
export { ServiceError } from './wire/service-error.ts'

export interface FareboxOptions {
  /** A wallet of this package or a viem account that signs. */
  readonly wallet: Wallet | SigningAccount
  readonly baseUrl: string
  /**
   * A call may cost 1 USDC unless `call` says otherwise; session and day are unlimited unless they are set. A function is
   * called before each payment, for limits that may change; what it throws refuses the payment.
   */
  readonly budget?: BudgetLimits | (() => BudgetLimits)
  /** A directory, or `memory`; FAREBOX_HOME or the system's place for application data by default. */
  readonly journal?: string
  /** A node of the chain: finds transfers, and tells before a payment is signed whether it needs a permit. */
  readonly rpcUrl?: string | undefined
  /** Payment terms to insist on; others are stored at the first use of the service. Base and USDC by default. */
  readonly terms?: Partial<Terms>
  /**
   * Whether calls under way may approve Permit2 once, up to the limits of session and day, when the allowance is too small
   * for them: by a permit that they bring, or that the service submits; true by default. Otherwise, and where the service does not pay for it, each payment brings a permit of its
   * own maximum, and they settle one after the other.
   */
  readonly approves?: boolean | undefined
  /** Called when calls under way have approved Permit2, or bring the permit for it. */
  readonly onApproved?: ((approval: Approval) => void) | undefined
  readonly fetch?: typeof globalThis.fetch
  /**
   * When receipts are fetched and verified: before a call returns (the default), `later` in the background until `close`,
   * or `never`. A receipt that fails is reported, and the result is returned all the same.
   */
  readonly verify?: VerificationTime | undefined
  /** Called with each payment whose receipt was verified. */
  readonly onVerified?: ((payment: Payment) => void) | undefined
}

/** The result of a paid call and what was paid for it. */
export interface Answer<Result> {
  readonly result: Result
  readonly payment: Payment
}

/** Pays for calls of one service from one wallet. */
export interface Farebox {
  readonly chat: JsonCalls<'createChatCompletion'>
  readonly messages: JsonCalls<'createMessage'>
  readonly images: JsonCalls<'createImageGeneration'>
  readonly speech: JsonCalls<'createSpeech'>
  readonly transcriptions: {
    create(request: TranscriptionRequest, options?: CallOptions): Promise<Answer<Results['createTranscription']>>
  }
  /** Returns the maximum price of a request. */
  quote(request: QuoteRequest): Promise<Quote>
  /** Takes the place of `fetch` in an SDK. */
  readonly fetch: typeof globalThis.fetch
  /** Returns what the journal knows of the call with an idempotency key, whichever process made it. */
  knownCall(requestId: string): KnownCall | null
  /** Writes down what an idempotency key stands for, where it is not that of a payment itself. */
  nameCall(requestId: string, identity: string, purpose: string): void
  /** Returns what is left of the budget, for the calls of a group if one is named. */
  budgetLeft(group?: string): BudgetLeft
  /** Throws `BudgetExceeded` unless a payment would fit into the budget at present. Reserves nothing. */
  requireBudget(call: BudgetedCall): void
  /** Returns what Permit2 may take, and whether the service would store a permit. Signs nothing. */
  allowance(): Promise<AllowanceState>
  /**
   * Lets Permit2 take USDC for payments that the wallet signs, so that calls run in parallel: one signature, no gas.
   * Does nothing when it may already.
   */
  approve(options?: ApproveOptions): Promise<Approval>
  /** Returns what the wallet holds, from the RPC URL if there is one, otherwise from the service. */
  balance(): Promise<Balance>
  /** Lists what was paid by this machine's journal, newest first. */
  receipts(query?: ReceiptsQuery): readonly ReceiptRecord[]
  /** Adds up what was paid by this machine's journal. */
  spend(query?: SpendQuery): Spend
  /** Checks a receipt: its id, the path of a saved one, or the document. */
  verify(receipt: string | Receipt, options?: VerifyOptions): Promise<ReceiptVerification>
  /** Checks everything that a payment needs, without paying. */
  doctor(options?: DoctorOptions): Promise<readonly DoctorCheck[]>
  /** Returns the secret for `deriveCallKey`: the same on every machine with this wallet, if its signatures allow it. */
  keySecret(): Promise<KeySecret>
  /** The wallet's address, in lower case. */
  readonly address: string
  readonly baseUrl: string
  /** Where the journal is; `null` when it is kept in memory. */
  readonly home: string | null
  /** Writes the journal to the end. */
  close(): Promise<void>
}

/** A call before it is made. */
export interface BudgetedCall {
  readonly requestId: string
  /** In atomic units. */
  readonly maximum: bigint
  /** As in `CallOptions`. */
  readonly group?: string | undefined
}

interface JsonCalls<Name extends JsonOperation> {
  create(request: Requests[Name], options?: CallOptions): Promise<Answer<Results[Name]>>
}

/** In USDC, as in the official x402 clients. */
const DEFAULT_CALL_LIMIT = '1'
/** USDC on Base. */
const PUBLISHED_TERMS = { network: 'eip155:8453', asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913' } as const

/** Opens the journal and returns the client of one service. */
export async function createFarebox(options: FareboxOptions): Promise<Farebox> {
  const context = await createContext(options)
  const { baseUrl, journal, wallet } = context
  const receipts = createReceiptContext(context)
  const verifier = new PaymentVerifier(receipts, options.verify ?? 'at_once', options.onVerified)
  const paying: PaymentContext = { ...context, verify: (paid, call) => verifier.after(paid, call) }
  const json = <Name extends JsonOperation>(operation: Name): JsonCalls<Name> => ({
    create: async (request, callOptions = {}) =>
      await pay(paying, prepareJsonCall(baseUrl, operation, request, callOptions)),
  })
  return {
    chat: json('createChatCompletion'),
    messages: json('createMessage'),
    images: json('createImageGeneration'),
    speech: json('createSpeech'),
    transcriptions: {
      create: async (request, callOptions = {}) =>
        await pay(paying, await prepareTranscription(baseUrl, request, callOptions)),
    },
    quote: (request) => askQuote(context, baseUrl, request),
    fetch: createPayingFetch(paying, baseUrl),
    knownCall: (requestId) => knownCall(journal, requestId),
    nameCall: (requestId, identity, purpose) => nameCall(context, { requestId, identity, purpose }),
    budgetLeft: (group) => {
      // Other processes pay within the same day.
      journal.refresh()
      return context.budget.left(group)
    },
    requireBudget: ({ requestId, maximum, group }) => {
      journal.refresh()
      context.budget.requireBudget(requestId, maximum, group)
    },
    allowance: async () => allowanceState(await askAllowance(context)),
    approve: context.approve,
    balance: () => readBalance(context),
    receipts: (query) => listReceipts(context, query),
    spend: (query) => addUpSpend(context, query),
    verify: (receipt, verifyOptions) => verifyReceipt(receipts, receipt, verifyOptions),
    doctor: (doctorOptions) => examineAll(context, doctorOptions),
    keySecret: () => readKeySecret(wallet, journal.directory),
    address: context.payer,
    baseUrl,
    home: journal.directory,
    close: async () => {
      await verifier.settled()
      await journal.close()
    },
  }
}

async function createContext(options: FareboxOptions) {
  const { budget: limits = {}, rpcUrl, terms = {}, fetch = globalThis.fetch, approves = true, onApproved } = options
  requireSafeUrl(options.baseUrl)
  const wallet = 'keySecret' in options.wallet ? options.wallet : walletFromAccount(options.wallet)
  const { journal: place = homeDirectory() } = options
  const journal = place === 'memory' ? createMemoryJournal() : await openTidyJournal(place)
  const lowerCased = Object.entries({ ...PUBLISHED_TERMS, ...terms }).map(([name, value]) => [
    name,
    value.toLowerCase(),
  ])
  const parts = {
    payer: wallet.address.toLowerCase(),
    wallet,
    baseUrl: new URL(options.baseUrl).href,
    rpcUrl,
    journal,
    budget: new Budget(typeof limits === 'function' ? () => withDefaults(limits()) : withDefaults(limits), journal),
    pins: openPins(journal, Object.fromEntries(lowerCased) as Partial<Terms>),
    sign: createPaymentSigner(wallet),
    fetch,
    now: Date.now,
  }
  const approvals = pLimit(1)
  // One after the other: those that wait find the wallet approved.
  const approveOnce = (given?: ApproveOptions) => approvals(() => approve(parts, given))
  const cover = createCover(parts, { approves, onApproved })
  return { ...parts, cover, approve: approveOnce } satisfies FareboxContext & Pick<Farebox, 'approve'>
}

function withDefaults(budget: BudgetLimits): BudgetLimits {
  return { ...budget, call: budget.call ?? DEFAULT_CALL_LIMIT }
}

function createReceiptContext(context: FareboxContext): ReceiptContext {
  const { rpcUrl, baseUrl, journal } = context
  let node: Promise<ChainNode> | undefined
  return {
    ...context,
    keys: new SigningKeys(context, baseUrl),
    store: new ReceiptStore(journal.directory),
    node: async () => {
      if (rpcUrl === undefined) return null
      node ??= openNode(rpcUrl)
      return await node
    },
  }
}

async function pay<Result>(context: PaymentContext, call: PaidCall): Promise<Answer<Result>> {
  const { answer, payment } = await payCall(context, call)
  return { result: JSON.parse(new TextDecoder().decode(answer.body)) as Result, payment }
}

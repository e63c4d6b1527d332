import { Budget, type BudgetLeft, type BudgetLimits } from './budget/budget.ts'
import { homeDirectory } from './journal/home-directory.ts'
import type { Journal } from './journal/journal.ts'
import { createMemoryJournal } from './journal/memory-journal.ts'
import { openJournal } from './journal/open-journal.ts'
import { askQuote, type QuoteRequest } from './payment/ask-quote.ts'
import type { Terms } from './payment/check-challenge.ts'
import type { JsonOperation, Requests, Results, TranscriptionRequest } from './payment/operations.ts'
import type { PaidCall, Payment, PaymentContext } from './payment/paid-call.ts'
import { payCall } from './payment/pay-call.ts'
import { createPayingFetch } from './payment/paying-fetch.ts'
import { openPins } from './payment/pins.ts'
import { type CallOptions, prepareJsonCall, prepareTranscription } from './payment/prepare-call.ts'
import { createPaymentSigner } from './payment/sign-payment.ts'
import type { SigningAccount, Wallet } from './wallet/wallet.ts'
import { walletFromAccount } from './wallet/wallet-from-account.ts'
import { FareboxError } from './wire/farebox-error.ts'
import type { Quote } from './wire/schemas.ts'

export type { BudgetLeft, BudgetLimits } from './budget/budget.ts'
export { BudgetExceeded, type LimitName } from './budget/budget-exceeded.ts'
export { formatUsdc, parseUsdc } from './budget/usdc.ts'
export type { QuoteRequest } from './payment/ask-quote.ts'
export { deriveCallKey } from './payment/call-key.ts'
export { ChallengeRefused, type Difference, type Terms } from './payment/check-challenge.ts'
export type { AudioClaim, TranscriptionRequest } from './payment/operations.ts'
export type { Payment } from './payment/paid-call.ts'
export type { CallOptions } from './payment/prepare-call.ts'
export type { SigningAccount, Wallet } from './wallet/wallet.ts'
export { walletFromAccount } from './wallet/wallet-from-account.ts'
export { walletFromEnvironment, walletFromKeyFile } from './wallet/wallet-from-environment.ts'
export { walletFromPrivateKey } from './wallet/wallet-from-private-key.ts'
export { FareboxError, type MoneyState } from './wire/farebox-error.ts'
export type * as Wire from './wire/schemas.ts'
export { ServiceError } from './wire/service-error.ts'

export interface FareboxOptions {
  /** A wallet of this package or a viem account that signs. */
  readonly wallet: Wallet | SigningAccount
  readonly baseUrl: string
  readonly budget?: BudgetLimits
  /** A directory, or `memory`; FAREBOX_HOME or the system's place for application data by default. */
  readonly journal?: string
  /** Lets the client sign permits while Permit2 is not approved. */
  readonly rpcUrl?: string | undefined
  /** Payment terms to insist on; others are stored at the first use of the service. Base and USDC by default. */
  readonly terms?: Partial<Terms>
  readonly fetch?: typeof globalThis.fetch
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
  budgetLeft(): BudgetLeft
  /** Writes the journal to the end. */
  close(): Promise<void>
}

interface JsonCalls<Name extends JsonOperation> {
  create(request: Requests[Name], options?: CallOptions): Promise<Answer<Results[Name]>>
}

/** USDC on Base. */
const PUBLISHED_TERMS = { network: 'eip155:8453', asset: '0x833589fcd6edb6e08f4c7c32d4f71b54bda02913' } as const

/** Opens the journal and returns the client of one service. */
export async function createFarebox(options: FareboxOptions): Promise<Farebox> {
  const context = createContext(options)
  const baseUrl = new URL(options.baseUrl).href
  const json = <Name extends JsonOperation>(operation: Name): JsonCalls<Name> => ({
    create: (request, callOptions = {}) => pay(context, prepareJsonCall(baseUrl, operation, request, callOptions)),
  })
  return {
    chat: json('createChatCompletion'),
    messages: json('createMessage'),
    images: json('createImageGeneration'),
    speech: json('createSpeech'),
    transcriptions: {
      create: async (request, callOptions = {}) =>
        await pay(context, await prepareTranscription(baseUrl, request, callOptions)),
    },
    quote: (request) => askQuote(context.fetch, baseUrl, request),
    fetch: createPayingFetch(context, baseUrl),
    budgetLeft: () => context.budget.left(),
    close: () => context.journal.close(),
  }
}

function createContext(options: FareboxOptions): PaymentContext {
  const { budget = {}, rpcUrl, terms = {}, fetch = globalThis.fetch } = options
  requireSafeUrl(options.baseUrl)
  const wallet = 'keySecret' in options.wallet ? options.wallet : walletFromAccount(options.wallet)
  const journal = journalOf(options.journal)
  const lowerCased = Object.entries({ ...PUBLISHED_TERMS, ...terms }).map(([name, value]) => [
    name,
    value.toLowerCase(),
  ])
  return {
    payer: wallet.address.toLowerCase(),
    journal,
    budget: new Budget(budget, journal),
    pins: openPins(journal, Object.fromEntries(lowerCased) as Partial<Terms>),
    sign: createPaymentSigner(wallet, rpcUrl),
    fetch,
    now: Date.now,
  }
}

function journalOf(place: string | undefined): Journal {
  return place === 'memory' ? createMemoryJournal() : openJournal(place ?? homeDirectory())
}

/** Signatures and recordings must not travel in plain text, except to this machine. */
function requireSafeUrl(baseUrl: string): void {
  const { protocol, hostname } = URL.canParse(baseUrl) ? new URL(baseUrl) : { protocol: '', hostname: '' }
  const isLoopback = ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
  if (protocol === 'https:' || (protocol === 'http:' && isLoopback)) return
  throw new FareboxError({
    code: 'invalid_url',
    problem: `${JSON.stringify(baseUrl)} is not an https URL.`,
    money: 'none',
    advice: 'Set the URL of the service, such as https://farebox.example; http is allowed for this machine only.',
  })
}

async function pay<Result>(context: PaymentContext, call: PaidCall): Promise<Answer<Result>> {
  const { answer, payment } = await payCall(context, call)
  return { result: JSON.parse(new TextDecoder().decode(answer.body)) as Result, payment }
}

import { decodePaymentRequiredHeader } from '@x402/core/http'
import type { SIWxExtension } from '@x402/extensions/sign-in-with-x'
import type { FareboxContext } from '../context.ts'
import { askService, jsonOf } from '../wire/ask-service.ts'
import { FareboxError, uncharged } from '../wire/farebox-error.ts'
import type { HttpAnswer } from '../wire/http-answer.ts'
import { ServiceError } from '../wire/service-error.ts'

type AccountContext = Pick<FareboxContext, 'fetch' | 'now' | 'baseUrl' | 'pins' | 'wallet'>

/** A sign-in that was answered while the connection broke is used up; the second one is for that. */
const MOST_SIGN_INS = 2
/** After these, another challenge helps. */
const SIGN_IN_AGAIN: ReadonlySet<string> = new Set(['sign_in_required', 'sign_in_expired', 'sign_in_already_used'])

/**
 * Reads what the service knows of the wallet. The wallet signs in with the first request (x402 extension
 * `sign-in-with-x`), which is free; the session is kept in memory and lasts for ten minutes.
 */
export class AccountClient {
  readonly #context: AccountContext
  #session: string | null = null

  constructor(context: AccountContext) {
    this.#context = context
  }

  /** Reads one of the account's routes. Throws `FareboxError`. */
  async read<Result>(
    path: string,
    query: Readonly<Record<string, string | undefined>>,
    signal?: AbortSignal,
  ): Promise<Result> {
    const url = new URL(path, this.#context.baseUrl)
    for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value)
    let proof: string | null = null
    for (let signIns = 0; ; ) {
      try {
        const answer = await this.#ask(url.href, proof, signal)
        this.#session = answer.headers.get('x-account-session') ?? this.#session
        return jsonOf(answer, url.href) as Result
      } catch (error) {
        if (!(error instanceof ServiceError) || !SIGN_IN_AGAIN.has(error.code)) throw error
        const challenge = error.answer.headers.get('payment-required')
        if (challenge === null ? proof === null : signIns >= MOST_SIGN_INS) throw refused(error)
        this.#session = null
        signal?.throwIfAborted()
        // A sign-in that was refused without a challenge is followed by a request for one.
        proof = challenge === null ? null : await signIn(this.#context, challenge, url)
        if (proof !== null) signIns += 1
      }
    }
  }

  #ask(url: string, proof: string | null, signal: AbortSignal | undefined): Promise<HttpAnswer> {
    const headers: Record<string, string> = {
      ...(this.#session === null ? {} : { authorization: `Bearer ${this.#session}` }),
      ...(proof === null ? {} : { 'sign-in-with-x': proof }),
    }
    return askService(this.#context, url, { headers, signal })
  }
}

function refused(error: ServiceError): FareboxError {
  return new FareboxError({
    code: 'sign_in_failed',
    problem: `The service does not accept the sign-in of the wallet (${error.problem.replace(/\.$/, '')}).`,
    money: 'none',
    advice: 'Check this machine’s clock and the URL of the service.',
    requestId: error.requestId,
    cause: error,
  })
}

/**
 * Answers the sign-in challenge of a 402 and returns the header SIGN-IN-WITH-X. The challenge must be about the route that
 * was asked, on the pinned network: the signature of one service's challenge must not open another's account.
 */
async function signIn(
  { wallet, pins }: Pick<FareboxContext, 'wallet' | 'pins'>,
  challenge: string,
  url: URL,
): Promise<string> {
  try {
    const { createSIWxPayload, encodeSIWxHeader, SIGN_IN_WITH_X } = await import('@x402/extensions/sign-in-with-x')
    const { extensions = {} } = decodePaymentRequiredHeader(challenge)
    const extension = extensions[SIGN_IN_WITH_X] as SIWxExtension | undefined
    const { network } = pins.termsOf(url.origin)
    const chain = extension?.supportedChains.find(
      ({ chainId, type }) => type === 'eip191' && (network === undefined || chainId === network),
    )
    if (extension === undefined || chain === undefined) throw new Error(`it offers no sign-in on ${network ?? 'EVM'}`)
    const { info } = extension
    if (new URL(info.uri).pathname !== url.pathname) throw new Error(`it is for ${info.uri}`)
    const signer = {
      address: wallet.address,
      signMessage: ({ message }: { message: string }) => wallet.signMessage({ message }),
    }
    // Throws unless domain and origin are those of the request.
    return encodeSIWxHeader(await createSIWxPayload({ ...info, ...chain }, signer, url))
  } catch (cause) {
    throw uncharged(
      'sign_in_refused',
      `The sign-in that ${url.host} asks for was not signed: ${(cause as Error).message}.`,
      'Use the address under which the operator publishes the service.',
      cause,
    )
  }
}

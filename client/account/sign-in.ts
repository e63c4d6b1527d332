import { decodePaymentRequiredHeader } from '@x402/core/http'
import type { SIWxExtension } from '@x402/extensions/sign-in-with-x'
import type { FareboxContext } from '../context.ts'
import { FareboxError } from '../wire/farebox-error.ts'

/**
 * Answers the sign-in challenge of a 402 and returns the header SIGN-IN-WITH-X. The challenge must be about the route that
 * was asked, on the pinned network: the signature of one service's challenge must not open another's account.
 */
export async function signIn(
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
    throw new FareboxError({
      code: 'sign_in_refused',
      problem: `The sign-in that ${url.host} asks for was not signed: ${(cause as Error).message}.`,
      money: 'none',
      advice: 'Use the address under which the operator publishes the service.',
      cause,
    })
  }
}

import { decodePaymentRequiredHeader } from '@x402/core/http'
import {
  type CompleteSIWxInfo,
  createSIWxPayload,
  encodeSIWxHeader,
  SIGN_IN_WITH_X,
  type SIWxExtension,
  type SIWxPayload,
} from '@x402/extensions/sign-in-with-x'
import type { PrivateKeyAccount } from 'viem/accounts'

/** Reads the sign-in challenge of a 402, for the only chain that it offers. */
export function signInChallengeOf(answer: Response): CompleteSIWxInfo {
  const { accepts, extensions } = decodePaymentRequiredHeader(answer.headers.get('payment-required') ?? '')
  const extension = extensions?.[SIGN_IN_WITH_X] as SIWxExtension | undefined
  const [chain, ...others] = extension?.supportedChains ?? []
  if (answer.status !== 402 || accepts.length > 0 || !extension || !chain || others.length > 0)
    throw new Error('not a sign-in')
  return { ...extension.info, ...chain }
}

/** Fields to replace, or to leave out. */
type Changes<Fields> = { [Name in keyof Fields]?: Fields[Name] | undefined }

/** Signs a challenge as the extension's client does, with what a test changes before and after the signature. */
export async function signInHeader(
  challenge: CompleteSIWxInfo,
  account: PrivateKeyAccount,
  { before = {}, after = {} }: { before?: Changes<CompleteSIWxInfo>; after?: Changes<SIWxPayload> } = {},
): Promise<string> {
  const changed = { ...challenge, ...before } as CompleteSIWxInfo
  const payload = await createSIWxPayload(changed, account, new URL(changed.uri))
  return encodeSIWxHeader({ ...payload, ...after } as SIWxPayload)
}

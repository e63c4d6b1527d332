import type { PaymentPayload } from '@x402/core/types'
import { shortMessageOf } from '../wallet/node-client.ts'
import type { Wallet } from '../wallet/wallet.ts'
import { uncharged } from '../wire/farebox-error.ts'
import type { Challenge } from './challenge.ts'

/** A payment as it is sent. */
export interface SignedPayment {
  /** The value of PAYMENT-SIGNATURE. */
  readonly header: string
  readonly maximum: bigint
  /** Milliseconds; the payment cannot be settled later. */
  readonly deadline: number
}

/** A signed permit for more than one payment, as it is sent; the deadline is in Unix seconds. */
export type LastingPermit = Readonly<
  Record<'from' | 'asset' | 'spender' | 'amount' | 'nonce' | 'deadline' | 'signature' | 'version', string>
>

/** The permit that a payment brings: of exactly its own maximum, to be signed with this nonce, or one that lasts. */
export type Permit =
  | { readonly kind: 'own'; readonly nonce: bigint }
  | { readonly kind: 'lasting'; readonly permit: LastingPermit }

/** Signs a challenge with the official x402 client, and a permit of the payment's maximum where one is needed. */
export type PaymentSigner = (challenge: Challenge, permit: Permit | null) => Promise<SignedPayment>

export function createPaymentSigner(wallet: Wallet): PaymentSigner {
  return async (challenge, permit) => {
    try {
      return await sign(wallet, challenge, permit)
    } catch (error) {
      throw uncharged(
        'signing_failed',
        `The payment could not be signed (${shortMessageOf(error)}).`,
        'Check the wallet, then repeat the call.',
      )
    }
  }
}

async function sign(
  wallet: Wallet,
  { chosen, required, maximum, network }: Challenge,
  permit: Permit | null,
): Promise<SignedPayment> {
  // They take most of a second to load, which a run without payments saves.
  const [{ x402Client, x402HTTPClient }, { UptoEvmScheme }] = await Promise.all([
    import('@x402/core/client'),
    import('@x402/evm/upto/client'),
  ])
  const account = {
    address: wallet.address,
    signTypedData: (message: never) => wallet.signTypedData(message),
    // Where it can read, the official client signs a permit if the allowance is too small.
    ...(permit?.kind === 'own' && {
      readContract: async ({ functionName }: { readonly functionName: string }) =>
        functionName === 'nonces' ? permit.nonce : 0n,
    }),
  }
  const scheme = new UptoEvmScheme(account)
  // The budget and the pinned terms have decided already; the client's own limit of 1 USDC would refuse what they allow.
  const client = new x402Client().register(network as `${string}:${string}`, scheme).setSpendControls(false)
  const http = new x402HTTPClient(client)
  const payload = await http.createPaymentPayload({ ...required, accepts: [chosen] })
  const header = http.encodePaymentSignatureHeader(withLasting(payload, permit))['PAYMENT-SIGNATURE']
  if (header === undefined) throw new Error('the x402 client returned no payment header')
  return { header, maximum, deadline: deadlineOf(payload.payload) }
}

function deadlineOf(payload: Record<string, unknown>): number {
  const authorization = payload['permit2Authorization'] as { readonly deadline?: unknown } | undefined
  const seconds = Number(authorization?.deadline)
  if (!Number.isSafeInteger(seconds)) throw new Error('the signed payment has no deadline')
  return seconds * 1000
}

/** Returns the payload with a lasting permit where the official client puts its own. */
function withLasting(payload: PaymentPayload, permit: Permit | null): PaymentPayload {
  if (permit?.kind !== 'lasting') return payload
  const declared = payload.extensions?.['eip2612GasSponsoring'] as { readonly info?: object } | undefined
  const eip2612GasSponsoring = { ...declared, info: { ...declared?.info, ...permit.permit } }
  return { ...payload, extensions: { ...payload.extensions, eip2612GasSponsoring } }
}

import { x402Client, x402HTTPClient } from '@x402/core/client'
import { UptoEvmScheme } from '@x402/evm/upto/client'
import type { Wallet } from '../wallet/wallet.ts'
import { FareboxError } from '../wire/farebox-error.ts'
import type { Challenge } from './challenge.ts'

/** A payment as it is sent. */
export interface SignedPayment {
  /** The value of PAYMENT-SIGNATURE. */
  readonly header: string
  readonly maximum: bigint
  /** Milliseconds; the payment cannot be settled later. */
  readonly deadline: number
}

/** Signs challenges with the official x402 client. With an RPC URL it also signs a permit while Permit2 is not approved. */
export type PaymentSigner = (challenge: Challenge) => Promise<SignedPayment>

export function createPaymentSigner(wallet: Wallet, rpcUrl: string | undefined): PaymentSigner {
  const account = { address: wallet.address, signTypedData: (message: never) => wallet.signTypedData(message) }
  return async ({ chosen, required, maximum, network }) => {
    try {
      const scheme = new UptoEvmScheme(account, rpcUrl === undefined ? undefined : { rpcUrl })
      const client = new x402Client().register(network as `${string}:${string}`, scheme)
      const http = new x402HTTPClient(client)
      const payload = await http.createPaymentPayload({ ...required, accepts: [chosen] })
      const header = http.encodePaymentSignatureHeader(payload)['PAYMENT-SIGNATURE']
      if (header === undefined) throw new Error('the x402 client returned no payment header')
      return { header, maximum, deadline: deadlineOf(payload.payload) }
    } catch (cause) {
      throw new FareboxError({
        code: 'signing_failed',
        problem: `The payment could not be signed (${cause instanceof Error ? cause.message : String(cause)}).`,
        money: 'none',
        advice: 'Check the wallet and the RPC URL, then repeat the call.',
        cause,
      })
    }
  }
}

function deadlineOf(payload: Record<string, unknown>): number {
  const authorization = payload['permit2Authorization'] as { readonly deadline?: unknown } | undefined
  const seconds = Number(authorization?.deadline)
  if (!Number.isSafeInteger(seconds)) throw new Error('the signed payment has no deadline')
  return seconds * 1000
}

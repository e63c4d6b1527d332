import type { PaymentPayload, PaymentRequirements } from '@x402/core/types'
import type { AtomicAmount } from '#shared/money/atomic-amount.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import { SIGNING_TERMS } from '#shared/payment/payment-terms.ts'

/** Required by the message format. Facilitators check the signed deadline instead. */
const MAX_TIMEOUT_SECONDS = 300

/**
 * Returns the x402 requirements of an authorization. x402's `amount` is the signed maximum at verification and the
 * charge at settlement.
 */
export function paymentRequirements(authorization: Authorization, amount: AtomicAmount): PaymentRequirements {
  const { network, asset, payTo, facilitator } = authorization
  return {
    scheme: 'upto',
    network: network as PaymentRequirements['network'],
    asset,
    amount: amount.toString(),
    payTo,
    maxTimeoutSeconds: MAX_TIMEOUT_SECONDS,
    extra: { ...SIGNING_TERMS, facilitatorAddress: facilitator },
  }
}

/** Rebuilds the payment as its payer signed it from the stored authorization. */
export function paymentPayload(authorization: Authorization): PaymentPayload {
  const { gasSponsoring: permit } = authorization
  return {
    x402Version: 2,
    accepted: paymentRequirements(authorization, authorization.authorizedMaximum),
    payload: {
      signature: authorization.signature,
      permit2Authorization: {
        from: authorization.payer,
        permitted: { token: authorization.asset, amount: authorization.authorizedMaximum.toString() },
        spender: authorization.spender,
        nonce: authorization.nonce.toString(),
        deadline: authorization.deadline.toString(),
        witness: {
          to: authorization.payTo,
          facilitator: authorization.facilitator,
          validAfter: authorization.validAfter.toString(),
        },
      },
    },
    ...(permit && {
      extensions: {
        eip2612GasSponsoring: {
          info: {
            from: permit.from,
            asset: permit.asset,
            spender: permit.spender,
            amount: permit.amount.toString(),
            nonce: permit.nonce.toString(),
            deadline: permit.deadline.toString(),
            signature: permit.signature,
            version: permit.version,
          },
        },
      },
    }),
  }
}

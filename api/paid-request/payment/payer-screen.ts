import { AppError } from '#shared/errors/app-error.ts'

/** Decides who may pay: the operator's blocks, and the lists that the operator screens by. */
export interface PayerScreen {
  /** Returns whether payments of an address in lower case are refused. Throws when a list cannot be read. */
  isRefused(payer: string): Promise<boolean>
}

/** Throws `payer_blocked`, and `payment_network_unavailable` while a list on chain cannot be read. */
export async function requirePermitted(screen: PayerScreen, payer: string): Promise<void> {
  let isRefused: boolean
  try {
    isRefused = await screen.isRefused(payer)
  } catch (cause) {
    throw new AppError('payment_network_unavailable', {
      message:
        'It cannot be read whether this address may pay, so the payment was neither checked nor used. Nothing was charged.',
      cause,
    })
  }
  if (isRefused) throw new AppError('payer_blocked')
}

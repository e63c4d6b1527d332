import { AppError } from '#shared/errors/app-error.ts'

/** Decides who may pay. Addresses are in lower case. */
export interface PayerScreen {
  /** Returns whether operators block an address, or the operator's list names it. Costs nothing. */
  readonly isRefused: (payer: string) => boolean
  /** Returns whether the list on chain names an address. Throws when it cannot be read. `null` without one. */
  readonly isListedOnChain: ((payer: string) => Promise<boolean>) | null
}

/** Throws `payer_blocked` by what this process knows itself. */
export function requirePermitted({ isRefused }: PayerScreen, payer: string): void {
  if (isRefused(payer)) throw new AppError('payer_blocked')
}

/**
 * Throws `payer_blocked`, and `payment_network_unavailable` while the list on chain cannot be read. An address that was not
 * asked about lately costs a call of the node, so limit the callers first: addresses cost a stranger nothing.
 */
export async function requireUnlisted({ isListedOnChain }: PayerScreen, payer: string): Promise<void> {
  if (isListedOnChain === null) return
  const isListed = await isListedOnChain(payer).catch((cause: unknown) => {
    throw new AppError('payment_network_unavailable', {
      message:
        'It cannot be read whether this address may pay, so the payment was neither checked nor used. Nothing was charged.',
      cause,
    })
  })
  if (isListed) throw new AppError('payer_blocked')
}

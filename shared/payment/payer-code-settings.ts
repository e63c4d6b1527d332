import { z } from 'zod'

/** The setting of API and workers for payers whose accounts have code. */
export const payerCodeSettings = {
  /**
   * Comma-separated contracts that a payer's account may delegate to (EIP-7702). Payers with any other code are
   * refused: their account validates the payment itself and may accept it until the result exists.
   */
  ALLOWED_DELEGATES: z
    .string()
    .default('')
    .transform((list) => (list === '' ? [] : list.split(',')))
    .pipe(
      z.array(
        z
          .string()
          .regex(/^0x[0-9a-fA-F]{40}$/)
          .transform((text) => text.toLowerCase() as `0x${string}`),
      ),
    ),
}

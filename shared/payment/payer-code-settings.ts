import { z } from 'zod'

type Hex = `0x${string}`

const addresses = z.array(
  z
    .string()
    .regex(/^0x[0-9a-fA-F]{40}$/, { error: 'must be `default`, `none` or comma-separated addresses' })
    .transform((text) => text.toLowerCase() as Hex),
)

/** The setting of API and workers for payers whose accounts have code. */
export const payerCodeSettings = {
  /**
   * The code that may run when a payer's account checks a signature: the known wallets (`default`) and, comma-separated,
   * further contracts; or `none`: then only accounts without code may pay. Becomes the contracts beside the known ones,
   * or `null` for `none`.
   */
  ALLOWED_WALLET_CODE: z
    .string()
    .default('default')
    .transform((text) => {
      if (text === 'none') return null
      return text === '' || text === 'default' ? [] : text.split(',').filter((entry) => entry !== 'default')
    })
    .pipe(addresses.nullable()),
}

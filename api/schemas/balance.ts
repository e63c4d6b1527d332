import { z } from 'zod'

export const walletAddressSchema = z.string().regex(/^0x[0-9a-fA-F]{40}$/)

export const walletBalanceSchema = z.strictObject({
  object: z.literal('wallet_balance'),
  network: z.literal('eip155:8453'),
  asset: z.string(),
  currency: z.literal('USDC'),
  wallet: z.string(),
  balance_usdc_atomic: z.string().regex(/^\d+$/),
  balance_usdc: z.string().regex(/^\d+(\.\d{1,6})?$/),
})

import { atomicFromDollars } from '#shared/money/atomic-amount.ts'
import type { SharedSandbox } from '../processes/test-sandbox.ts'

/**
 * Lets a payer who has paid for a call have paid this much for it, so that they may have as much open at once.
 */
export async function giveHistory({ sql }: Pick<SharedSandbox, 'sql'>, payer: string, usdc: string): Promise<void> {
  const rows = await sql(
    `UPDATE settlements SET charge_amount = $2 WHERE id = (
       SELECT id FROM settlements WHERE payer = lower($1) AND state = 'confirmed' LIMIT 1) RETURNING id`,
    [payer, atomicFromDollars(usdc).toString()],
  )
  if (rows.length !== 1) throw new Error(`the payer ${payer} has not paid for a call`)
}

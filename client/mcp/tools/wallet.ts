import * as z from 'zod'
import { isSufficient, UNLIMITED } from '../../allowance/read-allowance.ts'
import type { BudgetAmounts } from '../../budget/limits.ts'
import { formatUsdc } from '../../budget/usdc.ts'
import type { Balance, BudgetLeft } from '../../farebox.ts'
import { safeName } from '../content/untrusted.ts'
import { TOOL_TEXTS } from '../description/tool-texts.ts'
import { defineTool } from '../tool.ts'

const amount = z.string().nullable()

const limitsSchema = z.object({
  call_usdc: amount,
  session_usdc: amount,
  session_left_usdc: amount,
  day_usdc: amount,
  day_left_usdc: amount,
})

/** Shows what the wallet holds and what the limits leave. */
export const walletTool = defineTool({
  ...TOOL_TEXTS.wallet,
  inputSchema: z.strictObject({}),
  outputSchema: z.object({
    address: z.string(),
    network: z.string(),
    balance_usdc: z.string(),
    allowance_usdc: z.string().describe('What Permit2 may take; unlimited where it is not limited.'),
    is_approved: z.boolean().describe('Whether calls need no permit, so that they can be made at the same time.'),
    limits: limitsSchema,
    tools: z.record(z.string(), limitsSchema).describe('Limits of single tools, within those of all.'),
    confirm_above_usdc: z.string().describe('A person is asked about a call that may cost more.'),
    changed_with: z.literal('farebox limits').describe('What the person runs to change the limits.'),
  }),
  run: async (session) => {
    const limits = session.limits.current()
    const farebox = await session.farebox()
    const funds = await farebox.balance()
    const balance = formatUsdc(funds.usdc)
    const structured = {
      address: farebox.address,
      network: safeName(funds.network),
      balance_usdc: balance,
      allowance_usdc: allowanceText(funds),
      is_approved: isSufficient({ allowance: funds.allowance, balance: funds.usdc }, UNLIMITED),
      limits: limitsForm(limits, farebox.budgetLeft()),
      tools: Object.fromEntries(
        Object.entries(limits.tools).map(([tool, own]) => [tool, limitsForm(own, farebox.budgetLeft(tool))]),
      ),
      confirm_above_usdc: limits.confirmAbove,
      changed_with: 'farebox limits' as const,
    }
    const { session_left_usdc: ofSession, day_left_usdc: ofDay } = structured.limits
    const left = `left of the limits: ${ofSession ?? 'any amount'} in this session, ${ofDay ?? 'any amount'} today`
    return { structured, content: [{ type: 'text', text: `${balance} USDC; ${left}` }] }
  },
})

function limitsForm({ call, session, day }: BudgetAmounts, left: BudgetLeft): z.infer<typeof limitsSchema> {
  return {
    call_usdc: call ?? null,
    session_usdc: session ?? null,
    session_left_usdc: leftOf(left.session),
    day_usdc: day ?? null,
    day_left_usdc: leftOf(left.day),
  }
}

function leftOf(left: bigint | null): string | null {
  if (left === null) return null
  return formatUsdc(left > 0n ? left : 0n)
}

/** Payments reduce an unlimited allowance, too, so a huge one is shown as what it was meant to be. */
function allowanceText({ allowance }: Balance): string {
  return isSufficient({ allowance, balance: 0n }, UNLIMITED) ? 'unlimited' : formatUsdc(allowance)
}

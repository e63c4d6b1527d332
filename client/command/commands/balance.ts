import { formatUnits } from '../../budget/usdc.ts'
import type { Balance, BudgetLeft, Spend } from '../../farebox.ts'
import { examples } from '../examples.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { counted, usdc } from '../transcribe/amounts.ts'
import { allowanceText, isUnlimited } from './calls/notes.ts'
import { renderFacts } from './text-table.ts'

const DECIMALS_OF_ETHER = 18

export const registerBalance: RegisterCommand = (program, run) => {
  program
    .command('balance')
    .summary('show funds, allowance and budget')
    .description('Shows what the wallet holds, what Permit2 may take, and what is left of the budgets. Signs nothing.')
    .addHelpText(
      'after',
      examples([
        ['farebox balance', 'funds of the wallet'],
        ['farebox balance --day-budget 20', 'also what is left of 20 USDC today'],
        ['farebox balance --json | jq -r .usdc', 'for programs'],
      ]),
    )
    .action(run(balance))
}

async function balance(context: CommandContext): Promise<undefined> {
  const farebox = await context.farebox()
  const funds = await farebox.balance()
  const today = farebox.spend({ days: 1 })
  const left = farebox.budgetLeft()
  const { day } = context.settings.budget
  context.output.result(balanceForm(funds, today, left), describeBalance(funds, today, left, day))
}

/** Returns what `--json` shows; amounts are decimal. */
function balanceForm({ native, allowance, ...funds }: Balance, { charged, calls, open }: Spend, { day }: BudgetLeft) {
  return {
    ...funds,
    allowance,
    isUnlimited: isUnlimited(allowance),
    native: native === null ? null : formatUnits(native, DECIMALS_OF_ETHER),
    today: { calls, charged, reserved: open, budgetLeft: day },
  }
}

function describeBalance(funds: Balance, { charged, calls, open }: Spend, { day: left }: BudgetLeft, day?: string) {
  const { address, network, usdc: held, allowance, native, source } = funds
  const reserved = open === null || open === 0n ? '' : `, ${usdc(open)} reserved for calls without an outcome`
  const budget =
    day === undefined || left === null ? [] : [['day budget', `${usdc(left)} left of ${day} USDC`] as const]
  return renderFacts([
    ['wallet', `${address} on ${network}`],
    ['funds', `${usdc(held)}${source === 'service' ? ' (as the service reports)' : ''}`],
    ['allowance', allowanceText(allowance, held)],
    [
      'gas',
      native === null
        ? 'not known without --rpc-url; no call needs it'
        : `${formatUnits(native, DECIMALS_OF_ETHER)} ETH; no call needs it`,
    ],
    ['today', `${usdc(charged)} charged for ${counted(calls, 'call')}${reserved}`],
    ...budget,
  ])
}

import { formatUsdc } from '../../budget/usdc.ts'
import type { AllowanceState } from '../../farebox.ts'
import { examples } from '../examples.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { usdc } from '../transcribe/amounts.ts'
import { allowanceText, isUnlimited, noteWait } from './calls/notes.ts'
import { amountLike } from './calls/option-values.ts'
import { renderFacts } from './text-table.ts'

interface ApproveOptions {
  readonly check?: boolean
  readonly value?: string
}

export const registerApprove: RegisterCommand = (program, run) => {
  program
    .command('approve')
    .summary('let calls run in parallel')
    .description(
      'Lets Permit2 take USDC for payments that the wallet signs, so that calls run in parallel. It takes one signature and no gas: the service brings it to the chain with the next charge. Permit2 moves nothing by itself; each call is still signed up to its maximum.',
    )
    .option('--check', 'only show the present allowance; exit code 4 if it is too small')
    .option('--value <usdc>', 'what Permit2 may take in all (default: without a limit)', amountLike('50'))
    .addHelpText(
      'after',
      examples([
        ['farebox approve', 'once for each wallet'],
        ['farebox approve --value 50', 'not more than 50 USDC in all'],
        ['farebox approve --check', 'show the allowance, sign nothing'],
      ]),
    )
    .action(run(approve))
}

async function approve(context: CommandContext, { check, value }: ApproveOptions): Promise<ExitCode> {
  const farebox = await context.farebox()
  const { output, signal } = context
  if (check === true) {
    const state = await farebox.allowance()
    output.result({ ...state, isUnlimited: isUnlimited(state.allowance) }, describeState(state))
    return state.isApproved ? EXIT.done : EXIT.funds
  }
  const approval = await farebox.approve({ value, signal, onWait: noteWait(output) })
  const { outcome, owner, spender, allowance } = approval
  const amount = isUnlimited(allowance) ? 'USDC without a limit' : usdc(allowance)
  const text =
    outcome === 'already_approved'
      ? `Permit2 may take ${amount} already: nothing was signed.`
      : `Permit2 may take ${amount} for payments that this wallet signs. It cost no gas: the next charge brings the permit to the chain.`
  output.result({ outcome, owner, spender, allowance, isUnlimited: isUnlimited(allowance) }, text)
  return EXIT.done
}

function describeState({ owner, spender, allowance, balance, isApproved, storing }: AllowanceState): string {
  const { isAvailable, message, minimumValue } = storing
  const offer = isAvailable
    ? `yes, from ${formatUsdc(minimumValue)} USDC: run farebox approve`
    : `no: ${message ?? 'without a reason'}`
  return renderFacts([
    ['wallet', owner],
    ['Permit2', spender],
    ['funds', usdc(balance)],
    ['allowance', allowanceText(allowance, balance)],
    ...(isApproved ? [] : [['permit can be stored', offer] as const]),
  ])
}

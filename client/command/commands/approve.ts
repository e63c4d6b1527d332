import { ApprovalRefused } from '../../allowance/approval-refused.ts'
import { formatUsdc } from '../../budget/usdc.ts'
import type { AllowanceState } from '../../farebox.ts'
import { examples } from '../examples.ts'
import { EXIT, type ExitCode } from '../exit-codes.ts'
import type { CommandContext, RegisterCommand } from '../run.ts'
import { duration, usdc } from '../transcribe/amounts.ts'
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
      'Lets Permit2 take USDC for payments that the wallet signs, so that calls run in parallel. It takes one signature and no gas: the service submits it. Permit2 moves nothing by itself; each call is still signed up to its maximum.',
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
  const approval = await farebox.approve({ value, signal, onWait: noteWait(output) }).catch((error: unknown) => {
    if (error instanceof ApprovalRefused && error.code === 'permit_travels_with_payment') return null
    throw error
  })
  if (approval === null) {
    output.result(
      { outcome: 'with_first_call' },
      'There is nothing to do before the first paid call, which brings a permit of its own. Run farebox approve again after it.',
    )
    return EXIT.done
  }
  const { outcome, owner, spender, allowance, transaction } = approval
  const amount = isUnlimited(allowance) ? 'USDC without a limit' : usdc(allowance)
  const text =
    outcome === 'already_approved'
      ? `Permit2 may take ${amount} already: nothing was signed.`
      : `Permit2 may take ${amount} for payments that this wallet signs. It cost no gas.\ntransaction ${transaction ?? ''}`
  output.result({ outcome, owner, spender, allowance, isUnlimited: isUnlimited(allowance), transaction }, text)
  return EXIT.done
}

function describeState({ owner, spender, allowance, balance, isApproved, sponsoring }: AllowanceState): string {
  const { isAvailable, message, retryAfterMs, minimumValue } = sponsoring
  const retry = retryAfterMs === null ? '' : ` Try again in ${duration(retryAfterMs)}.`
  const offer = isAvailable
    ? `yes, from ${formatUsdc(minimumValue)} USDC: run farebox approve`
    : `not now: ${message ?? 'without a reason'}${retry}`
  return renderFacts([
    ['wallet', owner],
    ['Permit2', spender],
    ['funds', usdc(balance)],
    ['allowance', allowanceText(allowance, balance)],
    ...(isApproved ? [] : [['paid by the service', offer] as const]),
  ])
}

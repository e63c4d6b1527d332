import { formatUsdc } from '../../budget/usdc.ts'
import { FareboxError } from '../../wire/farebox-error.ts'
import { limitsCommand } from '../limits/limits-path.ts'
import type { Confirmation } from '../tool.ts'

/** The client cannot show a question. */
export function notAskable({ maximum }: Confirmation, limitsFile: string): FareboxError {
  const price = formatUsdc(maximum)
  return new FareboxError({
    code: 'confirmation_required',
    problem: `The call may cost ${price} USDC, which needs the agreement of the person, and this client cannot ask them.`,
    money: 'none',
    advice: allowAdvice(price, limitsFile),
  })
}

/** The client did not return an answer. */
export function notAnswered({ maximum }: Confirmation, limitsFile: string, cause: unknown): FareboxError {
  const price = formatUsdc(maximum)
  return new FareboxError({
    code: 'confirmation_required',
    problem: `The call may cost ${price} USDC, which needs the agreement of the person, and no answer of theirs arrived.`,
    money: 'none',
    advice: `Repeat the call when they can answer. ${allowAdvice(price, limitsFile)}`,
    cause,
  })
}

/** The person did not agree. */
export function declined({ maximum }: Confirmation): FareboxError {
  return new FareboxError({
    code: 'confirmation_declined',
    problem: `The person did not agree to pay at most ${formatUsdc(maximum)} USDC for this call.`,
    money: 'none',
    advice: 'Do not repeat the call unless they ask for it.',
  })
}

function allowAdvice(price: string, limitsFile: string): string {
  const command = limitsCommand(limitsFile, `set --confirm-above ${price}`)
  return `To allow such calls without a question, the person runs in a terminal: ${command}`
}

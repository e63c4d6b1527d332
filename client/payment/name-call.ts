import type { FareboxContext } from '../context.ts'

export interface NamedCall {
  readonly requestId: string
  readonly identity: string
  readonly purpose: string
}

/** Writes down what a key stands for whose payments have keys of their own. Nothing is sent under it. */
export function nameCall(
  { journal, payer, baseUrl }: Pick<FareboxContext, 'journal' | 'payer' | 'baseUrl'>,
  { requestId: key, identity, purpose }: NamedCall,
): void {
  const { origin } = new URL(baseUrl)
  journal.append({ phase: 'intended', key, origin, method: '', path: '', identity, purpose, payer })
}
